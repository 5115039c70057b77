"""`rota fidelity`: what really ran in some homes, simulated again from what was submitted, and how far the two are apart."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rota.api import simulate
from rota.compose.words import words_for
from rota.errors import JournalError, OptionError
from rota.live.journal import Journal
from rota.model.cluster import Cluster, Node
from rota.report.fidelity import Fidelity, Observed, compare, observe
from rota.report.result import plain_table

CLOSE = 0.01
"""Two policies whose real means are no further apart than this, relatively, have no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFidelity:
    """One home."""

    policy: str
    home: str
    jobs: int
    mean_error: float
    """Simulated mean JCT over the real one, less 1."""
    per_job_p90_error: float
    """Nine in ten jobs are simulated at most this far off."""
    simulated_mean_jct_seconds: float
    real_mean_jct_seconds: float
    launch_seconds: float
    """What a start really took, the median..."""
    suspend_seconds: float
    """...and a suspension."""
    launching_seconds: float
    """What starts add to the simulated mean JCT..."""
    switching_seconds: float
    """...and what suspensions do."""
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
                f"{each.launching_seconds:.2f}s",
                f"{each.switching_seconds:.2f}s",
                f"{each.rate_spread:.1%}",
            ]
            for each in self.policies
        ]
        heads = ["POLICY", "JOBS", "REAL", "SIMULATED", "ERROR", "P90", "STARTS", "SWITCHES", "PACE"]
        words = {True: "The simulation ranks the policies as they really were.", False: "The simulation ranks them otherwise."}
        told = f"\n{words[self.same_ranking]}" if self.same_ranking is not None else ""
        about = (
            "REAL and SIMULATED: mean JCT. P90: nine in ten jobs are within this. STARTS and SWITCHES: what they add to the\n"
            "simulated mean. PACE: how far a job's pace differs from one of its lives to the next."
        )
        return f"{plain_table(heads, rows)}\n{about}{told}"


def measure_fidelity(homes: Sequence[Path | str]) -> FidelityReport:
    """Of each of these homes, one policy each."""
    if not homes:
        raise OptionError("names no home.", field="homes", value="", hint="rota fidelity ~/.rota")
    found = tuple(_of_home(Path(home)) for home in homes)
    return FidelityReport(found, _same_ranking(found))


def _of_home(home: Path) -> PolicyFidelity:
    observed, configuration = _read(home)
    nodes = [Node(*each) for each in configuration.get("nodes", ())]
    cluster = Cluster.of(nodes, configuration["cluster"]) if nodes else Cluster.parse(configuration["cluster"])
    told = {name: each["said"] for name, each in configuration.get("told", {}).items()}
    kept = ("wait_for_place", "tactics", "decide", "round_seconds", "spread_penalty")
    fields: dict[str, Any] = {name: told[name] for name in kept if name in told}

    def again(launch_seconds: float, suspend_seconds: float) -> Fidelity:
        result = simulate(
            observed.trace,
            policy=configuration["policy"],
            placer=configuration["placer"],
            cluster=cluster,
            rates=observed.rates(cluster.pools),
            launch_seconds=launch_seconds,
            checkpoint_seconds=suspend_seconds,
            restore_seconds=0.0,
            **fields,
        )
        return compare(observed, result.record)

    whole = again(observed.launch_seconds, observed.suspend_seconds)
    mean = statistics.mean(whole.simulated)
    return PolicyFidelity(
        policy=configuration["policy"],
        home=str(home),
        jobs=len(whole.real),
        mean_error=whole.mean_error,
        per_job_p90_error=whole.per_job_p90_error,
        simulated_mean_jct_seconds=mean,
        real_mean_jct_seconds=statistics.mean(whole.real),
        launch_seconds=observed.launch_seconds,
        suspend_seconds=observed.suspend_seconds,
        launching_seconds=mean - statistics.mean(again(0.0, observed.suspend_seconds).simulated),
        switching_seconds=mean - statistics.mean(again(observed.launch_seconds, 0.0).simulated),
        rate_spread=observed.rate_spread,
    )


def _read(home: Path) -> tuple[Observed, dict[str, Any]]:
    path = home / "journal.sqlite"
    if not path.is_file():
        raise JournalError(f"{home}: no scheduler has run here.", hint="rota fidelity HOME, the --home of a rota up")
    journal = Journal(path, words_for())
    try:
        observed = observe(journal.entries())
        configuration = journal.configuration() or {}
    finally:
        journal.close()
    if not observed.jct_seconds:
        raise JournalError(f"{home}: no job has finished here.", hint="submit some jobs, and rota wait")
    return observed, configuration


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
