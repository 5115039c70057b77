"""The engine of sweeps and papers: calculates the cells that a store does not have yet, on this machine or on others."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rota.errors import RotaError
from rota.experiments.cell import Cell, FailedCell
from rota.experiments.remote import RemoteBackend, RemotePool
from rota.experiments.store import CellStore
from rota.experiments.worker_pool import WorkerPool, WorkerReply, available_cores

Watch = Callable[[int, int], None]
"""Function called with the number of finished cells and the number of all cells."""


@dataclass(frozen=True, slots=True)
class CellsRun:
    """What one run of the engine did. The results are in the store."""

    failed: list[FailedCell]
    """In the order of the cells."""
    reused: int
    """Number of cells whose result was in the store before."""


def run_cells(
    cells: Sequence[Cell],
    store: CellStore,
    *,
    workers: int | None = None,
    backend: Callable[[], RemoteBackend] | None = None,
    ready: Callable[[], None] | None = None,
    watch: Watch | None = None,
) -> CellsRun:
    """Calculate each cell that has no result in the store. The caller holds the lock of the store.

    Every result is stored as soon as it is there, so a run that is killed at any moment and started again continues where it
    was. `backend` is called if cells are missing, and runs them on other machines. `ready` is called before the first cell.
    """
    missing = sorted((cell for cell in cells if store.load(cell.key) is None), key=lambda cell: -cell.effort)
    reused = len(cells) - len(missing)
    done, failures = reused, dict[str, FailedCell]()

    lock = threading.Lock()

    def received(number: int, answer: WorkerReply) -> None:
        nonlocal done
        cell = missing[number]
        try:
            if "result" in answer:
                store.save(cell.key, answer["result"])
        except RotaError as problem:
            answer = {"error": problem.message, "hint": problem.hint}
        with lock:
            if "error" in answer:
                failures[cell.key] = FailedCell(cell, answer["error"], answer["hint"])
            done += 1
            report()

    def report() -> None:
        if watch is not None:
            watch(done, len(cells))

    report()
    with contextlib.closing(backend()) if backend is not None and missing else contextlib.nullcontext() as remote:
        if ready is not None:
            ready()
        if remote is not None:
            RemotePool(remote, missing, received, report).run()
        else:
            count = min(workers or available_cores(), max(len(missing), 1))
            WorkerPool(("rota.experiments.worker",), [cell.work() for cell in missing], count, received).run()
    return CellsRun([failures[cell.key] for cell in cells if cell.key in failures], reused)
