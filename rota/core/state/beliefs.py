"""Beliefs about jobs and GPUs, and the measurements behind them."""

from dataclasses import dataclass, field

import numpy as np

from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import SPEEDS, MeasuredRates, Rates
from rota.beliefs.skews import Skews
from rota.beliefs.variability import Variability
from rota.core.state.copying import copied
from rota.core.state.records import PlacementTraits, RateKey
from rota.model.cluster import Cluster
from rota.model.job import JobSpec
from rota.model.length_prediction import LengthPrediction
from rota.model.options import Options
from rota.model.trial import PairKey, PairStats, Trial
from rota.model.units import FOREVER, Floats, Ints

PRIOR_TRIALS = 8.0
"""Number of imaginary trials that went as expected, which are averaged with the real ones."""

HISTORY = 4096
"""How many finished jobs' service is remembered."""


@dataclass(eq=False)
class Beliefs:
    """Beliefs are immutable values: one that changes is replaced."""

    rates: Rates
    """How fast each profile runs on each type of GPU: the given rates, with the measured ones over them."""
    costs: MoveCosts
    """What starting and moving a job costs."""
    options: Options = field(default_factory=lambda: Options.of([], 0))
    """By which options each kind of job can run, and how fast."""
    measured: MeasuredRates = field(default_factory=MeasuredRates)
    """Rates that were measured, which stay when other rates are given."""
    variability: Variability | None = None
    """How slow each GPU is believed to be for each application class; None: all of a type alike."""
    learning: Variability | None = None
    """Slowdowns with the latest measurements, if they are learned. They become `variability` from time to time."""
    believed_s: float = -FOREVER
    """Time at which that was last considered."""
    comparable_rates: dict[RateKey, tuple[tuple[tuple[int, ...], float], ...]] = field(default_factory=dict)
    """Runs that can be compared: the GPUs and steps per second of each, the latest last."""
    skews: Skews = field(default_factory=Skews)
    """How skewed models are, as their tensors say."""
    sharing: bool = False
    """Two jobs may share GPUs though no option says how fast they are there: that is found out by trials."""
    alone: dict[int, float] = field(default_factory=dict)
    """Steps per second that were last measured by each option while a job had its GPUs to itself. Only of jobs with a profile."""
    pairs: dict[PairKey, PairStats] = field(default_factory=dict)
    """What was seen of pairs."""
    trials: dict[int, Trial] = field(default_factory=dict)
    """Trials that are not judged yet, by number."""
    past_trials: dict[int, Trial] = field(default_factory=dict)
    """The last ones that were."""
    trials_begun: int = 0
    """Trials so far."""
    verdicts: dict[str, int] = field(default_factory=dict)
    """How many of them ended with each verdict."""
    trials_judged: int = 0
    """Number of trials that were measured."""
    gain_error_sum: float = 0.0
    """By how much they gained more than was hoped for, all together; below 0: less."""
    lengths: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Model -> epochs that the last jobs of it took."""
    predicted: dict[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    """Job -> (epochs done, epochs believed in all), noted while it runs."""
    predictions: tuple[LengthPrediction, ...] = ()
    """What was noted of jobs that have finished, and what came true; the latest."""
    history: Floats = field(default_factory=lambda: np.zeros(HISTORY))
    """Service of the last jobs to finish: a ring."""
    finished: int = 0
    """Jobs that ran to their end so far."""
    _traits: dict[tuple[int, int, int], PlacementTraits] = field(default_factory=dict)
    _pool_rank: Ints | None = None

    def past(self) -> Floats:
        """Return the service of the last jobs to finish, read-only."""
        known = self.history[: self.finished]
        known.setflags(write=False)
        return known

    def pool_rank(self, cluster: Cluster) -> Ints:
        """Rank of each pool when the fastest types come first."""
        if self._pool_rank is None:
            speed = [self.rates.speeds.get(name, SPEEDS.get(name, 1.0)) for name in cluster.pools]
            self._pool_rank = np.argsort(np.argsort(-np.array(speed), kind="stable"))
        return self._pool_rank

    def placement_traits(self, kind: int, pool: int, gpus: int, spec: JobSpec, cluster: Cluster) -> PlacementTraits:
        """Return what is believed of a kind of job on this many GPUs that depends on their place. `spec` is of a job of this
        kind."""
        found = self._traits.get((kind, pool, gpus))
        if found is None:
            found = self._traits[kind, pool, gpus] = self._traits_of(spec, cluster.pools[pool], gpus, len(cluster.domains))
        return found

    def _traits_of(self, spec: JobSpec, accelerator: str, gpus: int, domains: int) -> PlacementTraits:
        rates = [
            self.rates.rate(spec.profile, accelerator, gpus, levels)[0] if gpus > 1 else 1.0 for levels in range(domains + 1)
        ]
        penalties = tuple(max(rates[0] / rate, 1.0) if rate > 0 else 1.0 for rate in rates)
        row = self.variability.row(spec.profile) if self.variability is not None else 0
        return PlacementTraits(row, penalties, self.skews.of(spec.profile) if spec.profile else None)

    @property
    def mean_gain_error(self) -> float:
        """Return how much more a trial gains than expected, on average over past trials."""
        return self.gain_error_sum / (self.trials_judged + PRIOR_TRIALS)

    def pair_stats(self, first: str, second: str, accelerator: str, gpus: int) -> PairStats | None:
        """What is known of two profiles on the same GPUs, in this order: seen here, or measured beforehand."""
        turned = second < first
        found = self.pairs.get((second, first, accelerator, gpus) if turned else (first, second, accelerator, gpus))
        if found is not None:
            return found._replace(first=found.second, second=found.first) if turned else found
        known = self.rates.colocated_rates(first, second, accelerator, gpus)
        if known is None:
            return None
        alone = [self.rates.rate(name, accelerator, gpus)[0] for name in (first, second)]
        return PairStats(0, known[0] / alone[0], known[1] / alone[1]) if min(alone) > 0 else None

    def finish(self, service: float) -> None:
        """Note the service of a job that ran to its end, in GPU-seconds."""
        self.history[self.finished % len(self.history)] = service
        self.finished += 1

    def forget_rates_of(self, job: int) -> None:
        """Forget the paces of a job without a profile, which has ended: it was compared only with itself."""
        if self.comparable_rates:
            self.comparable_rates = {key: seen for key, seen in self.comparable_rates.items() if key[0] != f"#{job}"}
        if self.pairs:
            self.pairs = {key: seen for key, seen in self.pairs.items() if f"#{job}" not in key[:2]}

    def add_measured(self, found: MeasuredRates) -> None:
        """Believe what was measured."""
        self.measured, self.rates = self.measured.extended(found), found.over(self.rates)

    def forget_memos(self) -> None:
        """Drop what was worked out from the rates."""
        self._traits.clear()
        self._pool_rank = None

    def grow(self, gpus: int) -> None:
        """Add the GPUs of a node that joined, of which nothing is known."""
        self.variability = self.variability and self.variability.grown(gpus)
        self.learning = self.learning and self.learning.grown(gpus)
        self.forget_memos()

    def copy(self) -> "Beliefs":
        return copied(self)
