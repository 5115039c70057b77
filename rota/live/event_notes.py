"""Derives the events and the usage of jobs from what `JobHistory.note` finds to have happened."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rota.agent.attempt_files import AttemptStatus
from rota.agent.outcome import lost_seconds, worked_seconds
from rota.core.fold.configured import CoreEvent
from rota.core.state.state import State
from rota.core.state.windows import reserved_for_others
from rota.live.gpu_stay import (
    GpuStay,
    new_stay,
    nodes_of,
    pieces,
    share_at_launch,
    share_now,
    speed_now,
)
from rota.live.job_events import Cause, EventKind, JobEvent, OtherJob
from rota.live.job_record import JobRecord
from rota.live.job_records import JobRecords
from rota.live.usage import UsageAmounts, UsageLedger, UsageRow
from rota.model.commands import Launch, Resume
from rota.model.events import (
    Decided,
    Exited,
    HoldRequested,
    JobChanged,
    NodeLeft,
    NodeLost,
    NodeReported,
    Outcome,
    RequeueRequested,
    Started,
    Suspended,
)
from rota.model.job import Phase
from rota.model.plan import Plan

_PENDING = (Phase.STARTING, Phase.RESIZING)
"""Phases of a job that waits for an answer of some of its nodes."""
_REQUESTS = (EventKind.HELD, EventKind.RELEASED, EventKind.REQUEUED, EventKind.CHANGED)
_STOPPED = (EventKind.PARKED, EventKind.SUSPENDED)


class KeptEvent(NamedTuple):
    """An event as the journal keeps it."""

    job: int
    number: int
    """Number of the event, counted from 1 for each job."""
    at_s: float
    plain: Mapping[str, Any]


class EventNotes:
    """Events and amounts that the journal has not got yet."""

    def __init__(self, records: JobRecords) -> None:
        self._records = records
        self._ledger = UsageLedger()
        self._events: list[KeptEvent] = []

    def take(self) -> tuple[list[KeptEvent], list[UsageRow]]:
        """Return the events and the amounts since the last call."""
        events, self._events = self._events, []
        return events, self._ledger.take()

    def add(self, record: JobRecord, event: JobEvent) -> None:
        record.events += 1
        if event.kind not in _REQUESTS:
            record.last_kind = event.kind.value
        self._events.append(KeptEvent(record.id, record.events, event.at_s, event.to_plain()))

    def submitted(self, record: JobRecord) -> None:
        self._ledger.add(record, record.submitted_s, None, UsageAmounts(submitted=1))

    # Attempts ----------------------------------------------------------------------------------------------------

    def adopt(self, record: JobRecord, state: State) -> None:
        """Give an attempt a stay that has none, because an earlier version started it. It counts from its present phase on."""
        attempt, row, table = state.jobs.attempts.get(record.id), state.jobs.row.get(record.id), state.jobs.table
        if attempt is None or row is None or not len(attempt.gpus):
            return
        phase, parked = Phase(table.phase.item(row)), attempt.parked
        share = share_at_launch(state, record.id, attempt.gpus) if parked else share_now(state, record.id, attempt.gpus.tolist())
        stay = new_stay(state, attempt.number, attempt.gpus, None if parked else table.phase_s.item(row), share)
        runs = phase is not Phase.STARTING
        sequence = table.sequence.item(row) if runs else 0
        record.stay = stay._replace(sequence=sequence, speed=speed_now(state, record.id) if runs else 0.0)

    def sent(self, decided: Decided, state: State) -> list[int]:
        """Note the GPUs of jobs that are launched or resumed, from the moment of the decision. Return these jobs."""
        found = []
        for command in decided.commands:
            record = self._records.open.get(command.job)
            if record is None or command.job not in state.jobs.row:
                continue
            stay = record.stay
            if isinstance(command, Launch) and (stay is None or stay.attempt != command.attempt):
                share = share_at_launch(state, command.job, command.gpus)
                record.stay = new_stay(state, command.attempt, command.gpus, decided.at_s, share)
            elif isinstance(command, Resume) and stay is not None and stay.since_s is None:
                share = share_at_launch(state, command.job, np.array(stay.gpus))
                record.stay = stay._replace(since_s=decided.at_s, share=share, speed=0.0)
            else:
                continue
            found.append(command.job)
        return found

    def share_again(self, jobs: Iterable[int], state: State) -> list[int]:
        """Book the time of jobs whose partners came or left, since they hold another fraction of their GPUs now. Return them."""
        found = []
        for job in jobs:
            stay = self._records.writable(job).stay
            if stay is None or stay.since_s is None or not stay.gpus or job not in state.jobs.attempts:
                continue
            if (share := share_now(state, job, stay.gpus)) != stay.share:
                self._settle(self._records[job], state.now_s, share=share, speed=speed_now(state, job) if stay.speed else 0.0)
                found.append(job)
        return found

    def reclaiming(self, plan: Plan, state: State) -> list[int]:
        """Note the jobs within the guarantee of their tenant that are to start for the first time on GPUs that a plan takes back
        from others. Return them."""
        jobs, table = state.jobs, state.jobs.table
        back = [jobs.attempts[job].gpus for job, _ in plan.reclaimed if job in jobs.attempts]
        gpus = set(np.concatenate(back).tolist()) if back else set()
        takers = {job for _, job in plan.reclaimed}
        takers |= {each.job for each in plan.changes if each.gpus is not None and not gpus.isdisjoint(each.gpus.tolist())}
        found = []
        for job in sorted(takers & self._records.keys() & jobs.row.keys()):
            if self._records[job].started_s is None and table.arrived_within_guarantee.item(jobs.row[job]):
                self._records[job].reclaims = True
                found.append(job)
        return found

    def begun(self, record: JobRecord, at_s: float) -> None:
        """Note the first start of a job."""
        accelerator = record.stay.accelerator if record.stay is not None else ""
        amounts = UsageAmounts(begun=1, wait_seconds=max(at_s - record.submitted_s, 0.0))
        self._ledger.add(record, at_s, accelerator, amounts)

    def started(self, record: JobRecord, event: Started, part: AttemptStatus | None, state: State) -> None:
        """Note that an attempt runs: a start, a resume, a move or a resize. A gang has started with its last node, and a repeat
        says nothing new."""
        stay, alive = record.stay, state.jobs.attempts.get(record.id)
        if stay is None or stay.attempt != event.attempt or event.sequence <= stay.sequence:
            return
        now = alive is not None and alive.number == event.attempt
        if now and Phase(state.jobs.table.phase.item(state.jobs.row[record.id])) in _PENDING:
            return
        before = stay
        self._settle(record, event.at_s, speed=speed_now(state, record.id) if now else 0.0)
        assert record.stay is not None
        if alive is not None and now and alive.gpus.tolist() != list(stay.gpus):
            fresh = new_stay(state, stay.attempt, alive.gpus, record.stay.since_s, stay.share)
            record.stay = record.stay._replace(gpus=fresh.gpus, placement=fresh.placement, accelerator=fresh.accelerator)
        stay = record.stay = record.stay._replace(sequence=event.sequence)
        kind = self._start_kind(record, before, stay)
        if kind is None:
            return
        step = event.from_step if event.from_step is not None else part.from_step if part is not None else None
        self.add(
            record,
            JobEvent(
                kind=kind,
                at_s=event.at_s,
                attempt=stay.attempt,
                accelerator=stay.accelerator,
                gpus=stay.width,
                placement=stay.placement,
                from_placement=_from(record, before, kind),
                from_step=step if before.sequence == 0 else None,
                reclaim_seconds=max(event.at_s - record.submitted_s, 0.0) if record.reclaims else None,
                tenant=record.submitted.spec.tenant if record.reclaims else None,
            ),
        )
        record.moving_from, record.reclaims = None, False

    def _start_kind(self, record: JobRecord, before: GpuStay, stay: GpuStay) -> EventKind | None:
        """Return the kind of a start; None if the attempt runs on as before, because it could not be parked."""
        if before.sequence and record.last_kind != EventKind.PARKED:
            return EventKind.RESIZED if before.placement != stay.placement else None
        if record.moving_from not in (None, stay.placement):
            return EventKind.MOVED
        return EventKind.RESUMED if record.last_kind in _STOPPED else EventKind.STARTED

    def parked(self, record: JobRecord, event: Suspended, state: State) -> bool:
        """Note that a job is parked. Return whether that is news."""
        stay = record.stay
        if stay is None or stay.attempt != event.attempt or stay.since_s is None:
            return False
        self._settle(record, event.at_s)
        assert record.stay is not None
        record.stay = record.stay._replace(since_s=None, speed=0.0)
        why = self._why_stopped(record, stay, state)
        self.add(record, JobEvent(kind=EventKind.PARKED, at_s=event.at_s, attempt=stay.attempt, **_place(stay), **why))
        self._ledger.add(record, event.at_s, stay.accelerator, UsageAmounts(preemptions=1))
        return True

    def ended(
        self,
        record: JobRecord,
        event: Suspended | Exited,
        part: AttemptStatus | None,
        state: State,
        *,
        cancelled: bool,
    ) -> JobEvent:
        """Note the end of an attempt. Return its event, which the caller adds: if the job ended with it, as its last event."""
        stay = self._leave(record, event.at_s)
        lost, steps = (0.0, 0.0) if part is None or cancelled else (lost_seconds(part), _lost_steps(record, part))
        facts: dict[str, Any] = {
            "at_s": event.at_s,
            "lost_seconds": lost,
            "lost_steps": steps,
            "exit_code": part.exit_code if part is not None else None,
            "problem": event.setback or None,
            **_end_of(stay),
        }
        amounts = UsageAmounts(attempts=1, broken_seconds=lost)
        outcome = event.outcome if isinstance(event, Exited) else Outcome.YIELDED
        if outcome is Outcome.YIELDED:
            own = part is not None and part.stop_reason is None
            why = {"cause": Cause.YIELDED} if own else self._why_stopped(record, stay, state)
            found = JobEvent(kind=EventKind.SUSPENDED, **facts, **why)
            if not own and not cancelled:
                amounts = UsageAmounts(attempts=1, preemptions=1, preempted_seconds=lost)
        elif outcome is Outcome.LOST:
            nodes = () if stay is None else tuple(nodes_of(state, stay))
            facts["problem"] = facts["problem"] or (part.problem if part is not None else None)
            found = JobEvent(kind=EventKind.LOST, nodes=nodes, **facts)
        else:
            found = JobEvent(kind=EventKind.FINISHED if outcome is Outcome.FINISHED else EventKind.FAILED, **facts)
        self._ledger.add(record, event.at_s, _type(stay), amounts)
        return found

    def vanished(self, record: JobRecord, part: AttemptStatus | None, state: State, nodes: Iterable[int]) -> JobEvent:
        """Note an attempt that is gone without an end of its own: with its node, or with its lease. `nodes`: nodes that were
        lost."""
        stay = self._leave(record, state.now_s)
        gone = [state.nodes.cluster.nodes[node].name for node in sorted(set(nodes))]
        with_it = tuple(name for name in gone if stay is not None and name in nodes_of(state, stay))
        lost = 0.0 if part is None else max(worked_seconds(part, state.now_s) - part.safe_seconds, 0.0)
        problem = None if with_it else "its lease expired before its node answered again"
        self._ledger.add(record, state.now_s, _type(stay), UsageAmounts(attempts=1, broken_seconds=lost))
        return JobEvent(kind=EventKind.LOST, at_s=state.now_s, nodes=with_it, problem=problem, lost_seconds=lost, **_end_of(stay))

    def over(self, record: JobRecord, last: JobEvent | None, because: str = "") -> None:
        """Note the end of a job. `last`: the end of its last attempt, if the job ended with one; `because`: why it ended, if that
        was neither its own doing nor a user's."""
        assert record.ended_s is not None
        kind, at_s = EventKind(record.phase), record.ended_s
        found = last or JobEvent(kind=kind, at_s=at_s)
        found = replace(found, kind=kind, at_s=at_s, cause=None, given_to=(), policy=None, ends_job=True)
        if kind is EventKind.CANCELLED:
            found = replace(found, by=record.cancelled_by, exit_code=None, problem=None)
        if because and not record.cancelled_by:
            found = replace(found, problem=because)
        self.add(record, found)
        jct = max(at_s - record.submitted_s, 0.0) if kind is EventKind.FINISHED else 0.0
        self._ledger.add(record, at_s, found.accelerator, UsageAmounts(**{record.phase: 1}, jct_seconds=jct))

    def held(self, record: JobRecord, event: HoldRequested) -> bool:
        """Note that a job is held or released. Return whether that is news."""
        if event.held == (record.held_by is not None):
            return False
        record.held_by = (event.by or "") if event.held else None
        self.add(record, JobEvent(kind=EventKind.HELD if event.held else EventKind.RELEASED, at_s=event.at_s, by=event.by))
        return True

    def requeued(self, record: JobRecord, event: RequeueRequested) -> None:
        self.add(record, JobEvent(kind=EventKind.REQUEUED, at_s=event.at_s, by=event.by))

    def changed(self, record: JobRecord, event: JobChanged, what: str) -> None:
        """Note that fields of a job were changed. `what`: the fields and their values."""
        self.add(record, JobEvent(kind=EventKind.CHANGED, at_s=event.at_s, by=event.by, what=what))

    # Parts -------------------------------------------------------------------------------------------------------

    def _settle(self, record: JobRecord, until_s: float, *, share: float | None = None, speed: float | None = None) -> None:
        """Book what the job's stay has cost up to an instant. `share` and `speed`: those from then on, if they change."""
        stay = record.stay
        if stay is None:
            return
        gpu_seconds = work_seconds = 0.0
        for piece in pieces(stay, until_s):
            amounts = UsageAmounts(gpu_seconds=piece.gpu_seconds, work_seconds=piece.work_seconds)
            self._ledger.add_on(record, piece.day, stay.accelerator, amounts)
            gpu_seconds, work_seconds = gpu_seconds + piece.gpu_seconds, work_seconds + piece.work_seconds
        record.gpu_seconds, record.work_seconds = record.gpu_seconds + gpu_seconds, record.work_seconds + work_seconds
        record.stay = stay._replace(
            since_s=None if stay.since_s is None else max(until_s, stay.since_s),
            gpu_seconds=stay.gpu_seconds + gpu_seconds,
            work_seconds=stay.work_seconds + work_seconds,
            share=stay.share if share is None else share,
            speed=stay.speed if speed is None else speed,
        )

    def _leave(self, record: JobRecord, at_s: float) -> GpuStay | None:
        """End the stay of a job, and return it with everything booked."""
        self._settle(record, at_s)
        stay, record.stay = record.stay, None
        return stay

    def _why_stopped(self, record: JobRecord, stay: GpuStay | None, state: State) -> dict[str, Any]:
        """Return why a job gave up its GPUs, as fields of its event, by the plan in force."""
        if stay is None or record.id not in state.jobs.row:
            return {}
        gpus, want = np.array(stay.gpus), state.jobs.desired.get(record.id)
        others = sorted(state.nodes.planned.holders(gpus) - {record.id})
        given = tuple(OtherJob(job, each.name, each.user) for job in others if (each := self._records.open.get(job)) is not None)
        answer = state.cycle.answer
        why: dict[str, Any] = {"given_to": given, "policy": answer.policy if answer is not None else None}
        draining = set(state.nodes.cluster.gpu_node[gpus].tolist()) & state.nodes.draining
        if record.held_by is not None:
            return why | {"cause": Cause.HELD, "by": record.held_by or None}
        if draining:
            return why | {
                "cause": Cause.DRAINED,
                "nodes": tuple(state.nodes.cluster.nodes[node].name for node in sorted(draining)),
            }
        if state.nodes.windows and (reserved := reserved_for_others(state, record.id, gpus)):
            names = {state.nodes.cluster.gpu_node.item(gpu): None for gpu in reserved}
            return why | {
                "cause": Cause.RESERVED,
                "nodes": tuple(state.nodes.cluster.nodes[node].name for node in names),
            }
        if want is not None and want.tolist() != list(stay.gpus):
            record.moving_from = stay.placement
            return why | {"cause": Cause.MOVED}
        return why | {"cause": Cause.DISPLACED if given else Cause.POLICY}


def lost_nodes(events: Iterable[CoreEvent], state: State) -> set[int]:
    """Return the nodes that were lost, or restarted, with these events."""
    return {
        event.node
        for event in events
        if isinstance(event, NodeLost | NodeLeft | NodeReported) and event.node < len(state.nodes.cluster.nodes)
    }


def _from(record: JobRecord, before: GpuStay, kind: EventKind) -> str | None:
    if kind is EventKind.MOVED:
        return record.moving_from
    return before.placement if kind is EventKind.RESIZED else None


def _place(stay: GpuStay) -> dict[str, Any]:
    return {"accelerator": stay.accelerator, "gpus": stay.width, "placement": stay.placement}


def _end_of(stay: GpuStay | None) -> dict[str, Any]:
    """Return what the event at the end of an attempt states of its stay."""
    if stay is None:
        return {"ends_attempt": True}
    figures = {"attempt": stay.attempt, "gpu_seconds": stay.gpu_seconds, "work_seconds": stay.work_seconds}
    return {"ends_attempt": True, **_place(stay), **figures}


def _type(stay: GpuStay | None) -> str | None:
    return stay.accelerator if stay is not None else None


def _lost_steps(record: JobRecord, part: AttemptStatus) -> float:
    """Return the steps that were done and not saved; 0 for a job that reports none."""
    if part.outcome == Outcome.FINISHED or not (record.spec.progress or part.reports_steps):
        return 0.0
    return max(part.steps_done - part.steps_saved, 0.0)
