"""Results as tables for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.report.result import Result


def results_table(results: Sequence["Result"]) -> Any:
    """One row per run, the best mean JCT marked. xBOUND: times the bound; SPAN: makespan; RHO: finish-time fairness, p95."""
    from rich.table import Table

    from rota.report.result import duration, percent

    best = min((r.summary.mean_jct_seconds for r in results if r.summary.mean_jct_seconds is not None), default=None)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("POLICY", "MEAN JCT", "xBOUND", "MEDIAN", "P99", "QUEUE", "SPAN", "BUSY", "RHO", "SUSP"):
        is_name = name == "POLICY"
        table.add_column(
            name, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold", max_width=22 if is_name else None
        )
    for result in results:
        s = result.summary
        gap = "-" if s.gap_to_jct_bound is None else f"{1 + s.gap_to_jct_bound:.2f}"
        rho = "-" if s.finish_time_fairness_p95 is None else f"{s.finish_time_fairness_p95:.1f}"
        is_best = len(results) > 1 and s.mean_jct_seconds == best
        table.add_row(
            str(result.params["policy"]),
            duration(s.mean_jct_seconds),
            gap,
            duration(s.median_jct_seconds),
            duration(s.p99_jct_seconds),
            duration(s.mean_queueing_seconds),
            duration(s.makespan_seconds),
            percent(s.utilization),
            rho,
            f"{s.suspensions:,}",
            style="bold green" if is_best else None,
        )
    return table


def footing(result: "Result") -> str:
    """Bound and load, beside every number."""
    from rota.report.result import duration

    s, p = result.summary, result.params
    load = "unknown" if s.offered_load is None else f"{s.offered_load:.2f}"
    skipped = f"   {p['skipped']:,} jobs skipped" if p["skipped"] else ""
    return (
        f"{p['trace']}: {s.jobs:,} jobs on {p['cluster']}   offered load {load}   no schedule beats mean JCT "
        f"{duration(s.mean_jct_bound_seconds)} or makespan {duration(s.makespan_bound_seconds)}{skipped}"
    )
