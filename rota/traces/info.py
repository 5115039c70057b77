"""Figures that describe a trace."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rota.model.accelerators import REFERENCE
from rota.model.job import JobSpec
from rota.model.units import Floats
from rota.profiles.catalogue import Catalogue
from rota.traces.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceInfo:
    """Figures of a trace. Run times are those on V100s, at the rate of the built-in catalogue for a job with a profile, and at
    one step per second for a job without. GPU-hours count the jobs whose run time is known."""

    name: str
    format: str
    jobs: int
    skipped: int
    skipped_why: dict[str, int]
    """Reason -> rows left out for it, the most frequent reason first."""
    notes: tuple[str, ...]
    """What could not be carried over from the file."""
    first_submission_s: float
    last_submission_s: float
    gpus: dict[float, int]
    """GPU count -> jobs that request it."""
    timed: int
    """Number of jobs whose run time is known."""
    gpu_hours: float
    median_seconds: float | None
    p99_seconds: float | None
    longest_seconds: float | None
    tenants: int
    users: int
    profiles: int

    @property
    def span_seconds(self) -> float:
        return self.last_submission_s - self.first_submission_s

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "gpus": {str(count): jobs for count, jobs in self.gpus.items()},
            "span_seconds": self.span_seconds,
        }


def describe(trace: Trace) -> TraceInfo:
    """Describe a trace."""
    specs = [arrival.spec for arrival in trace.arrivals]
    seconds, gpus = _run_times(specs)
    return TraceInfo(
        name=trace.name,
        format=trace.format,
        jobs=len(specs),
        skipped=len(trace.skipped),
        skipped_why=dict(Counter(skipped.why for skipped in trace.skipped).most_common()),
        notes=trace.notes,
        first_submission_s=trace.arrivals[0].submitted_s if specs else 0.0,
        last_submission_s=trace.arrivals[-1].submitted_s if specs else 0.0,
        gpus=dict(sorted(Counter(spec.gpus for spec in specs).items())),
        timed=len(seconds),
        gpu_hours=float(seconds @ gpus) / 3600.0,
        median_seconds=float(np.median(seconds)) if len(seconds) else None,
        p99_seconds=float(np.quantile(seconds, 0.99)) if len(seconds) else None,
        longest_seconds=float(seconds.max()) if len(seconds) else None,
        tenants=len({spec.tenant for spec in specs if spec.tenant}),
        users=len({spec.user for spec in specs if spec.user}),
        profiles=len({spec.profile for spec in specs if spec.profile}),
    )


def _run_times(specs: Sequence[JobSpec]) -> tuple[Floats, Floats]:
    """Return the run time on the reference GPU, in seconds, and the GPUs of every job for which both are known."""
    catalogue = Catalogue()
    found = []
    for spec in specs:
        rate, _ = catalogue.rate(spec.profile, REFERENCE, spec.width) or (0.0, 0.0) if spec.profile else (1.0, 0.0)
        if rate > 0 and spec.steps is not None:
            found.append((spec.steps / rate, spec.gpus))
    table = np.array(found, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
