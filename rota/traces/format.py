"""Trace formats: the columns of a file, and how a row becomes an arrival."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rota.errors import TraceError
from rota.files.csv_table import CsvRow, FileTable, Lines, closest
from rota.model.job import Arrival
from rota.traces.trace import SkippedRow


def _nothing_more(table: FileTable) -> None:
    """Accept any header. Most formats have no rule about it beyond the names of columns."""


@dataclass(frozen=True)
class Format:
    """A format of trace files."""

    name: str
    arrival: Callable[[CsvRow], Arrival | SkippedRow]
    """Reads one row. For a row that is left out on purpose it returns the reason instead."""
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] | None = None
    """Further columns of the format; None if any other column is ignored."""
    layouts: tuple[tuple[str, ...], ...] = ()
    """For a format without a header, with tabs between cells: the columns of each variant. The number of cells decides the
    variant."""
    unique: str = ""
    """A column in which every value must be different."""
    wall_clock: bool = False
    """Whether times are dates, which are counted from the first arrival. Other formats keep their numbers."""
    check: Callable[[FileTable], None] = _nothing_more
    """Checks the header further."""
    folds: bool = True
    """Whether upper and lower case in names of columns is the same."""
    parse: Callable[[Lines], FileTable] | None = None
    """Reads a file that is not a table with commas or tabs, and checks its columns; None if the file is one."""
    recognises: Callable[[Lines], bool] | None = None
    """Recognises a file that `parse` reads."""
    remarks: Callable[[CsvRow], Iterable[str]] | None = None
    """Finds what could not be carried over from a row, in the past tense; the trace counts the jobs for each remark."""

    def layout(self, file: Lines) -> tuple[str, ...]:
        """Return the columns of a file without a header; empty if the file is like no variant."""
        count = len(file.tabbed)
        return next((columns for columns in self.layouts if len(columns) == count), ())

    def reads_first(self, file: Lines) -> bool:
        """Whether the first line of a file without a header is a job, with numbers where the format has numbers."""
        columns = self.layout(file)
        if not columns:
            return False
        try:
            self.arrival(next(file.without_header(columns).rows()))
        except TraceError:
            return False
        return True

    def table(self, file: Lines) -> FileTable:
        """Return the file with its columns. Raise TraceError if they are not those of this format."""
        if self.parse is not None:
            return self.parse(file)
        if not self.folds:
            table = file.with_header()
            self._check_header(table)
            return table
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
                hint="--format auto finds the format by the first line",
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
