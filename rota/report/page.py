"""One page about a run or a comparison: a single file of HTML that loads nothing, the same bytes for the same runs.

Findings, settings, table and definitions are plain HTML. Charts are drawn by the scripts of `web/` from data that travels in the
page: JSON, with long arrays as deflated bytes in base64. Names come from traces, that is from strangers; they are escaped here
and only ever set as text there. The page's security policy allows its own two inline blocks, by their hashes, and nothing else.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from rota import __version__
from rota.errors import ClusterError, OptionError
from rota.model.cluster import Cluster
from rota.model.units import Floats, Ints
from rota.report.comparison import Comparison, Line
from rota.report.html import asset, json_block, security_policy
from rota.report.html import text as _text
from rota.report.plots import DASHES, PALETTE
from rota.report.result import Result, duration
from rota.report.timeline import Ranges, busy, edges, outages, queue, ranges

MOST_RECTANGLES = 150_000
"""Rectangles of one map at most; beyond, the map is coarse."""

BINS = 4096
"""Stretches into which the time of all runs is cut, for what is drawn over time."""

MOST_SEEDS, MOST_JOBS = 5, 20_000
"""Up to so many seeds, with so many jobs of all runs together, the page has the runs of every seed; beyond, of the first."""

MOST_GROUPS = 8
"""Groups of equal nodes that are written out; beyond, the rest is counted."""

SCRIPTS = ("base", "data", "tips", "chart", "times", "load", "colour", "down", "map", "gain", "tables", "page")


class Column(NamedTuple):
    """A column of the table of results."""

    figure: str
    """The field of Summary it shows; empty: none."""
    definition: str
    """Where page.html defines it."""
    least_is_best: bool = True


COLUMNS: Mapping[str, Column] = {
    "POLICY": Column("", "policy", False),
    "MEAN JCT": Column("mean_jct_seconds", "mean-jct"),
    "xBOUND": Column("gap_to_jct_bound", "times-bound"),
    "MEDIAN": Column("median_jct_seconds", "median"),
    "P99": Column("p99_jct_seconds", "p99"),
    "QUEUE": Column("mean_queueing_seconds", "queueing"),
    "SPAN": Column("makespan_seconds", "makespan"),
    "BUSY": Column("utilization", "busy", False),
    "RHO": Column("finish_time_fairness_p95", "rho"),
    "SUSP": Column("suspensions", "suspensions", False),
}

PAIRED = Column("", "paired")
"""The column that several seeds add; its heading names the first policy."""


def page(comparison: Comparison) -> str:
    """The whole page."""
    drawn = _drawn(comparison)
    runs = drawn[0]
    style, script = asset("page.css"), "'use strict';\n" + "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    many = len(comparison.lines) > 1
    title = f"{len(comparison.lines)} policies" if many else comparison.lines[0].label
    parts = {
        "policy": security_policy(style, script),
        "kind": "comparison" if many else "simulation",
        "title": _text(f"{title} on {runs[0].params['trace']}"),
        "finding": _text(_finding(comparison)),
        "facts": _facts(comparison, runs),
        "notes": _notes(runs),
        "table": _table(comparison),
        "footing": _footing(comparison),
        "failures": _failures(comparison),
        "version": _text(__version__),
        "data": json_block(_data(comparison, drawn)),
        "style": style,
        "script": script,
    }
    # In one pass, so that braces in a name stay what they are.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], asset("page.html"))


def _drawn(comparison: Comparison) -> list[list[Result]]:
    """The runs that are drawn: for each seed one of every policy."""
    if not comparison.lines:
        raise OptionError("there is no run to show.", field="comparison", value="empty", hint="compare at least one policy")
    few = comparison.seeds <= MOST_SEEDS and sum(len(run.arrivals) for run in comparison) <= MOST_JOBS
    drawn = [[line.results[seed] for line in comparison.lines] for seed in range(comparison.seeds if few else 1)]
    for runs in drawn:
        _check_alike(runs)
    return drawn


def _check_alike(runs: Sequence[Result]) -> None:
    first = runs[0].record
    for run in runs[1:]:
        record = run.record
        if not (np.array_equal(record.submitted_s, first.submitted_s) and np.array_equal(record.gpus, first.gpus)):
            raise OptionError(
                "the runs are not of the same jobs.", field="comparison", value=run.params["policy"], hint="one page per trace"
            )


# Words -----------------------------------------------------------------------------------------------------------


def _finding(comparison: Comparison) -> str:
    """The result in a sentence."""
    best = comparison.best
    mean = best.summary["mean_jct_seconds"] if best is not None else None
    if best is None or mean is None:
        return "No job finished."
    bound = best.summary["mean_jct_bound_seconds"]
    floor = f"; no schedule could be below {_words(bound)}" if bound else ""
    if len(comparison.lines) == 1:
        return f"{best.label} has a mean JCT of {_words(mean)}{floor}."
    others = [line for line in comparison.lines if line is not best and line.summary["mean_jct_seconds"]]
    if not others or not mean:
        return f"{best.label} has the lowest mean JCT: {_words(mean)}{floor}."
    baseline = comparison.lines[0]
    other = baseline if baseline in others else min(others, key=lambda line: line.summary["mean_jct_seconds"] or 0.0)
    times = (other.summary["mean_jct_seconds"] or 0.0) / mean
    if comparison.seeds > 1 and best.paired is not None and other is comparison.lines[0]:
        times = 1 / best.paired.ratio  # seed by seed, as its interval is
    better = f"{times:.3g}x better than {other.label}" if times >= 1.005 else f"about the same as {other.label}"
    return f"{best.label} has the lowest mean JCT: {_words(mean)}, {better}{_certainty(comparison, best, other)}{floor}."


def _certainty(comparison: Comparison, best: Line, other: Line) -> str:
    """What several seeds say about the best being better than the first policy."""
    if comparison.seeds < 2:
        return ""
    if other is not comparison.lines[0] or best.paired is None or best.paired.interval is None:
        return f" on average over {comparison.seeds} seeds"
    low, high = best.paired.interval
    if high >= 1:
        return f" on average over {comparison.seeds} seeds, which may be luck"
    return f" (95% interval over {comparison.seeds} seeds: {1 / high:.3g}x to {1 / low:.3g}x)"


def _words(seconds: float) -> str:
    """`54.9 min` for what a table calls 54.9m."""
    short = duration(seconds)
    return f"{short[:-1]} {({'m': 'min', 'd': 'days'}).get(short[-1], short[-1])}"


def _facts(comparison: Comparison, runs: Sequence[Result]) -> str:
    """What was run, with load and bounds."""
    summary, params = comparison.lines[0].summary, runs[0].params
    facts: list[tuple[str, str, str]] = [("Trace", str(params["trace"]), "")]
    jobs = f"{summary['jobs']:,.0f}"
    if summary["jobs"] != len(runs[0].arrivals):
        jobs += f" of {len(runs[0].arrivals):,}"
    if any(line.summary["finished"] != line.summary["jobs"] for line in comparison.lines):
        jobs += ", not all finished"
    facts.append(("Jobs", jobs, ""))
    if params["skipped"]:
        why = "; ".join(f"{count:,} {reason}" for reason, count in params.get("skipped_why", {}).items())
        facts.append(("Skipped", f"{params['skipped']:,}: {why}" if why else f"{params['skipped']:,}", ""))
    for name, tell in (("Cluster", _floor), ("Links", _links), ("Prices", _prices)):
        facts.append((name, _either(tell(run) for run in runs), ""))
    for name, field in (("Profile", "profile"), ("Placer", "placer"), ("Preset", "preset"), ("Decides at", "decide")):
        facts.append((name, _either(str(run.params.get(field) or "") for run in runs), ""))
    if params.get("round_seconds"):
        facts.append(("Round", duration(params["round_seconds"]), ""))
    seeds = [str(result.params["seed"]) for result in comparison.lines[0].results]
    facts.append(("Seed" if len(seeds) == 1 else "Seeds", ", ".join(seeds[:8]) + (", …" if len(seeds) > 8 else ""), ""))
    facts.append(("Node outages", _outages(comparison), ""))
    load = summary["offered_load"]
    facts.append(("Offered load", "unknown" if load is None else f"{load:.2f}", "load"))
    limits = f"mean JCT {duration(summary['mean_jct_bound_seconds'])}, makespan {duration(summary['makespan_bound_seconds'])}"
    facts.append(("No schedule beats", limits, "bound"))
    return "".join(
        f"<div><dt>{_word(name, definition)}</dt><dd><bdi>{_text(value)}</bdi></dd></div>"
        for name, value, definition in facts
        if value
    )


def _either(values: Iterable[str]) -> str:
    """All that is said, once each."""
    return " or ".join(dict.fromkeys(value for value in values if value))


def _floor(run: Result) -> str:
    """The cluster as it was named; where that does not say what it is, as for a file, its nodes too."""
    named, nodes = str(run.params["cluster"]), run.cluster.nodes
    kinds = [(len(list(group)), gpus, kind) for (gpus, kind), group in groupby(nodes, lambda node: (node.gpus, node.accelerator))]
    shape = " + ".join(f"{count}x({gpus}x{kind})" for count, gpus, kind in kinds[:MOST_GROUPS])
    if len(kinds) > MOST_GROUPS:
        shape += f" + {sum(count for count, _, _ in kinds[MOST_GROUPS:]):,} more nodes, {run.cluster.gpus:,} GPUs in all"
    try:
        told = [(node.gpus, node.accelerator) for node in Cluster.parse(named).nodes]
    except ClusterError:
        told = []
    if told == [(node.gpus, node.accelerator) for node in nodes]:
        return min(named, shape, key=len)
    return f"{named}: {shape}"


def _links(run: Result) -> str:
    """Bandwidths that the cluster's file gives."""
    between = run.cluster.between_gb_s
    told = [f"{speed:,g} GB/s inside {kind} nodes" for kind, speed in run.cluster.inside_gb_s.items()]
    return ", ".join(told + ([f"{between:,g} GB/s between nodes"] if between is not None else []))


def _prices(run: Result) -> str:
    """Prices that the cluster's file gives."""
    told = [f"{kind} ${price:,g}" for kind, price in run.cluster.dollars_per_hour.items()]
    return f"{', '.join(told)} per GPU and hour" if told else ""


def _notes(runs: Sequence[Result]) -> str:
    """What was said about the trace when it was read."""
    notes = dict.fromkeys(str(note) for run in runs for note in run.params.get("notes", ()))
    lines = "".join(f"<li><bdi>{_text(note)}</bdi></li>" for note in notes)
    return f'<ul class="notes" aria-label="Notes">{lines}</ul>' if notes else ""


def _outages(comparison: Comparison, unit: str = "") -> str:
    """`4`, or `4 to 8 per run`; nothing if no node failed."""
    counts = [len(outages(run)) for run in comparison]
    if not max(counts):
        return ""
    told = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    word = f" {unit}{'s' if max(counts) > 1 else ''}" if unit else ""
    return told + word + (" per run" if len(counts) > 1 else "")


def _failures(comparison: Comparison) -> str:
    """What failures of nodes cost, where there were any."""
    told = _outages(comparison, "time")
    if not told:
        return ""
    lost = [(line.label, (line.summary["lost_gpu_seconds"] or 0.0) / 3600) for line in comparison.lines]
    told_lost = [(label, f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}") for label, hours in lost]
    hours = ", ".join(" ".join(each) for each in told_lost) if len(lost) > 1 else told_lost[0][1]
    mean = ", mean over the seeds" if comparison.seeds > 1 else ""
    return (
        f'<p class="note" id="failures"><bdi>{_text(f"Nodes went down: {told}. GPU-hours of work lost to that{mean}: {hours}.")}'
        "</bdi></p>"
    )


def _footing(comparison: Comparison) -> str:
    marked = " Marked: the best of a column." if len(comparison.lines) > 1 else ""
    return f"<bdi>{_text(re.sub(' {2,}', ' · ', comparison.footing()))}</bdi>.{marked}"


def _about(comparison: Comparison, runs: Sequence[Result], choice: bool) -> str:
    """What the charts show, where that is not all there is."""
    seeds = f" Seed {runs[0].params['seed']}, one of {comparison.seeds}." if choice else ""
    if comparison.seeds > 1 and not choice:
        seeds = f" The first of {comparison.seeds} seeds."
    counted = runs[0].summary.jobs
    window = (
        f" All {len(runs[0].arrivals):,} jobs, while the figures count {counted:,}." if counted != len(runs[0].arrivals) else ""
    )
    return seeds + window


# The table of results --------------------------------------------------------------------------------------------


def _table(comparison: Comparison) -> str:
    heads, rows = comparison.cells()
    columns = [COLUMNS.get(head) or (PAIRED if i >= len(COLUMNS) else None) for i, head in enumerate(heads)]
    values = [[_value(line, column) for column in columns] for line in comparison.lines]
    best = [_best([row[i] for row in values], [row[i] for row in rows], column) for i, column in enumerate(columns)]
    body = ""
    for line, row, numbers in zip(comparison.lines, rows, values, strict=True):
        cells = "".join(_cell(row[i], numbers[i], row[i] == best[i]) for i in range(1, len(row)))
        body += f'<tr><th scope="row" data-value="{_text(line.label)}"><bdi>{_text(row[0])}</bdi></th>{cells}</tr>\n'
    head = "".join(_head(text, column) for text, column in zip(heads, columns, strict=True))
    return f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n<tfoot><tr>{_bounds(comparison, heads)}</tr></tfoot>"


def _head(text: str, column: Column | None) -> str:
    label = _text(text)
    link = f'<a class="define" href="#define-{column.definition}" aria-label="What is {label}?">?</a>' if column else ""
    return f'<th scope="col"><span><bdi>{label}</bdi></span>{link}</th>'


def _value(line: Line, column: Column | None) -> float | None:
    if column is PAIRED:
        return line.paired.ratio if line.paired is not None else 1.0
    return line.summary[column.figure] if column is not None and column.figure else None


def _best(values: Sequence[float | None], texts: Sequence[str], column: Column | None) -> str | None:
    """What the best cell of a column reads, if not all read the same. What reads like the best is marked like it."""
    known = [(value, text) for value, text in zip(values, texts, strict=True) if value is not None]
    if column is None or not column.least_is_best or len({text for _, text in known}) < 2:
        return None
    return min(known)[1]


def _cell(text: str, value: float | None, best: bool) -> str:
    sorts = "" if value is None else f' data-value="{value!r}"'
    return f'<td class="best"{sorts}><strong>{_text(text)}</strong></td>' if best else f"<td{sorts}>{_text(text)}</td>"


def _bounds(comparison: Comparison, heads: Sequence[str]) -> str:
    """What no schedule can beat, under the columns it belongs to."""
    fields = {"MEAN JCT": "mean_jct_bound_seconds", "SPAN": "makespan_bound_seconds"}
    cells = []
    for head in heads[1:]:
        known = [line.summary[fields[head]] for line in comparison.lines] if head in fields else []
        told = list(dict.fromkeys(duration(value) for value in known))
        cells.append(f"<td>{_text(' or '.join(told))}</td>")
    return f'<th scope="row">{_word("no schedule can beat", "bound")}</th>' + "".join(cells)


# Data ------------------------------------------------------------------------------------------------------------


def _data(comparison: Comparison, drawn: Sequence[Sequence[Result]]) -> dict[str, Any]:
    """All that the charts need. What seeds have in common is there once: a trace from a file, the cluster."""
    clusters: list[Cluster] = []
    for run in (run for runs in drawn for run in runs):
        if run.cluster not in clusters:
            clusters.append(run.cluster)
    jobs: list[dict[str, Any]] = []
    seeds = []
    for runs in drawn:
        bins = edges(runs, BINS)
        own = _jobs(runs[0], float(bins[0]))
        if own not in jobs:
            jobs.append(own)
        about = _about(comparison, runs, len(drawn) > 1)
        seeds.append({"about": about, "jobs": jobs.index(own), **_seed(comparison, runs, bins, clusters)})
    whole = {"palette": PALETTE, "dashes": DASHES, "bins": BINS}
    return {**whole, "clusters": [_cluster(cluster) for cluster in clusters], "jobs": jobs, "seeds": seeds}


def _seed(comparison: Comparison, runs: Sequence[Result], bins: Floats, clusters: Sequence[Cluster]) -> dict[str, Any]:
    """The runs of one seed. Times count from the first submission."""
    return {
        "seed": str(runs[0].params["seed"]),
        "load": runs[0].summary.offered_load,
        "bound": runs[0].summary.mean_jct_bound_seconds,
        "end": float(bins[-1] - bins[0]),
        "runs": [
            {"label": line.label, "cluster": clusters.index(run.cluster), **_run(run, bins)}
            for line, run in zip(comparison.lines, runs, strict=True)
        ],
    }


def _cluster(cluster: Cluster) -> dict[str, Any]:
    nodes = {
        "names": _packed_text([node.name for node in cluster.nodes]),
        "pool": _packed_ints(cluster.node_pool),
        "first": _packed_ints(cluster.node_first),
    }
    return {"gpus": cluster.gpus, "pools": cluster.pools, "nodes": nodes}


def _jobs(run: Result, start_s: float) -> dict[str, Any]:
    specs = [arrival.spec for arrival in run.arrivals]
    return {
        "name": _packed_text([spec.name for spec in specs]),
        "gpus": _packed_ints(run.record.gpus),
        "submitted": _packed_times(run.record.submitted_s - start_s),
        "tenant": _groups([spec.tenant for spec in specs]),
        "user": _groups([spec.user for spec in specs]),
        "profile": _groups([spec.profile for spec in specs]),
    }


def _run(run: Result, bins: Floats) -> dict[str, Any]:
    record, summary, start_s, down = run.record, run.summary, float(bins[0]), outages(run)
    return {
        "mean_jct": summary.mean_jct_seconds,
        "bound": summary.mean_jct_bound_seconds,
        "mean_wait": summary.mean_queueing_seconds,
        "busy_share": summary.utilization,
        "first": _packed_times(record.first_run_s - start_s),
        "finished": _packed_times(record.finished_s - start_s),
        "held": _packed_times(record.held_seconds),
        "suspensions": _packed_ints(record.suspensions),
        "busy": _packed(busy(run, bins).reshape(-1), "f32", "<f4"),
        "queue": _packed(queue(run, bins), "f32", "<f4"),
        "map": _map(ranges(run, MOST_RECTANGLES), start_s),
        "outages": {
            "node": _packed_ints(np.array([node for node, _, _ in down], dtype=np.int64)),
            "start": _packed_times(np.array([from_s for _, from_s, _ in down]) - start_s),
            "end": _packed_times(np.array([to_s for _, _, to_s in down]) - start_s),
        },
    }


def _map(found: Ranges, start_s: float) -> dict[str, Any]:
    return {
        "gpus_per_row": found.gpus_per_row,
        "seconds_per_cell": found.seconds_per_cell,
        "first_row": _packed_ints(found.first_row),
        "rows": _packed_ints(found.rows),
        "start": _packed_times(found.start_s - start_s),
        "end": _packed_times(found.end_s - start_s),
        "job": _packed_ints(found.job),
        "half": _packed_ints(found.half),
    }


def _groups(values: Sequence[str]) -> dict[str, Any]:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(values))}
    return {
        "names": _packed_text(list(numbers)),
        "code": _packed_ints(np.array([numbers[value] for value in values], dtype=np.int64)),
    }


def _packed_text(values: Sequence[str]) -> dict[str, str]:
    return {"type": "text", "data": _deflated(json.dumps(values, separators=(",", ":")).encode("ascii"))}


def _packed_times(seconds: Floats) -> dict[str, str]:
    """To the millisecond, which nobody can see and which packs well."""
    return _packed(np.round(seconds, 3), "f64", "<f8")


def _packed_ints(values: Ints) -> dict[str, str]:
    """As few bytes as the largest needs."""
    largest = int(values.max(initial=0))
    size = 1 if largest < 1 << 8 else 2 if largest < 1 << 16 else 4
    return _packed(values, f"u{8 * size}", f"<u{size}")


def _packed(values: Floats | Ints, kind: str, little_endian: str) -> dict[str, str]:
    """All first bytes, then all second bytes and so on: alike stands beside alike, which packs better."""
    array = np.ascontiguousarray(values, dtype=little_endian)
    return {"type": kind, "data": _deflated(array.view(np.uint8).reshape(-1, array.itemsize).T.tobytes())}


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode("ascii")


def _word(text: str, definition: str) -> str:
    return f'<a class="word" href="#define-{definition}">{_text(text)}</a>' if definition else _text(text)
