"""The checkpoints of a job: each is complete or absent, and the newest that can be read is used.

`Checkpoints` has everything that does not depend on where they are. A store has the rest: `FolderCheckpointStore` uses a folder,
and `ObjectCheckpointStore` objects below a URL.

All ranks save their parts, each reports its part in a note, and rank 0 completes the checkpoint. If one rank cannot save, the
checkpoint is given up on all of them.
"""

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rota.errors import CheckpointError
from rota.train.folder_checkpoints import FolderCheckpointStore
from rota.train.manifest import RANKS, CheckpointName, CompleteCheckpoint, Shard, StoredCheckpoint
from rota.train.object_checkpoints import ObjectCheckpointStore
from rota.train.object_store import open_object_store
from rota.train.rank_store import RankStore, SaveNotes, pauses

KEEP_CHECKPOINTS = 2
"""Number of complete checkpoints that are kept. If the newest cannot be read, the one before it is used."""
RANKS_SECONDS = 600.0
"""Longest wait of the ranks for each other's parts, in seconds."""

Save = Callable[[Path], object]
"""The script's function that saves the state into a folder."""
Found = TypeVar("Found")


class CheckpointStore(Protocol):
    """Where checkpoints are. Problems of the store are raised as OSError, damage to a checkpoint as CheckpointError."""

    @property
    def place(self) -> str:
        """The folder or URL, for messages."""

    @property
    def hint(self) -> str:
        """What a user can check if the store cannot be read."""

    def names(self) -> list[str]: ...

    def stored(self, names: list[str]) -> list[StoredCheckpoint]:
        """Return the checkpoints with these names, also unfinished ones."""

    def start(self, attempt: int, rank: int) -> None:
        """Prepare to read and write as this rank of this attempt."""

    def fetch(self, place: str, *, verify: bool) -> CompleteCheckpoint:
        """Return a checkpoint in a local folder with this rank's part. `verify`: read every byte of all parts and compare it."""

    def release(self, found: CompleteCheckpoint) -> None:
        """Remove local copies of a checkpoint that has been loaded."""

    def save(self, name: CheckpointName, save: Save) -> Shard:
        """Save this rank's part of an unfinished checkpoint."""

    def notes(self, name: CheckpointName) -> SaveNotes:
        """Return the notes of the ranks about an unfinished checkpoint."""

    def complete(self, name: CheckpointName, body: Mapping[str, Any], parts: list[Shard]) -> None:
        """Write the manifest. From then on the checkpoint counts."""

    def path(self, name: CheckpointName) -> Path:
        """Return the path of a complete checkpoint."""

    def give_up(self, name: CheckpointName, problem: str) -> None:
        """Remove an unfinished checkpoint, and let the other ranks know why."""

    def outcome(self, name: CheckpointName) -> str | None:
        """Return why rank 0 gave up a checkpoint; empty if it is complete, None if neither is known yet."""

    def remove(self, place: str) -> None:
        """Remove a checkpoint or the notes of an attempt."""


class Checkpoints:
    """The checkpoints of one job, as one rank of one attempt sees them."""

    def __init__(
        self, store: CheckpointStore, *, attempt: int = 1, rank: int = 0, world_size: int = 1, keep: int = KEEP_CHECKPOINTS
    ) -> None:
        self.store, self.rank, self.world_size, self.keep = store, rank, world_size, keep
        try:
            stored = self._stored(store.names())
        except OSError as error:
            raise self._unreadable(error) from error
        # The user may name a place that another job used. Then the attempts count on from there.
        self.attempt = max([attempt, *(each.name.attempt for each in stored if each.complete)])
        self.torn: list[str] = []
        """Descriptions of checkpoints that cannot be used."""
        self._torn: set[str] = set()
        self.written = max((each.name.number for each in stored if each.name.attempt == self.attempt), default=0)
        """Number of the last checkpoint that this attempt began. It must be equal on all ranks."""
        self._kept = next((each.name.step for each in stored if each.complete), None)
        """Step of the newest checkpoint."""
        store.start(self.attempt, rank)

    def newest(self) -> CompleteCheckpoint | None:
        """Return the newest checkpoint that is undamaged. Every byte of it is read and compared."""
        found: CompleteCheckpoint | None = None
        try:
            for each in self._stored(self.store.names()):
                if each.complete and found is None:
                    try:
                        found = self.store.fetch(each.place, verify=True)
                    except CheckpointError as error:
                        self.torn.append(error.message)
                        self._torn.add(each.place)
        except OSError as error:
            raise self._unreadable(error) from error
        self._kept = found.step if found is not None else None
        return found

    def named(self, name: str) -> CompleteCheckpoint:
        """Return the checkpoint that rank 0 has found. Rank 0 has read all of it."""
        try:
            return self.store.fetch(name, verify=False)
        except OSError as error:
            raise self._unreadable(error) from error

    def release(self, found: CompleteCheckpoint) -> None:
        """Remove local copies of a checkpoint that has been loaded."""
        self.store.release(found)

    def write(self, step: int, facts: Mapping[str, Any], save: Save) -> CompleteCheckpoint:
        """Save this rank's part, and wait until the checkpoint is complete. All ranks call this at the same steps."""
        self.written += 1
        name = CheckpointName(self.attempt, self.written, step)
        body = {"step": step, "attempt": self.attempt, "world_size": self.world_size, "facts": dict(facts)}
        try:
            if self.rank == 0:
                self._lead(name, body, save)
            else:
                self._follow(name, save)
        except (OSError, CheckpointError) as error:
            raise self._not_written(step, error) from error
        self._kept = step
        if self.rank == 0:
            self.collect()
        return CompleteCheckpoint(self.store.path(name), step, self.attempt, self.world_size, dict(facts))

    def _lead(self, name: CheckpointName, body: Mapping[str, Any], save: Save) -> None:
        """Save the part of rank 0, and complete the checkpoint when all other ranks have saved theirs."""
        try:
            if self.world_size == 1:
                parts = [self.store.save(name, save)]
            else:
                parts, notes = [self._saved(name, save)], self.store.notes(name)
                for rank in range(1, self.world_size):
                    data = _wait(notes, partial(notes.get, f"rank-{rank}"), f"rank {rank} to save its part")
                    parts.append(Shard(**json.loads(data)))
            if problems := [part.problem for part in parts if part.problem]:
                raise CheckpointError("; ".join(problems))
            self.store.complete(name, body, parts)
        except BaseException as error:
            self.store.give_up(name, _why(error))
            raise

    def _follow(self, name: CheckpointName, save: Save) -> None:
        shard, notes = self._saved(name, save), self.store.notes(name)
        notes.put(f"rank-{self.rank}", json.dumps(shard._asdict()).encode())
        problem = _wait(notes, lambda: self.store.outcome(name), f"rank 0 to complete {name}")
        if problem:
            raise CheckpointError(problem)

    def _saved(self, name: CheckpointName, save: Save) -> Shard:
        """Save this rank's part. Other ranks wait for it, so a problem is part of the result."""
        try:
            return self.store.save(name, save)
        except Exception as error:
            problem = str(error) if isinstance(error, OSError) else f"save raised {type(error).__name__}: {error}"
            return Shard(problem=f"rank {self.rank}: {problem}")

    def collect(self) -> None:
        """Remove old checkpoints, and what earlier attempts left unfinished. Newer checkpoints stay."""
        with contextlib.suppress(OSError):  # the next save tries again
            names = self.store.names()
            stored = self._stored(names)
            usable = [each.place for each in stored if each.complete and each.place not in self._torn]
            for each in stored:
                newer = (each.name.attempt, each.name.number) > (self.attempt, self.written)
                if not newer and each.place not in usable[: max(self.keep, 1)]:
                    self.store.remove(each.place)
            for name in names:
                if (ranks := RANKS.fullmatch(name)) and int(ranks[1]) < self.attempt:
                    self.store.remove(name)

    def _stored(self, names: list[str]) -> list[StoredCheckpoint]:
        """Return the checkpoints with these names, the newest first."""
        return sorted(self.store.stored(names), reverse=True)

    def _unreadable(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"The checkpoints in {self.store.place} can't be read: {_why(error)}.", hint=self.store.hint)

    def _not_written(self, step: int, error: OSError | CheckpointError) -> CheckpointError:
        before = f"The one of step {self._kept} is kept." if self._kept is not None else "There is none before it."
        return CheckpointError(
            f"The checkpoint of step {step} could not be written to {self.store.place}: {_why(error).rstrip('.')}. {before}",
            hint="make room there, or name another folder with `checkpoint: {dir: ...}`",
        )


def checkpoints_at(
    place: Path | str,
    board: RankStore | None = None,
    *,
    attempt: int = 1,
    rank: int = 0,
    world_size: int = 1,
    keep: int = KEEP_CHECKPOINTS,
) -> Checkpoints:
    """Return the checkpoints of a job: in a folder, or in the store of a URL. `board`: notes of the ranks, for a store of several
    ranks."""
    store = FolderCheckpointStore(place) if isinstance(place, Path) else ObjectCheckpointStore(open_object_store(place), board)
    return Checkpoints(store, attempt=attempt, rank=rank, world_size=world_size, keep=keep)


def _why(error: BaseException) -> str:
    if isinstance(error, CheckpointError):
        return error.message
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it was given up"


def _wait(notes: SaveNotes, look: Callable[[], Found | None], what: str) -> Found:
    deadline = time.monotonic() + RANKS_SECONDS
    for pause in pauses(notes.board):
        with contextlib.suppress(OSError):
            if (found := look()) is not None:
                return found
        if time.monotonic() > deadline:
            break
        time.sleep(pause)
    raise CheckpointError(f"waited {RANKS_SECONDS:.0f} s for {what}")
