"""The job history: what clients see of each job. The journal stores it, in the same transactions as its entries.

The scheduler forgets a job when it has ended, and never knows its command. The history keeps both.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from rota.agent.attempt_files import AttemptStatus
from rota.agent.outcome import EXIT_YIELDED, length_text, lost_seconds, signal_name
from rota.core.explain import explain, reasons
from rota.core.fold.configured import CoreEvent
from rota.core.fold.setbacks import MAX_SETBACKS
from rota.core.state.state import State
from rota.live.journal import KeptJob
from rota.live.placement_text import format_placement
from rota.live.submission_keys import SubmissionKeys
from rota.model.commands import SuspendKind
from rota.model.events import CancelRequested, Exited, Outcome, Started, Suspended
from rota.model.job import Phase
from rota.model.reasons import Reason
from rota.park.park_method import EXIT, STAY, can_sleep, park_or_stay
from rota.wire.rows import ENDED, JobRow, ReasonRow, WhyRow
from rota.wire.submission import Submission, decode_submission, encode_submission

_UNSAVED = "it exited without saving when it was asked to stop, so it is parked if possible, and otherwise keeps running"
_UNSAVED_BEFORE = "left without saving"
"""Part of this sentence in homes of version 0.1."""

_Parking = tuple[str | None, str | None]
"""Park method and its reason; None if unknown."""

STALL_SECONDS = 10.0
"""Time without a step after which a job may count as stalled, in seconds."""

Statuses = Mapping[int, AttemptStatus]
"""Job number -> status."""


@dataclass
class JobRecord:
    """One job: its submission, and what only the history keeps."""

    id: int
    submitted: Submission
    submitted_s: float
    started_s: float | None = None
    ended_s: float | None = None
    phase: str = "queued"
    suspensions: int = 0
    lost_steps: float = 0.0
    lost_seconds: float = 0.0
    """Work that was done and lost in all its attempts, in seconds."""
    steps_done: float | None = None
    steps_total: float | None = None
    exit_code: int | None = None
    """Exit code of its last attempt; None while it has another."""
    last_change: str = ""
    steps_per_second: float | None = None
    """Rate of its last attempt, or of an earlier one that reported steps."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Latest numbers that it reported, such as its loss."""
    park_method: str | None = None
    """Park method, from the submission or from the node that last started the job; None if unknown. `rota/park/` has them all."""
    park_reason: str | None = None
    """Why it has this park method; None if unknown."""
    parking_problem: str | None = None
    """Why the last attempt to park it failed; None if it succeeded."""
    steps_problem: str | None = None
    """Why some reported steps do not count; None if all count."""
    problem: str | None = None
    """What its last attempt failed to do, if that was a setback; None otherwise."""

    @property
    def name(self) -> str:
        return self.submitted.spec.name or f"job-{self.id}"

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    def to_plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _KEPT}

    @classmethod
    def of(cls, job: int, submitted: Mapping[str, Any], plain: Mapping[str, Any]) -> "JobRecord":
        """Return a record from the journal, where earlier versions wrote an empty text for none."""
        kept: dict[str, Any] = {name: plain[name] for name in _KEPT if plain.get(name, "") != ""}
        if plain.get("parking"):  # method and reason as one text, in earlier versions
            way, _, why = plain["parking"].partition(": ")
            kept["park_method"], kept["park_reason"] = _unsaved(way) if _UNSAVED_BEFORE in why else (way, why or None)
        return cls(job, decode_submission(submitted), **kept)


_KEPT = tuple(each.name for each in fields(JobRecord) if each.name not in ("id", "submitted"))
"""Fields that the journal keeps as the row of a job."""


class JobHistory:
    """Records by job number, and their rows."""

    def __init__(self) -> None:
        self.records: dict[int, JobRecord] = {}
        self.keys = SubmissionKeys()
        self._rows: dict[int, tuple[Any, JobRow]] = {}
        self.changed: set[int] = set()
        """Jobs whose records have changed since the journal got them."""
        self._added: set[int] = set()
        """Jobs whose records the journal has never had."""
        self._finished: set[tuple[int, int]] = set()
        self._failed: set[tuple[int, int]] = set()
        """Attempts with a part that failed. `_finished` has those with a part that finished."""

    def restore(self, record: JobRecord) -> None:
        """Take in a record from the journal."""
        self.records[record.id] = record
        self.keys.add(record.id, record.submitted)

    def add(self, record: JobRecord) -> None:
        self.restore(record)
        self.changed.add(record.id)
        self._added.add(record.id)

    def take_changed(self) -> "dict[int, KeptJob]":
        """Return the jobs that have changed since the last call, for the journal, by job number."""
        found = {
            job: KeptJob(
                encode_submission(self.records[job].submitted) if job in self._added else None,
                self.records[job].to_plain(),
                self.records[job].ended,
            )
            for job in sorted(self.changed)
        }
        self.changed.clear()
        self._added.clear()
        return found

    def submitted(self, job: int) -> Submission:
        return self.records[job].submitted

    def note(
        self,
        events: Iterable[CoreEvent],
        before: set[int],
        cancelling: set[int],
        attempts: dict[int, int],
        state: State,
        parts: Statuses,
    ) -> None:
        """Record events. The other arguments are from before the events: `before` has the unfinished jobs, `cancelling` the ones
        that are being cancelled, and `attempts` the attempt of each job that has one.

        An event may be a repeat, above all after a restart. The end of an attempt counts once.
        """
        asked, finished, events = set(cancelling), set(), list(events)
        exits = [event for event in events if isinstance(event, Exited) and attempts.get(event.job) == event.attempt]
        # As in the core, one part that finished means that the work is done, even if another was lost while it exited.
        self._finished |= {(event.job, event.attempt) for event in exits if event.outcome is Outcome.FINISHED}
        self._failed |= {(event.job, event.attempt) for event in exits if event.outcome is Outcome.FAILED}
        for event in events:
            if isinstance(event, CancelRequested):
                asked.add(event.job)
            elif isinstance(event, Started | Suspended | Exited) and attempts.get(event.job) == event.attempt:
                key = event.job, event.attempt
                if isinstance(event, Exited) or (isinstance(event, Suspended) and event.kind is SuspendKind.CHECKPOINT):
                    alive = state.jobs.attempts.get(event.job)
                    if event.node is not None and alive is not None and alive.number == event.attempt:
                        continue  # other parts of it are still there
                    del attempts[event.job]
                    if key in self._finished and key not in self._failed:
                        finished.add(event.job)
                    self._finished.discard(key)
                    self._failed.discard(key)
                over = event.job not in state.jobs.row
                self._note(self.records[event.job], event, parts.get(event.job), over=over, cancelled=over and event.job in asked)
        for job in before - state.jobs.row.keys():
            record = self.records[job]
            record.phase = "finished" if job in finished else "cancelled" if job in asked else "failed"
            record.ended_s = record.ended_s if record.ended_s is not None else state.now_s
            because = f": {record.problem}, {MAX_SETBACKS} times in a row" if record.problem and record.phase == "failed" else ""
            record.last_change = f"{record.phase} at {iso(record.ended_s)}{because}"
            self.changed.add(job)

    def _note(
        self,
        record: JobRecord,
        event: Started | Suspended | Exited,
        part: AttemptStatus | None,
        *,
        over: bool,
        cancelled: bool,
    ) -> None:
        """Record one event. `over`: whether it was the job's last attempt, whose steps count, saved or not. `cancelled`: whether
        it was cancelled, which is not a suspension, and loses no work that was wanted."""
        self.changed.add(record.id)
        if isinstance(event, Started):
            record.started_s = event.at_s if record.started_s is None else record.started_s
            record.last_change = f"started at {iso(event.at_s)}"
            if part is not None and part.parking_problem:
                record.parking_problem = part.parking_problem
                record.last_change = f"kept running at {iso(event.at_s)}: it can't be parked, and is not known to save its state"
            record.ended_s = record.exit_code = None  # these were of an earlier attempt
            if part is not None and part.park_method:
                record.park_method, record.park_reason = _parking(record, part)
            return
        parked = isinstance(event, Suspended) and event.kind is SuspendKind.PARK
        record.problem = event.setback
        if isinstance(event, Suspended) and not event.saved and record.park_reason != _UNSAVED:
            record.park_method, record.park_reason = _unsaved(record.park_method)
        if part is not None:
            record.exit_code = part.exit_code
            record.metrics = dict(part.metrics) or record.metrics
            record.parking_problem = part.parking_problem
            record.steps_problem = part.steps_problem or record.steps_problem
            record.steps_total = part.steps_total if part.steps_total is not None else record.steps_total
            if record.submitted.spec.progress or part.reports_steps:
                record.steps_per_second = step_rate(part) or record.steps_per_second
                kept = part.outcome == Outcome.FINISHED or parked
                record.steps_done = part.steps_done if kept or over else part.steps_saved
                record.lost_steps += 0.0 if kept or cancelled else max(part.steps_done - part.steps_saved, 0.0)
            record.lost_seconds += 0.0 if parked or cancelled else lost_seconds(part)
        if cancelled:
            return
        if parked:
            if record.last_change != (text := f"parked at {iso(event.at_s)}"):  # an event may come again after a restart
                record.suspensions, record.last_change = record.suspensions + 1, text
        elif isinstance(event, Exited) and event.outcome in (Outcome.FINISHED, Outcome.FAILED):
            record.ended_s = event.at_s
            record.last_change = f"failed at {iso(event.at_s)} with exit code {record.exit_code}; it has another try"
        else:
            record.suspensions += 1
            record.last_change = f"suspended at {iso(event.at_s)}" + (f": {event.setback}" if event.setback else _how(part))

    # Reading -----------------------------------------------------------------------------------------------------

    def phases(self, records: Iterable[JobRecord], state: State) -> list[str]:
        """Return the phase of each record, as in its row."""
        found, table = state.jobs.row, state.jobs.table.phase.tolist()
        return [
            record.phase if (row := found.get(record.id)) is None else _phase(record, Phase(table[row])) for record in records
        ]

    def rows(self, records: Iterable[JobRecord], state: State, latest: Statuses, now_s: float) -> list[JobRow]:
        codes, phases = reasons(state).tolist(), state.jobs.table.phase.tolist()
        found = []
        for record in records:
            row = state.jobs.row.get(record.id)
            standing = (-1, 0) if row is None else (phases[row], codes[row])
            if record.id in latest or record.id in state.jobs.attempts:
                found.append(self._row(record, state, standing, latest.get(record.id), now_s))
                continue
            # The row of a job that waits or has ended stays the same until something happens to it. Most jobs are like this.
            key = (
                standing,
                record.phase,
                record.started_s,
                record.ended_s,
                record.suspensions,
                record.exit_code,
                record.steps_done,
                record.last_change,
            )
            kept = self._rows.get(record.id)
            if kept is None or kept[0] != key:
                kept = self._rows[record.id] = (key, self._row(record, state, standing, None, now_s))
            found.append(kept[1])
        return found

    def _row(
        self, record: JobRecord, state: State, standing: tuple[int, int], part: AttemptStatus | None, now_s: float
    ) -> JobRow:
        spec, row = record.submitted.spec, state.jobs.row.get(record.id)
        phase, accelerator, where, reason, setback = record.phase, None, None, None, None
        done, rate, attempt = record.steps_done, None, None
        if row is not None:
            now, code = Phase(standing[0]), Reason(standing[1])
            phase = _phase(record, now)
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
            left = max(max(total - (done or 0.0), 0.0) / rate_known - (_quiet_seconds(part, now_s) if rate else 0.0), 0.0)
            left = left if math.isfinite(left) else None
        way, why = _parking_now(record, state)
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
            setbacks=setback.times if setback is not None else 0,
            retry_at=iso(setback.until_s) if setback is not None and setback.until_s > now_s else None,
            problem=record.problem or (part.saving_problem if part is not None else None),
            exit_code=record.exit_code,
            last_change=record.last_change,
            command=record.submitted.command,
            metrics=dict(part.metrics if part is not None and part.metrics else record.metrics),
            park_method=way,
            park_reason=f"{why or ''} (not parked: {record.parking_problem})".strip() if record.parking_problem else why,
            limits_problem=part.limits_problem if part is not None else None,
            steps_problem=(part.steps_problem if part is not None else None) or record.steps_problem,
        )

    def why(self, record: JobRecord, state: State, latest: Statuses, now_s: float) -> WhyRow:
        found = explain(state, record.id) if record.id in state.jobs.row else []
        ahead: list[JobRecord] = []
        for explanation in found:
            ahead = [self.records[job] for job in _numbers(explanation.facts.get("ahead")) if job in self.records] or ahead
        return WhyRow(
            job=self.rows([record], state, latest, now_s)[0],
            reasons=[ReasonRow(code=e.code.name, sentence=e.sentence, facts=_plain(e.facts)) for e in found],
            ahead=self.rows(ahead[:20], state, latest, now_s),
            last_change=record.last_change or None,
            policy=state.cycle.answer.policy if state.cycle.answer is not None else None,
        )


def _phase(record: JobRecord, now: Phase) -> str:
    """Return the phase for clients. A job that ran before is checkpointed, whether or not it has saved."""
    return "checkpointed" if now is Phase.QUEUED and record.started_s is not None else now.name.lower()


def _known(figure: float) -> float | None:
    """Return the figure; None if it is NaN."""
    return figure if figure == figure else None


def step_rate(part: AttemptStatus, now_s: float | None = None) -> float | None:
    """Return the steps per second of an attempt, without the time before its first step and its time parked; None if unknown.
    `now_s`: the time, if it is running. A job that has been quiet for long counts as slow then."""
    since_s, since_steps = part.pace.since_s, part.pace.since_steps
    if since_s is None and part.start_sequence == part.launch_sequence:  # an earlier version writes only when it began
        since_s, since_steps = part.began_s, part.from_step
    if since_s is None or part.stepped_s is None:
        return None
    seconds, steps = part.stepped_s - since_s, part.steps_done - since_steps
    if now_s is not None and _stalls(part, seconds, now_s):
        seconds = now_s - since_s
    return steps / seconds if steps > 0 and seconds > 0 else None


def _stalls(part: AttemptStatus, seconds: float, now_s: float) -> bool:
    """Return whether it has been quiet for much longer than the window of its pace."""
    return part.stepped_s is not None and now_s - part.stepped_s > max(2 * seconds, STALL_SECONDS)


def _quiet_seconds(part: AttemptStatus | None, now_s: float) -> float:
    """Return the seconds since its last reported step, during which it has worked on; 0 for a job that stalls."""
    if part is None or part.stepped_s is None or part.pace.since_s is None:
        return 0.0
    return 0.0 if _stalls(part, part.stepped_s - part.pace.since_s, now_s) else max(now_s - part.stepped_s, 0.0)


def _parking(record: JobRecord, part: AttemptStatus) -> _Parking:
    """Return the park method that the node chose. If the job was seen to exit without saving, that stands."""
    if record.park_reason == _UNSAVED:
        return _unsaved(part.park_method)
    spec = record.submitted.spec
    if spec.checkpoint.saves is False and not spec.preemptible:
        return park_or_stay(part.park_method or "", part.park_reason or "")
    return part.park_method, part.park_reason


def _parking_now(record: JobRecord, state: State) -> _Parking:
    """Return the park method of the moment. A job that is not known to save keeps running if it can't be parked."""
    way, why = record.park_method, record.park_reason
    row = state.jobs.row.get(record.id)
    if row is None or state.jobs.table.saves.item(row):
        return way, why
    if can_sleep(way or "") and record.parking_problem and not state.jobs.table.can_park.item(row):
        way, why = EXIT, "that was tried"
    if way != EXIT:
        return way, why
    return park_or_stay(way, why or "", "it is not known to save its state")


def _unsaved(way: str | None) -> _Parking:
    return way if can_sleep(way or "") else STAY, _UNSAVED


def _how(part: AttemptStatus | None) -> str:
    """Return how an attempt exited, and why that does not end the job."""
    if part is None or part.exit_code is None:
        return ""
    if part.exit_code == 0:
        return ": it was asked to stop and exited with code 0, and its steps don't show that it is done"
    if part.exit_code == EXIT_YIELDED:
        return f": it saved its state and left with exit code {EXIT_YIELDED}"
    how = f"exit code {part.exit_code}" if part.exit_code > 0 else signal_name(-part.exit_code)
    if part.reports_steps and part.steps_saved >= part.steps_done:  # a launcher of ranks has an exit code of its own
        return f": it saved its state and left with {how}"
    return f": it left with {how}, and {length_text(lost_seconds(part))} of work is lost"


def iso(seconds: float | None) -> str | None:
    """Return the instant in UTC; None if it is unknown, or not within the years 1 to 9999."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None


def _numbers(value: object) -> list[int]:
    return [int(each) for each in value] if isinstance(value, list | tuple) else []


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}
