"""Checkpoints in a folder.

    FOLDER/new.i3.7/                  unfinished: attempt 3, its 7th
    FOLDER/step-000000000120.i3.7/    complete: the folder above, renamed
        manifest.json                 size and SHA-256 of every file
        rank-0/ rank-1/ ...           what each rank saved

A folder is renamed when all its files and names are on disk (fsync), so a power cut leaves a complete checkpoint or none. If the
disk was wrong about that, the checksums show it. Ranks need no more than the folder that they share: each leaves a note
`rank-N.done` in the unfinished checkpoint.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rota.agent.disk import sync_folder, write_atomic
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
from rota.train.rank_store import FolderRankStore, SaveNotes

MANIFEST = "manifest.json"
_UNFINISHED = re.compile(r"new\.i(\d+)\.(\d+)")


class FolderCheckpointStore:
    """`CheckpointStore` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rank = 0

    @property
    def place(self) -> str:
        return str(self.folder)

    @property
    def hint(self) -> str:
        return "look at the permissions of the folder"

    def names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.folder))  # noqa: PTH208  names are all that is needed
        except (FileNotFoundError, NotADirectoryError):
            return []

    def stored(self, names: list[str]) -> list[StoredCheckpoint]:
        found = []
        for text in names:
            if name := CheckpointName.parse(text):
                found.append(StoredCheckpoint(name, True, text))
            elif match := _UNFINISHED.fullmatch(text):
                found.append(StoredCheckpoint(CheckpointName(int(match[1]), int(match[2]), 0), False, text))
        return found

    def start(self, attempt: int, rank: int) -> None:
        self._rank = rank

    def fetch(self, place: str, *, verify: bool) -> CompleteCheckpoint:
        return verified(self.folder / place) if verify else read_manifest(self.folder / place)[0]

    def release(self, found: CompleteCheckpoint) -> None:
        """Do nothing: checkpoints are read where they are."""

    def save(self, name: CheckpointName, save: Callable[[Path], object]) -> Shard:
        new = self._unfinished(name)
        part = new / f"rank-{self._rank}"
        part.mkdir(parents=True, exist_ok=True)
        save(part)
        files = {path.relative_to(new).as_posix(): _sync_and_digest(path) for path in _files(part)}
        for folder in [*(each for each in part.rglob("*") if each.is_dir()), part]:
            sync_folder(folder)
        return Shard(files)

    def notes(self, name: CheckpointName) -> SaveNotes:
        return SaveNotes(FolderRankStore(self._unfinished(name)), "{}.done")

    def complete(self, name: CheckpointName, body: Mapping[str, Any], parts: list[Shard]) -> None:
        new = self._unfinished(name)
        for note in new.glob("rank-*.done"):
            note.unlink()
        files = {path: entry for part in parts for path, entry in part.files.items()}
        _write_manifest(new, {**body, "files": files})
        new.rename(self.path(name))
        sync_folder(self.folder)

    def path(self, name: CheckpointName) -> Path:
        return self.folder / str(name)

    def give_up(self, name: CheckpointName, problem: str) -> None:
        shutil.rmtree(self._unfinished(name), ignore_errors=True)

    def outcome(self, name: CheckpointName) -> str | None:
        whole = self.path(name)
        if whole.exists():
            return ""
        if self._unfinished(name).exists():
            return None
        return "" if whole.exists() else "it was given up, see the log of rank 0"

    def remove(self, place: str) -> None:
        shutil.rmtree(self.folder / place, ignore_errors=True)

    def _unfinished(self, name: CheckpointName) -> Path:
        return self.folder / f"new.i{name.attempt}.{name.number}"


def add_manifest(folder: Path, step: int) -> None:
    """Add a manifest to a checkpoint that a framework wrote, so that it can be verified."""
    files = {path.relative_to(folder).as_posix(): _sync_and_digest(path) for path in _files(folder) if path.name != MANIFEST}
    for each in [path for path in folder.rglob("*") if path.is_dir()]:
        sync_folder(each)
    _write_manifest(folder, {"step": step, "attempt": 1, "world_size": 1, "facts": {}, "files": files})
    sync_folder(folder.parent)


def verified(folder: Path) -> CompleteCheckpoint:
    """Read every byte of a checkpoint and return it. Raise CheckpointError if a byte differs from what was written."""
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
    """Return a checkpoint, and size and checksum of its files. The files are not read."""
    try:
        body = parse_manifest((folder / MANIFEST).read_bytes(), str(folder / MANIFEST))
        found = CompleteCheckpoint(folder, body["step"], body["attempt"], body["world_size"], body["facts"])
        return found, dict(body["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder} is not a whole checkpoint: {error}.") from error


def _write_manifest(folder: Path, body: Mapping[str, Any]) -> None:
    write_atomic(folder, MANIFEST, manifest_bytes(body), durable=True)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _sync_and_digest(path: Path) -> tuple[int, str]:
    """Flush a file to disk, and return its size and checksum."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
