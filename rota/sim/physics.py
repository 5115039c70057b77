"""Physics: how fast jobs really run and what starting, stopping and breaking really cost. The scheduler never sees this."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from rota.beliefs.locality import Locality
from rota.beliefs.move_costs import MemoryCosts, MoveCosts
from rota.beliefs.rates import SAME_SPEED, Rates
from rota.beliefs.variability import Variability
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.job import JobSpec
from rota.model.units import FOREVER, Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Physics:
    """The truth about a simulated cluster. The defaults are the `ideal` machine: every GPU alike and nothing costs anything."""

    rates: Rates = field(default_factory=lambda: SAME_SPEED)
    """True steps per second of a gang on healthy GPUs."""
    variability: Variability | None = None
    """How slow each GPU really is for each application class; the slowest of a gang decides."""
    gpu_speed: Floats | None = None
    """Relative speed of each GPU, 1 the nominal one; the slowest of a gang decides."""
    spread_penalty: Locality | None = None
    """How many times longer a step takes when a gang spans nodes, whatever its profile says; None: what that says. Given as
    anything that `Locality.of` reads: a factor, one for each level of locality, or either by model."""
    whole_steps_seconds: float = 0.0
    """Jobs run in rounds this long, each for as many whole steps as fit into one, and rest until the next; 0: they just run."""
    ends_every_seconds: float = 0.0
    """A job that has done its steps is noticed, and gives its GPUs back, only at multiples of this; 0: at once."""
    launch_seconds: float = 0.0
    resize_seconds: float = 0.0
    """What a change of size costs a job that can do it while it runs."""
    checkpoint_seconds: float = 0.0
    restore_seconds: float = 0.0
    memory: MemoryCosts = field(default_factory=MemoryCosts)
    """What it costs to move what jobs hold, where it is known how much that is."""
    noise: float = 0.0
    """How far measurements of a job are off, as a relative standard deviation."""
    checkpoint_every_seconds: float = FOREVER
    """Jobs also save their state this often while they run; between saves, a crash loses work."""
    node_mtbf_seconds: float | Floats = FOREVER
    """Mean time between failures of one node, exponential; one number, or one for each node."""
    node_repair_seconds: float | Floats = 3600.0
    """Time a failed node is away; one number, or one for each node."""

    def __post_init__(self) -> None:
        for name in (
            "whole_steps_seconds",
            "ends_every_seconds",
            "launch_seconds",
            "resize_seconds",
            "checkpoint_seconds",
            "restore_seconds",
            "node_repair_seconds",
            "noise",
        ):
            given = np.asarray(getattr(self, name))
            if not np.all((given >= 0) & (given < FOREVER)):
                raise OptionError("must be 0 or more, and finite.", field=name, value=getattr(self, name))
        for name in ("checkpoint_every_seconds", "node_mtbf_seconds"):
            if not np.all(np.asarray(getattr(self, name)) > 0):
                raise OptionError("must be more than 0.", field=name, value=getattr(self, name))
        if self.spread_penalty is not None:
            object.__setattr__(self, "spread_penalty", Locality.of(self.spread_penalty))

    def rate(self, spec: JobSpec, cluster: Cluster, gpus: Ints, levels: int, batch_size: int = 0) -> float:
        """True steps per second of a job on these GPUs, which span so many levels of locality. Steps are those of the batch size
        it asked for; a `batch_size` of 0 is that one."""
        rate = self._over(spec, cluster.pools[cluster.gpu_pool[gpus[0]]], len(gpus), levels, batch_size)
        if self.variability is not None:
            rate /= self.variability.slowdown(spec.profile, gpus)
        return rate if self.gpu_speed is None else rate * float(self.gpu_speed[gpus].min())

    def colocated_rate(self, spec: JobSpec, other: JobSpec, cluster: Cluster, gpus: Ints, levels: int) -> float:
        """True steps per second of a job while another runs on the same GPUs. Where nobody knows the pair they take turns, each
        half as fast as alone. Slow GPUs and several nodes cost a job in company what they cost it alone."""
        alone = self.rate(spec, cluster, gpus, levels)
        accelerator = cluster.pools[cluster.gpu_pool[gpus[0]]]
        known = self.rates.colocated_rates(spec.profile, other.profile, accelerator, len(gpus))
        if known is None or alone <= 0:
            return alone / 2
        return known[0] * (alone / self.rates.rate(spec.profile, accelerator, len(gpus))[0])

    def utilisation(self, spec: JobSpec, accelerator: str, gpus: int) -> float:
        """How busy it keeps its GPUs alone: what two of its profile leave each other. Not a number where nobody measured two."""
        both = self.rates.colocated_rates(spec.profile, spec.profile, accelerator, gpus)
        alone = self.rates.rate(spec.profile, accelerator, gpus)[0]
        return min(max(2.0 - sum(both) / alone, 0.1), 1.0) if both is not None and alone > 0 else math.nan

    def fastest(self, spec: JobSpec, cluster: Cluster) -> dict[int, float]:
        """Upper limit of a job's true rate on each pool it may use, at any size it accepts, for bounds."""
        return {pool: max(by_width.values()) for pool, by_width in self.fastest_by_width(spec, cluster).items()}

    def fastest_by_width(self, spec: JobSpec, cluster: Cluster) -> dict[int, dict[int, float]]:
        """The same by pool and by the number of GPUs; only pools on which it runs."""
        found: dict[int, dict[int, float]] = {}
        for pool, accelerator in enumerate(cluster.pools):
            if spec.accelerators and accelerator not in spec.accelerators:
                continue
            for width in spec.gpu_counts or (spec.width,):
                rate = self._fastest(spec, cluster, pool, width) if width <= cluster.pool_gpus[pool] else 0.0
                if rate > 0:
                    found.setdefault(pool, {})[width] = rate
        return found

    def _fastest(self, spec: JobSpec, cluster: Cluster, pool: int, width: int) -> float:
        """On so many GPUs of a pool, at the best batch size."""
        accelerator = cluster.pools[pool]
        # Some measured tables are faster apart than together; beyond the nodes of a rack nothing gets faster.
        fewest = cluster.fewest_levels(pool, width)
        layouts = {fewest, max(fewest, 1)} if width > 1 and len(cluster.pool_nodes[pool]) > 1 else {0}
        batches = spec.batch_sizes or (spec.batch_size,)
        rate = max(self._over(spec, accelerator, width, levels, batch) for levels in layouts for batch in batches)
        if self.variability is not None:
            scores = np.sort(self.variability.scores[self.variability.row(spec.profile)][cluster.gpu_pool == pool])
            rate /= float(scores[width - 1])
        if self.gpu_speed is not None:
            # The best gang there is: its slowest member is the n-th fastest GPU of the pool.
            speeds = np.sort(self.gpu_speed[cluster.gpu_pool == pool])[::-1]
            rate *= float(speeds[width - 1])
        return rate

    def fastest_together(self, spec: JobSpec, cluster: Cluster, alone: Mapping[int, float]) -> dict[tuple[int, str], float]:
        """Upper limit of its rate in company, by pool and profile of the partner, wherever the pair is known. `alone`: by pool,
        at the size it asked for, the only one at which jobs share."""
        found = {}
        for pool, rate in alone.items():
            accelerator = cluster.pools[pool]
            nominal = self.rates.rate(spec.profile, accelerator, spec.width)[0]
            for other in self.rates.partners(spec.profile, accelerator, spec.width) if spec.gpus >= 1 else ():
                known = self.rates.colocated_rates(spec.profile, other, accelerator, spec.width)
                if known is not None and nominal > 0:
                    found[pool, other] = known[0] * (rate / nominal)
        return found

    def layout_matters(self, specs: Iterable[JobSpec], cluster: Cluster) -> bool:
        """Whether one of these jobs may run at another rate on other nodes of the same pool."""
        if max(len(nodes) for nodes in cluster.pool_nodes) == 1:
            return False
        if self.spread_penalty is not None:
            return self.spread_penalty.matters
        return any(self.rates.layout_matters(profile) for profile in {spec.profile for spec in specs if spec.width > 1})

    def mtbf_seconds(self, node: int) -> float:
        return _of_node("node_mtbf_seconds", self.node_mtbf_seconds, node)

    def repair_seconds(self, node: int) -> float:
        return _of_node("node_repair_seconds", self.node_repair_seconds, node)

    @property
    def fails(self) -> bool:
        return bool(np.any(np.asarray(self.node_mtbf_seconds) < FOREVER))

    @property
    def by_profile(self) -> bool:
        """Jobs of one profile and one size are equally fast on all GPUs of one type."""
        return self.gpu_speed is None and self.variability is None and not self.rates.batches

    @cached_property
    def costs(self) -> MoveCosts:
        """What starting, stopping and moving really cost."""
        return MoveCosts(
            self.launch_seconds, self.checkpoint_seconds, self.restore_seconds, self.resize_seconds, memory=self.memory
        )

    @cached_property
    def whole_rates(self) -> Rates:
        """The true rates, with what spreading costs."""
        return self.rates if self.spread_penalty is None else replace(self.rates, spread_penalty=self.spread_penalty)

    def _over(self, spec: JobSpec, accelerator: str, gpus: int, levels: int, batch_size: int = 0) -> float:
        if not (spec.gpu_counts or spec.batch_sizes or self.rates.batches):
            return self.whole_rates.rate(spec.profile, accelerator, gpus, levels)[0]
        batch_size = batch_size or spec.batch_size
        return self.whole_rates.rate_of(spec.profile, spec.demand, accelerator, gpus, batch_size, levels)[0]


def _of_node(name: str, values: float | Floats, node: int) -> float:
    if not isinstance(values, np.ndarray):
        return float(values)
    if node >= len(values):
        raise OptionError("has too few values.", field=name, value=len(values), hint="one value for each node of the cluster")
    return float(values[node])
