"""Fidelity: a live run, simulated again from its own journal, and the difference between the two for each job.

The journal gives the arrivals, the real rate of each attempt, and the real durations of starting, suspending, resuming and
leaving. The simulation then makes its own decisions; it knows nothing of the real schedule.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rota.core.fold.configured import CoreEvent
from rota.live.journal_entries import JournalEntry
from rota.model.commands import JobCommand, Launch, Resume, Suspend, SuspendKind
from rota.model.events import Allocated, Decided, Exited, Measured, Outcome, Progressed, Started, Submitted, Suspended
from rota.model.job import Arrival, JobSpec
from rota.report.job_time import JobTime, JobTimes
from rota.sim.observed_physics import ObservedJob, SeenAnswer, SeenAttempt
from rota.sim.record import Record
from rota.traces.trace import Trace

MIN_WORK_SECONDS = 1e-3
"""Minimum training time of a job, in seconds."""
MIN_RATE_SECONDS = 3.0
"""Minimum time for a rate measurement, in seconds."""
START_REPORT_SECONDS = 0.4
"""Steps reported within this time after a start are the steps with which the job started, in seconds. Later reports take
longer."""


Span = tuple[float, float]
"""Start and end of a period, in seconds."""
COSTS = tuple(each.name for each in fields(ObservedJob) if each.name.endswith("_seconds") and each.name != "work_seconds")
MIN_STEPS = 10.0
"""Minimum number of steps for the rate of an attempt: the count may be off by half a step."""
MAX_TIMER_DELAY_SECONDS = 1.0
"""Maximum delay of a timer, in seconds. A decision after that had another cause."""
HALF_STEP = 0.5
"""Mean fraction of a step that a job had made when a suspend command arrived: a job always ends its step."""


@dataclass(frozen=True)
class RunObservation:
    """Behaviour of jobs and scheduler in a live run, for its simulation."""

    trace: Trace
    jobs: dict[str, ObservedJob]
    """Observed jobs, by their names in the trace."""
    usual: dict[str, ObservedJob]
    """Observed jobs if everything but training took its mean time, and each job always had its own mean rate."""
    undisturbed: dict[str, ObservedJob]
    """Observed jobs if no job slowed another down: each has its best rate, and every start is as if no other job starts."""
    jct_seconds: list[float]
    """Real JCT of each job in seconds, in trace order."""
    launch_seconds: float
    """Mean time from the launch command to the first step, in seconds."""
    suspend_seconds: float
    """Mean time from the suspend command until the job had saved and its GPUs were free, in seconds."""
    leave_seconds: float
    """Mean time from the last step until the GPUs were free, in seconds."""
    answer_seconds: float
    """Mean time from a policy call to its answer, in seconds."""
    answers: tuple[SeenAnswer, ...]
    """Policy answers in order, with times relative to the trace."""
    times: list[JobTime]
    """How each job spent its time, in trace order."""
    rate_spread: float = 0.0
    """Median over jobs with several attempts of the relative standard deviation of a job's rate between attempts."""
    left_out: int = 0
    """Number of jobs that were submitted and did not finish."""


@dataclass(frozen=True)
class Fidelity:
    """Real and simulated JCTs of the same jobs, in seconds."""

    names: list[str]
    real: list[float]
    simulated: list[float]

    @property
    def mean_error(self) -> float:
        """Simulated mean JCT / real mean JCT - 1."""
        return statistics.mean(self.simulated) / statistics.mean(self.real) - 1

    @property
    def per_job_p90_error(self) -> float:
        errors = sorted(abs(ours / theirs - 1) for ours, theirs in zip(self.simulated, self.real, strict=True))
        return errors[min(int(0.9 * len(errors)), len(errors) - 1)]

    def __str__(self) -> str:
        lines = [f"{'JOB':12} {'REAL':>9} {'SIMULATED':>10} {'ERROR':>8}"]
        for name, real, simulated in zip(self.names, self.real, self.simulated, strict=True):
            lines.append(f"{name:12} {real:8.2f}s {simulated:9.2f}s {simulated / real - 1:+8.1%}")
        lines.append(f"mean JCT {self.mean_error:+.1%}, per job p90 {self.per_job_p90_error:.1%}")
        return "\n".join(lines)


def observe(entries: Iterable[JournalEntry], round_seconds: float = 0.0) -> RunObservation:
    """Read a journal once from start to end. `round_seconds` aligns the rounds of the trace with the real rounds."""
    reader = _Reader()
    for entry in entries:
        reader.times.take(entry)
        for event in entry.events:
            reader.on_event(event, entry.now_s)
        if entry.decided is not None:
            by_timer = not any(isinstance(event, Submitted | Suspended | Exited) for event in entry.events)
            reader.decided(entry.decided, entry.now_s, by_timer)
    return reader.observed(round_seconds)


def compare(observed: RunObservation, record: Record) -> Fidelity:
    """Compare the real run with a simulation of its trace."""
    simulated = (record.finished_s - record.submitted_s).tolist()
    return Fidelity([arrival.spec.name for arrival in observed.trace.arrivals], observed.jct_seconds, simulated)


@dataclass
class _Attempt:
    """The journal's facts about one attempt."""

    start_seconds: float | None = None
    start_notice_seconds: float | None = None
    suspend_seconds: float | None = None
    end_notice_seconds: float | None = None
    seconds: float = 0.0
    """Training time with known steps, in seconds."""
    steps: float = 0.0
    """Steps made in that training time."""

    def seen(self, rate: float) -> SeenAttempt:
        """Return the attempt relative to `rate`, the rate of the whole job; 0 if unknown."""
        known = rate > 0 and self.steps >= MIN_STEPS
        return SeenAttempt(
            start_seconds=self.start_seconds,
            start_notice_seconds=self.start_notice_seconds,
            relative_rate=self.steps / self.seconds / rate if known else None,
            suspend_seconds=self.suspend_seconds,
            end_notice_seconds=self.end_notice_seconds,
        )


@dataclass
class _Job:
    """The journal's facts about one job."""

    spec: JobSpec
    submitted_s: float
    command: Launch | Resume | Suspend | None = None
    """Command that the job has not acknowledged; None if there is none."""
    command_s: float = 0.0
    """Time at which that command was sent."""
    steps: float = 0.0
    """Steps as last reported."""
    since_s: float | None = None
    """Time since which the job trains; None if it does not."""
    since_steps: float = 0.0
    """Steps when it began to train."""
    seconds: float = 0.0
    """Total training time, in seconds."""
    rated_seconds: float = 0.0
    """Training time in periods with known steps, in seconds."""
    rated_steps: float = 0.0
    """Steps made in these periods."""
    first_steps: float = 0.0
    """Steps that the job had made when it first counted as started."""
    rates: list[float] = field(default_factory=list)
    """Steps per second of each training period."""
    windows: list[float] = field(default_factory=list)
    """Steps per second that the scheduler measured while the job ran."""
    total: float | None = None
    """Steps that the job had made when it finished; None if it reported none."""
    ended_s: float | None = None
    """Time at which the job finished; None if it did not."""
    took: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COSTS})
    """Durations of everything but training, in seconds."""
    starts: list[Span] = field(default_factory=list)
    """Launches of the job, each from the command to the first step."""
    attempts: list[_Attempt] = field(default_factory=list)

    @property
    def attempt(self) -> _Attempt:
        """Latest attempt. An attempt that began before the journal is not listed, so a new one stands for it."""
        return self.attempts[-1] if self.attempts else _Attempt()

    def trained(self, until_s: float, steps: float | None, after: float = 0.0) -> None:
        """End a training period at this time with these steps, `after` of which the job made later."""
        if self.since_s is None:
            return
        seconds = max(until_s - self.since_s, 0.0)
        self.seconds += seconds
        made = (steps if steps is not None else 0.0) - self.since_steps - after
        if seconds > 0 and made > 0:
            self.rated_seconds += seconds
            self.rated_steps += made
            self.attempt.seconds += seconds
            self.attempt.steps += made
            if seconds >= MIN_RATE_SECONDS:
                self.rates.append(made / seconds)
        self.since_s = None

    @property
    def work_seconds(self) -> float:
        """Time for all steps at the mean rate, without the steps of the first start, in seconds."""
        return max(self._seconds_at(self.rate), MIN_WORK_SECONDS)

    @property
    def rate(self) -> float:
        """Steps per second over all attempts; 0 if unknown."""
        return self.rated_steps / self.rated_seconds if self.rated_seconds else 0.0

    @property
    def best_seconds(self) -> float:
        """Time for all steps at the best rate that was observed, in seconds."""
        return min(max(self._seconds_at(max((*self.rates, *self.windows), default=0.0)), MIN_WORK_SECONDS), self.work_seconds)

    def _seconds_at(self, rate: float) -> float:
        if self.total is None or not rate:
            return self.seconds
        return (self.total - self.first_steps) / rate

    @property
    def arriving(self) -> JobSpec:
        """Job as submitted. A job of unknown length gets the length that it really had."""
        return self.spec if self.spec.steps else replace(self.spec, steps=self.total or self.work_seconds)


class _Reader:
    """Reads events and commands in order."""

    def __init__(self) -> None:
        self.jobs: dict[int, _Job] = {}
        self.called_s: dict[int, float] = {}
        """Time of each policy call without an answer, by ticket."""
        self.answers: list[SeenAnswer] = []
        self.until_s = math.inf
        """Time at which the plan in force ends."""
        self.times = JobTimes()

    def decided(self, decided: Decided, now_s: float, by_timer: bool) -> None:
        """Read a decision. `by_timer`: whether only a timer, and no event, can have caused it."""
        if decided.ticket is not None:
            late = by_timer and self.until_s <= now_s < self.until_s + MAX_TIMER_DELAY_SECONDS
            self.called_s[decided.ticket] = self.until_s if late else now_s
        if decided.plan is not None:
            self.until_s = decided.plan.until_s
        for command in decided.commands:
            self.on_command(command, now_s)

    def on_command(self, command: JobCommand, now_s: float) -> None:
        """Read a command. A command that is sent again is ignored."""
        job = self.jobs.get(command.job)
        if job is None or not isinstance(command, Launch | Resume | Suspend):
            return
        before = job.command
        if before is None or (before.attempt, before.sequence) != (command.attempt, command.sequence):
            job.command, job.command_s = command, now_s
            if isinstance(command, Launch):
                job.attempts.append(_Attempt())

    def on_event(self, event: CoreEvent, now_s: float) -> None:
        if isinstance(event, Submitted):
            self.jobs[event.job] = _Job(event.spec, event.at_s)
        elif isinstance(event, Progressed):
            self._progressed(event)
        elif isinstance(event, Measured):
            for number, rate in zip(event.jobs.tolist(), event.rate.tolist(), strict=True):
                if number in self.jobs:
                    self.jobs[number].windows.append(rate)
        elif isinstance(event, Started | Suspended | Exited) and event.job in self.jobs:
            self._changed(self.jobs[event.job], event, max(now_s - event.at_s, 0.0))
        elif isinstance(event, Allocated) and event.ticket in self.called_s:
            called_s = self.called_s.pop(event.ticket)
            self.answers.append(SeenAnswer(called_s, max(now_s - called_s, 0.0)))

    def _changed(self, job: _Job, event: Started | Suspended | Exited, notice_seconds: float) -> None:
        if isinstance(event, Started):
            if self._started(job, event):
                job.attempt.start_notice_seconds = notice_seconds
                job.took["notice_seconds"].append(notice_seconds)
            return
        if job.attempt.end_notice_seconds is None:
            job.attempt.end_notice_seconds = notice_seconds
            job.took["notice_seconds"].append(notice_seconds)
        if isinstance(event, Suspended):
            self._suspended(job, event)
        else:
            self._exited(job, event)

    def _progressed(self, event: Progressed) -> None:
        for number, steps in zip(event.jobs.tolist(), event.steps_done.tolist(), strict=True):
            job = self.jobs.get(number)
            if job is None:
                continue
            if job.since_s is not None and event.at_s <= job.since_s + START_REPORT_SECONDS and steps > job.since_steps:
                job.since_steps = steps  # the step with which it counts as started
                job.first_steps = job.first_steps if job.seconds else steps
            job.steps = steps

    def _started(self, job: _Job, event: Started) -> bool:
        """Read a start. Return False if it was known already."""
        if job.since_s is not None and event.at_s <= job.since_s:
            return False  # reported again after a restart of the daemon
        if isinstance(job.command, Launch):
            job.attempt.start_seconds = event.at_s - job.command_s
            job.took["relaunch_seconds" if job.starts else "launch_seconds"].append(event.at_s - job.command_s)
            job.starts.append((job.command_s, event.at_s))
        elif isinstance(job.command, Resume):
            job.took["resume_seconds"].append(event.at_s - job.command_s)
        job.command = None
        if event.from_step is not None:
            job.steps = event.from_step
        job.trained(event.at_s, job.steps)  # it continues at another size
        job.since_s, job.since_steps = event.at_s, job.steps
        return True

    def _suspended(self, job: _Job, event: Suspended) -> None:
        if isinstance(job.command, Suspend):
            name = "park_seconds" if event.kind is SuspendKind.PARK else "suspend_seconds"
            job.took[name].append(event.at_s - job.command_s)
            if event.kind is SuspendKind.CHECKPOINT:
                job.attempt.suspend_seconds = event.at_s - job.command_s
            job.trained(job.command_s, event.steps_done, HALF_STEP if event.kind is SuspendKind.CHECKPOINT else 0.0)
        else:
            job.trained(event.at_s, event.steps_done)
        job.steps, job.command = event.steps_done, None

    def _exited(self, job: _Job, event: Exited) -> None:
        """Read an exit. Time after the last step is not training. A job that got a suspend command in that time was leaving
        anyway."""
        last_s = event.at_s if event.stepped_s is None else event.stepped_s
        finished = event.outcome is Outcome.FINISHED
        if isinstance(job.command, Suspend) and not finished:
            last_s = min(last_s, job.command_s)
        job.trained(last_s, event.steps_done)
        job.command, job.steps = None, event.steps_saved
        if finished:
            job.ended_s, job.total = event.at_s, event.steps_done
            job.took["leave_seconds"].append(max(event.at_s - last_s, 0.0))

    def observed(self, round_seconds: float) -> RunObservation:
        done = {f"job-{number}": job for number, job in self.jobs.items() if job.ended_s is not None}
        times = self.times.finished()
        first_s = min((job.submitted_s for job in done.values()), default=0.0)
        origin_s = first_s - first_s % round_seconds if round_seconds else first_s
        took = {name: [each for job in done.values() for each in job.took[name]] for name in COSTS}
        took["relaunch_seconds"] = took["relaunch_seconds"] or took["launch_seconds"]
        lone = [to_s - from_s for from_s, to_s in _lone(span for job in done.values() for span in job.starts)]
        usual: dict[str, Any] = {name: _typical(name, seconds) for name, seconds in took.items()}
        seen = {name: _seen(job, usual) for name, job in done.items()}
        return RunObservation(
            trace=Trace.of(
                "journal",
                "journal",
                [Arrival(job.submitted_s - origin_s, replace(job.arriving, name=name)) for name, job in done.items()],
            ),
            jobs=seen,
            usual={name: replace(job, attempts=(), **usual) for name, job in seen.items()},
            undisturbed={name: _undisturbed(each, done[name].best_seconds, lone) for name, each in seen.items()},
            times=[times[number] for number, job in self.jobs.items() if job.ended_s is not None],
            jct_seconds=[job.ended_s - job.submitted_s for job in done.values() if job.ended_s is not None],
            launch_seconds=_mean([to_s - from_s for job in done.values() for from_s, to_s in job.starts]),
            suspend_seconds=usual["suspend_seconds"],
            leave_seconds=usual["leave_seconds"],
            answer_seconds=_mean([answer.seconds for answer in self.answers]),
            answers=tuple(SeenAnswer(answer.asked_s - origin_s, answer.seconds) for answer in self.answers),
            rate_spread=_spread(job.rates for job in done.values()),
            left_out=len(self.jobs) - len(done),
        )


def _seen(job: _Job, usual: Mapping[str, float]) -> ObservedJob:
    """Return the job as observed. Durations that it never showed are the mean of other jobs."""
    took = {name: _typical(name, job.took[name]) if job.took[name] else usual[name] for name in COSTS}
    return ObservedJob(
        work_seconds=job.work_seconds,
        first_steps=job.first_steps,
        reports_steps=job.total is not None,
        attempts=tuple(each.seen(job.rate if job.total is not None else 0.0) for each in job.attempts),
        **took,
    )


def _undisturbed(job: ObservedJob, best_seconds: float, lone: Sequence[float]) -> ObservedJob:
    alone = _mean(lone) if lone else math.inf
    return replace(
        job,
        attempts=(),
        work_seconds=best_seconds,
        launch_seconds=min(job.launch_seconds, alone),
        relaunch_seconds=min(job.relaunch_seconds, alone),
    )


def _typical(name: str, seconds: Sequence[float]) -> float:
    """Return the mean; for delays of notices the median, since a stopped scheduler learns of events very late."""
    return statistics.median(seconds) if seconds and name == "notice_seconds" else _mean(seconds)


def _mean(values: Sequence[float]) -> float:
    return statistics.mean(values) if values else 0.0


def _lone(starts: Iterable[Span]) -> list[Span]:
    """Return the starts during which no other job started."""
    spans = sorted(starts)
    found, latest_s = [], -math.inf
    for at, (from_s, to_s) in enumerate(spans):
        next_s = spans[at + 1][0] if at + 1 < len(spans) else math.inf
        if latest_s <= from_s and to_s <= next_s:
            found.append((from_s, to_s))
        latest_s = max(latest_s, to_s)
    return found


def _spread(rates: Iterable[Sequence[float]]) -> float:
    found = [statistics.pstdev(each) / statistics.mean(each) for each in rates if len(each) > 1]
    return statistics.median(found) if found else 0.0
