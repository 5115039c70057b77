"""Names and manifests of checkpoints, the same in every store.

The manifest of a checkpoint has its step, attempt, number of ranks and facts, the size and SHA-256 of every file, and a SHA-256
of itself. A checkpoint counts if its manifest does.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rota.errors import CheckpointError

WRITTEN = re.compile(r"step-(\d+)\.i(\d+)\.(\d+)")
RANKS = re.compile(r"ranks\.i(\d+)\.\d+")
"""Name of the notes that the ranks of several nodes leave for each other (`rank_store.py`)."""


class CheckpointName(NamedTuple):
    """The name of a checkpoint. Names are ordered by age: of two checkpoints, the one of the later attempt is newer. So a late
    process of an earlier attempt can never replace a newer checkpoint."""

    attempt: int
    number: int
    """Position among the checkpoints of the attempt, from 1."""
    step: int

    @classmethod
    def parse(cls, text: str) -> "CheckpointName | None":
        match = WRITTEN.fullmatch(text)
        return cls(int(match[2]), int(match[3]), int(match[1])) if match else None

    def __str__(self) -> str:
        return f"step-{self.step:012}.i{self.attempt}.{self.number}"


class StoredCheckpoint(NamedTuple):
    """A checkpoint as a store lists it."""

    name: CheckpointName
    complete: bool
    """Whether it was written to the end. Its contents may still be damaged."""
    place: str
    """Name of its folder or objects in the store."""


class CompleteCheckpoint(NamedTuple):
    """A checkpoint that can be loaded."""

    folder: Path
    step: int
    attempt: int
    world_size: int
    facts: Mapping[str, Any]
    """What the session keeps beside the saved state: its position in the data."""

    def rank_folder(self, rank: int) -> Path:
        """Return the folder that this rank saved, or that of rank 0 if there were fewer ranks then."""
        own = self.folder / f"rank-{rank}"
        return own if rank < self.world_size else self.folder / "rank-0"


class Shard(NamedTuple):
    """What one rank has saved."""

    files: Mapping[str, tuple[Any, ...]] = {}
    """Size and SHA-256 of every file, by its path in the checkpoint; in a store of objects also its key."""
    folders: tuple[str, ...] = ()
    problem: str = ""
    """Why the rank could not save."""


def manifest_bytes(body: Mapping[str, Any]) -> bytes:
    """Return a manifest as it is written."""
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


def digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
