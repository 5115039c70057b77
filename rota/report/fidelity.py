"""Fidelity: a live run, simulated again from its own journal, and how far the two are apart, job by job.

From the journal come the arrivals, how fast each job really ran, and what starting and stopping really took. The simulation then
decides for itself; nothing of the real schedule is given to it.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rota.beliefs.rates import Rates
from rota.live.journal import JournalEntry
from rota.model.commands import Launch, Suspend
from rota.model.events import Exited, Outcome, Started, Submitted, Suspended
from rota.model.job import Arrival, JobSpec
from rota.sim.record import Record
from rota.traces.trace import Trace

STEPS = 1e6
"""Every job of the trace has so many; how long they take is its rate."""


@dataclass(frozen=True)
class Observed:
    """What a live run shows about the world it ran in."""

    trace: Trace
    seconds: dict[str, float]
    """Profile of each job, which is its name here -> seconds it ran in all."""
    jct_seconds: list[float]
    """In the order of the trace."""
    launch_seconds: float
    """From the decision to the first instruction, the median."""
    suspend_seconds: float
    """From the decision until its GPUs were free, the median."""
    rate_spread: float = 0.0
    """How far the pace of a job differs from one of its lives to the next, relatively, the median over jobs with several."""

    def rates(self, types: Sequence[str]) -> Rates:
        """How fast each job ran, on every one of these accelerator types."""
        speed = {a.spec.profile: STEPS / max(self.seconds[a.spec.profile], 1e-3) for a in self.trace.arrivals}
        return Rates({(a.spec.profile, kind, a.spec.width): speed[a.spec.profile] for a in self.trace.arrivals for kind in types})


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


def observe(entries: Iterable[JournalEntry]) -> Observed:
    """Read a journal through once."""
    submitted: dict[int, tuple[float, JobSpec]] = {}
    asked_s: dict[tuple[int, str], float] = {}
    began_s: dict[int, float] = {}
    ran: dict[int, float] = {}
    ended_s: dict[int, float] = {}
    launches, suspends = [], []
    at_step: dict[int, float] = {}
    paces: dict[int, list[float]] = {}
    for entry in entries:
        for event in entry.events:
            if isinstance(event, Submitted):
                submitted[event.job] = (event.at_s, event.spec)
            elif isinstance(event, Started):
                began_s[event.job] = event.at_s
                at_step[event.job] = event.from_step or at_step.get(event.job, 0.0)
                if (event.job, "launch") in asked_s:
                    launches.append(event.at_s - asked_s.pop((event.job, "launch")))
            elif isinstance(event, Suspended | Exited):
                done = event.steps_done if isinstance(event, Suspended) else event.steps_saved
                lived = event.at_s - began_s.get(event.job, event.at_s)
                if lived > 0 and done > at_step.get(event.job, 0.0):
                    paces.setdefault(event.job, []).append((done - at_step.get(event.job, 0.0)) / lived)
                    at_step[event.job] = done
                if event.job in began_s:
                    ran[event.job] = ran.get(event.job, 0.0) + event.at_s - began_s.pop(event.job)
                if (event.job, "suspend") in asked_s:
                    suspends.append(event.at_s - asked_s.pop((event.job, "suspend")))
                if isinstance(event, Exited) and event.outcome is Outcome.FINISHED:
                    ended_s[event.job] = event.at_s
        for command in entry.decided.commands if entry.decided is not None else ():
            if isinstance(command, Launch | Suspend):
                asked_s.setdefault((command.job, type(command).__name__.lower()), entry.now_s)
    jobs = [job for job in submitted if job in ended_s]
    first_s = min((submitted[job][0] for job in jobs), default=0.0)
    arrivals = [
        Arrival(submitted[job][0] - first_s, replace(submitted[job][1], name=f"job-{job}", steps=STEPS, profile=f"job-{job}"))
        for job in jobs
    ]
    return Observed(
        trace=Trace.of("journal", "journal", arrivals),
        seconds={f"job-{job}": ran[job] for job in jobs},
        jct_seconds=[ended_s[job] - submitted[job][0] for job in jobs],
        launch_seconds=statistics.median(launches) if launches else 0.0,
        suspend_seconds=statistics.median(suspends) if suspends else 0.0,
        rate_spread=_spread(paces.values()),
    )


def _spread(paces: Iterable[Sequence[float]]) -> float:
    found = [statistics.pstdev(each) / statistics.mean(each) for each in paces if len(each) > 1]
    return statistics.median(found) if found else 0.0


def compare(observed: Observed, record: Record) -> Fidelity:
    """The real run beside a simulation of its trace."""
    simulated = (record.finished_s - record.submitted_s).tolist()
    return Fidelity([arrival.spec.name for arrival in observed.trace.arrivals], observed.jct_seconds, simulated)
