"""The row of a job, as clients see it: its record, and what the scheduler knows of it now."""

import math

from rota.agent.attempt_files import AttemptStatus
from rota.core.state.state import State
from rota.live.attempt_rate import quiet_seconds, step_rate
from rota.live.ended_jobs import JobOutline
from rota.live.gpu_stay import since_booked
from rota.live.instants import iso
from rota.live.job_record import JobRecord
from rota.live.parking_text import parking_now
from rota.live.placement_text import format_placement
from rota.model.job import Phase
from rota.model.reasons import Reason
from rota.wire.rows import JobRow


def make_row(record: JobRecord, state: State, standing: tuple[int, int], part: AttemptStatus | None, now_s: float) -> JobRow:
    spec, row = record.spec, state.jobs.row.get(record.id)
    phase, accelerator, where, reason, setback = record.phase, None, None, None, None
    done, rate, attempt = record.steps_done, None, None
    if row is not None:
        now, code = Phase(standing[0]), Reason(standing[1])
        phase = phase_of(record, now)
        reason = code.name if code is not Reason.NONE else None
        setback = state.jobs.setbacks.get(record.id)
        attempt = state.jobs.attempts.get(record.id)
        if attempt is not None and len(attempt.gpus) and not attempt.parked:
            accelerator = state.nodes.cluster.pools[state.nodes.cluster.gpu_pool[attempt.gpus[0]]]
            where = format_placement(state.nodes.cluster, attempt.gpus)
    if part is not None and (spec.progress or part.reports_steps):
        done = part.steps_done
        rate = step_rate(part, now_s)
    rate_known = rate or record.steps_per_second
    steps_reported = part.steps_total if part is not None and part.steps_total is not None else record.steps_total
    total = spec.steps if spec.steps is not None else steps_reported
    left = None
    if total and rate_known and not record.ended:
        left = max(max(total - (done or 0.0), 0.0) / rate_known - (quiet_seconds(part, now_s) if rate else 0.0), 0.0)
        left = left if math.isfinite(left) else None
    way, why = parking_now(record, state)
    used = since_booked(record.stay, now_s)
    return JobRow(
        id=record.id,
        name=record.name,
        user=record.submitted.user,
        phase=phase,
        gpus=len(attempt.gpus) if attempt is not None and len(spec.gpu_counts) > 1 else spec.most_gpus,
        accelerator=accelerator,
        placement=where,
        accepted_accelerators=list(spec.accelerators),
        weight=spec.weight,
        priority=spec.priority,
        tenant=spec.tenant,
        steps_done=done,
        steps_total=total,
        steps_per_second=rate,
        utilization=None if row is None else _known(state.jobs.table.utilization.item(row)),
        peak_gib=None if row is None else _known(state.jobs.table.peak_gib.item(row)),
        eta_seconds=left,
        reason=reason,
        submitted_at=iso(record.submitted_s) or "",
        started_at=iso(record.started_s),
        finished_at=iso(record.ended_s) if record.ended else None,
        phase_since=iso(state.jobs.table.phase_s.item(row)) if row is not None else None,
        suspensions=record.suspensions,
        lost_steps=record.lost_steps,
        lost_seconds=record.lost_seconds,
        gpu_seconds=record.gpu_seconds + used.gpu_seconds,
        work_seconds=record.work_seconds + used.work_seconds,
        profile=spec.profile,
        setbacks=setback.times if setback is not None else 0,
        retry_at=iso(setback.until_s) if setback is not None and setback.until_s > now_s else None,
        problem=record.problem or (part.saving_problem if part is not None else None),
        exit_code=record.exit_code,
        last_change=record.last_change,
        command=record.submitted.command,
        metrics=dict(part.metrics if part is not None and part.metrics else record.metrics),
        park_method=way,
        park_reason=f"{why or ''} (not parked: {record.parking_problem})".strip() if record.parking_problem else why,
        most_gpus=spec.most_gpus,
        max_run_seconds=spec.max_run_time,
        key=record.submitted.idempotency_key,
        array_id=None if record.submitted.task is None else record.submitted.task.array,
        array_index=None if record.submitted.task is None else record.submitted.task.index,
        limits_problem=part.limits_problem if part is not None else None,
        steps_problem=(part.steps_problem if part is not None else None) or record.steps_problem,
    )


def phase_of(record: JobOutline, now: Phase) -> str:
    """Return the phase for clients. A job that ran before is checkpointed, whether or not it has saved."""
    return "checkpointed" if now is Phase.QUEUED and record.started_s is not None else now.name.lower()


def _known(figure: float) -> float | None:
    """Return the figure; None if it is NaN."""
    return figure if figure == figure else None
