"""A trace: jobs in the order in which they arrive, and what was left out of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from rota.errors import TraceError
from rota.model.job import Arrival, JobSpec
from rota.traces.search import Search

NEVER_FITS = "which can never fit"
"""How the reason ends for which a job that is too large was left out."""


class SkippedRow(NamedTuple):
    """A row that was knowingly left out. What the reader filtered away on request is not counted here."""

    line: int
    """Its line in the file; the number of the job where there is no file."""
    why: str


@dataclass(frozen=True)
class Trace:
    """Jobs in trace order: by the time they are submitted, then by their line in the file."""

    name: str
    """The file, or what it was generated from."""
    format: str
    """How it was read."""
    arrivals: tuple[Arrival, ...]
    """The jobs, each with the time it is submitted at."""
    skipped: tuple[SkippedRow, ...] = ()
    """Rows that were left out: how many, and why."""
    lines: tuple[int, ...] = ()
    """The line of each arrival in its file; empty where there is no file."""
    notes: tuple[str, ...] = ()
    """What reading could not carry over and how many jobs that concerns, over the file as it was read: a sentence each."""
    searches: tuple[Search, ...] = ()
    """Jobs that are compared while they run, and stopped when others are better."""

    def __post_init__(self) -> None:
        if any(early.submitted_s > late.submitted_s for early, late in pairwise(self.arrivals)):
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
        """Arrivals in any order; those submitted at the same time stay as they stand."""
        given = list(arrivals)
        order = sorted(range(len(given)), key=[arrival.submitted_s for arrival in given].__getitem__)
        found = tuple(given[i] for i in order)
        return cls(name, format, found, tuple(skipped), tuple(lines[i] for i in order) if lines else (), tuple(notes))

    def __len__(self) -> int:
        return len(self.arrivals)

    def without_oversized(self, fits: Callable[[JobSpec], bool]) -> "Trace":
        """Without the jobs that could never run; each is counted in `skipped`. Submission times stay as they are."""
        kept: list[tuple[Arrival, int]] = []
        dropped: list[SkippedRow] = []
        for arrival, line in zip(self.arrivals, self.lines or range(1, len(self) + 1), strict=True):
            if fits(arrival.spec):
                kept.append((arrival, line))
            else:
                dropped.append(SkippedRow(line, f"asks for {_asked(arrival.spec)}, {NEVER_FITS}"))
        if not dropped:
            return self
        return replace(
            self,
            arrivals=tuple(arrival for arrival, _ in kept),
            lines=tuple(line for _, line in kept),
            skipped=self.skipped + tuple(dropped),
        )

    def first(self, n: int) -> "Trace":
        """The first n jobs in trace order; all of them where there are fewer."""
        if n < 1:
            raise TraceError(
                "must be at least 1.", where=self.name, field="first", value=n, hint="leave it out to take every job"
            )
        return replace(self, arrivals=self.arrivals[:n], lines=self.lines[:n])


def _asked(spec: JobSpec) -> str:
    types = f" of {'|'.join(spec.accelerators)}" if spec.accelerators else ""
    return f"{spec.gpus} GPU{'' if spec.gpus == 1 else 's'}{types}"
