"""The board on which the ranks of a job leave notes for each other: small values by name, each replaced as a whole.

On one machine it is a folder of Rota's own. On several machines it is next to the checkpoints, which all ranks can reach: a
folder, or objects in a store.
"""

import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from rota.agent.disk import write_atomic
from rota.errors import OptionError
from rota.train.object_store import ObjectStore, open_object_store
from rota.train.rank_environment import JobEnvironment

AHEAD_SECONDS = 1.0
MAX_AHEAD_SECONDS = 10.0
PUTS_AHEAD = 100
"""With a store, how far ahead limits reach, in multiples of the time to put one. Putting two per interval takes 2% of the
time."""

NOTE_SECONDS = 30.0
"""How long a rank retries to leave a note about a save, in seconds."""


class RankStore(Protocol):
    """Notes that all ranks can read. Problems are raised as OSError."""

    look_seconds: tuple[float, float]
    """Shortest and longest pause between two reads, in seconds."""

    @property
    def ahead_seconds(self) -> float:
        """How far ahead rank 0 announces limits, in seconds (`agreement.py`)."""

    def put(self, name: str, data: bytes) -> None: ...

    def get(self, name: str) -> bytes | None:
        """Return a note; None if there is none."""

    def delete(self, name: str) -> None:
        """Delete a note, or all notes below this name."""


class FolderRankStore:
    """Notes as files in a folder."""

    look_seconds = (0.002, 0.002)
    ahead_seconds = AHEAD_SECONDS

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def put(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        write_atomic(path.parent, path.name, data, durable=False)

    def get(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        path = self._folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class ObjectRankStore:
    """Notes as objects below one name. Stores answer in tens of milliseconds and charge for every read, so ranks read less
    often."""

    look_seconds = (0.02, 0.5)

    def __init__(self, objects: ObjectStore, name: str) -> None:
        self._objects, self._name = objects, name
        self._put_seconds: deque[float] = deque(maxlen=5)

    @property
    def ahead_seconds(self) -> float:
        """Return a multiple of the fastest of the last puts, so that a delayed one does not count."""
        return min(max(AHEAD_SECONDS, PUTS_AHEAD * min(self._put_seconds, default=0.0)), MAX_AHEAD_SECONDS)

    def put(self, name: str, data: bytes) -> None:
        begun = time.monotonic()
        self._objects.put(f"{self._name}/{name}", data)
        self._put_seconds.append(time.monotonic() - begun)

    def get(self, name: str) -> bytes | None:
        try:
            return self._objects.get(f"{self._name}/{name}")
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        self._objects.delete(f"{self._name}/{name}")


class SaveNotes(NamedTuple):
    """Notes of the ranks about one save."""

    board: RankStore
    pattern: str
    """Name of a note on the board; `{}` stands for its own name."""

    def put(self, name: str, data: bytes) -> None:
        put_with_retry(self.board, self.pattern.format(name), data, NOTE_SECONDS)

    def get(self, name: str) -> bytes | None:
        return self.board.get(self.pattern.format(name))


def shared_rank_store(where: JobEnvironment) -> RankStore:
    """Return the board of this attempt's ranks. torchrun may restart the ranks within an attempt, and each restart has its
    own."""
    name = f"ranks.i{where.attempt}.{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    place = where.run_folder if where.nodes == 1 else where.checkpoint_folder
    if place is None:
        raise OptionError("is not set, so ranks have no place to share.", field="ROTA_CHECKPOINT_DIR", hint="set it")
    return FolderRankStore(place / name) if isinstance(place, Path) else ObjectRankStore(open_object_store(place), name)


def pauses(board: RankStore) -> Iterator[float]:
    """Yield how long to sleep between two reads, longer each time, in seconds."""
    pause, most = board.look_seconds
    while True:
        yield pause
        pause = min(2 * pause, most)


def put_with_retry(board: RankStore, name: str, data: bytes, seconds: float) -> None:
    """Put a note that other ranks wait for. Retry for this long, in seconds."""
    deadline = time.monotonic() + seconds
    for pause in pauses(board):
        try:
            return board.put(name, data)
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
