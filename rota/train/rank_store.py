"""Where the ranks of a job leave notes for each other: small values by name, each put as a whole.

On one machine it is a folder of Rota's own. On several it is where the checkpoints are, which all ranks can reach: a folder, or
objects of a store.
"""

import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from rota.agent.disk import write_atomic
from rota.errors import OptionError
from rota.train.object_store import ObjectStore, open_object_store
from rota.train.rank_environment import JobEnvironment

AHEAD_SECONDS = 1.0
MOST_AHEAD_SECONDS = 10.0
PUTS_AHEAD = 100
"""Over a store, limits reach so many times further ahead than it takes to put one: putting them takes 2% of the time."""


class RankStore(Protocol):
    """Notes that all ranks can read. What goes wrong is raised as OSError."""

    look_seconds: tuple[float, float]
    """How long to wait between two looks, at first and at most."""

    @property
    def ahead_seconds(self) -> float:
        """How far ahead the first rank announces limits (`agreement`)."""

    def put(self, name: str, data: bytes) -> None: ...

    def get(self, name: str) -> bytes | None:
        """None: it is not there."""

    def delete(self, name: str) -> None:
        """A note, or all notes below this name."""


class FolderRankStore:
    """Files in a folder."""

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


class ObjectBoard:
    """Objects below one name. Stores answer in tens of milliseconds and bill every look, so ranks look less often."""

    look_seconds = (0.02, 0.5)

    def __init__(self, objects: ObjectStore, name: str) -> None:
        self._objects, self._name = objects, name
        self._put_seconds: deque[float] = deque(maxlen=5)

    @property
    def ahead_seconds(self) -> float:
        """By the fastest of the last puts, so that one that was held up does not count."""
        return min(max(AHEAD_SECONDS, PUTS_AHEAD * min(self._put_seconds, default=0.0)), MOST_AHEAD_SECONDS)

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


def shared_board(where: JobEnvironment) -> RankStore:
    """The one of the ranks of this attempt. torchrun may start them anew within it."""
    name = f"ranks.i{where.attempt}.{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    place = where.run_folder if where.nodes == 1 else where.checkpoint_folder
    if place is None:
        raise OptionError("is not set, so ranks have no place to share.", field="ROTA_CHECKPOINT_DIR", hint="set it")
    return FolderRankStore(place / name) if isinstance(place, Path) else ObjectBoard(open_object_store(place), name)


def pauses(board: RankStore) -> Iterator[float]:
    """How long to sleep between looks, longer each time."""
    pause, most = board.look_seconds
    while True:
        yield pause
        pause = min(2 * pause, most)


def put_surely(board: RankStore, name: str, data: bytes, seconds: float) -> None:
    """Tried again for so long: others wait for it."""
    deadline = time.monotonic() + seconds
    for pause in pauses(board):
        try:
            return board.put(name, data)
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
