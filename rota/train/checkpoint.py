"""Checkpoints that are whole or not there.

    FOLDER/new.i3.7/                  being written, by attempt 3, its 7th
    FOLDER/step-000000000120.i3.7/    whole: the folder above, renamed
        manifest.json                 step, attempt, ranks, facts; size and SHA-256 of every file; SHA-256 of itself
        rank-0/ rank-1/ ...           what each rank saved

A folder gets its name when all its files and names are on disk (fsync), so a power cut leaves a whole checkpoint or none. Should
a disk lie about that, the checksums tell, and the checkpoint before is used. Of two, the one of the later attempt is newer: a
process of an earlier one that wakes up late can't push in front.

Ranks need no more than the folder they share: each leaves `rank-N.done` beside its part, and the first makes the whole of them.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rota.agent.disk import sync_folder, write_atomic
from rota.errors import CheckpointError

MANIFEST = "manifest.json"
KEEP_CHECKPOINTS = 2
"""Whole checkpoints that stay: should the newest not be readable, there is one before it."""
RANKS_SECONDS = 600.0
"""For so long the ranks wait for each other's parts."""
LOOK_SECONDS = 0.005
_WHOLE = re.compile(r"step-(\d+)\.i(\d+)\.(\d+)")
_BEGUN = re.compile(r"new\.i(\d+)\.(\d+)")
_RANKS = re.compile(r"ranks\.i(\d+)\.\d+")
"""What the ranks of several nodes announced to each other (`board`)."""


class CompleteCheckpoint(NamedTuple):
    """A whole checkpoint."""

    folder: Path
    step: int
    attempt: int
    world_size: int
    facts: Mapping[str, Any]
    """What the session keeps beside what was saved: where it is in the data."""

    def rank_folder(self, rank: int) -> Path:
        """What this rank saved; of a rank that was not there then, what the first saved."""
        own = self.folder / f"rank-{rank}"
        return own if rank < self.world_size else self.folder / "rank-0"


class FolderCheckpoints:
    """The checkpoints of one job, as one rank of one attempt sees them."""

    def __init__(
        self, folder: Path, *, attempt: int = 1, rank: int = 0, world_size: int = 1, keep: int = KEEP_CHECKPOINTS
    ) -> None:
        self.folder, self.rank, self.world_size, self.keep = folder, rank, world_size, keep
        # A folder that the user named may hold what another job left: this one goes on from there.
        self.attempt = attempt = max([attempt, *(found for found, _, _ in self._whole())])
        self.torn: list[str] = []
        """What was found and can't be used, in words."""
        self._torn_folders: set[Path] = set()
        begun = [int(match[2]) for name in _entries(folder) if (match := _BEGUN.fullmatch(name)) and int(match[1]) == attempt]
        self.written = max([number for found, number, _ in self._whole() if found == attempt] + begun, default=0)
        """The number of the last one that this attempt began. All ranks must count alike."""

    # Reading.

    def newest(self) -> CompleteCheckpoint | None:
        """The newest that is whole. Every byte of it is read and compared."""
        for _, _, folder in self._whole():
            try:
                return verified(folder)
            except CheckpointError as error:
                self.torn.append(error.message)
                self._torn_folders.add(folder)
        return None

    def named(self, name: str) -> CompleteCheckpoint:
        """What the first rank has found: it has read all of it."""
        return read_manifest(self.folder / name)[0]

    def release(self, found: CompleteCheckpoint) -> None:
        """It is loaded."""

    def _whole(self) -> list[tuple[int, int, Path]]:
        """Attempt, number and folder of all that have their name, the newest first."""
        names = _entries(self.folder)
        found = [(int(match[2]), int(match[3]), self.folder / match[0]) for name in names if (match := _WHOLE.fullmatch(name))]
        return sorted(found, reverse=True)

    # Writing.

    def write(self, step: int, facts: Mapping[str, Any], save: Callable[[Path], object]) -> CompleteCheckpoint:
        """Save this rank's part, and wait until the checkpoint is whole. All ranks call this at the same step, and as often."""
        self.written += 1
        new = self.folder / f"new.i{self.attempt}.{self.written}"
        name = f"step-{step:012}.i{self.attempt}.{self.written}"
        try:
            self._write_part(new, save)
            if self.rank == 0:
                self._complete(new, name, step, facts)
            else:
                _wait_for(lambda: (self.folder / name).exists() or not new.exists(), f"rank 0 to complete {name}")
                if not (self.folder / name).exists():
                    raise CheckpointError(f"The checkpoint of step {step} was given up.", hint="see the log of rank 0")
        except (OSError, CheckpointError) as error:
            if self.rank == 0:
                shutil.rmtree(new, ignore_errors=True)
            kept = next((int(match[1]) for _, _, path in self._whole() if (match := _WHOLE.fullmatch(path.name))), None)
            raise not_written(step, str(self.folder), error, kept) from error
        return CompleteCheckpoint(self.folder / name, step, self.attempt, self.world_size, dict(facts))

    def _write_part(self, new: Path, save: Callable[[Path], object]) -> None:
        part = new / f"rank-{self.rank}"
        part.mkdir(parents=True, exist_ok=True)
        problem, files = "", {}
        try:
            save(part)
            files = {path.relative_to(new).as_posix(): _sync_and_digest(path) for path in _files(part)}
            for folder in [*(each for each in part.rglob("*") if each.is_dir()), part]:
                sync_folder(folder)
        except Exception as error:
            if self.world_size == 1:
                raise
            problem = (
                f"rank {self.rank}: {error if isinstance(error, OSError) else f'save raised {type(error).__name__}: {error}'}"
            )
        if self.world_size > 1 or not problem:
            said = json.dumps({"files": files, "problem": problem}).encode()
            write_atomic(new, f"rank-{self.rank}.done", said, durable=True)

    def _complete(self, new: Path, name: str, step: int, facts: Mapping[str, Any]) -> None:
        files: dict[str, Any] = {}
        problems = []
        for rank in range(self.world_size):
            said = new / f"rank-{rank}.done"
            _wait_for(said.exists, f"rank {rank} to save its part")
            told = json.loads(said.read_bytes())
            files |= told["files"]
            problems += [told["problem"]] if told["problem"] else []
        if problems:
            raise CheckpointError("; ".join(problems))
        for rank in range(self.world_size):
            (new / f"rank-{rank}.done").unlink()
        body = {
            "step": step,
            "attempt": self.attempt,
            "world_size": self.world_size,
            "facts": dict(facts),
            "files": files,
        }
        _write_manifest(new, body)
        new.rename(self.folder / name)
        sync_folder(self.folder)
        self.collect()

    def collect(self) -> None:
        """Remove old checkpoints, and what earlier attempts began and did not finish."""
        usable = [folder for _, _, folder in self._whole() if folder not in self._torn_folders]
        for folder in (*usable[max(self.keep, 1) :], *self._torn_folders):
            shutil.rmtree(folder, ignore_errors=True)
        for name in _entries(self.folder):
            begun = _BEGUN.fullmatch(name)
            ranks = _RANKS.fullmatch(name)
            old = begun and (int(begun[1]), int(begun[2])) < (self.attempt, self.written)
            if old or (ranks and int(ranks[1]) < self.attempt):
                shutil.rmtree(self.folder / name, ignore_errors=True)


def not_written(step: int, place: str, error: OSError | CheckpointError, kept: int | None) -> CheckpointError:
    """What a session is told. `kept`: the step of the newest one that is there."""
    why = error.message.rstrip(".") if isinstance(error, CheckpointError) else (error.strerror or str(error))
    before = f"The one of step {kept} is kept." if kept is not None else "There is none before it."
    return CheckpointError(
        f"The checkpoint of step {step} could not be written to {place}: {why}. {before}",
        hint="make room there, or name another folder with `checkpoint: {dir: ...}`",
    )


def add_manifest(folder: Path, step: int) -> None:
    """Make a checkpoint that a framework wrote one that can be verified."""
    files = {path.relative_to(folder).as_posix(): _sync_and_digest(path) for path in _files(folder) if path.name != MANIFEST}
    for each in [path for path in folder.rglob("*") if path.is_dir()]:
        sync_folder(each)
    _write_manifest(folder, {"step": step, "attempt": 1, "world_size": 1, "facts": {}, "files": files})
    sync_folder(folder.parent)


def _write_manifest(folder: Path, body: Mapping[str, Any]) -> None:
    write_atomic(folder, MANIFEST, manifest_bytes(body), durable=True)


def manifest_bytes(body: Mapping[str, Any]) -> bytes:
    """As it is written."""
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"sha256": _digest(text.encode()), "body": text}).encode()


def parse_manifest(data: bytes, name: str) -> dict[str, Any]:
    """Parse a manifest and check its digest."""
    try:
        outer = json.loads(data)
        if _digest(outer["body"].encode()) == outer["sha256"]:
            body = dict(json.loads(outer["body"]))
            if "incarnation" in body:  # written by an earlier version
                body["attempt"] = body.pop("incarnation")
            return body
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{name} is damaged: {error}.") from error
    raise CheckpointError(f"{name} is damaged.")


def verified(folder: Path) -> CompleteCheckpoint:
    """A checkpoint, if every byte of it is what was written. Raises CheckpointError that says what is not."""
    found, files = read_manifest(folder)
    try:
        for name, (size, digest) in files.items():
            path = folder / name
            if path.stat().st_size != size:
                raise CheckpointError(f"{path} has {path.stat().st_size} bytes and should have {size}.")
            if digest_file(path) != digest:
                raise CheckpointError(f"{path} is not what was written: its checksum differs.")
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{folder} is not a whole checkpoint: {error}.") from error
    return found


def read_manifest(folder: Path) -> tuple[CompleteCheckpoint, Mapping[str, Any]]:
    """A checkpoint, and size and checksum of its files, which are not looked at."""
    try:
        body = parse_manifest((folder / MANIFEST).read_bytes(), str(folder / MANIFEST))
        found = CompleteCheckpoint(folder, body["step"], body["attempt"], body["world_size"], body["facts"])
        return found, dict(body["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder} is not a whole checkpoint: {error}.") from error


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208  names are all that is needed
    except (FileNotFoundError, NotADirectoryError):
        return []


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _sync_and_digest(path: Path) -> tuple[int, str]:
    """Size and checksum of a file that is on disk for good."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _wait_for(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + RANKS_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise CheckpointError(f"waited {RANKS_SECONDS:.0f} s for {what}")
        time.sleep(LOOK_SECONDS)
