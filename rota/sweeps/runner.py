"""Runs a grid: as many worker processes as there are cores, each with one cell at a time."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.errors import TraceError
from rota.sweeps.grid import Cell, Grid
from rota.sweeps.store import Store
from rota.sweeps.swept import Failed, Swept

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Every worker has one core: a maths library that starts threads of its own would only fight the others."""

MOST_DEATHS = 3
"""So many workers may die in a row; after that the sweep stops."""

Watch = Callable[[int, int], None]
"""Called with the cells that are there and the cells in all."""


def sweep(
    policies: Sequence[str],
    *,
    out: Path | str,
    trace: str | Sequence[str] = "demo",
    cluster: str | Sequence[str] = "8xV100 + 8xP100 + 8xK80",
    placers: Sequence[str] = (),
    vary: Mapping[str, Sequence[float]] | None = None,
    seeds: int = 1,
    seed: int = 0,
    workers: int | None = None,
    **options: Any,
) -> Swept:
    """A grid of simulations on all cores; results are kept in the folder `out` as they come.

    `trace` and `cluster` may be lists. `vary` has several values of a keyword of `simulate`, or of a setting of generated traces:
    `{"trace.load": [0.5, 0.7, 0.9]}`. Further keywords are those of `simulate`. Called again it does only what is missing.
    """
    grid = Grid(
        policies=tuple(policies),
        traces=(trace,) if isinstance(trace, str) else tuple(trace),
        clusters=(cluster,) if isinstance(cluster, str) else tuple(cluster),
        placers=tuple(placers),
        vary={name: tuple(values) for name, values in (vary or {}).items()},
        seeds=seeds,
        seed=seed,
        options=options,
    )
    return run(grid, out, workers=workers)


def run(grid: Grid, folder: Path | str, *, workers: int | None = None, watch: Watch | None = None) -> Swept:
    """Run every cell that has no result yet. Killed at any moment and started again, it goes on where it was."""
    check(grid)
    cells = grid.cells()
    store = Store(folder)
    with store.locked():
        store.describe(cells)
        missing = [cell for cell in cells if not store.has(cell)]
        reused = len(cells) - len(missing)
        done = reused

        def step() -> None:
            nonlocal done
            done += 1
            if watch is not None:
                watch(done, len(cells))

        if watch is not None:
            watch(done, len(cells))
        failed = _Crew(store, missing, min(workers or available_cores(), max(len(missing), 1)), step).run()
        rows = store.finish(cells)
        return Swept(store.folder, rows, failed, reused, len(cells) - len(rows) - len(failed))


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Crew:
    """Worker processes, each fed by a thread of ours that does nothing but wait for it."""

    def __init__(self, store: Store, cells: Sequence[Cell], workers: int, step: Callable[[], None]) -> None:
        self._store, self._cells, self._workers, self._step = store, cells, workers, step
        self._todo: queue.SimpleQueue[Cell] = queue.SimpleQueue()
        for cell in cells:
            self._todo.put(cell)
        self._failed: list[Failed] = []
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[str]] = []
        self._stopping = False
        self._deaths = 0

    def run(self) -> list[Failed]:
        threads = [threading.Thread(target=self._feed) for _ in range(self._workers)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            self._stop()
            for thread in threads:
                thread.join()
            raise
        place = {cell.key: number for number, cell in enumerate(self._cells)}
        return sorted(self._failed, key=lambda each: place[each.cell.key])

    def _feed(self) -> None:
        worker: subprocess.Popen[str] | None = None
        while not self._stopping:
            try:
                cell = self._todo.get_nowait()
            except queue.Empty:
                break
            if worker is None:
                worker = self._start()
            answer = _ask(worker, cell)
            if self._stopping:
                break
            died = answer is None
            if answer is None:
                code = self._end(worker)
                worker = None
                answer = {"error": f"its worker died (exit code {code}).", "hint": "fewer --workers, if memory is short"}
            with self._lock:
                self._deaths = self._deaths + 1 if died else 0
                if self._deaths >= MOST_DEATHS:
                    self._stopping = True  # whatever it is, it is not the cell
                if "error" in answer:
                    self._failed.append(Failed(cell, answer["error"], answer["hint"]))
                self._step()
        if worker is not None:
            self._end(worker)

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "rota.sweeps.worker", str(self._store.folder)]
        environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        with self._lock:
            self._running.append(worker)
        return worker

    def _end(self, worker: subprocess.Popen[str]) -> int:
        """No more cells: a worker ends when nobody talks to it."""
        assert worker.stdin is not None and worker.stdout is not None
        with contextlib.suppress(OSError):  # it may be gone already
            worker.stdin.close()
        code = worker.wait()
        worker.stdout.close()
        with self._lock:
            self._running.remove(worker)
        return code

    def _stop(self) -> None:
        with self._lock:
            self._stopping = True
            for worker in self._running:
                worker.terminate()


def _ask(worker: subprocess.Popen[str], cell: Cell) -> dict[str, Any] | None:
    """The worker's verdict; None: it died."""
    assert worker.stdin is not None and worker.stdout is not None
    try:
        worker.stdin.write(json.dumps({"key": cell.key, "keywords": dict(cell.keywords)}) + "\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    except OSError:
        return None
    if not line.endswith("\n"):
        return None
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError:
        return {"error": f"its worker said {line[:60]!r}.", "hint": "report this"}
    return answer


def check(grid: Grid) -> None:
    """What cannot work is said before anything is written: every value of every axis is looked at once, beside the first values
    of the others, as if it were to be simulated."""
    from rota.api import prepare
    from rota.traces.synthetic import open_trace
    from rota.traces.trace import Trace

    traces: dict[str, Trace] = {}
    for keywords in grid.samples():
        given = dict(keywords)
        text, format, where = given.pop("trace"), given.pop("format", None) or "auto", given.pop("where", None) or ()
        if text not in traces:
            traces[text] = open_trace(text, format=format, where=[(column, value) for column, value in where])
        try:
            prepare(traces[text], **given)
        except TraceError:
            continue  # jobs that do not fit a cluster are an answer for that cell, not a mistake in the grid
