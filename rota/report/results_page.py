"""HTML page about a run or a comparison: a single file that loads nothing, with the same bytes for the same runs.

Findings, settings, table and definitions are plain HTML. The scripts of `web/` draw charts from data in the page: JSON, with long
arrays as deflated bytes in base64. Names come from traces of other people, so they are escaped here and only ever set as text in
scripts. The page's security policy allows its own two inline blocks, by their hashes, and nothing else.
"""

import re
from collections.abc import Sequence

import numpy as np

from rota import __version__
from rota.errors import OptionError
from rota.report import page_text
from rota.report.comparison import Comparison
from rota.report.html import asset, json_block, security_policy, text
from rota.report.page_data import data
from rota.report.result import Result
from rota.report.results_table import table
from rota.report.trials_table import trials_section

MAX_SEEDS, MAX_JOBS = 5, 20_000
"""Maximum number of seeds, and of jobs in all runs together, for which the page shows every seed; otherwise it shows the
first."""

SCRIPTS = (
    "base",
    "data",
    "tips",
    "chart",
    "times",
    "load",
    "colour",
    "down",
    "map",
    "plan",
    "floor",
    "placement",
    "gain",
    "tables",
    "groups",
    "downloads",
    "page",
)


def page(comparison: Comparison) -> str:
    """Return the whole page as HTML."""
    comparison = _without_folders(comparison)
    drawn = _drawn(comparison)
    runs = drawn[0]
    style, script = asset("page.css"), "'use strict';\n" + "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    many = len(comparison.lines) > 1
    title = f"{len(comparison.lines)} policies" if many else comparison.lines[0].label
    placed = any(len(run.cluster.nodes) > 1 or run.variability is not None for each in drawn for run in each)
    grouped = any(arrival.spec.tenant or arrival.spec.user for each in drawn for arrival in each[0].arrivals)
    tried = trials_section(comparison, runs)
    parts = {
        "policy": security_policy(style, script),
        "kind": "comparison" if many else "simulation",
        "title": text(page_text.without_folders(f"{title} on {runs[0].params['trace']}")),
        "finding": text(page_text.finding(comparison)),
        "facts": page_text.facts(comparison, runs),
        "notes": page_text.notes(runs),
        "table": table(comparison),
        "footing": page_text.footing(comparison),
        "failures": page_text.failures(comparison),
        "groups_link": '<a href="#groups">Tenants and users</a>' if grouped else "",
        "groups": asset("groups.html") if grouped else "",
        "trials_link": '<a href="#trials">Trials</a>' if tried else "",
        "trials": tried,
        "placement_link": '<a href="#placement">Placement</a>' if placed else "",
        "placement": asset("placement.html") if placed else "",
        "version": text(__version__),
        "data": json_block(data(comparison, drawn)),
        "style": style,
        "script": script,
    }
    # In one pass, so that braces in a name are kept.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], asset("page.html"))


def _without_folders(comparison: Comparison) -> Comparison:
    """Remove folders from files in the labels of policies, unless labels would become equal: a page may be shared."""
    labels = [page_text.without_folders(line.label) for line in comparison.lines]
    if len(set(labels)) < len(labels):
        return comparison
    return Comparison({label: line.results for label, line in zip(labels, comparison.lines, strict=True)})


def _drawn(comparison: Comparison) -> list[list[Result]]:
    """Return the runs that are drawn: for each seed one of every policy."""
    if not comparison.lines:
        raise OptionError("there is no run to show.", field="comparison", value="empty", hint="compare at least one policy")
    few = comparison.seeds <= MAX_SEEDS and sum(len(run.arrivals) for run in comparison) <= MAX_JOBS
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
