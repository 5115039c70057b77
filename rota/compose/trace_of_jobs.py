"""The jobs of a live scheduler as a trace, with their users and tenants, so that a simulation can run them again."""

from collections.abc import Sequence
from datetime import datetime

from rota.model.job import Arrival, JobSpec
from rota.traces.trace import SkippedRow, Trace
from rota.wire.rows import JobRow

FORMAT = "jobs"


def trace_of_jobs(rows: Sequence[JobRow], name: str) -> Trace:
    """Return the jobs that have ended and have done work. A job with a profile has the steps that it did; another one has the
    seconds that its work takes on its best type of GPU, with one step per second."""
    arrivals: list[Arrival] = []
    skipped: list[SkippedRow] = []
    for row in rows:
        if not row.ended:
            skipped.append(SkippedRow(row.id, "had not ended"))
        elif row.work_seconds <= 0:
            skipped.append(SkippedRow(row.id, "did no work"))
        else:
            arrivals.append(Arrival(_unix_s(row.submitted_at), _spec(row)))
    first_s = min((each.submitted_s for each in arrivals), default=0.0)
    shifted = [Arrival(round(each.submitted_s - first_s, 3), each.spec) for each in arrivals]
    return Trace.of(name, FORMAT, shifted, skipped=skipped)


def _spec(row: JobRow) -> JobSpec:
    gpus = int(row.gpus) if row.gpus >= 1 else row.gpus
    by_profile = bool(row.profile and row.steps_done)
    steps = row.steps_done if by_profile else row.work_seconds / row.gpus
    return JobSpec(
        name=row.name,
        gpus=gpus,
        steps=round(steps or 0.0, 3),
        profile=row.profile if by_profile else None,
        accelerators=tuple(row.accepted_accelerators),
        weight=row.weight,
        tenant=row.tenant,
        user=row.user,
    )


def _unix_s(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
