"""Cells that other machines run. What reaches them is behind `RemoteBackend`; `rota/ray/sweep_backend.py` does it by Ray.

Cells go there as text and come back as text. The machine of the sweep alone writes into its folder. A cell depends on nothing but
its description and the contents of its files, so it may run twice.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from rota.errors import OptionError
from rota.experiments.grid import SweepCell
from rota.experiments.node_runner import encode_cell
from rota.experiments.versions import versions
from rota.experiments.worker_pool import MOST_DEATHS, WorkerReply

HEAR_SECONDS = 1.0
"""So long it waits for answers before it looks again for room."""


class RemoteBackend(Protocol):
    """Other machines that run cells. What they do with one is in `rota/experiments/node_runner.py`."""

    def keep(self, digest: str, content: bytes) -> None:
        """Have the contents of a file at hand for the cells that need it."""

    def room(self) -> int:
        """How many more cells it takes now."""

    def send(self, number: int, text: str, digests: Sequence[str]) -> None:
        """Run a cell; `digests`: of the files that it needs."""

    def hear(self, seconds: float) -> list[tuple[int, WorkerReply]]:
        """Answers that have come; it waits so long for the first. `died`: no result, because something broke under it."""

    def close(self) -> None:
        """Cells that still run are ended."""


class RemoteCrew:
    """As `Crew`, of other machines."""

    def __init__(
        self,
        place: RemoteBackend,
        cells: Sequence[SweepCell],
        heard: Callable[[int, WorkerReply], None],
        tell: Callable[[], None],
    ) -> None:
        """`heard` gets the number of each cell and the answer to it; `tell` is called now and then."""
        self._place, self._cells, self._heard, self._tell = place, cells, heard, tell

    def run(self) -> None:
        self._keep_files()
        ours, here = versions(), str(Path.cwd())
        todo = list(range(len(self._cells)))[::-1]
        running = deaths = 0
        while running or (todo and deaths < MOST_DEATHS):
            while todo and deaths < MOST_DEATHS and self._place.room() > 0:
                number = todo.pop()
                cell = self._cells[number]
                files = {path: digest for path, digest in cell.files.items() if digest}
                text = encode_cell(cell.study.plain(), ours, here, files)
                self._place.send(number, text, sorted(set(files.values())))
                running += 1
            for number, answer in self._place.hear(HEAR_SECONDS):
                running -= 1
                deaths = deaths + 1 if answer.get("died") else 0
                self._heard(number, answer)
            if running:
                self._tell()

    def _keep_files(self) -> None:
        paths = {digest: path for cell in self._cells for path, digest in cell.files.items() if digest}
        for digest, path in paths.items():
            try:
                content = Path(path).read_bytes()
            except OSError as problem:
                raise OptionError(f"{problem.strerror or problem}.", where=path, hint="the same command again") from None
            if hashlib.sha256(content).hexdigest() != digest:
                raise OptionError("has changed since the sweep was started.", where=path, hint="the same command again")
            self._place.keep(digest, content)
