"""`rota fidelity`: what really ran in some homes, simulated again from what was submitted, and how far the two are apart."""

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.compose.make_setup import round_length_seconds
from rota.compose.registry import make_policy
from rota.errors import JournalError, OptionError
from rota.live.driver import PROGRESS_EVERY_SECONDS
from rota.live.home_setup import HomeSetup
from rota.live.journal_entries import JournalEntry
from rota.live.journal_place import find_journal, has_journal, open_journal
from rota.model.units import FOREVER
from rota.report.fidelity_causes import CauseError, errors_by_cause, pairs_in_other_order
from rota.report.job_time import JobTime, job_times
from rota.report.result import plain_table
from rota.report.run_observation import Fidelity, RunObservation, compare, observe
from rota.sim.engine import Journal
from rota.sim.observed_physics import ObservedEngine, ObservedJob, ObservedPhysics, SeenAnswer
from rota.sim.record import Record

CLOSE = 0.01
"""Two policies whose real means are no further apart than this, relatively, have no order."""
DRAWS = 3
"""Simulations that say how much hangs on milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFidelity:
    """One home."""

    policy: str
    home: str
    jobs: int
    jobs_left_out: int
    """Submitted, and not finished: they are not simulated."""
    mean_error: float
    """Simulated mean JCT over the real one, less 1."""
    per_job_p90_error: float
    """Nine in ten jobs are simulated at most this far off."""
    usual_mean_error: float
    """The same if every start, suspension and end takes what it takes on average, and not what it took this job..."""
    usual_per_job_p90_error: float
    """...and nine in ten jobs are then within this."""
    alone_mean_error: float
    """The same if no job slows another down: each has its best rate, and starts as when no other job starts..."""
    alone_per_job_p90_error: float
    """...and nine in ten jobs are then within this."""
    simulated_mean_jct_seconds: float
    real_mean_jct_seconds: float
    launch_seconds: float
    """What a start really took, up to the first step, the mean..."""
    suspend_seconds: float
    """...what a suspension did, until the GPUs were free..."""
    leave_seconds: float
    """...and how long a job that had made its last step kept its GPUs."""
    answer_seconds: float
    """How long the policy took for an answer, the mean."""
    launching_seconds: float
    """What first starts add to the simulated mean JCT..."""
    switching_seconds: float
    """...what suspensions and further starts do..."""
    leaving_seconds: float
    """...and the way out after the last step."""
    interference_seconds: float
    """What jobs add by slowing each other down: paces below the best of the job, and starts beside others."""
    rate_spread: float
    """How far the pace of a job differs from one of its lives to the next, relatively: what runs beside it, and warming up."""
    other_order: float
    """Part of all pairs of jobs that really ended in one order, and in the other in the simulation..."""
    usual_other_order: float
    """...and in the one with averages."""
    chance_mean_error: float
    """How far the simulated mean JCT moves, relatively, if the answers of the policy swap the times that they took: the most
    in a few draws..."""
    chance_per_job_p90_error: float
    """...and how far nine in ten jobs then move at most. This part of an error hangs on milliseconds."""
    causes: tuple[CauseError, ...]
    """Error of the mean JCT by cause. The errors add up to `mean_error`."""

    def row(self) -> dict[str, Any]:
        """Return everything in one row, without lists."""
        whole = asdict(self)
        causes = whole.pop("causes")
        return whole | {f"{each['cause']}_{name}": each[name] for each in causes for name in each if name != "cause"}


@dataclass(frozen=True, slots=True)
class FidelityReport:
    """All homes, and whether the simulation puts their policies in the same order. It prints itself."""

    policies: tuple[PolicyFidelity, ...]
    same_ranking: bool | None
    """None: there is one home, or all took as long."""

    def to_dict(self) -> dict[str, Any]:
        return {"policies": [asdict(each) for each in self.policies], "same_ranking": self.same_ranking}

    def __str__(self) -> str:
        rows = [
            [
                each.policy,
                f"{each.jobs:,}",
                f"{each.real_mean_jct_seconds:.2f}s",
                f"{each.simulated_mean_jct_seconds:.2f}s",
                f"{each.mean_error:+.1%}",
                f"{each.per_job_p90_error:.1%}",
                f"{each.usual_mean_error:+.1%}",
                f"{each.launching_seconds:.2f}s",
                f"{each.switching_seconds:.2f}s",
                f"{each.leaving_seconds:.2f}s",
                f"{each.interference_seconds:.2f}s",
            ]
            for each in self.policies
        ]
        heads = ["POLICY", "JOBS", "REAL", "SIMULATED", "ERROR", "P90", "USUAL", "STARTS", "SWITCHES", "ENDS", "SLOWED"]
        words = {True: "The simulation ranks the policies as they really were.", False: "The simulation ranks them otherwise."}
        told = [words[self.same_ranking]] if self.same_ranking is not None else []
        left_out = [
            f"{each.home}: {each.jobs_left_out:,} jobs did not finish. They are not simulated, though they took GPUs from others."
            for each in self.policies
            if each.jobs_left_out
        ]
        about = (
            "REAL and SIMULATED: mean JCT. P90: nine in ten jobs are within this. USUAL: the error if starts, suspensions and\n"
            "ends take what they take on average. Parts of the simulated mean: STARTS, the first of each job; SWITCHES,\n"
            "suspensions and later starts; ENDS, from a last step until the GPUs are free; SLOWED, what jobs do to each other."
        )
        return "\n".join([plain_table(heads, rows), about, "", self._by_cause(), *left_out, *told])

    def _by_cause(self) -> str:
        heads = ["POLICY", "CAUSE", "REAL", "SIMULATED", "ERROR", "PER JOB", "USUAL", "PER JOB", "ALONE", "PER JOB"]
        rows = [
            [
                each.policy,
                cause.cause,
                f"{cause.real_seconds:.2f}s",
                f"{cause.simulated_seconds:.2f}s",
                f"{cause.error:+.1%}",
                f"{cause.per_job_error:.1%}",
                f"{cause.usual_error:+.1%}",
                f"{cause.usual_per_job_error:.1%}",
                f"{cause.alone_error:+.1%}",
                f"{cause.alone_per_job_error:.1%}",
            ]
            for each in self.policies
            for cause in each.causes
        ]
        about = (
            "REAL and SIMULATED: mean seconds of a job. ERROR: their difference over the real mean JCT; the causes add up to\n"
            "the error above. PER JOB: the mean absolute difference. USUAL: as above. ALONE: if no job slows another down.\n"
            "Interference: training. Order: waiting, also for jobs that take longer for another cause. Other: from a last step\n"
            "to the end, and training that was lost."
        )
        return "\n".join([plain_table(heads, rows, left=2), about, *(_chance(each) for each in self.policies)])


def _chance(found: PolicyFidelity) -> str:
    """What is said of the order of jobs, and of how much hangs on milliseconds."""
    return (
        f"{found.policy}: {found.other_order:.1%} of all pairs of jobs end in another order, {found.usual_other_order:.1%} with "
        "averages.\nIf the policy's answers swap the times that they took, the simulated mean moves by up to "
        f"{found.chance_mean_error:.1%},\nand nine in ten jobs move by up to {found.chance_per_job_p90_error:.1%}."
    )


def measure_fidelity(homes: Sequence[Path | str]) -> FidelityReport:
    """Of each of these homes, one policy each."""
    if not homes:
        raise OptionError("names no home.", field="homes", value="", hint="rota fidelity ~/.rota")
    found = tuple(_of_home(Path(home)) for home in homes)
    return FidelityReport(found, _same_ranking(found))


def _of_home(home: Path) -> PolicyFidelity:
    observed, setup = _read(home)
    by_job = {name: replace(job, attempts=()) for name, job in observed.jobs.items()}

    def again(jobs: Mapping[str, ObservedJob], answers: Sequence[SeenAnswer] = (), journal: Journal | None = None) -> Fidelity:
        return compare(observed, _simulate(observed, setup, jobs, answers, journal))

    def without(**costs: Any) -> float:
        """What these costs add to the simulated mean JCT, where every attempt of a job takes the same."""
        free = {name: replace(job, **costs) for name, job in by_job.items()}
        return mean_by_job - statistics.mean(again(free).simulated)

    seen: Journal = []
    averaged: Journal = []
    undisturbed: Journal = []
    whole, usual = again(observed.jobs, observed.answers, seen), again(observed.usual, (), averaged)
    alone = again(observed.undisturbed, (), undisturbed)
    mean_by_job = statistics.mean(again(by_job).simulated)
    drawn = [Fidelity(whole.names, whole.simulated, again(observed.jobs, each).simulated) for each in _draws(observed.answers)]
    return PolicyFidelity(
        policy=setup.policy,
        home=str(home),
        jobs=len(whole.real),
        jobs_left_out=observed.left_out,
        mean_error=whole.mean_error,
        per_job_p90_error=whole.per_job_p90_error,
        usual_mean_error=usual.mean_error,
        usual_per_job_p90_error=usual.per_job_p90_error,
        alone_mean_error=alone.mean_error,
        alone_per_job_p90_error=alone.per_job_p90_error,
        simulated_mean_jct_seconds=statistics.mean(whole.simulated),
        real_mean_jct_seconds=statistics.mean(whole.real),
        launch_seconds=observed.launch_seconds,
        suspend_seconds=observed.suspend_seconds,
        leave_seconds=observed.leave_seconds,
        answer_seconds=observed.answer_seconds,
        launching_seconds=without(launch_seconds=0.0),
        switching_seconds=without(relaunch_seconds=0.0, suspend_seconds=0.0, park_seconds=0.0, resume_seconds=0.0),
        leaving_seconds=without(leave_seconds=0.0),
        interference_seconds=mean_by_job - statistics.mean(alone.simulated),
        rate_spread=observed.rate_spread,
        other_order=_other_order(observed, whole),
        usual_other_order=_other_order(observed, usual),
        chance_mean_error=max((abs(each.mean_error) for each in drawn), default=0.0),
        chance_per_job_p90_error=max((each.per_job_p90_error for each in drawn), default=0.0),
        causes=errors_by_cause(observed.times, *(_times(each) for each in (seen, averaged, undisturbed))),
    )


def _draws(answers: Sequence[SeenAnswer]) -> list[list[SeenAnswer]]:
    """The same answers, each after the time that another one took."""
    found = []
    for seed in range(DRAWS):
        seconds = [answer.seconds for answer in answers]
        random.Random(seed).shuffle(seconds)
        found.append([answer._replace(seconds=other) for answer, other in zip(answers, seconds, strict=True)])
    return found


def _other_order(observed: RunObservation, found: Fidelity) -> float:
    submitted_s = [arrival.submitted_s for arrival in observed.trace.arrivals]
    real, simulated = ([at + jct for at, jct in zip(submitted_s, jcts, strict=True)] for jcts in (found.real, found.simulated))
    return pairs_in_other_order(real, simulated)


def _times(journal: Journal) -> list[JobTime]:
    """By arrival."""
    found = job_times(JournalEntry(0, now_s, events, decided) for now_s, events, decided in journal)
    return [found[job] for job in sorted(found)]


def _simulate(
    observed: RunObservation,
    setup: HomeSetup,
    jobs: Mapping[str, ObservedJob],
    answers: Sequence[SeenAnswer],
    journal: Journal | None,
) -> Record:
    """Simulate the home with the scheduler that ran there: the same settings, and the same given rates and costs."""
    scheduler = make_scheduler(setup)
    # Nothing is lost on the way to a simulated machine.
    scheduler.settings = replace(scheduler.settings, lease_seconds=FOREVER, retry_seconds=FOREVER, node_timeout_seconds=FOREVER)
    engine = ObservedEngine(
        scheduler,
        make_policy(setup.policy),
        ObservedPhysics(jobs=jobs, answer_seconds=observed.answer_seconds, answers=answers),
        observed.trace.arrivals,
        report_seconds=PROGRESS_EVERY_SECONDS,
        journal=journal,
    )
    return engine.run()


def _read(home: Path) -> tuple[RunObservation, HomeSetup]:
    place = find_journal(home)
    if not has_journal(place):
        raise JournalError(f"{home}: no scheduler has run here.", hint="rota fidelity HOME, the --home of a rota up")
    journal = open_journal(place, JOURNAL_CODEC)
    try:
        setup = journal.setup()
        observed = observe(journal.entries(), round_length_seconds(setup.settings.decide) if setup is not None else 0.0)
    finally:
        journal.close()
    if setup is None or not observed.jct_seconds:
        raise JournalError(f"{home}: no job has finished here.", hint="submit some jobs, and rota wait")
    return observed, setup


def _same_ranking(found: Sequence[PolicyFidelity]) -> bool | None:
    """Whether every two policies that really differ are simulated in the same order."""
    pairs = [
        (one, other)
        for at, one in enumerate(found)
        for other in found[at + 1 :]
        if abs(one.real_mean_jct_seconds / other.real_mean_jct_seconds - 1) > CLOSE
    ]
    if not pairs:
        return None
    return all(
        (one.real_mean_jct_seconds < other.real_mean_jct_seconds)
        == (one.simulated_mean_jct_seconds < other.simulated_mean_jct_seconds)
        for one, other in pairs
    )
