"""`rota fidelity`: what really ran in some homes, simulated again from what was submitted, and how far the two are apart."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rota.compose.catalogue import make_policy
from rota.compose.live_scheduler import WORDS, make_scheduler
from rota.core.when import AtEvents
from rota.errors import JournalError, OptionError
from rota.live.journal_place import find_place, has_journal, open_journal
from rota.live.local import PROGRESS_EVERY_SECONDS
from rota.model.units import FOREVER
from rota.report.fidelity import Fidelity, Observed, compare, observe
from rota.report.result import plain_table
from rota.sim.record import Record
from rota.sim.seen import SeenEngine, SeenJob, SeenPhysics

CLOSE = 0.01
"""Two policies whose real means are no further apart than this, relatively, have no order."""


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
        return "\n".join([plain_table(heads, rows), about, *left_out, *told])


def measure_fidelity(homes: Sequence[Path | str]) -> FidelityReport:
    """Of each of these homes, one policy each."""
    if not homes:
        raise OptionError("names no home.", field="homes", value="", hint="rota fidelity ~/.rota")
    found = tuple(_of_home(Path(home)) for home in homes)
    return FidelityReport(found, _same_ranking(found))


def _of_home(home: Path) -> PolicyFidelity:
    observed, configuration = _read(home)

    def again(jobs: Mapping[str, SeenJob]) -> Fidelity:
        return compare(observed, _simulate(observed, configuration, jobs))

    def without(**costs: float) -> float:
        """What these costs add to the simulated mean JCT."""
        free = {name: replace(job, **costs) for name, job in observed.jobs.items()}
        return mean - statistics.mean(again(free).simulated)

    whole, usual = again(observed.jobs), again(observed.usual)
    mean = statistics.mean(whole.simulated)
    return PolicyFidelity(
        policy=configuration["policy"],
        home=str(home),
        jobs=len(whole.real),
        jobs_left_out=observed.left_out,
        mean_error=whole.mean_error,
        per_job_p90_error=whole.per_job_p90_error,
        usual_mean_error=usual.mean_error,
        usual_per_job_p90_error=usual.per_job_p90_error,
        simulated_mean_jct_seconds=mean,
        real_mean_jct_seconds=statistics.mean(whole.real),
        launch_seconds=observed.launch_seconds,
        suspend_seconds=observed.suspend_seconds,
        leave_seconds=observed.leave_seconds,
        answer_seconds=observed.answer_seconds,
        launching_seconds=without(launch_seconds=0.0),
        switching_seconds=without(relaunch_seconds=0.0, suspend_seconds=0.0, park_seconds=0.0, resume_seconds=0.0),
        leaving_seconds=without(leave_seconds=0.0),
        interference_seconds=mean - statistics.mean(again(observed.undisturbed).simulated),
        rate_spread=observed.rate_spread,
    )


def _simulate(observed: Observed, configuration: Mapping[str, Any], jobs: Mapping[str, SeenJob]) -> Record:
    """With the scheduler that ran there: the same settings, and what it was told of rates and costs. The rest it learns."""
    scheduler = make_scheduler(configuration)
    # Nothing is lost on the way to a simulated machine.
    scheduler.settings = replace(scheduler.settings, lease_seconds=FOREVER, retry_seconds=FOREVER, node_timeout_seconds=FOREVER)
    engine = SeenEngine(
        scheduler,
        make_policy(configuration["policy"]),
        SeenPhysics(jobs=jobs, answer_seconds=observed.answer_seconds, answers=observed.answers),
        observed.trace.arrivals,
        report_seconds=PROGRESS_EVERY_SECONDS,
    )
    return engine.run()


def _read(home: Path) -> tuple[Observed, dict[str, Any]]:
    place = find_place(home)
    if not has_journal(place):
        raise JournalError(f"{home}: no scheduler has run here.", hint="rota fidelity HOME, the --home of a rota up")
    journal = open_journal(place, WORDS)
    try:
        configuration = journal.configuration() or {}
        observed = observe(journal.entries(), _round_seconds(configuration))
    finally:
        journal.close()
    if not observed.jct_seconds:
        raise JournalError(f"{home}: no job has finished here.", hint="submit some jobs, and rota wait")
    return observed, configuration


def _round_seconds(configuration: Mapping[str, Any]) -> float:
    """How long a round is; 0: it is decided at events alone."""
    decide = make_scheduler(configuration).settings.decide if configuration else None
    return decide.turn_seconds if decide is not None and not isinstance(decide, AtEvents) else 0.0


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
