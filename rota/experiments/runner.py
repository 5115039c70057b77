"""Runs a grid: by as many worker processes as there are cores, each with one cell at a time, or on other machines."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.api import warn_of
from rota.compose.study import CLUSTER
from rota.errors import TraceError
from rota.experiments.grid import Grid, SweepCell
from rota.experiments.remote import RemoteBackend, RemoteCrew
from rota.experiments.store import Store
from rota.experiments.sweep_result import FailedCell, SweepResult
from rota.experiments.worker_pool import Crew, WorkerReply, available_cores

Watch = Callable[[int, int], None]
"""Called with the cells that are there and the cells in all."""


def sweep(
    policies: Sequence[str],
    *,
    out: Path | str,
    trace: str | Sequence[str] = "demo",
    cluster: str | Sequence[str] = CLUSTER,
    placers: Sequence[str] = (),
    vary: Mapping[str, Sequence[Any]] | None = None,
    seeds: int = 1,
    seed: int = 0,
    workers: int | None = None,
    **options: Any,
) -> SweepResult:
    """A grid of simulations on all cores; results are kept in the folder `out` as they come.

    `trace` and `cluster` may be lists. `vary` has several values of a keyword of `simulate`, of an option of the policies or
    placers, or of a setting of generated traces: `{"trace.load": [0.5, 0.7], "policy.thresholds": ["3250/7200", "1000"]}`.
    Policies that lack an option run once. Further keywords are those of `simulate`. Called again it does only what is missing.
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
    found = run(grid, out, workers=workers)
    warn_of(found.guesses)
    return found


def run(
    grid: Grid,
    folder: Path | str,
    *,
    workers: int | None = None,
    elsewhere: Callable[[], RemoteBackend] | None = None,
    watch: Watch | None = None,
) -> SweepResult:
    """Run every cell that has no result yet: on this machine, or by `elsewhere`, which is called if there is anything to do.
    Killed at any moment and started again, it goes on where it was."""
    guesses = check(grid)
    cells = grid.cells()
    store = Store(folder)
    with store.locked():
        missing = [cell for cell in cells if not store.has(cell)]
        reused = len(cells) - len(missing)
        done, failures = reused, dict[int, FailedCell]()

        def heard(number: int, answer: WorkerReply) -> None:
            nonlocal done
            if "result" in answer:
                store.save(missing[number].key, answer["result"])
            done += 1
            if "error" in answer:
                failures[number] = FailedCell(missing[number], answer["error"], answer["hint"])
            tell()

        def tell() -> None:
            if watch is not None:
                watch(done, len(cells))

        tell()
        if elsewhere is None or not missing:
            store.describe(cells)
            _run_here(missing, store, workers, heard)
        else:
            with contextlib.closing(elsewhere()) as place:
                store.describe(cells)
                RemoteCrew(place, missing, heard, tell).run()
        # A worker may die between writing its cell and saying so: what is there is not missing.
        failed = [failures[number] for number in sorted(failures) if not store.has(missing[number])]
        rows = store.finish(cells)
        untried = len(cells) - len(rows) - len(failed)
        return SweepResult(store.folder, rows, failed, reused, untried, guesses, tuple(store.others(cells)))


def _run_here(missing: Sequence[SweepCell], store: Store, workers: int | None, heard: Callable[[int, WorkerReply], None]) -> None:
    work = [{"key": cell.key, "study": cell.study.plain()} for cell in missing]
    crew = min(workers or available_cores(), max(len(missing), 1))
    Crew(("rota.experiments.sweep_worker", str(store.folder)), work, crew, heard).run()


def check(grid: Grid) -> tuple[str, ...]:
    """What cannot work is said before anything is written: every value of every axis is looked at once, beside the first values
    of the others, as if it were to be simulated. Returns what had to be guessed."""
    from rota.compose.prepare import prepare_study
    from rota.traces.synthetic import open_trace
    from rota.traces.trace import Trace

    traces: dict[Any, Trace] = {}
    guesses: dict[str, None] = {}
    for study in grid.samples():
        where = (str(study.trace), study.format, study.filters)
        if where not in traces:
            traces[where] = open_trace(str(study.trace), format=study.format, where=study.filters)
        try:
            guesses |= dict.fromkeys(prepare_study(study, traces[where]).guesses)
        except TraceError:
            continue  # jobs that do not fit a cluster are an answer for that cell, not a mistake in the grid
    return tuple(guesses)
