"""The effect of Gandiva's moves on jobs with several GPUs: idle servers, gangs that are close together, waits."""

from collections.abc import Sequence

from rota.papers.by_seed import by_seed, interval, percent, places, problems
from rota.papers.claims import Claim
from rota.papers.experiment import CellResult
from rota.papers.gandiva_experiments import BY_FRAGMENTS, FIFO, GANDIVA, MOVES, STAYS, WAITS, WAITS_MOVES
from rota.papers.paper_page import Section

FRAGMENTS = "fragmentation"
CLOSE, WAIT, JCT = "gang_close_share", "gang_wait_seconds", "gang_jct_seconds"
PAIRS = ((FIFO, MOVES), (STAYS, GANDIVA), (WAITS, WAITS_MOVES))
"""Contenders without and with moves."""


def fragmentation(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    """Compare contenders with and without moves, by load."""
    rows = []
    for x in places(results, FRAGMENTS):
        for label in BY_FRAGMENTS:
            close = [100 * share for share in by_seed(results, FRAGMENTS, label, CLOSE, x).values()]
            if close:
                others = ("whole_nodes", "half_used_nodes", WAIT, JCT, "work_per_gpu_second", "migrations")
                units = ("", "", " s", " s", "", "")
                shown = [
                    interval(list(by_seed(results, FRAGMENTS, label, figure, x).values()), unit)
                    for figure, unit in zip(others, units, strict=True)
                ]
                rows.append([f"{x:g}", label, interval(close, "%"), *shown])
    return [], Section(
        key="fragmentation",
        title="Fragmentation",
        lead="Only jobs like Philly's, three in ten of which request 2, 4 or 8 GPUs. A gang that spans more servers than it "
        "needs runs at the rate of a gang whose GPUs are all on different servers. Close: fraction of the GPU-seconds of gangs "
        "on no more servers than they need. Whole servers have no job; half-used servers have jobs and free GPUs. Both are "
        "means over the time in which jobs arrive, without its first quarter.",
        heads=[
            "load",
            "contender",
            "close",
            "whole",
            "half-used",
            "gangs wait",
            "JCT of gangs",
            "work per GPU-second",
            "migrations",
        ],
        rows=rows,
        found=[sentence for x in places(results, FRAGMENTS) for sentence in _found(results, x)],
        problems=problems(results, FRAGMENTS),
    )


def _found(results: Sequence[CellResult], x: float) -> list[str]:
    found = []
    for stays, moves in PAIRS:
        shorter = [-each for each in percent(_jct(results, moves, x), _jct(results, stays, x))]
        if shorter:
            found.append(f"{stays} at load {x:g}: moves make the mean JCT of gangs {interval(shorter, '%')} shorter.")
    return found


def _jct(results: Sequence[CellResult], label: str, x: float) -> dict[str, float]:
    return dict(by_seed(results, FRAGMENTS, label, JCT, x))
