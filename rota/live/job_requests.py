"""Requests about submitted jobs: which jobs they concern, whether they may be carried out, and the events that follow.

A request is resolved and checked within a turn of the scheduler's loop. So it concerns the jobs as they are when it is written to
the journal, and it is carried out for all of its jobs or for none.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from rota.agent.outcome import length_text, worked_seconds
from rota.core.state.parkable import may_park
from rota.core.state.phases import HELD
from rota.core.state.state import State
from rota.errors import ConflictError, ForbiddenError, SpecError
from rota.live.arrays import number_of
from rota.live.dependencies import still_awaited
from rota.live.ended_jobs import JobOutline
from rota.live.find_record import JobFinder
from rota.live.history import JobHistory, Statuses
from rota.live.job_changes import change_event
from rota.live.job_record import JobRecord
from rota.live.queued_requests import ChangeJob, Requested
from rota.model.events import CancelRequested, External, HoldRequested, JobChanged, RequeueRequested
from rota.wire.actor import Actor
from rota.wire.job_request import JobRequest, Verb
from rota.wire.rows import HOLDING
from rota.wire.submission import Submission

WITH_PROCESSES = (*HOLDING, "unreachable")
"""Phases of jobs with processes that are not parked."""


class JobRequests:
    """Resolves and checks the requests of one scheduler."""

    def __init__(self, history: JobHistory, statuses: Callable[[], Statuses], clock: Callable[[], float]) -> None:
        self._history, self._statuses, self._clock = history, statuses, clock

    def resolve(
        self, wanted: JobRequest, by: Actor | None, state: State, again: Collection[int] | None = None
    ) -> list[Requested]:
        """Return what a request means for each of its jobs. Raise if a name is wrong, or if it cannot be carried out for one.
        `by`: who sent it; None for the program itself. `again`: ended jobs that are ready to be submitted again; None for a dry
        run."""
        jobs = self._jobs(wanted, by, state)
        statuses = self._statuses() if wanted.verb in (Verb.SUSPEND, Verb.REQUEUE) else {}
        found = []
        for job, phase in zip(jobs, self._history.phases(jobs, state), strict=True):
            changes = self._changes(wanted, job, phase, state)
            if job.ended and wanted.verb is Verb.REQUEUE and again is not None and job.id not in again:
                raise ConflictError("has just ended.", field="job", value=str(job.id), hint="the same command again")
            if changes and not job.ended:
                self._check(wanted, job, phase, state, statuses)
            found.append(Requested(job.id, phase, changes, job.id))
        return found

    def ended(self, wanted: JobRequest, by: Actor | None) -> list[JobRecord]:
        """Return the ended jobs that a request submits again."""
        if wanted.verb is not Verb.REQUEUE or wanted.dry_run:
            return []
        return self._history.records.many(job.id for job in self._named(wanted, by) if job.ended)

    def arrays(self, wanted: JobRequest, by: Actor | None) -> list[int]:
        """Return the numbers of the arrays that a request names."""
        finder = self._finder(by)
        found = (finder.find_array(key, unique=True) for key in wanted.jobs)
        return list(dict.fromkeys(each for each in found if each is not None))

    def again(self, record: JobRecord, wanted: JobRequest, by: Actor | None) -> Submission:
        """Return the submission of an ended job that is to run again. A deadline that has passed is left out, and so are
        dependencies on jobs that have ended, and what only an operator may give: a priority above 0, and a command for
        notifications."""
        spec = record.spec
        changes: dict[str, Any] = {"after": still_awaited(record, self._history.records)}
        if by is not None and not by.is_operator:
            changes["priority"] = min(spec.priority, 0)
            if spec.notify is not None and spec.notify.run is not None:
                changes["notify"] = None
        if wanted.max_run_time is not None:
            changes["max_run_time"] = wanted.max_run_time
        if spec.deadline is not None and spec.deadline.timestamp() <= self._clock():
            changes["deadline"] = None
        return replace(record.submitted, spec=spec.model_copy(update=changes), idempotency_key=None)

    def change(self, item: ChangeJob, state: State, now_s: float) -> JobChanged:
        """Return the event of a change. Raise if the job has ended, or if it cannot have these values."""
        record = self._history.outline(item.job)
        if record.ended:
            raise ConflictError(
                f"has ended: {record.phase}.", field="job", value=str(record.id), hint=f"rota requeue {record.id}"
            )
        event = replace(change_event(record.id, item.spec, item.changed, now_s), by=item.by)
        if event.deadline_s is not None and event.deadline_s <= now_s:
            raise SpecError("is in the past.", field="deadline", hint="a date and a time to come, like 2030-12-01T09:00")
        row, table = state.jobs.row.get(record.id), state.jobs.table
        if row is not None and event.max_run_seconds is not None:
            since = now_s - table.as_of_s.item(row) if table.gpus_in_use.item(row) else 0.0
            ran = table.run_seconds.item(row) + since
            if ran >= event.max_run_seconds:
                problem = f"is over: the job has run for {length_text(ran)}."
                value = f"{event.max_run_seconds:g}"
                raise SpecError(problem, field="max_run_time", value=value, hint=f"more than that, or rota suspend {record.id}")
        return event

    def _named(self, wanted: JobRequest, by: Actor | None) -> list[JobOutline]:
        """Return the jobs that a request names, with all tasks of its arrays that it may concern. Raise ForbiddenError if the
        user may not change one of them."""
        history, finder, found, arrays = self._history, self._finder(by), list[JobOutline](), set[int]()
        for key in wanted.jobs:
            array = finder.find_array(key, unique=True)
            if array is None:
                found.append(finder.find(key, unique=True))
            elif array not in arrays:
                arrays.add(array)
                found += [job for job in history.tasks(array) if _may_concern(wanted.verb, job)]
        if by is not None:
            for job in found:
                by.check_owns(job.user, f"Job {job.id}")
                if wanted.verb is Verb.REQUEUE and job.ended:
                    _check_again(job, by)
        return list({job.id: job for job in found}.values())

    def _finder(self, by: Actor | None) -> JobFinder:
        return JobFinder(self._history.records, None if by is None else by.names_of, self._history.arrays)

    def _jobs(self, wanted: JobRequest, by: Actor | None, state: State) -> list[JobOutline]:
        """Return the jobs that a request is about. A pattern selects only jobs that the user may change."""
        if wanted.matching is None:
            named, arrays = self._named(wanted, by), set(self.arrays(wanted, by))
            if not arrays:
                return named
            phases = self._history.phases(named, state)
            return [
                job
                for job, phase in zip(named, phases, strict=True)
                if number_of(job) not in arrays or self._concerns(wanted.verb, job, phase, state)
            ]
        records = self._history.records.open.values()
        unfinished = [record for record in records if not record.ended and (by is None or by.owns(record.user))]
        phases, matching = self._history.phases(unfinished, state), wanted.matching
        return [
            record
            for record, phase in zip(unfinished, phases, strict=True)
            if matching.fits(record.submitted.user, record.name, record.spec.tenant, phase)
            and self._concerns(wanted.verb, record, phase, state)
        ]

    def _concerns(self, verb: Verb, job: JobOutline, phase: str, state: State) -> bool:
        """Return whether a pattern or an array selects a job for this verb: `hold` waiting jobs, `release` held ones, and so
        on."""
        held = _is_held(state, job.id)
        if verb in (Verb.RELEASE, Verb.RESUME):
            return held
        if verb is Verb.HOLD:
            return not held and phase not in WITH_PROCESSES
        if verb is Verb.SUSPEND:
            return not held and phase in WITH_PROCESSES
        return True

    def _changes(self, wanted: JobRequest, job: JobOutline, phase: str, state: State) -> bool:
        if wanted.verb is Verb.CANCEL:
            return not job.ended
        if wanted.verb is Verb.REQUEUE:
            return job.ended or job.id in state.jobs.attempts
        if job.ended:
            raise ConflictError(
                f"has ended: {phase}.", field="job", value=str(job.id), hint=f"rota requeue {job.id}, to run it again"
            )
        held = _is_held(state, job.id)
        if wanted.verb in (Verb.RELEASE, Verb.RESUME):
            return held
        return not held or (wanted.lose_work and phase in WITH_PROCESSES)

    def _check(self, wanted: JobRequest, job: JobOutline, phase: str, state: State, statuses: Statuses) -> None:
        """Raise if a request cannot be carried out for a job."""
        if wanted.verb is Verb.HOLD and phase in WITH_PROCESSES:
            raise ConflictError(
                f"is {phase}; only waiting jobs are held.", field="job", value=str(job.id), hint=f"rota suspend {job.id}"
            )
        if wanted.verb in (Verb.SUSPEND, Verb.REQUEUE) and not wanted.lose_work and not self._keeps_work(wanted, job, state):
            status = statuses.get(job.id)
            seconds = 0.0 if status is None else max(worked_seconds(status, self._clock()) - status.safe_seconds, 0.0)
            lost = f"{length_text(seconds)} of work" if status is not None else "its work"
            why = "and can't be parked" if wanted.verb is Verb.SUSPEND else "so it can't start elsewhere with what it has done"
            raise ConflictError(
                f"is not known to save its state {why}: {lost} would be lost.",
                field="job",
                value=f"{job.id} {job.name}",
                hint=f"rota {wanted.verb} {job.id} --lose-work, if that is fine",
            )

    def _keeps_work(self, wanted: JobRequest, job: JobOutline, state: State) -> bool:
        """Return whether a job can be stopped without a loss of work, as far as is known."""
        jobs, attempt = state.jobs, state.jobs.attempts.get(job.id)
        if attempt is None or jobs.table.saves.item(jobs.row[job.id]):
            return True
        if wanted.verb is Verb.REQUEUE:
            return False
        return attempt.parked or may_park(state, job.id, attempt, state.nodes.host_gib.copy())


def events_of(wanted: JobRequest, by: Actor | None, found: Sequence[Requested], now_s: float) -> list[External]:
    """Return the events of a request for jobs that have not ended."""
    name = None if by is None else by.name
    changed = [each.job for each in found if each.changes and each.result == each.job]
    if wanted.verb is Verb.CANCEL:
        return [CancelRequested(job, now_s, name) for job in changed]
    if wanted.verb is Verb.REQUEUE:
        limit, kept = wanted.max_run_time, [each.job for each in found if each.result == each.job]
        limits = [] if limit is None else [JobChanged(job, now_s, max_run_seconds=limit, by=name) for job in kept]
        return [*limits, *(RequeueRequested(job, now_s, wanted.lose_work, name) for job in changed)]
    held = wanted.verb in (Verb.HOLD, Verb.SUSPEND)
    return [HoldRequested(job, now_s, held, name, wanted.lose_work) for job in changed]


def _may_concern(verb: Verb, job: JobOutline) -> bool:
    """Return whether a request about an array is about this task: not if it has ended, but failed tasks are submitted again."""
    return not job.ended or (verb is Verb.REQUEUE and job.phase != "finished")


def _is_held(state: State, job: int) -> bool:
    return job in state.jobs.row and state.jobs.is_blocked(job, HELD)


def _check_again(job: JobOutline, by: Actor) -> None:
    """Raise ForbiddenError if an ended job would run again as the scheduler's user, and a Unix user who is not that user asks. A
    job from the time when the scheduler served one user is such a job, also one that another user submitted."""
    if not by.may_run_as_scheduler and not job.has_uid:
        problem = f"Job {job.id} runs as the scheduler's own user; you are {by.name}."
        raise ForbiddenError(problem, hint="rota submit, for a job that runs as you")
