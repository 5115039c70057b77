"""Sweeps: run a grid in a folder, on this machine or on others."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.api import warn_assumptions
from rota.compose.study import CLUSTER
from rota.errors import TraceError
from rota.experiments.engine import Watch, run_cells
from rota.experiments.grid import Grid
from rota.experiments.remote import RemoteBackend
from rota.experiments.store import SweepStore
from rota.experiments.sweep_result import SweepResult


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
    """Simulate a grid on all cores. Each result is kept in the folder `out` at once.

    `trace` and `cluster` may be lists. `vary` has several values of a keyword of `simulate`, of an option of the policies or
    placers, or of a setting of generated traces: `{"trace.load": [0.5, 0.7], "policy.thresholds": ["3250/7200", "1000"]}`.
    Policies that lack an option run once. Further keywords are those of `simulate`. Called again, it does only what is missing.
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
    warn_assumptions(found.assumptions)
    return found


def run(
    grid: Grid,
    folder: Path | str,
    *,
    workers: int | None = None,
    backend: Callable[[], RemoteBackend] | None = None,
    watch: Watch | None = None,
) -> SweepResult:
    """Run every cell that has no result yet: on this machine, or on the machines of `backend`, which is called if cells are
    missing."""
    guesses = check(grid)
    cells = grid.cells()
    store = SweepStore(folder)
    with store.locked():
        outdated = store.is_outdated(cells)
        ran = run_cells(cells, store, workers=workers, backend=backend, ready=lambda: store.describe(cells), watch=watch)
        rows = store.finish(cells)
    untried = len(cells) - len(rows) - len(ran.failed)
    return SweepResult(store.folder, rows, ran.failed, ran.reused, untried, guesses, tuple(store.others(cells)), outdated)


def check(grid: Grid) -> tuple[str, ...]:
    """Raise if a value of an axis cannot work, before anything is written. Each value is prepared for simulation once, with the
    first values of the other axes. Return the assumptions that were made."""
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
            guesses |= dict.fromkeys(prepare_study(study, traces[where]).assumptions)
        except TraceError:
            continue  # jobs that do not fit a cluster are the result of that cell, not a mistake in the grid
    return tuple(guesses)
