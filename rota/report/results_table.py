"""Table of results as HTML: the cells of the comparison, with the best marked, links to definitions, and bounds below."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rota.report.comparison import Comparison, PolicyLine
from rota.report.html import text as escaped
from rota.report.html import word
from rota.report.result import durations


class Column(NamedTuple):
    """Column of the table of results."""

    figure: str
    """Field of Summary that the column shows; empty if none."""
    definition: str
    """Anchor of the definition in page.html."""
    lowest_is_best: bool = True


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
"""Column that several seeds add; its heading names the first policy."""


COST = Column("cost_dollars", "cost")
"""Column that known prices add."""


def table(comparison: Comparison) -> str:
    """Return the head, body and foot of the table, as HTML."""
    heads, rows = comparison.cells()
    dollars = [line.summary[COST.figure] for line in comparison.lines]
    if any(value is not None for value in dollars):
        heads = [*heads, "COST"]
        rows = [[*row, "-" if value is None else f"${value:,.2f}"] for row, value in zip(rows, dollars, strict=True)]
    more = {"COST": COST}
    columns = [COLUMNS.get(head) or more.get(head) or (PAIRED if i >= len(COLUMNS) else None) for i, head in enumerate(heads)]
    values = [[_value(line, column) for column in columns] for line in comparison.lines]
    best = [_best([row[i] for row in values], [row[i] for row in rows], column) for i, column in enumerate(columns)]
    body = ""
    for line, row, numbers in zip(comparison.lines, rows, values, strict=True):
        cells = "".join(_cell(row[i], numbers[i], row[i] == best[i]) for i in range(1, len(row)))
        body += f'<tr><th scope="row" data-value="{escaped(line.label)}"><bdi>{escaped(row[0])}</bdi></th>{cells}</tr>\n'
    head = "".join(_head(text, column) for text, column in zip(heads, columns, strict=True))
    return f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n<tfoot><tr>{_bounds(comparison, heads)}</tr></tfoot>"


def _head(text: str, column: Column | None) -> str:
    label = escaped(text)
    link = f'<a class="define" href="#define-{column.definition}" aria-label="What is {label}?">?</a>' if column else ""
    return f'<th scope="col"><span><bdi>{label}</bdi></span>{link}</th>'


def _value(line: PolicyLine, column: Column | None) -> float | None:
    if column is PAIRED:
        return line.paired.ratio if line.paired is not None else 1.0
    return line.summary[column.figure] if column is not None and column.figure else None


def _best(values: Sequence[float | None], texts: Sequence[str], column: Column | None) -> str | None:
    """Return the text of the best cell of a column; None if all texts are equal. Every cell with that text is marked."""
    known = [(value, text) for value, text in zip(values, texts, strict=True) if value is not None]
    if column is None or not column.lowest_is_best or len({text for _, text in known}) < 2:
        return None
    return min(known)[1]


def _cell(text: str, value: float | None, best: bool) -> str:
    sorts = "" if value is None else f' data-value="{value!r}"'
    return f'<td class="best"{sorts}><strong>{escaped(text)}</strong></td>' if best else f"<td{sorts}>{escaped(text)}</td>"


def _bounds(comparison: Comparison, heads: Sequence[str]) -> str:
    """Return the foot of the table: the bounds, each below its column."""
    fields = {"MEAN JCT": "mean_jct_bound_seconds", "SPAN": "makespan_bound_seconds"}
    cells = []
    for head in heads[1:]:
        known = [line.summary[fields[head]] for line in comparison.lines] if head in fields else []
        column = [line.summary[COLUMNS[head].figure] for line in comparison.lines] if head in fields else []
        bounds = list(dict.fromkeys(durations(known, like=column)))
        cells.append(f"<td>{escaped(' or '.join(bounds))}</td>")
    return f'<th scope="row">{word("no schedule can beat", "bound")}</th>' + "".join(cells)
