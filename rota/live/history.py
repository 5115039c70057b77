"""The job history: what clients see of each job. The journal stores it, in the same transactions as its entries.

The scheduler forgets a job when it has ended, and never knows its command. The history keeps both: of ended jobs in the journal,
with an outline in memory.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from rota.agent.attempt_files import AttemptStatus
from rota.agent.outcome import EXIT_YIELDED, damage_text, length_text, lost_seconds, signal_name
from rota.core.explain import explain, reasons
from rota.core.fold.configured import CoreEvent
from rota.core.fold.setbacks import MAX_SETBACKS
from rota.core.state.state import State
from rota.errors import ConflictError
from rota.live.arrays import Arrays, array_row, number_of
from rota.live.attempt_rate import step_rate
from rota.live.ended_jobs import EndedJob, JobOutline
from rota.live.event_notes import EventNotes, lost_nodes
from rota.live.instants import iso
from rota.live.job_changes import changes_of
from rota.live.job_events import JobEvent
from rota.live.job_record import UNSAVED, JobRecord, unsaved
from rota.live.job_records import KEPT_RECORDS, JobRecords, ReadRecords
from rota.live.job_rows import make_row, phase_of
from rota.live.journal_history import KeptJob, Noted
from rota.live.parking_text import parking_of
from rota.live.submission_keys import SubmissionKeys
from rota.live.unfinished_jobs import UnfinishedJobs
from rota.model.codec import Plain
from rota.model.commands import SuspendKind
from rota.model.counted import counted
from rota.model.events import (
    CancelRequested,
    Decided,
    Exited,
    HoldRequested,
    JobChanged,
    Outcome,
    RequeueRequested,
    Started,
    Submitted,
    Suspended,
)
from rota.model.job import Phase
from rota.wire.rows import ENDED, JobRow, ReasonRow, WhyRow
from rota.wire.submission import Submission, encode_submission
from rota.wire.task_array import ArrayTask

TELL_SECONDS = 2.0
"""Time between two lines about a start that takes long, in seconds."""
Statuses = Mapping[int, AttemptStatus]
"""Job number -> status."""


class JobHistory:
    """Records by job number, and their rows."""

    def __init__(self, read: ReadRecords | None = None, kept: int = KEPT_RECORDS) -> None:
        """`read`: reads records from the journal; None if there is none, so that all stay in memory. `kept`: the number of ended
        jobs whose records stay in memory."""
        self.records = JobRecords(read, kept)
        self.keys = SubmissionKeys(self.records)
        self.arrays = Arrays()
        self._rows: dict[int, tuple[Any, JobRow]] = {}
        """Rows of unfinished jobs."""
        self.changed: set[int] = set()
        """Jobs whose records have changed since the journal got them."""
        self._added: set[int] = set()
        """Jobs whose records the journal has never had."""
        self._written: set[int] = set()
        """Jobs whose records were written last."""
        self._finished: set[tuple[int, int]] = set()
        self._failed: set[tuple[int, int]] = set()
        """Attempts with a part that failed. `_finished` has those with a part that finished."""
        self.unfinished = UnfinishedJobs()
        self._notes = EventNotes(self.records)

    def restore(self, jobs: Iterable[tuple[int, Plain, Plain]], tell: Callable[[str], None] = lambda line: None) -> None:
        """Take in the jobs of the journal, by number. Of an ended one only the outline stays in memory. `tell`: takes lines about
        the progress, if it takes long."""
        next_s = time.monotonic() + TELL_SECONDS
        for count, (job, sent, plain) in enumerate(jobs, 1):
            if count % 1000 == 0 and time.monotonic() > next_s:
                next_s = time.monotonic() + TELL_SECONDS
                tell(f"{count:,} jobs were read from the journal so far")
            if plain.get("phase") not in ENDED or not self.records.can_read:
                self._restore(JobRecord.of(job, sent, plain))
                continue
            self.records.add_ended(outline := EndedJob.of_plain(job, sent, plain))
            self.keys.add_ended(job, outline.user, sent.get("idempotency_key") or None)
            if sent.get("task") is not None:
                self.arrays.add(job, ArrayTask(**sent["task"]))

    def _restore(self, record: JobRecord) -> None:
        self.records.add(record)
        if not record.ended:
            self.unfinished.add(record.submitted)
        self.keys.add(record.id, record.submitted)
        self.arrays.add(record.id, record.submitted.task)

    def add(self, record: JobRecord) -> None:
        self._restore(record)
        self.changed.add(record.id)
        self._added.add(record.id)
        self._notes.submitted(record)

    def known_number(self, sent: Submission) -> int | None:
        """Return the number of the job, or of its array, that was submitted with the key of a submission; None if there is none.
        Raise ConflictError if another job was submitted with it."""
        job = self.keys.find(sent)
        return None if job is None else number_of(self.records.outline(job))

    def name_of(self, number: int) -> str:
        """Return the name of a job or an array, as in its row."""
        return self.arrays.title(number) if number in self.arrays else self.records.outline(number).name

    def adopt(self, state: State) -> None:
        """Give the attempts of an earlier version, which kept no usage, a stay on their GPUs. Call it after the records were
        restored, before anything is folded."""
        for job, attempt in state.jobs.attempts.items():
            record = self.records.writable(job)
            if record.stay is None or record.stay.attempt != attempt.number:
                self._notes.adopt(record, state)
                self.changed.add(job)

    def ended_before(self, until_s: float) -> list[int]:
        """Return the jobs that ended before an instant, in order of submission. The journal has all of them."""
        return self.records.ended.ended_before(until_s)

    def forget(self, jobs: Collection[int]) -> None:
        """Forget ended jobs."""
        tasks: dict[int, set[int]] = {}
        for each in self.records.outlines(list(jobs)):
            if each.array is not None:
                tasks.setdefault(each.array, set()).add(each.id)
        self.arrays.forget(tasks)
        self.keys.forget(set(jobs))
        self.records.remove(jobs)

    def take_noted(self) -> Noted:
        """Return what has changed since the last call, for the journal."""
        found = {}
        for job in sorted(self.changed):
            record = self.records.open[job]
            spec = encode_submission(record.submitted) if job in self._added else None
            found[job] = KeptJob(spec, record.to_plain(), record.ended)
        self._written = set(found)
        self.changed.clear()
        self._added.clear()
        return Noted(found, *self._notes.take())

    def settle(self) -> None:
        """Take the records of ended jobs out of memory, now that the journal has what `take_noted` returned."""
        for record in self.records.settle(self._written - self.changed):
            self.keys.settle(record.id, record.submitted)
            self._rows.pop(record.id, None)
        self._written = set()

    def submitted(self, job: int) -> Submission:
        return self.records[job].current

    def note(
        self,
        events: Iterable[CoreEvent],
        before: set[int],
        cancelling: set[int],
        attempts: dict[int, int],
        state: State,
        parts: Statuses,
        decided: Decided | None = None,
    ) -> None:
        """Record events, and what was decided after them. The other arguments are from before the events: `before` has the
        unfinished jobs, `cancelling` the ones that are being cancelled, and `attempts` the attempt of each job that has one.

        An event may be a repeat, above all after a restart. The end of an attempt counts once.
        """
        events, asked = list(events), set(cancelling)
        finished: set[int] = set()
        exits = [event for event in events if isinstance(event, Exited) and attempts.get(event.job) == event.attempt]
        # As in the core, one part that finished means that the work is done, even if another was lost while it exited.
        self._finished |= {(event.job, event.attempt) for event in exits if event.outcome is Outcome.FINISHED}
        self._failed |= {(event.job, event.attempt) for event in exits if event.outcome is Outcome.FAILED}
        last: dict[int, JobEvent] = {}
        for event in events:
            if isinstance(event, CancelRequested | HoldRequested | RequeueRequested | JobChanged):
                self._note_request(event, before, asked)
            elif isinstance(event, Started | Suspended | Exited) and self._counts(event, attempts, finished, state):
                over = event.job not in state.jobs.row
                record = self.records.writable(event.job)
                end = self._note(record, event, parts.get(event.job), state, cancelled=over and event.job in asked)
                if end is not None and over:
                    last[event.job] = end
                elif end is not None:
                    self._notes.add(record, end)
        self._note_vanished(events, attempts, asked, last, state, parts)
        new = {event.job for event in events if isinstance(event, Submitted)}
        for job in (before | new) - state.jobs.row.keys():
            record = self.records.writable(job)
            how, because = state.jobs.ended_because.get(job, (Phase.FAILED, ""))
            record.phase = "finished" if job in finished else "cancelled" if job in asked else how.label
            record.ended_s = record.ended_s if record.ended_s is not None else state.now_s
            if not because and record.problem and record.phase == "failed":
                because = f"{record.problem}, {MAX_SETBACKS} times in a row"
            elif because and record.phase == "failed":
                record.problem = because
            record.last_change = f"{record.phase} at {iso(record.ended_s)}" + (f": {because}" if because else "")
            self._notes.over(record, last.get(job), because)
            self.unfinished.remove(record.submitted)
            self.changed.add(job)
        if state.sharing or state.nodes.observed.gpu_fractions:
            self.changed.update(self._notes.share_again(attempts, state))
        if decided is not None:
            self.changed.update(self._notes.sent(decided, state))
            if decided.plan is not None and decided.plan.reclaimed:
                self.changed.update(self._notes.reclaiming(decided.plan, state))

    def _counts(self, event: Started | Suspended | Exited, attempts: dict[int, int], finished: set[int], state: State) -> bool:
        """Return whether an event counts: it is of the job's attempt, and no other part of a gang has yet to report the same. An
        end takes the attempt out of `attempts`, and a job that has done its work goes to `finished`."""
        if attempts.get(event.job) != event.attempt:
            return False
        alive, key = state.jobs.attempts.get(event.job), (event.job, event.attempt)
        others_left = event.node is not None and alive is not None and alive.number == event.attempt
        if isinstance(event, Started):
            return True
        if isinstance(event, Suspended) and event.kind is SuspendKind.PARK:
            return not others_left or (alive is not None and alive.parked)
        if others_left:
            return False
        del attempts[event.job]
        if key in self._finished and key not in self._failed:
            finished.add(event.job)
        self._finished.discard(key)
        self._failed.discard(key)
        return True

    def _note_request(
        self, event: CancelRequested | HoldRequested | RequeueRequested | JobChanged, before: set[int], asked: set[int]
    ) -> None:
        """Record a request, and who asked."""
        if isinstance(event, CancelRequested):
            asked.add(event.job)
        if event.job not in before or (record := self.records.open.get(event.job)) is None or record.ended:
            return
        if isinstance(event, CancelRequested):
            record.cancelled_by = record.cancelled_by or event.by
        elif isinstance(event, HoldRequested):
            if not self._notes.held(record, event):
                return
            record.last_change = f"{'held' if event.held else 'released'} at {iso(event.at_s)}"
        elif isinstance(event, RequeueRequested):
            self._notes.requeued(record, event)
            record.last_change = f"requeued at {iso(event.at_s)}"
        else:
            changes = changes_of(event)
            record.changes = {**record.changes, **changes}
            what = ", ".join(f"{name} {'none' if value is None else value}" for name, value in changes.items())
            self._notes.changed(record, event, what)
            record.last_change = f"changed at {iso(event.at_s)}: {what}"
        self.changed.add(record.id)

    def _note_vanished(
        self,
        events: list[CoreEvent],
        attempts: Mapping[int, int],
        asked: set[int],
        last: dict[int, JobEvent],
        state: State,
        parts: Statuses,
    ) -> None:
        """Record attempts that are gone although no event says how they ended: with their node or their lease."""
        living = state.jobs.attempts
        gone = [job for job, number in attempts.items() if (alive := living.get(job)) is None or alive.number != number]
        for job in gone:
            record = self.records.writable(job)
            found = self._notes.vanished(record, parts.get(job), state, lost_nodes(events, state))
            self.changed.add(job)
            if job not in state.jobs.row:
                last[job] = found
                continue
            record.lost_seconds += found.lost_seconds
            record.last_change = f"lost at {iso(found.at_s)}: " + (found.problem or f"with {', '.join(found.nodes)}")
            self._notes.add(record, found)

    def _note(
        self, record: JobRecord, event: Started | Suspended | Exited, part: AttemptStatus | None, state: State, *, cancelled: bool
    ) -> JobEvent | None:
        """Record one event. Return the end of the attempt, if it is one. `cancelled`: whether the job was cancelled, which is not
        a suspension, and loses no work that was wanted."""
        self.changed.add(record.id)
        if isinstance(event, Started):
            self._note_start(record, event, part, state)
            return None
        over = record.id not in state.jobs.row  # it was the job's last attempt, whose steps count, saved or not
        parked = isinstance(event, Suspended) and event.kind is SuspendKind.PARK
        record.problem = event.setback
        if isinstance(event, Suspended) and not event.saved and record.park_reason != UNSAVED:
            record.park_method, record.park_reason = unsaved(record.park_method)
        if part is not None:
            record.exit_code = part.exit_code
            record.metrics = dict(part.metrics) or record.metrics
            record.parking_problem = part.parking_problem
            if part.damaged_mib is not None:
                record.changes, record.parking_problem = {**record.changes, "park": False}, damage_text(part.damaged_mib)
            record.steps_problem = part.steps_problem or record.steps_problem
            record.steps_total = part.steps_total if part.steps_total is not None else record.steps_total
            if record.spec.progress or part.reports_steps:
                record.steps_per_second = step_rate(part) or record.steps_per_second
                kept = part.outcome == Outcome.FINISHED or parked
                record.steps_done = part.steps_done if kept or over else part.steps_saved
                record.lost_steps += 0.0 if kept or cancelled else max(part.steps_done - part.steps_saved, 0.0)
            record.lost_seconds += 0.0 if parked or cancelled else lost_seconds(part)
        if isinstance(event, Suspended) and parked:
            if self._notes.parked(record, event, state) and not cancelled:  # an event may come again after a restart
                record.suspensions, record.last_change = record.suspensions + 1, f"parked at {iso(event.at_s)}"
            return None
        end = self._notes.ended(record, event, part, state, cancelled=cancelled)
        if cancelled:
            return end
        if isinstance(event, Exited) and event.outcome in (Outcome.FINISHED, Outcome.FAILED):
            record.ended_s = event.at_s
            record.last_change = f"failed at {iso(event.at_s)} with exit code {record.exit_code}; it has another try"
        else:
            record.suspensions += 1
            record.last_change = f"suspended at {iso(event.at_s)}" + (f": {event.setback}" if event.setback else _how(part))
        return end

    def _note_start(self, record: JobRecord, event: Started, part: AttemptStatus | None, state: State) -> None:
        if record.started_s is None:
            record.started_s = event.at_s
            self._notes.begun(record, event.at_s)
        self._notes.started(record, event, part, state)
        record.last_change = f"started at {iso(event.at_s)}"
        if part is not None and part.parking_problem:
            record.parking_problem = part.parking_problem
            record.last_change = f"kept running at {iso(event.at_s)}: it can't be parked, and is not known to save its state"
        record.ended_s = record.exit_code = None  # these were of an earlier attempt
        if part is not None and part.park_method:
            record.park_method, record.park_reason = parking_of(record, part)

    # Reading -----------------------------------------------------------------------------------------------------

    def phases(self, records: Iterable[JobOutline], state: State) -> list[str]:
        """Return the phase of each job, as in its row."""
        found, table = state.jobs.row, state.jobs.table.phase.tolist()
        return [
            record.phase if (row := found.get(record.id)) is None else phase_of(record, Phase(table[row])) for record in records
        ]

    def outline(self, job: int) -> JobOutline:
        """Return what is in memory of a job. Raise ConflictError if the number is that of an array."""
        return self.one(job) if job in self.arrays else self.records.outline(job)

    def one(self, job: int) -> JobRecord:
        """Return the record of a job. Raise ConflictError if the number is that of an array."""
        if job in self.arrays:
            first = self.records[self.arrays.jobs(job)[0]].submitted.task
            assert first is not None
            problem = f"is an array of {counted(first.count, 'job')}, and this is about one job."
            raise ConflictError(problem, field="job", value=str(job), hint=f"{job}_{first.index}, for one of its tasks")
        return self.records[job]

    def tasks(self, array: int) -> list[JobOutline]:
        """Return an array's tasks, by index."""
        return self.records.outlines(self.arrays.jobs(array))

    def array_rows(self, arrays: Collection[int], state: State, now_s: float) -> list[JobRow]:
        """Return a row for each of these arrays."""
        firsts = self.records.many(self.arrays.jobs(each)[0] for each in arrays)
        tasks = [self.tasks(each) for each in arrays]
        phases, at, found = self.phases([task for some in tasks for task in some], state), 0, []
        for first, some in zip(firsts, tasks, strict=True):
            found.append(array_row(first, some, phases[at : at + len(some)], now_s))
            at += len(some)
        return found

    def rows(self, records: Iterable[JobRecord], state: State, latest: Statuses, now_s: float) -> list[JobRow]:
        codes, phases = reasons(state).tolist(), state.jobs.table.phase.tolist()
        found = []
        for record in records:
            row = state.jobs.row.get(record.id)
            standing = (-1, 0) if row is None else (phases[row], codes[row])
            if record.id in latest or record.id in state.jobs.attempts or record.id not in self.records.open:
                found.append(make_row(record, state, standing, latest.get(record.id), now_s))
                continue
            # The row of a job that waits stays the same until something happens to it. Most unfinished jobs are like this.
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
                kept = self._rows[record.id] = (key, make_row(record, state, standing, None, now_s))
            found.append(kept[1])
        return found

    def why(self, record: JobRecord, state: State, latest: Statuses, now_s: float) -> WhyRow:
        found = explain(state, record.id) if record.id in state.jobs.row else []
        ahead: list[JobRecord] = []
        for explanation in found:  # these are unfinished
            jobs = _numbers(explanation.facts.get("ahead"))
            ahead = [self.records.open[job] for job in jobs if job in self.records.open] or ahead
        return WhyRow(
            job=self.rows([record], state, latest, now_s)[0],
            reasons=[ReasonRow(code=e.code.name, sentence=e.sentence, facts=_plain(e.facts)) for e in found],
            ahead=self.rows(ahead[:20], state, latest, now_s),
            last_change=record.last_change,
            policy=state.cycle.answer.policy if state.cycle.answer is not None else None,
        )


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


def _numbers(value: object) -> list[int]:
    return [int(each) for each in value] if isinstance(value, list | tuple) else []


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}
