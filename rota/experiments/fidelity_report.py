"""`rota fidelity`: simulate the jobs that really ran in some homes, and compare the simulation with the real run."""

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.compose.make_setup import round_length_seconds
from rota.compose.policy_tenants import with_tenants
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
from rota.sim.observed_physics import ObservedEngine, ObservedJob, ObservedPhysics, SeenAnswer
from rota.sim.record import Record
from rota.sim.recorded_step import Journal

CLOSE = 0.01
"""Policies whose real mean JCTs differ by no more than this fraction count as equal."""
DRAWS = 3
"""Number of simulations that show how much depends on milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFidelity:
    """The fidelity of one home, whose jobs ran under one policy."""

    policy: str
    home: str
    jobs: int
    jobs_left_out: int
    """Number of submitted jobs that did not finish. They are not simulated."""
    mean_error: float
    """Simulated mean JCT divided by the real one, minus 1."""
    per_job_p90_error: float
    """Relative error of the JCT that nine in ten jobs do not exceed."""
    usual_mean_error: float
    """Error of the mean JCT if every start, suspension and end takes its average time instead of the measured time of the job."""
    usual_per_job_p90_error: float
    """Relative error that nine in ten jobs do not exceed with average times."""
    alone_mean_error: float
    """Error of the mean JCT if no job slows another down: each has its best rate, and starts as if no other job started."""
    alone_per_job_p90_error: float
    """Relative error that nine in ten jobs do not exceed if no job slows another down."""
    simulated_mean_jct_seconds: float
    real_mean_jct_seconds: float
    launch_seconds: float
    """Mean real time from a launch to the first step, in seconds."""
    suspend_seconds: float
    """Mean real time from a suspension until the GPUs were free, in seconds."""
    leave_seconds: float
    """Mean real time for which a job kept its GPUs after its last step, in seconds."""
    answer_seconds: float
    """Mean real time of a policy call, in seconds."""
    launching_seconds: float
    """Share of the first starts in the simulated mean JCT, in seconds."""
    switching_seconds: float
    """Share of suspensions and later starts in the simulated mean JCT, in seconds."""
    leaving_seconds: float
    """Share of the time after the last step in the simulated mean JCT, in seconds."""
    interference_seconds: float
    """Share of interference in the simulated mean JCT, in seconds: rates below the best of the job, and simultaneous starts."""
    rate_spread: float
    """Relative spread of a job's rate between its attempts, caused by colocated jobs and warm-up."""
    other_order: float
    """Fraction of all pairs of jobs that end in the other order in the simulation."""
    usual_other_order: float
    """Fraction of all pairs of jobs that end in the other order in the simulation with average times."""
    chance_mean_error: float
    """Largest relative change of the simulated mean JCT, in a few draws, if the policy's answers swap their run times. This part
    of an error depends on milliseconds."""
    chance_per_job_p90_error: float
    """Largest relative change of the JCT that nine in ten jobs do not exceed in these draws."""
    causes: tuple[CauseError, ...]
    """Error of the mean JCT by cause. The errors add up to `mean_error`."""

    def row(self) -> dict[str, Any]:
        """Return everything in one row, without lists."""
        whole = asdict(self)
        causes = whole.pop("causes")
        return whole | {f"{each['cause']}_{name}": each[name] for each in causes for name in each if name != "cause"}


@dataclass(frozen=True, slots=True)
class FidelityReport:
    """The fidelity of all homes, and whether the simulation ranks their policies as they really were. It prints itself."""

    policies: tuple[PolicyFidelity, ...]
    same_ranking: bool | None
    """Whether the simulation has the same ranking; None if no two homes really differ."""

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
        words = {
            True: "The simulation ranks the policies as they really were.",
            False: "The simulation ranks the policies differently.",
        }
        ranking = [words[self.same_ranking]] if self.same_ranking is not None else []
        left_out = [
            f"{each.home}: {each.jobs_left_out:,} jobs did not finish. They are not simulated, although they used GPUs."
            for each in self.policies
            if each.jobs_left_out
        ]
        about = (
            "REAL and SIMULATED: mean JCT. P90: error that nine in ten jobs do not exceed. USUAL: the error if starts,\n"
            "suspensions and ends take their average time. Parts of the simulated mean: STARTS, the first start of each job;\n"
            "SWITCHES, suspensions and later starts; ENDS, from a last step until the GPUs are free; SLOWED, interference."
        )
        return "\n".join([plain_table(heads, rows), about, "", self._by_cause(), *left_out, *ranking])

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
    """Return a sentence on the order of jobs, and one on how much depends on milliseconds."""
    return (
        f"{found.policy}: {found.other_order:.1%} of all pairs of jobs end in another order, {found.usual_other_order:.1%} with "
        "averages.\nIf the policy's answers swap their run times, the simulated mean changes by up to "
        f"{found.chance_mean_error:.1%},\nand nine in ten jobs change by up to {found.chance_per_job_p90_error:.1%}."
    )


def measure_fidelity(homes: Sequence[Path | str]) -> FidelityReport:
    """Compare the real run of each of these homes with its simulation. Each home has run one policy."""
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
        """Return the share of these costs in the simulated mean JCT, if every attempt of a job costs the same."""
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
    """Return the answers with their run times exchanged."""
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
    """Return the times of the jobs, in the order of arrival."""
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
        make_policy(setup.policy) if setup.tenants is None else with_tenants(make_policy(setup.policy), setup.tenants),
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
    """Return whether every two policies that really differ are simulated in the same order; None if none differ."""
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
