"""What a trace format is: the columns its header needs, and how a row becomes an arrival."""

from collections.abc import Callable
from dataclasses import dataclass

from rota.errors import TraceError
from rota.files.rows import Row, Table, closest
from rota.model.job import Arrival


def _nothing_more(table: Table) -> None:
    """Most formats have no rule about their header beyond the names in it."""


@dataclass(frozen=True)
class Format:
    """One way to write a trace down."""

    name: str
    required: tuple[str, ...]
    arrival: Callable[[Row], Arrival]
    optional: tuple[str, ...] | None = None
    """The other columns it knows; None: any other column is left alone."""
    unique: str = ""
    """A column in which no value may stand twice."""
    wall_clock: bool = False
    """Its times are dates, so they are counted from the first arrival; other formats keep their numbers."""
    check: Callable[[Table], None] = _nothing_more
    """Further rules about the header."""

    def check_header(self, table: Table) -> None:
        missing = [column for column in self.required if column not in table.columns]
        if missing:
            raise TraceError(
                f"the {self.name} format needs this column.{closest(missing[0], table.columns)}",
                where=table.where,
                line=table.header_line,
                field=missing[0],
                hint=f"a header with {','.join(self.required)}",
            )
        if self.optional is not None:
            known = (*self.required, *self.optional)
            for column in table.columns:
                if column not in known:
                    raise TraceError(
                        f"the {self.name} format has no such column.{closest(column, known)} All: {', '.join(known)}.",
                        where=table.where,
                        line=table.header_line,
                        field="column",
                        value=column,
                        hint="rename the column, or take it out",
                    )
        self.check(table)
