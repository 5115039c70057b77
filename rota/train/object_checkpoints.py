"""Checkpoints in a store of objects.

    URL/step-000000000120.i3.7/4f9c1a22/rank-0/model.pt    data, written first: step 120, attempt 3, its 7th; a random part
    URL/step-000000000120.i3.7.json                        the manifest, written last: then the checkpoint counts

A store replaces an object as a whole, so there is a manifest or there is none. The manifest names every data object, with size
and SHA-256. No data object is ever replaced: each rank draws a random part of the name for each save, so two processes never
write the same object.

`save` and `load` of a script use folders. They get one for temporary files (TMPDIR): objects are uploaded from it and downloaded
into it. Ranks report on a `RankStore` what they have uploaded.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from rota.errors import CheckpointError
from rota.train.manifest import (
    CheckpointName,
    CompleteCheckpoint,
    Shard,
    StoredCheckpoint,
    digest_file,
    manifest_bytes,
    parse_manifest,
)
from rota.train.object_store import ObjectStore
from rota.train.rank_store import RankStore, SaveNotes

READS = 2
"""Number of reads after which an object counts as damaged. One read may fail on the way."""
MANIFEST_END = ".json"
_NAME = re.compile(r"(step-\d+\.i\d+\.\d+)(\.json(?:\.new)?)?")


class ObjectCheckpointStore:
    """`CheckpointStore` in a store of objects. `board`: where several ranks leave notes for each other."""

    def __init__(self, objects: ObjectStore, board: RankStore | None = None) -> None:
        self._objects, self._board = objects, board
        self._tag = hashlib.sha256(objects.url.encode()).hexdigest()[:12]
        self._attempt, self._rank = 1, 0

    @property
    def place(self) -> str:
        return self._objects.url

    @property
    def hint(self) -> str:
        return f"look at the store and at the job's credentials for it, and at the room in {tempfile.gettempdir()}"

    def names(self) -> list[str]:
        return self._objects.names()

    def stored(self, names: list[str]) -> list[StoredCheckpoint]:
        complete: dict[str, bool] = {}
        for text in names:
            if match := _NAME.fullmatch(text):
                complete[match[1]] = complete.get(match[1], False) or match[2] == MANIFEST_END
        return [StoredCheckpoint(name, complete[text], text) for text in complete if (name := CheckpointName.parse(text))]

    def start(self, attempt: int, rank: int) -> None:
        self._attempt, self._rank = attempt, rank
        self._remove_leftovers()

    # Reading.

    def fetch(self, place: str, *, verify: bool) -> CompleteCheckpoint:
        body = self._manifest(place)
        folder = self._scratch_folder() / place
        try:
            try:
                found = CompleteCheckpoint(folder, body["step"], body["attempt"], body["world_size"], dict(body["facts"]))
                found.rank_folder(self._rank).mkdir(parents=True)
                wanted = {"rank-0", found.rank_folder(self._rank).name}
                files = [(_inside(each), *entry) for each, entry in body["files"].items()]
                folders = [_inside(each) for each in body["folders"]]
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise CheckpointError(f"{self._shown(place)} is not a manifest: {error}.") from error
            for each in folders:
                if each.parts[0] in wanted:
                    (folder / each).mkdir(parents=True, exist_ok=True)
            for each, size, digest, key in files:
                keeps = each.parts[0] in wanted
                if keeps or verify:
                    self._read(key, folder / each, size, digest)
                if verify and not keeps:
                    (folder / each).unlink()
        except BaseException:
            shutil.rmtree(folder.parent, ignore_errors=True)
            raise
        return found

    def release(self, found: CompleteCheckpoint) -> None:
        shutil.rmtree(found.folder.parent, ignore_errors=True)

    def _manifest(self, place: str) -> dict[str, Any]:
        try:
            data = self._objects.get(place + MANIFEST_END)
        except FileNotFoundError as error:
            raise CheckpointError(f"{self._shown(place)} is gone.") from error
        return parse_manifest(data, self._shown(place))

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

    def _shown(self, place: str) -> str:
        return f"{self._objects.url}/{place}{MANIFEST_END}"

    # Writing.

    def save(self, name: CheckpointName, save: Callable[[Path], object]) -> Shard:
        """Save into a local folder, and upload everything in it."""
        base = f"{name}/{secrets.token_hex(4)}"
        with self._scratch() as scratch:
            part = scratch / f"rank-{self._rank}"
            part.mkdir()
            try:
                save(part)
            except OSError as error:
                raise OSError(f"{error.strerror or error} in {scratch}, where it is saved before it is uploaded") from error
            files: dict[str, tuple[int, str, str]] = {}
            folders = []
            try:
                # Some frameworks write into the folder of rank 0 as well.
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
        return Shard(files, tuple(folders))

    def notes(self, name: CheckpointName) -> SaveNotes:
        assert self._board is not None, "several ranks need a board"
        return SaveNotes(self._board, f"save-{name.number}/{{}}")

    def complete(self, name: CheckpointName, body: Mapping[str, Any], parts: list[Shard]) -> None:
        files: dict[str, Any] = {}
        for part in reversed(parts):  # of two files with one name, the one of the lower rank counts
            files |= part.files
        folders = sorted({folder for part in parts for folder in part.folders})
        self._objects.put(f"{name}{MANIFEST_END}", manifest_bytes({**body, "files": files, "folders": folders}))
        self._announce(name, "")
        if self._board is not None:
            with contextlib.suppress(OSError):
                self._board.delete(f"save-{name.number - 1}")  # every rank has read it, because each has saved again since

    def path(self, name: CheckpointName) -> Path:
        return Path(str(name))

    def give_up(self, name: CheckpointName, problem: str) -> None:
        self._announce(name, problem)
        self.remove(str(name))

    def _announce(self, name: CheckpointName, problem: str) -> None:
        """Leave a note for the other ranks that the checkpoint is complete, or why not."""
        if self._board is not None:
            with contextlib.suppress(OSError):
                self.notes(name).put("end", json.dumps({"problem": problem}).encode())

    def outcome(self, name: CheckpointName) -> str | None:
        data = self.notes(name).get("end")
        return str(json.loads(data)["problem"]) if data else None

    def remove(self, place: str) -> None:
        """Remove a checkpoint or notes. The manifest goes first: then the rest counts for nothing if this is cut off."""
        with contextlib.suppress(OSError):
            self._objects.delete(place + MANIFEST_END)
            self._objects.delete(place)

    # Local folders.

    def _scratch_folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"rota-{self._tag}.i{self._attempt}.r{self._rank}-"))

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[Path]:
        folder = self._scratch_folder()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_leftovers(self) -> None:
        """Remove local folders of this rank that was killed while it saved or loaded."""
        begins = re.compile(rf"rota-{self._tag}\.i(\d+)\.r{self._rank}-.*")
        folder = Path(tempfile.gettempdir())
        for path in folder.glob(f"rota-{self._tag}.i*"):
            with contextlib.suppress(OSError):
                match = begins.fullmatch(path.name)
                if match and int(match[1]) <= self._attempt and path.lstat().st_uid == os.geteuid():
                    shutil.rmtree(path, ignore_errors=True)


def _inside(name: str) -> PurePosixPath:
    """Return a path within a checkpoint. A manifest that was tampered with may name any other file of this machine."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"{name} is not in the checkpoint")
    return path
