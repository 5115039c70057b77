"""Cells that other machines run. `RemoteBackend` is how they are reached; `rota/ray/sweep_backend.py` uses Ray.

Cells are sent as text, and answers come back as text. Only the machine of the run writes into the store. A cell depends on
nothing but its description and the contents of its inputs, so it may run twice.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from rota.errors import OptionError
from rota.experiments.cell import Cell
from rota.experiments.node_runner import encode_cell
from rota.experiments.versions import versions
from rota.experiments.worker_pool import MAX_DEATHS, WorkerReply

WAIT_SECONDS = 1.0
"""Longest wait for an answer before the backend is checked for room, in seconds."""


class RemoteBackend(Protocol):
    """Other machines that run cells. `rota/experiments/node_runner.py` is what they do with a cell."""

    def keep(self, digest: str, content: bytes) -> None:
        """Keep the contents of an input file for the cells that need it."""

    def room(self) -> int:
        """Return how many more cells can be sent now."""

    def send(self, number: int, text: str, digests: Sequence[str]) -> None:
        """Run a cell. `digests` are those of its inputs."""

    def receive(self, seconds: float) -> list[tuple[int, WorkerReply]]:
        """Return the answers that have arrived. Wait at most this long for the first. `died` is set if the machine or process
        of the cell was lost."""

    def close(self) -> None:
        """End the cells that are still running."""


class RemotePool:
    """The counterpart of `WorkerPool` on other machines."""

    def __init__(
        self,
        backend: RemoteBackend,
        cells: Sequence[Cell],
        received: Callable[[int, WorkerReply], None],
        report: Callable[[], None],
    ) -> None:
        """`received` is called with the number of each cell and its answer; `report` is called every second while cells run."""
        self._backend, self._cells, self._received, self._report = backend, cells, received, report

    def run(self) -> None:
        self._keep_inputs()
        ours, here = versions(), str(Path.cwd())
        todo = list(range(len(self._cells)))[::-1]
        running = deaths = 0
        while running or (todo and deaths < MAX_DEATHS):
            while todo and deaths < MAX_DEATHS and self._backend.room() > 0:
                number = todo.pop()
                cell = self._cells[number]
                inputs = {name: digest for name, digest in cell.inputs.items() if digest}
                text = encode_cell(cell.work(), ours, here, inputs)
                self._backend.send(number, text, sorted(set(inputs.values())))
                running += 1
            for number, answer in self._backend.receive(WAIT_SECONDS):
                running -= 1
                deaths = deaths + 1 if answer.get("died") else 0
                self._received(number, answer)
            if running:
                self._report()

    def _keep_inputs(self) -> None:
        names = {digest: name for cell in self._cells for name, digest in cell.inputs.items() if digest}
        for digest, name in names.items():
            try:
                content = Path(name).read_bytes()
            except OSError as problem:
                raise OptionError(f"{problem.strerror or problem}.", where=name, hint="the same command again") from None
            if hashlib.sha256(content).hexdigest() != digest:
                raise OptionError("has changed since the sweep was started.", where=name, hint="the same command again")
            self._backend.keep(digest, content)
