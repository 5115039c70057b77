"""What a trace format is: the columns a file of it has, and how a row becomes an arrival."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rota.errors import TraceError
from rota.files.csv_table import CsvRow, FileTable, Lines, closest
from rota.model.job import Arrival
from rota.traces.trace import SkippedRow


def _nothing_more(table: FileTable) -> None:
    """Most formats have no rule about their header beyond the names in it."""


@dataclass(frozen=True)
class Format:
    """One way to write a trace down."""

    name: str
    arrival: Callable[[CsvRow], Arrival | SkippedRow]
    """A row that is knowingly left out gives the reason instead."""
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] | None = None
    """The other columns it knows; None: any other column is left alone."""
    layouts: tuple[tuple[str, ...], ...] = ()
    """For a format without a header, tabs between the cells: the columns of each variant. Their number tells which it is."""
    unique: str = ""
    """A column in which no value may stand twice."""
    wall_clock: bool = False
    """Its times are dates, so they are counted from the first arrival; other formats keep their numbers."""
    check: Callable[[FileTable], None] = _nothing_more
    """Further rules about the header."""
    remarks: Callable[[CsvRow], Iterable[str]] | None = None
    """What of a job could not be carried over, said in the past tense; the trace counts the jobs for each."""

    def layout(self, file: Lines) -> tuple[str, ...]:
        """The columns of a file without a header; none if it is not like any variant."""
        count = len(file.tabbed)
        return next((columns for columns in self.layouts if len(columns) == count), ())

    def reads_first(self, file: Lines) -> bool:
        """Whether the first line of a file without a header is a job: numbers stand where numbers belong."""
        columns = self.layout(file)
        if not columns:
            return False
        try:
            self.arrival(next(file.without_header(columns).rows()))
        except TraceError:
            return False
        return True

    def table(self, file: Lines) -> FileTable:
        """The file with its columns, after a check that they are those of this format."""
        if not self.layouts:
            table = file.with_header().folded((*self.required, *self.optional) if self.optional is not None else None)
            self._check_header(table)
            return table
        columns = self.layout(file)
        if not columns:
            raise TraceError(
                f"a line of the {self.name} format has {_or([str(len(layout)) for layout in self.layouts])} cells, tabs between.",
                where=file.where,
                line=file.first_line,
                field="cells",
                value=len(file.tabbed),
                hint="--format auto tells what the file is by its first line",
            )
        return file.without_header(columns)

    def _check_header(self, table: FileTable) -> None:
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


def _or(words: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
