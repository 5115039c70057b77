"""Checkpoints in a store of objects, whole or not there, without a rename.

    URL/step-000000000120.i3.7/4f9c1a22/rank-0/model.pt    data, written first: step 120, attempt 3, its 7th; a random part
    URL/step-000000000120.i3.7.json                        the manifest, written last: from here on the checkpoint counts

A store replaces an object as a whole, so there is a manifest or there is none. It names every data object, with size and SHA-256.
No data object is ever replaced: each rank draws a random part for each save, so two processes never write the same one. Of two
checkpoints, the one of the later attempt is newer, and a process of an earlier one never removes it.

`save` and `load` of a script know folders only. They get one for temporary files (TMPDIR), from which objects are uploaded and
into which they are downloaded. Ranks tell each other over a `RankStore` what they have uploaded. The first writes the manifest.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from rota.errors import CheckpointError
from rota.train.checkpoint import (
    KEEP_CHECKPOINTS,
    RANKS_SECONDS,
    CompleteCheckpoint,
    FolderCheckpoints,
    digest_file,
    manifest_bytes,
    not_written,
    parse_manifest,
)
from rota.train.object_store import ObjectStore, open_object_store
from rota.train.rank_store import RankStore, pauses, put_surely

NOTE_SECONDS = 30.0
"""For so long a rank tries to leave a note."""
READS = 2
"""An object that is not what was written is read once more before it counts as damaged: it may be the reading that failed."""
MANIFEST_END = ".json"
_NAME = re.compile(r"(step-(\d+)\.i(\d+)\.(\d+))(\.json(?:\.new)?)?")
_RANKS = re.compile(r"ranks\.i(\d+)\.\d+")


class UploadedShard(NamedTuple):
    """What one rank has uploaded."""

    files: Mapping[str, tuple[int, str, str]] = {}
    """Size, SHA-256 and key of every file, by its path in the checkpoint."""
    folders: tuple[str, ...] = ()
    problem: str = ""
    """Why it could not."""


class CheckpointName(NamedTuple):
    """The name of a checkpoint. Later ones are greater."""

    attempt: int
    number: int
    step: int
    name: str


class ObjectCheckpoints:
    """The checkpoints of one job, as one rank of one attempt sees them. It has the face of `FolderCheckpoints`.

    `board`: where several ranks leave notes for each other."""

    def __init__(
        self,
        objects: ObjectStore,
        board: RankStore | None = None,
        *,
        attempt: int = 1,
        rank: int = 0,
        world_size: int = 1,
        keep: int = KEEP_CHECKPOINTS,
    ) -> None:
        assert board is not None or world_size == 1
        self._objects, self._board = objects, board
        self.rank, self.world_size, self.keep = rank, world_size, keep
        try:
            found = self._found()
        except OSError as error:
            raise self._unreadable(error) from error
        # What the user named may hold what another job left: this one goes on from there.
        self.attempt = max([attempt, *(each.attempt for each, whole in found if whole)])
        self.torn: list[str] = []
        """What was found and can't be used, in words."""
        self._torn_names: set[str] = set()
        self.written = max((each.number for each, _ in found if each.attempt == self.attempt), default=0)
        """The number of the last one that this attempt began. All ranks must count alike."""
        self._kept = next((each.step for each, whole in found if whole), None)
        self._tag = hashlib.sha256(objects.url.encode()).hexdigest()[:12]
        self._remove_leftovers()

    def _found(self, names: list[str] | None = None) -> list[tuple[CheckpointName, bool]]:
        """All that have a name, the newest first, and whether they have a manifest."""
        whole: dict[CheckpointName, bool] = {}
        for name in self._objects.names() if names is None else names:
            if match := _NAME.fullmatch(name):
                stored = CheckpointName(int(match[3]), int(match[4]), int(match[2]), match[1])
                whole[stored] = whole.get(stored, False) or match[5] == MANIFEST_END
        return sorted(whole.items(), reverse=True)

    # Reading.

    def newest(self) -> CompleteCheckpoint | None:
        """The newest that is whole, with this rank's part in a local folder. Every byte of all parts is read and compared."""
        found: CompleteCheckpoint | None = None
        try:
            for stored in (each for each, whole in self._found() if whole):
                try:
                    found = self._fetch(stored.name, all_parts=True)
                    break
                except CheckpointError as error:
                    self.torn.append(error.message)
                    self._torn_names.add(stored.name)
        except OSError as error:
            raise self._unreadable(error) from error
        self._kept = found.step if found is not None else None
        return found

    def named(self, name: str) -> CompleteCheckpoint:
        """What the first rank has found: the part of this rank, and that of the first, in a local folder."""
        try:
            return self._fetch(name, all_parts=False)
        except OSError as error:
            raise self._unreadable(error) from error

    def release(self, found: CompleteCheckpoint) -> None:
        """It is loaded: the local folder goes."""
        shutil.rmtree(found.folder.parent, ignore_errors=True)

    def _fetch(self, name: str, *, all_parts: bool) -> CompleteCheckpoint:
        """Raises CheckpointError if the checkpoint is damaged, and OSError if it can't be read just now."""
        body = self._manifest(name)
        folder = self._scratch_folder() / name
        try:
            try:
                found = CompleteCheckpoint(folder, body["step"], body["attempt"], body["world_size"], dict(body["facts"]))
                found.rank_folder(self.rank).mkdir(parents=True)
                wanted = {"rank-0", found.rank_folder(self.rank).name}
                files = [(_inside(each), *entry) for each, entry in body["files"].items()]
                folders = [_inside(each) for each in body["folders"]]
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise CheckpointError(f"{self._shown(name)} is not a manifest: {error}.") from error
            for each in folders:
                if each.parts[0] in wanted:
                    (folder / each).mkdir(parents=True, exist_ok=True)
            for each, size, digest, key in files:
                keeps = each.parts[0] in wanted
                if keeps or all_parts:
                    self._read(key, folder / each, size, digest)
                if all_parts and not keeps:
                    (folder / each).unlink()
        except BaseException:
            shutil.rmtree(folder.parent, ignore_errors=True)
            raise
        return found

    def _manifest(self, name: str) -> dict[str, Any]:
        try:
            data = self._objects.get(name + MANIFEST_END)
        except FileNotFoundError as error:
            raise CheckpointError(f"{self._shown(name)} is gone.") from error
        return parse_manifest(data, self._shown(name))

    def _read(self, key: str, path: Path, size: int, digest: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        problem = ""
        for _ in range(READS):
            try:
                self._objects.download(key, path)
            except FileNotFoundError as error:
                raise CheckpointError(f"{self._objects.url}/{key} is gone.") from error
            if (found := path.stat().st_size) != size:
                problem = f"{self._objects.url}/{key} has {found} bytes and should have {size}."
            elif digest_file(path) != digest:
                problem = f"{self._objects.url}/{key} is not what was written: its checksum differs."
            else:
                return
        raise CheckpointError(problem)

    def _shown(self, name: str) -> str:
        return f"{self._objects.url}/{name}{MANIFEST_END}"

    def _unreadable(self, error: OSError) -> CheckpointError:
        return CheckpointError(
            f"The checkpoints in {self._objects.url} can't be read: {error.strerror or error}.",
            hint=f"look at the store and at the job's credentials for it, and at the room in {tempfile.gettempdir()}",
        )

    # Writing.

    def write(self, step: int, facts: Mapping[str, Any], save: Callable[[Path], object]) -> CompleteCheckpoint:
        """Save this rank's part, and wait until the checkpoint is whole. All ranks call this at the same step, and as often."""
        self.written += 1
        name = f"step-{step:012}.i{self.attempt}.{self.written}"
        body = {"step": step, "attempt": self.attempt, "world_size": self.world_size, "facts": dict(facts)}
        try:
            if self._board is None:
                self._complete(name, body, [self._upload(name, save)])
            elif self.rank == 0:
                self._lead(self._board, name, body, self._upload_or_say(name, save))
            else:
                self._follow(self._board, self._upload_or_say(name, save))
        except (OSError, CheckpointError) as error:
            if self.rank == 0:
                self._remove(name)
            raise not_written(step, self._objects.url, error, self._kept) from error
        self._kept = step
        if self.rank == 0:
            self.collect()
        return CompleteCheckpoint(Path(name), step, self.attempt, self.world_size, dict(facts))

    def _upload(self, name: str, save: Callable[[Path], object]) -> UploadedShard:
        """Save into a local folder, and put all that is there into the store."""
        base = f"{name}/{secrets.token_hex(4)}"
        with self._scratch() as scratch:
            part = scratch / f"rank-{self.rank}"
            part.mkdir()
            try:
                save(part)
            except OSError as error:
                why = f"{error.strerror or error} in {scratch}, where it is saved before it is uploaded"
                raise OSError(error.errno, why) from error
            files: dict[str, tuple[int, str, str]] = {}
            folders = []
            try:
                # Some frameworks write beside their part, into the one of the first rank.
                for path in sorted(scratch.rglob("*")):
                    place = path.relative_to(scratch).as_posix()
                    if path.is_dir():
                        folders.append(place)
                    elif path.is_file():
                        key = f"{base}/{place}"
                        files[place] = path.stat().st_size, digest_file(path), key
                        self._objects.upload(path, key)
            except OSError:
                with contextlib.suppress(OSError):
                    self._objects.delete(base)  # makes room again
                raise
        return UploadedShard(files, tuple(folders))

    def _upload_or_say(self, name: str, save: Callable[[Path], object]) -> UploadedShard:
        try:
            return self._upload(name, save)
        except OSError as error:
            return UploadedShard(problem=f"rank {self.rank}: {error.strerror or error}")

    def _lead(self, board: RankStore, name: str, body: Mapping[str, Any], own: UploadedShard) -> None:
        """The first rank makes the whole of all parts, and tells the others how that went."""
        problem = "it was given up"
        try:
            parts = [own]
            for rank in range(1, self.world_size):
                told = json.loads(self._hear(board, f"rank-{rank}", f"rank {rank} to save its part"))
                parts.append(UploadedShard(told["files"], tuple(told["folders"]), told["problem"]))
            if problems := [part.problem for part in parts if part.problem]:
                raise CheckpointError("; ".join(problems))
            self._complete(name, body, parts)
            problem = ""
        except (OSError, CheckpointError) as error:
            problem = error.message if isinstance(error, CheckpointError) else (error.strerror or str(error))
            raise
        finally:
            with contextlib.suppress(OSError):
                put_surely(board, self._note("end"), json.dumps({"problem": problem}).encode(), NOTE_SECONDS)
        with contextlib.suppress(OSError):
            board.delete(f"save-{self.written - 1}")  # all have read it: they have saved once more since

    def _follow(self, board: RankStore, own: UploadedShard) -> None:
        put_surely(board, self._note(f"rank-{self.rank}"), json.dumps(own._asdict()).encode(), NOTE_SECONDS)
        told = json.loads(self._hear(board, "end", "rank 0 to complete the checkpoint"))
        if told["problem"]:
            raise CheckpointError(told["problem"])

    def _note(self, name: str) -> str:
        return f"save-{self.written}/{name}"

    def _hear(self, board: RankStore, name: str, what: str) -> bytes:
        deadline = time.monotonic() + RANKS_SECONDS
        for pause in pauses(board):
            with contextlib.suppress(OSError):
                if data := board.get(self._note(name)):
                    return data
            if time.monotonic() > deadline:
                break
            time.sleep(pause)
        raise CheckpointError(f"waited {RANKS_SECONDS:.0f} s for {what}")

    def _complete(self, name: str, body: Mapping[str, Any], parts: list[UploadedShard]) -> None:
        files: dict[str, Any] = {}
        for part in reversed(parts):  # of two files with one name, the one of the lower rank counts
            files |= part.files
        folders = sorted({folder for part in parts for folder in part.folders})
        self._objects.put(name + MANIFEST_END, manifest_bytes({**body, "files": files, "folders": folders}))

    # Removing.

    def collect(self) -> None:
        """Remove old checkpoints, and what earlier attempts began and did not finish. Whatever is newer stays."""
        try:
            names = self._objects.names()
            found = self._found(names)
            usable = [each.name for each, whole in found if whole and each.name not in self._torn_names]
            for each, _ in found:
                newer = (each.attempt, each.number) > (self.attempt, self.written)
                if not newer and each.name not in usable[: max(self.keep, 1)]:
                    self._remove(each.name)
            for name in names:
                if (ranks := _RANKS.fullmatch(name)) and int(ranks[1]) < self.attempt:
                    self._objects.delete(name)
        except OSError:
            return  # with the next one

    def _remove(self, name: str) -> None:
        """The manifest first: what is left if this is cut off counts for nothing."""
        with contextlib.suppress(OSError):
            self._objects.delete(name + MANIFEST_END)
            self._objects.delete(name)

    # Local folders.

    def _scratch_folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"rota-{self._tag}.i{self.attempt}.r{self.rank}-"))

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[Path]:
        folder = self._scratch_folder()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_leftovers(self) -> None:
        """What this rank left on this machine when it was killed while it saved or loaded."""
        begins = re.compile(rf"rota-{self._tag}\.i(\d+)\.r{self.rank}-.*")
        folder = Path(tempfile.gettempdir())
        for path in folder.glob(f"rota-{self._tag}.i*"):
            with contextlib.suppress(OSError):
                match = begins.fullmatch(path.name)
                if match and int(match[1]) <= self.attempt and path.lstat().st_uid == os.geteuid():
                    shutil.rmtree(path, ignore_errors=True)


def checkpoints_at(
    place: Path | str,
    board: RankStore | None,
    *,
    attempt: int = 1,
    rank: int = 0,
    world_size: int = 1,
    keep: int = KEEP_CHECKPOINTS,
) -> FolderCheckpoints | ObjectCheckpoints:
    """Those of a job: in a folder, or in the store that a URL names."""
    if isinstance(place, Path):
        return FolderCheckpoints(place, attempt=attempt, rank=rank, world_size=world_size, keep=keep)
    objects = open_object_store(place)
    return ObjectCheckpoints(objects, board, attempt=attempt, rank=rank, world_size=world_size, keep=keep)


def _inside(name: str) -> PurePosixPath:
    """A path in a checkpoint. A manifest that was tampered with may name any other file of this machine."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"{name} is not in the checkpoint")
    return path
