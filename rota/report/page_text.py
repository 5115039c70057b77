"""Texts of a page: the finding, what was run, notes on the trace, and what failures cost."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from rota.errors import ClusterError
from rota.model.cluster import Cluster
from rota.report.comparison import Comparison, PolicyLine
from rota.report.html import text, word
from rota.report.result import Result, duration
from rota.report.timeline import outages

SHOWN_FIELDS = (
    *("trace", "policy", "cluster", "placer", "preset", "profile", "variability", "tensors", "decide", "round_seconds"),
    *("spread_penalty", "wait_for_locality", "learn_variability", "cordon_slower_than", "seed", "window", "drop_oversized"),
)
"""Fields of a study that have a line of their own. All others are listed as they were set."""

MAX_GROUPS = 8
"""Maximum number of groups of equal nodes that are written out; the rest is counted."""


_FOLDERS = re.compile(r"(?<![^\s=:,(\"'])~?/(?:[^\s:=,+|/]+/)*(?=[^\s:=,+|/])")


def without_folders(shown: str) -> str:
    """Remove the folders of files. A page may be shared, and its readers need not know where its files are."""
    return _FOLDERS.sub("", shown)


def finding(comparison: Comparison) -> str:
    """Return the result as a sentence."""
    best = comparison.best
    mean = best.summary["mean_jct_seconds"] if best is not None else None
    if best is None or mean is None:
        return "No job finished."
    bound = best.summary["mean_jct_bound_seconds"]
    bound_words = f"; no schedule could be below {_words(bound)}" if bound else ""
    if len(comparison.lines) == 1:
        return f"{best.label} has a mean JCT of {_words(mean)}{bound_words}."
    others = [line for line in comparison.lines if line is not best and line.summary["mean_jct_seconds"]]
    if not others or not mean:
        return f"{best.label} has the lowest mean JCT: {_words(mean)}{bound_words}."
    baseline = comparison.lines[0]
    other = baseline if baseline in others else min(others, key=lambda line: line.summary["mean_jct_seconds"] or 0.0)
    times = (other.summary["mean_jct_seconds"] or 0.0) / mean
    if comparison.seeds > 1 and best.paired is not None and other is comparison.lines[0]:
        times = 1 / best.paired.ratio  # compared seed by seed, like its interval
    better = f"{times:.3g}x better than {other.label}" if times >= 1.005 else f"about the same as {other.label}"
    return f"{best.label} has the lowest mean JCT: {_words(mean)}, {better}{_certainty(comparison, best, other)}{bound_words}."


def _certainty(comparison: Comparison, best: PolicyLine, other: PolicyLine) -> str:
    """Return how certain it is, from several seeds, that the best policy is better than the first."""
    if comparison.seeds < 2:
        return ""
    if other is not comparison.lines[0] or best.paired is None or best.paired.interval is None:
        return f" on average over {comparison.seeds} seeds"
    low, high = best.paired.interval
    if high >= 1:
        return f" on average over {comparison.seeds} seeds, which may be luck"
    return f" (95% interval over {comparison.seeds} seeds: {1 / high:.3g}x to {1 / low:.3g}x)"


def _words(seconds: float) -> str:
    """Return `54.9 min` where a table has 54.9m."""
    short = duration(seconds)
    return f"{short[:-1]} {({'m': 'min', 'd': 'days'}).get(short[-1], short[-1])}"


def facts(comparison: Comparison, runs: Sequence[Result]) -> str:
    """Return what was run, with load and bounds, as HTML."""
    summary, params = comparison.lines[0].summary, runs[0].params
    rows: list[tuple[str, str, str]] = [("Trace", without_folders(str(params["trace"])), "")]
    jobs = f"{summary['jobs']:,.0f}"
    if summary["jobs"] != len(runs[0].arrivals):
        jobs += f" of {len(runs[0].arrivals):,}"
    if any(line.summary["finished"] != line.summary["jobs"] for line in comparison.lines):
        jobs += ", not all finished"
    rows.append(("Jobs", jobs, ""))
    if params["skipped"]:
        why = "; ".join(f"{count:,} {reason}" for reason, count in params.get("skipped_why", {}).items())
        rows.append(("Skipped", f"{params['skipped']:,}: {why}" if why else f"{params['skipped']:,}", ""))
    for name, describe in (("Cluster", _cluster), ("Links", _links), ("Prices", _prices)):
        rows.append((name, _either(describe(run) for run in runs), ""))
    for name, field in (
        ("Profile", "profile"),
        ("Variability", "variability"),
        ("Tensors", "tensors"),
        ("Placer", "placer"),
        ("Preset", "preset"),
        ("Decides at", "decide"),
    ):
        rows.append((name, _either(str(run.params.get(field) or "") for run in runs), ""))
    rows.append(("Spread penalty", _either(str(run.params.get("physics", {}).get("spread_penalty", "")) for run in runs), ""))
    for name, field, shown in (
        ("Places", "wait_for_locality", "jobs wait until their GPUs are close together"),
        ("Slow GPUs", "learn_variability", "unknown to the scheduler, which learns them from step times"),
        ("Out of service", "cordon_slower_than", "GPUs slower than {}"),
    ):
        rows.append((name, shown.format(params.get(field)) if params.get(field) else "", ""))
    if params.get("round_seconds"):
        rows.append(("Round", duration(params["round_seconds"]), ""))
    for name in dict.fromkeys(name for run in runs for name in run.study.said() if name not in SHOWN_FIELDS):
        rows.append((name.replace("_", " ").capitalize(), _either(_field(getattr(run.study, name)) for run in runs), ""))
    seeds = [str(result.params["seed"]) for result in comparison.lines[0].results]
    rows.append(("Seed" if len(seeds) == 1 else "Seeds", ", ".join(seeds[:8]) + (", …" if len(seeds) > 8 else ""), ""))
    rows.append(("Node outages", _outages(comparison), ""))
    load = summary["offered_load"]
    rows.append(("Offered load", "unknown" if load is None else f"{load:.2f}", "load"))
    limits = f"mean JCT {duration(summary['mean_jct_bound_seconds'])}, makespan {duration(summary['makespan_bound_seconds'])}"
    rows.append(("No schedule beats", limits, "bound"))
    return "".join(
        f"<div><dt>{word(name, definition)}</dt><dd><bdi>{text(without_folders(value))}</bdi></dd></div>"
        for name, value, definition in rows
        if value
    )


def _field(value: Any) -> str:
    """Return the value of a field of a study, in a few characters."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int | float | str):
        return str(value)
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return ", ".join(f"{column}={wanted}" for column, wanted in value)
    if isinstance(value, tuple):
        return f"{len(value):,} values"
    return type(value).__name__ if value is not None else ""


def _either(values: Iterable[str]) -> str:
    """Join the distinct values that are not empty."""
    return " or ".join(dict.fromkeys(value for value in values if value))


def _cluster(run: Result) -> str:
    """Return the cluster's name, and its nodes if the name does not describe them, as with a file."""
    named, nodes = str(run.params["cluster"]), run.cluster.nodes
    kinds = [(len(list(group)), gpus, kind) for (gpus, kind), group in groupby(nodes, lambda node: (node.gpus, node.accelerator))]
    shape = " + ".join(f"{count}x({gpus}x{kind})" for count, gpus, kind in kinds[:MAX_GROUPS])
    if len(kinds) > MAX_GROUPS:
        shape += f" + {sum(count for count, _, _ in kinds[MAX_GROUPS:]):,} more nodes, {run.cluster.gpus:,} GPUs in all"
    try:
        parsed = [(node.gpus, node.accelerator) for node in Cluster.parse(named).nodes]
    except ClusterError:
        parsed = []
    if parsed == [(node.gpus, node.accelerator) for node in nodes]:
        return named if any(node.rack for node in nodes) else min(named, shape, key=len)
    return f"{named}: {shape}"


def _links(run: Result) -> str:
    """Return the bandwidths that the cluster's file gives."""
    between = run.cluster.inter_node_gb_s
    speeds = [f"{speed:,g} GB/s inside {kind} nodes" for kind, speed in run.cluster.intra_node_gb_s.items()]
    return ", ".join(speeds + ([f"{between:,g} GB/s between nodes"] if between is not None else []))


def _prices(run: Result) -> str:
    """Return the prices that the cluster's file gives."""
    prices = [f"{kind} ${price:,g}" for kind, price in run.cluster.dollars_per_hour.items()]
    return f"{', '.join(prices)} per GPU and hour" if prices else ""


def notes(runs: Sequence[Result]) -> str:
    """Return the notes of the runs as an HTML list; empty if there are none."""
    distinct = dict.fromkeys(str(note) for run in runs for note in run.params.get("notes", ()))
    lines = "".join(f"<li><bdi>{text(without_folders(note))}</bdi></li>" for note in distinct)
    return f'<ul class="notes" aria-label="Notes">{lines}</ul>' if distinct else ""


def _outages(comparison: Comparison, unit: str = "") -> str:
    """Return `4`, or `4 to 8 per run`; empty if no node failed."""
    counts = [len(outages(run)) for run in comparison]
    if not max(counts):
        return ""
    count = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    noun = f" {unit}{'s' if max(counts) > 1 else ''}" if unit else ""
    return count + noun + (" per run" if len(counts) > 1 else "")


def failures(comparison: Comparison) -> str:
    """Return what failures of nodes cost, as HTML; empty if no node failed."""
    times = _outages(comparison, "time")
    if not times:
        return ""
    lost = [(line.label, (line.summary["lost_gpu_seconds"] or 0.0) / 3600) for line in comparison.lines]
    lost_words = [(label, f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}") for label, hours in lost]
    hours = ", ".join(" ".join(each) for each in lost_words) if len(lost) > 1 else lost_words[0][1]
    mean = ", mean over the seeds" if comparison.seeds > 1 else ""
    return (
        f'<p class="note" id="failures"><bdi>{text(f"Nodes went down: {times}. GPU-hours of work lost to that{mean}: {hours}.")}'
        "</bdi></p>"
    )


def footing(comparison: Comparison) -> str:
    """Return the line below the table, as HTML."""
    marked = " Marked: the best of a column." if len(comparison.lines) > 1 else ""
    return f"<bdi>{text(without_folders(re.sub(' {2,}', ' · ', comparison.footing())))}</bdi>.{marked}"


def about(comparison: Comparison, runs: Sequence[Result], choice: bool) -> str:
    """Return which seed and jobs the charts show, if these are not all."""
    seeds = f" Seed {runs[0].params['seed']}, one of {comparison.seeds}." if choice else ""
    if comparison.seeds > 1 and not choice:
        seeds = f" The first of {comparison.seeds} seeds."
    counted = runs[0].summary.jobs
    window = (
        f" All {len(runs[0].arrivals):,} jobs, while the figures count {counted:,}." if counted != len(runs[0].arrivals) else ""
    )
    return seeds + window
