"""Section of a page about trials, if tactics were in force."""

import re
from collections.abc import Sequence

from rota.report.comparison import Comparison
from rota.report.html import asset, text
from rota.report.result import Result
from rota.report.trials_summary import PairSummary

MAX_PAIRS = 20
"""Maximum number of pairs listed for each policy."""

_COUNTS = ("POLICY", "TRIALS", "KEPT", "UNDONE", "BROKEN OFF", "OPEN")
_PAIRS = ("POLICY", "PAIR", "ON", "TIMES", "FIRST", "SECOND", "GAIN", "SPREAD")


def trials_section(comparison: Comparison, runs: Sequence[Result]) -> str:
    """Return the section as HTML; empty if none of these runs, one of each policy, had tactics."""
    tried = [(line.label, run.trials) for line, run in zip(comparison.lines, runs, strict=True) if run.trials is not None]
    if not tried:
        return ""
    counts = [[label, *(f"{n:,}" for n in (t.trials, t.kept, t.reverted, t.aborted, t.open))] for label, t in tried]
    pairs = [[label, *_cells(pair)] for label, trials in tried for pair in trials.pairs[:MAX_PAIRS]]
    left = sum(max(len(trials.pairs) - MAX_PAIRS, 0) for _, trials in tried)
    more = f" {left:,} more are not listed." if left else ""
    if comparison.seeds > 1:
        more += f" Seed {runs[0].params['seed']}, one of {comparison.seeds}."
    listed = _table("trials-pairs", _PAIRS, pairs, text_columns=3) if pairs else '<p class="lead">No pair was judged.</p>'
    parts = {"counts": _table("trials-counts", _COUNTS, counts, text_columns=1), "more": text(more), "pairs": listed}
    # In one pass, so that braces in a name are kept.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], asset("trials.html"))


def _cells(pair: PairSummary) -> list[str]:
    return [
        f"{pair.first} + {pair.second}",
        f"{pair.gpus} {pair.accelerator}",
        f"{pair.times:,}",
        f"{100 * pair.first_rate:.0f}%",
        f"{100 * pair.second_rate:.0f}%",
        f"{100 * pair.gain:+.0f}%",
        f"{100 * pair.spread:.0f}%" if pair.times > 1 else "-",
    ]


def _table(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int) -> str:
    """Return an HTML table whose first `text_columns` columns are text. All of it is escaped: profiles are names from other
    people."""
    head = "".join(f'<th scope="col"{_kind(i, text_columns)}>{text(cell)}</th>' for i, cell in enumerate(heads))
    body = "".join(
        f'<tr><th scope="row"><bdi>{text(row[0])}</bdi></th>'
        + "".join(f"<td{_kind(i, text_columns)}><bdi>{text(cell)}</bdi></td>" for i, cell in enumerate(row[1:], 1))
        + "</tr>\n"
        for row in rows
    )
    return f'<table id="{name}"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>'


def _kind(column: int, text_columns: int) -> str:
    return ' class="text"' if 0 < column < text_columns else ""
