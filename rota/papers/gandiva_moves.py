"""What Gandiva's moves come to on a cluster of jobs with several GPUs: whole servers, gangs that lie close together, waits."""

from collections.abc import Sequence

from rota.papers.by_seed import by_seed, interval, percent, places, problems
from rota.papers.claims import Claim
from rota.papers.experiment import CellResult
from rota.papers.gandiva_experiments import BY_FRAGMENTS, FIFO, GANDIVA, MOVES, STAYS, WAITS, WAITS_MOVES
from rota.papers.paper_page import Section

FRAGMENTS = "fragmentation"
CLOSE, WAIT, JCT = "gang_close_share", "gang_wait_seconds", "gang_jct_seconds"
PAIRS = ((FIFO, MOVES), (STAYS, GANDIVA), (WAITS, WAITS_MOVES))
"""Without moves, and with."""


def fragmentation(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    """With and without moves, by load."""
    rows = []
    for x in places(results, FRAGMENTS):
        for label in BY_FRAGMENTS:
            close = [100 * share for share in by_seed(results, FRAGMENTS, label, CLOSE, x).values()]
            if close:
                others = ("whole_nodes", "half_used_nodes", WAIT, JCT, "work_per_gpu_second", "migrations")
                units = ("", "", " s", " s", "", "")
                told = [
                    interval(list(by_seed(results, FRAGMENTS, label, figure, x).values()), unit)
                    for figure, unit in zip(others, units, strict=True)
                ]
                rows.append([f"{x:g}", label, interval(close, "%"), *told])
    return [], Section(
        key="fragmentation",
        title="Fragmentation",
        lead="Jobs like Philly's alone, three in ten of which want 2, 4 or 8 GPUs. Those that span more servers than they need "
        "have the rates of gangs whose GPUs are all on other servers. Close: the part of their GPU-seconds that gangs hold "
        "on no more servers than they need. Whole servers have no job, half-used ones have jobs and free GPUs: means over "
        "the time in which jobs arrive, without its first quarter.",
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
