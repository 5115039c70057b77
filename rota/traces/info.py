"""What a trace holds, in a few figures."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rota.traces.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceInfo:
    """Figures of a trace. Run time is steps at one step per second for jobs without a profile; GPU-hours count only those."""

    name: str
    format: str
    jobs: int
    skipped: int
    first_submission_s: float
    last_submission_s: float
    gpus: dict[int, int]
    """GPU count -> jobs that ask for it."""
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
    """Count a trace through once."""
    specs = [arrival.spec for arrival in trace.arrivals]
    timed = [spec for spec in specs if not spec.profile and np.isfinite(spec.steps)]
    seconds = np.array([spec.steps for spec in timed])
    return TraceInfo(
        name=trace.name,
        format=trace.format,
        jobs=len(specs),
        skipped=len(trace.skipped),
        first_submission_s=trace.arrivals[0].submitted_s if specs else 0.0,
        last_submission_s=trace.arrivals[-1].submitted_s if specs else 0.0,
        gpus=dict(sorted(Counter(spec.gpus for spec in specs).items())),
        gpu_hours=sum(spec.gpus * spec.steps for spec in timed) / 3600.0,
        median_seconds=float(np.median(seconds)) if timed else None,
        p99_seconds=float(np.quantile(seconds, 0.99)) if timed else None,
        longest_seconds=float(seconds.max()) if timed else None,
        tenants=len({spec.tenant for spec in specs if spec.tenant}),
        users=len({spec.user for spec in specs if spec.user}),
        profiles=len({spec.profile for spec in specs if spec.profile}),
    )
