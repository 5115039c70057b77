"""Conclusions from the experiments of Gavel: claims, and a section of the page for each experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

from rota.papers.claims import Claim, Curve, claim, largest_gain, mean, sustained
from rota.papers.experiment import CellResult, Experiment
from rota.papers.gavel_experiments import (
    COST,
    COST_SLO,
    FIFO,
    FIFO_BLIND,
    FTF,
    FTF_BLIND,
    LAS,
    LAS_BLIND,
    LAS_PACKED,
    MAKESPAN,
    MAKESPAN_BLIND,
    TENANT_JOB_SECONDS,
    THROUGHPUT,
)
from rota.papers.paper_page import Section
from rota.report.plots import Plot, Series, chart
from rota.report.result import duration

CROWDED = 2.0
"""A cluster counts as full if the mean JCT is this many times that under the lowest load."""


def _curves(results: Sequence[CellResult], experiment: str, figure: str, size: float = 1.0) -> dict[str, Curve]:
    """Return policy -> one figure by load, averaged over seeds. Points without a figure for every seed are left out."""
    seen: dict[str, dict[float, list[float | None]]] = {}
    for result in results:
        if result.cell.experiment == experiment:
            seen.setdefault(result.cell.label, {}).setdefault(result.cell.x, []).append(result.figures.get(figure))
    found: dict[str, Curve] = {}
    for label, points in seen.items():
        known = {x: [value for value in values if value is not None] for x, values in points.items()}
        found[label] = {x: mean(values) / size for x, values in sorted(known.items()) if len(values) == len(points[x])}
    return found


def _problems(results: Sequence[CellResult], experiment: str) -> list[str]:
    return [
        f"{result.cell.label} at {result.cell.x:g}: {result.error}"
        for result in results
        if result.cell.experiment == experiment and result.error
    ]


def _gain(
    name: str,
    paper: float,
    curves: Mapping[str, Curve],
    baseline: str,
    ours: str,
    where: str,
    *,
    also: Sequence[tuple[str, str]] = (),
) -> Claim:
    """Judge the largest gain of a policy over another. `where`: format of the place in the note; `also`: further pairs of a
    baseline and a policy whose gains are noted."""
    found = largest_gain(curves.get(baseline, {}), curves.get(ours, {}))
    if found is None:
        return claim(name, paper=paper, measured=None, note=f"{ours} and {baseline} have no run in common that ended.")
    others = [(than, policy, largest_gain(curves.get(than, {}), curves.get(policy, {}))) for than, policy in also]
    rest = "; ".join(f"{policy} against {than}: {gain[0]:.3g}x" for than, policy, gain in others if gain is not None)
    note = f"{ours} against {baseline}, {where.format(found[1])}." + (f" Besides, {rest}." if rest else "")
    return claim(name, paper=paper, measured=found[0], note=note)


def _rows(curves: Mapping[str, Curve], unit: str, x_title: str) -> tuple[list[str], list[list[str]]]:
    at = sorted({x for curve in curves.values() for x in curve})
    rows = [[label, *(f"{curve[x]:.3g}{unit}" if x in curve else "-" for x in at)] for label, curve in curves.items()]
    return [x_title, *(f"{x:g}" for x in at)], rows


def _picture(title: str, subtitle: str, curves: Mapping[str, Curve], **axes: Any) -> list[Plot]:
    series = [Series(label=label, x=list(curve), y=list(curve.values())) for label, curve in curves.items() if curve]
    return [chart(title, subtitle, series, **axes)] if series else []


def _jct(curves: Mapping[str, Curve], title: str, subtitle: str) -> list[Plot]:
    return _picture(title, subtitle, curves, x_title="jobs submitted per hour", y_title="mean JCT, hours", log_y=True)


def _jct_single(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    curves = _curves(results, "single", "mean_jct_seconds", 3600)
    claims = [
        _gain(
            "Mean JCT, single-GPU jobs",
            3.5,
            curves,
            LAS_BLIND,
            LAS,
            "at {:g} jobs per hour",
            also=((LAS_BLIND, LAS_PACKED),),
        ),
        _sustained("More load sustained, single-GPU jobs", curves),
    ]
    heads, rows = _rows(curves, "h", "jobs per hour")
    return claims, Section(
        key="single",
        title="Single-GPU jobs",
        lead="Mean JCT against load if every job requests one GPU. The policy with type_aware=false gives all jobs equal "
        "time on any free GPU; the type-aware policy gives each job the types it gains most from. With packing two jobs may "
        "share a GPU.",
        plots=_jct(
            curves, "Mean JCT against load, single-GPU jobs", "Continuous arrivals; jobs of a window in the middle of the trace"
        ),
        heads=heads,
        rows=rows,
        problems=_problems(results, "single"),
    )


def _sustained(name: str, curves: Mapping[str, Curve]) -> Claim:
    """Compare the loads at which the cluster is full for two policies. The paper claims that one sustains more, without a
    number."""
    ours, type_agnostic = curves.get(LAS, {}), curves.get(LAS_BLIND, {})
    limit = CROWDED * min(ours.values(), default=0.0)
    high, low = sustained(ours, limit), sustained(type_agnostic, limit)
    if high is None or low is None or low >= max(type_agnostic):
        note = f"{LAS_BLIND} is not {CROWDED:g} times slower than an empty cluster anywhere on this grid, or everywhere."
        return claim(name, paper=1.0, measured=None, note=note, above=True)
    more = " or more" if high >= max(ours) else ""
    note = (
        f"The paper gives no number: more than 1x. A mean JCT of {limit:.3g} h, {CROWDED:g} times that of the lightest load, is "
        f"reached at {high:.3g}{more} jobs per hour by {LAS} and at {low:.3g} by {LAS_BLIND}."
    )
    return claim(name, paper=1.0, measured=high / low, note=note, above=True)


def _jct_multi(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    curves = _curves(results, "multi", "mean_jct_seconds", 3600)
    claims = [
        _gain("Mean JCT, multi-GPU jobs", 2.2, curves, LAS_BLIND, LAS, "at {:g} jobs per hour"),
        _gain("Mean JCT under finish-time fairness, multi-GPU jobs", 3.0, curves, FTF_BLIND, FTF, "at {:g} jobs per hour"),
    ]
    heads, rows = _rows(curves, "h", "jobs per hour")
    return claims, Section(
        key="multi",
        title="Multi-GPU jobs",
        lead="Mean JCT against load with jobs of 1, 2, 4 and 8 GPUs, for equal shares (max-min) and for finish-time fairness.",
        plots=_jct(
            curves, "Mean JCT against load, multi-GPU jobs", "Continuous arrivals; jobs of a window in the middle of the trace"
        ),
        heads=heads,
        rows=rows,
        problems=_problems(results, "multi"),
    )


def _makespan(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    curves = _curves(results, "makespan", "makespan_seconds", 3600)
    heads, rows = _rows(curves, "h", "jobs")
    return [
        _gain("Makespan", 2.5, curves, FIFO_BLIND, MAKESPAN, "{:g} jobs", also=((FIFO, MAKESPAN), (MAKESPAN_BLIND, MAKESPAN)))
    ], Section(
        key="makespan",
        title="Makespan",
        lead="Time until the last job ends, with jobs of 1 to 8 GPUs that are all submitted at the beginning.",
        plots=_picture("Makespan", "Static traces", curves, x_title="jobs", y_title="makespan, hours"),
        heads=heads,
        rows=rows,
        problems=_problems(results, "makespan"),
    )


def _cost(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    dollars = _curves(results, "cost", "cost_dollars")
    late = _curves(results, "cost", "late_share", 0.01)
    where = "at {:g} jobs per hour. GPUs stay idle if a job on them would be expensive; filling them (min-cost) saves little"
    claims = [
        _gain("Cost", 1.4, dollars, THROUGHPUT, COST, where),
        _gain("Cost, deadlines kept", 1.2, dollars, THROUGHPUT, COST_SLO, where),
    ]
    both = {label: [(late[label][x], dollars[label][x]) for x in dollars[label] if x in late[label]] for label in dollars}
    series = [Series(label=label, x=[x for x, _ in points], y=[y for _, y in points]) for label, points in both.items() if points]
    rows = [
        [label, f"{x:g}", f"${dollars[label][x]:,.0f}", f"{late[label][x]:.1f}%"]
        for label in dollars
        for x in dollars[label]
        if x in late[label]
    ]
    axes: dict[str, Any] = {"x_title": "jobs that missed their deadline, %", "y_title": "dollars for the whole trace"}
    subtitle = "One point per load; to the left and down is better"
    return claims, Section(
        key="cost",
        title="Cost and deadlines",
        lead="Cost of the GPU-hours and number of late jobs, at the paper's prices. Deadlines are 1.2, 2 or 10 times the run "
        "time on V100s.",
        plots=[chart("Cost against missed deadlines", subtitle, series, **axes)] if series else [],
        heads=["policy", "jobs per hour", "cost", "late"],
        rows=rows,
        problems=_problems(results, "cost"),
    )


def _shares(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    found = next((result for result in results if result.cell.experiment == "tenants" and result.figures), None)
    pictures: list[Plot] = []
    if found is not None:
        hours = found.figures["hours"]
        series = [
            Series(label=name, x=hours, y=[float("nan") if value is None else 100 * value for value in row])
            for name, row in found.figures["tenants"].items()
        ]
        every = duration(TENANT_JOB_SECONDS)
        subtitle = (
            f"{found.cell.study.policy} on {found.cell.study.cluster}; a job every {every} on average, for each tenant in turn"
        )
        pictures = [chart("Work done for each tenant", subtitle, series, x_title="hours", y_title="share of all work, %")]
    return [], Section(
        key="tenants",
        title="Shares of tenants",
        lead="Three tenants of weight 1, 2 and 3 share a small cluster. While all have jobs, they should get a sixth, a third "
        "and a half of the work. The share of a tenant without jobs goes to the others. The paper has a picture and no number.",
        plots=pictures,
        problems=_problems(results, "tenants"),
    )


def _solving(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    curves = _curves(results, "solve", "solve_seconds")
    rows = [
        [label, *(duration(curve[x]) if x in curve else "-" for x in sorted({x for each in curves.values() for x in each}))]
        for label, curve in curves.items()
    ]
    heads = ["jobs", *(f"{x:g}" for x in sorted({x for each in curves.values() for x in each}))]
    return [], Section(
        key="solve",
        title="Time to solve",
        lead="Time of one policy call, by the number of jobs; there are as many GPUs as jobs.",
        plots=_picture("Time to solve", "One policy call", curves, x_title="jobs", y_title="seconds", log_x=True, log_y=True),
        heads=heads,
        rows=rows,
        problems=_problems(results, "solve"),
    )


EXPERIMENTS: Sequence[Experiment] = (_jct_single, _jct_multi, _makespan, _cost, _shares, _solving)
