"""Fidelity: a live run, simulated again from its own journal, and how far the two are apart, job by job.

From the journal come the arrivals, how fast each attempt of a job really trained, and what starting, suspending, resuming and
leaving really took. The simulation then decides for itself; nothing of the real schedule is given to it.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rota.live.journal_entries import JournalEntry
from rota.model.commands import JobCommand, Launch, Resume, Suspend, SuspendKind
from rota.model.events import Allocated, Decided, Exited, External, Measured, Outcome, Progressed, Started, Submitted, Suspended
from rota.model.job import Arrival, JobSpec
from rota.report.job_time import JobTime, JobTimes
from rota.sim.observed_physics import ObservedJob, SeenAnswer, SeenAttempt
from rota.sim.record import Record
from rota.traces.trace import Trace

SHORTEST_SECONDS = 1e-3
"""No job trains for less."""
LEAST_SECONDS = 3.0
"""A shorter stretch says little of a pace."""
TOLD_WITH_START_SECONDS = 0.4
"""What a job tells so soon after its start are the steps with which it started: it tells the next ones later than that."""


Span = tuple[float, float]
"""From when to when."""
COSTS = tuple(each.name for each in fields(ObservedJob) if each.name.endswith("_seconds") and each.name != "work_seconds")
LEAST_STEPS = 10.0
"""An attempt with fewer steps says little of its rate: half a step is not known."""
LATEST_SECONDS = 1.0
"""A timer is not later than this: then it was another one."""
HALF_STEP = 0.5
"""A job that is asked to stop ends its step. On average it had made half of that when it was asked."""


@dataclass(frozen=True)
class RunObservation:
    """What a live run shows about the world it ran in."""

    trace: Trace
    jobs: dict[str, ObservedJob]
    """By the name that the job has in the trace."""
    usual: dict[str, ObservedJob]
    """The same with what everything but training takes on average, and each job at its own mean rate."""
    undisturbed: dict[str, ObservedJob]
    """The same as if no job had slowed another down: each at its best pace, and every start as when no other job starts."""
    jct_seconds: list[float]
    """In the order of the trace."""
    launch_seconds: float
    """From the command to the first step, the mean."""
    suspend_seconds: float
    """From the command until it had saved and its GPUs were free, the mean."""
    leave_seconds: float
    """From the last step until its GPUs were free, the mean."""
    answer_seconds: float
    """From asking the policy until the scheduler had its answer, the mean..."""
    answers: tuple[SeenAnswer, ...]
    """...and one after the other, in the time of the trace."""
    times: list[JobTime]
    """Where the time of each job went, in the order of the trace."""
    rate_spread: float = 0.0
    """How far the pace of a job differs from one of its lives to the next, relatively, the median over jobs with several."""
    left_out: int = 0
    """Jobs that were submitted and did not finish."""


@dataclass(frozen=True)
class Fidelity:
    """Real and simulated JCTs of the same jobs."""

    names: list[str]
    real: list[float]
    simulated: list[float]

    @property
    def mean_error(self) -> float:
        """Simulated mean JCT over the real one, less 1."""
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
    """Read a journal through once. Where it was decided in rounds, they begin in the trace as they really did."""
    reader = _Reader()
    for entry in entries:
        reader.times.take(entry)
        for event in entry.events:
            reader.hear(event, entry.now_s)
        if entry.decided is not None:
            by_timer = not any(isinstance(event, Submitted | Suspended | Exited) for event in entry.events)
            reader.decided(entry.decided, entry.now_s, by_timer)
    return reader.observed(round_seconds)


def compare(observed: RunObservation, record: Record) -> Fidelity:
    """The real run beside a simulation of its trace."""
    simulated = (record.finished_s - record.submitted_s).tolist()
    return Fidelity([arrival.spec.name for arrival in observed.trace.arrivals], observed.jct_seconds, simulated)


@dataclass
class _Attempt:
    """What the journal says of one attempt."""

    start_seconds: float | None = None
    start_notice_seconds: float | None = None
    suspend_seconds: float | None = None
    end_notice_seconds: float | None = None
    seconds: float = 0.0
    """That it trained..."""
    steps: float = 0.0
    """...and its steps meanwhile."""

    def seen(self, rate: float) -> SeenAttempt:
        """`rate`: of the whole job; 0: it is not known."""
        known = rate > 0 and self.steps >= LEAST_STEPS
        return SeenAttempt(
            start_seconds=self.start_seconds,
            start_notice_seconds=self.start_notice_seconds,
            relative_rate=self.steps / self.seconds / rate if known else None,
            suspend_seconds=self.suspend_seconds,
            end_notice_seconds=self.end_notice_seconds,
        )


@dataclass
class _Job:
    """What the journal says of one job."""

    spec: JobSpec
    submitted_s: float
    asked: Launch | Resume | Suspend | None = None
    """The command that it has not answered yet..."""
    asked_s: float = 0.0
    """...and when that left."""
    steps: float = 0.0
    """As last told."""
    since_s: float | None = None
    """It trains since; None: it does not."""
    since_steps: float = 0.0
    """Its steps then."""
    seconds: float = 0.0
    """That it trained in all..."""
    paced_seconds: float = 0.0
    """...in stretches of which the steps are known..."""
    paced_steps: float = 0.0
    """...and these steps."""
    first_steps: float = 0.0
    """Steps that it had made when it first counted as started."""
    paces: list[float] = field(default_factory=list)
    """Steps a second, stretch by stretch..."""
    windows: list[float] = field(default_factory=list)
    """...and as measured while it ran."""
    total: float | None = None
    """Steps that it had made when it finished; None: it told none."""
    ended_s: float | None = None
    """When it finished."""
    took: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COSTS})
    """Seconds of everything that was no training."""
    starts: list[Span] = field(default_factory=list)
    """Its launches."""
    attempts: list[_Attempt] = field(default_factory=list)

    @property
    def attempt(self) -> _Attempt:
        """The latest. One that began before the journal did is none of these."""
        return self.attempts[-1] if self.attempts else _Attempt()

    def trained(self, until_s: float, steps: float | None, after: float = 0.0) -> None:
        """It trained until then, and had made these steps, `after` of them later than that."""
        if self.since_s is None:
            return
        seconds = max(until_s - self.since_s, 0.0)
        self.seconds += seconds
        made = (steps if steps is not None else 0.0) - self.since_steps - after
        if seconds > 0 and made > 0:
            self.paced_seconds += seconds
            self.paced_steps += made
            self.attempt.seconds += seconds
            self.attempt.steps += made
            if seconds >= LEAST_SECONDS:
                self.paces.append(made / seconds)
        self.since_s = None

    @property
    def work_seconds(self) -> float:
        """What all its steps take, but for those that its first start is made of."""
        return max(self._seconds_at(self.rate), SHORTEST_SECONDS)

    @property
    def rate(self) -> float:
        """Steps a second over all its attempts; 0: it is not known."""
        return self.paced_steps / self.paced_seconds if self.paced_seconds else 0.0

    @property
    def best_seconds(self) -> float:
        """The same at the best pace that was seen of it."""
        return min(max(self._seconds_at(max((*self.paces, *self.windows), default=0.0)), SHORTEST_SECONDS), self.work_seconds)

    def _seconds_at(self, pace: float) -> float:
        if self.total is None or not pace:
            return self.seconds
        return (self.total - self.first_steps) / pace

    @property
    def arriving(self) -> JobSpec:
        """What was submitted. If its length was not, it is known afterwards only."""
        known = 0 < self.spec.steps < math.inf
        return self.spec if known else replace(self.spec, steps=self.total or self.work_seconds)


class _Reader:
    """Reads events and commands in order."""

    def __init__(self) -> None:
        self.jobs: dict[int, _Job] = {}
        self.asked_s: dict[int, float] = {}
        """When the policy was asked, by ticket."""
        self.answers: list[SeenAnswer] = []
        self.until_s = math.inf
        """When the plan in force ends."""
        self.times = JobTimes()

    def decided(self, decided: Decided, now_s: float, by_timer: bool) -> None:
        """`by_timer`: nothing had happened that the policy would be asked about."""
        if decided.ticket:
            late = by_timer and self.until_s <= now_s < self.until_s + LATEST_SECONDS
            self.asked_s[decided.ticket] = self.until_s if late else now_s
        if decided.plan is not None:
            self.until_s = decided.plan.until_s
        for command in decided.commands:
            self.on_command(command, now_s)

    def on_command(self, command: JobCommand, now_s: float) -> None:
        """A command left. One that is sent again is the same."""
        job = self.jobs.get(command.job)
        if job is None or not isinstance(command, Launch | Resume | Suspend):
            return
        before = job.asked
        if before is None or (before.attempt, before.sequence) != (command.attempt, command.sequence):
            job.asked, job.asked_s = command, now_s
            if isinstance(command, Launch):
                job.attempts.append(_Attempt())

    def hear(self, event: External, now_s: float) -> None:
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
        elif isinstance(event, Allocated) and event.ticket in self.asked_s:
            asked_s = self.asked_s.pop(event.ticket)
            self.answers.append(SeenAnswer(asked_s, max(now_s - asked_s, 0.0)))

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
            if job.since_s is not None and event.at_s <= job.since_s + TOLD_WITH_START_SECONDS and steps > job.since_steps:
                job.since_steps = steps  # the step with which it counts as started
                job.first_steps = job.first_steps if job.seconds else steps
            job.steps = steps

    def _started(self, job: _Job, event: Started) -> bool:
        """Return whether that is news."""
        if job.since_s is not None and event.at_s <= job.since_s:
            return False  # told once more: its daemon was started again
        if isinstance(job.asked, Launch):
            job.attempt.start_seconds = event.at_s - job.asked_s
            job.took["relaunch_seconds" if job.starts else "launch_seconds"].append(event.at_s - job.asked_s)
            job.starts.append((job.asked_s, event.at_s))
        elif isinstance(job.asked, Resume):
            job.took["resume_seconds"].append(event.at_s - job.asked_s)
        job.asked = None
        if event.from_step is not None:
            job.steps = event.from_step
        job.trained(event.at_s, job.steps)  # it goes on with another size
        job.since_s, job.since_steps = event.at_s, job.steps
        return True

    def _suspended(self, job: _Job, event: Suspended) -> None:
        if isinstance(job.asked, Suspend):
            name = "park_seconds" if event.kind is SuspendKind.PARK else "suspend_seconds"
            job.took[name].append(event.at_s - job.asked_s)
            if event.kind is SuspendKind.CHECKPOINT:
                job.attempt.suspend_seconds = event.at_s - job.asked_s
            job.trained(job.asked_s, event.steps_done, HALF_STEP if event.kind is SuspendKind.CHECKPOINT else 0.0)
        else:
            job.trained(event.at_s, event.steps_done)
        job.steps, job.asked = event.steps_done, None

    def _exited(self, job: _Job, event: Exited) -> None:
        """What it did after its last step was no training. If it was told to stop then, it was leaving anyway."""
        last_s = event.at_s if event.stepped_s is None else event.stepped_s
        finished = event.outcome is Outcome.FINISHED
        if isinstance(job.asked, Suspend) and not finished:
            last_s = min(last_s, job.asked_s)
        job.trained(last_s, event.steps_done)
        job.asked, job.steps = None, event.steps_saved
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
            rate_spread=_spread(job.paces for job in done.values()),
            left_out=len(self.jobs) - len(done),
        )


def _seen(job: _Job, usual: Mapping[str, float]) -> ObservedJob:
    """As it was itself. What it never did takes as long as with other jobs on average."""
    took = {name: _typical(name, job.took[name]) if job.took[name] else usual[name] for name in COSTS}
    return ObservedJob(
        work_seconds=job.work_seconds,
        first_steps=job.first_steps,
        tells_steps=job.total is not None,
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
    """Return the mean; of how late the scheduler knows, the median, since a scheduler that is down learns nothing for long."""
    return statistics.median(seconds) if seconds and name == "notice_seconds" else _mean(seconds)


def _mean(values: Sequence[float]) -> float:
    return statistics.mean(values) if values else 0.0


def _lone(starts: Iterable[Span]) -> list[Span]:
    """Those during which no other job started."""
    spans = sorted(starts)
    found, latest_s = [], -math.inf
    for at, (from_s, to_s) in enumerate(spans):
        next_s = spans[at + 1][0] if at + 1 < len(spans) else math.inf
        if latest_s <= from_s and to_s <= next_s:
            found.append((from_s, to_s))
        latest_s = max(latest_s, to_s)
    return found


def _spread(paces: Iterable[Sequence[float]]) -> float:
    found = [statistics.pstdev(each) / statistics.mean(each) for each in paces if len(each) > 1]
    return statistics.median(found) if found else 0.0
