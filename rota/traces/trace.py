"""A trace: jobs in the order of their arrival, and the rows that were left out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import gt
from typing import NamedTuple

from rota.errors import TraceError
from rota.model.job import Arrival, JobSpec
from rota.traces.search import Search

NEVER_FITS = "which can never fit"
"""End of the reason for which a job that is too large is left out."""


class SkippedRow(NamedTuple):
    """A row that was left out on purpose. Rows that `where` filters away are not counted."""

    line: int
    """Line in the file, or the number of the job if there is no file."""
    why: str


@dataclass(frozen=True)
class Trace:
    """Jobs in trace order: by the time they are submitted, then by their line in the file."""

    name: str
    """Name of the file, or the settings from which the trace was generated."""
    format: str
    """Format in which the trace was read."""
    arrivals: tuple[Arrival, ...]
    """The jobs, each with its submission time."""
    skipped: tuple[SkippedRow, ...] = ()
    """Rows that were left out, with the reasons."""
    lines: tuple[int, ...] = ()
    """Line of each arrival in its file; empty if there is no file."""
    notes: tuple[str, ...] = ()
    """Sentences about what could not be carried over from the file, with the number of jobs concerned."""
    searches: tuple[Search, ...] = ()
    """Searches, which compare jobs while they run and stop the worse ones."""

    def __post_init__(self) -> None:
        at_s = [arrival.submitted_s for arrival in self.arrivals]
        if any(map(gt, at_s, at_s[1:])):
            raise TraceError(
                "the arrivals are not in order of submission.", where=self.name, hint="Trace.of(...) puts them in order"
            )

    @classmethod
    def of(
        cls,
        name: str,
        format: str,
        arrivals: Iterable[Arrival],
        *,
        lines: Sequence[int] = (),
        skipped: Iterable[SkippedRow] = (),
        notes: Iterable[str] = (),
    ) -> "Trace":
        """Build a trace from arrivals in any order. Arrivals submitted at the same time keep their order."""
        given = list(arrivals)
        order = sorted(range(len(given)), key=[arrival.submitted_s for arrival in given].__getitem__)
        found = tuple([given[i] for i in order])
        return cls(name, format, found, tuple(skipped), tuple([lines[i] for i in order]) if lines else (), tuple(notes))

    def __len__(self) -> int:
        return len(self.arrivals)

    def without_oversized(self, fits: Callable[[JobSpec], bool]) -> "Trace":
        """Return the trace without the jobs that could never run, each of which is counted in `skipped`. Submission times do not
        change."""
        kept: list[tuple[Arrival, int]] = []
        dropped: list[SkippedRow] = []
        for arrival, line in zip(self.arrivals, self.lines or range(1, len(self) + 1), strict=True):
            if fits(arrival.spec):
                kept.append((arrival, line))
            else:
                dropped.append(SkippedRow(line, f"requests {_asked(arrival.spec)}, {NEVER_FITS}"))
        if not dropped:
            return self
        return replace(
            self,
            arrivals=tuple([arrival for arrival, _ in kept]),
            lines=tuple([line for _, line in kept]),
            skipped=self.skipped + tuple(dropped),
        )

    def first(self, n: int) -> "Trace":
        """Return the first n jobs, or all if there are fewer."""
        if n < 1:
            raise TraceError(
                "must be at least 1.", where=self.name, field="first", value=n, hint="leave it out to take every job"
            )
        return replace(self, arrivals=self.arrivals[:n], lines=self.lines[:n])


def _asked(spec: JobSpec) -> str:
    types = f" of {'|'.join(spec.accelerators)}" if spec.accelerators else ""
    return f"{spec.gpus} GPU{'' if spec.gpus == 1 else 's'}{types}"
