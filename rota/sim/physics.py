"""Physics: the true rates of jobs, and the true costs of starts, stops and failures. The scheduler never sees them."""

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
    """The truth about a simulated cluster. The defaults are the `ideal` machine: all GPUs are alike and nothing costs
    anything."""

    rates: Rates = field(default_factory=lambda: SAME_SPEED)
    """True steps per second of a gang on healthy GPUs."""
    variability: Variability | None = None
    """True slowdown of each GPU for each application class; the slowest GPU of a gang decides."""
    gpu_speed: Floats | None = None
    """Speed of each GPU relative to the nominal speed; the slowest GPU of a gang decides."""
    spread_penalty: Locality | None = None
    """Factor on the time of a step when a gang spans nodes, instead of the factor of its profile; None to use the profile's.
    Anything that `Locality.of` reads: one factor, one for each level of locality, or either by model."""
    whole_steps_seconds: float = 0.0
    """Length of a round of whole steps, in seconds: in each round a job makes as many whole steps as fit, then pauses until the
    next; 0 for no such rounds."""
    completion_poll_seconds: float = 0.0
    """Finished jobs are detected, and their GPUs freed, only at multiples of this, in seconds; 0 means immediately."""
    launch_seconds: float = 0.0
    resize_seconds: float = 0.0
    """Time that a resize costs a job that can be resized while it runs, in seconds."""
    checkpoint_seconds: float = 0.0
    restore_seconds: float = 0.0
    memory: MemoryCosts = field(default_factory=MemoryCosts)
    """Costs of moving a job's memory, for jobs whose memory is known."""
    measurement_noise: float = 0.0
    """Measurement noise, as a relative standard deviation."""
    checkpoint_every_seconds: float = FOREVER
    """Interval at which running jobs also save their state, in seconds. A crash loses the work since the last save."""
    node_mtbf_seconds: float | Floats = FOREVER
    """Mean time between failures of a node (exponential), in seconds; one number, or one for each node."""
    node_repair_seconds: float | Floats = 3600.0
    """Time until a failed node is back, in seconds; one number, or one for each node."""

    def __post_init__(self) -> None:
        for name in (
            "whole_steps_seconds",
            "completion_poll_seconds",
            "launch_seconds",
            "resize_seconds",
            "checkpoint_seconds",
            "restore_seconds",
            "node_repair_seconds",
            "measurement_noise",
        ):
            given = np.asarray(getattr(self, name))
            if not np.all((given >= 0) & (given < FOREVER)):
                raise OptionError("must be 0 or more, and finite.", field=name, value=getattr(self, name))
        for name in ("checkpoint_every_seconds", "node_mtbf_seconds"):
            if not np.all(np.asarray(getattr(self, name)) > 0):
                raise OptionError("must be more than 0.", field=name, value=getattr(self, name))
        if self.spread_penalty is not None:
            object.__setattr__(self, "spread_penalty", Locality.of(self.spread_penalty))

    def rate(self, spec: JobSpec, cluster: Cluster, gpus: Ints, levels: int, batch_size: int | None = None) -> float:
        """Return the true steps per second of a job on these GPUs, which span this many levels of locality. Steps are counted at
        the requested batch size, which is also the default of `batch_size`."""
        rate = self._over(spec, cluster.pools[cluster.gpu_pool[gpus[0]]], len(gpus), levels, batch_size)
        if self.variability is not None:
            rate /= self.variability.slowdown(spec.profile, gpus)
        return rate if self.gpu_speed is None else rate * float(self.gpu_speed[gpus].min())

    def colocated_rate(self, spec: JobSpec, other: JobSpec, cluster: Cluster, gpus: Ints, levels: int) -> float:
        """Return the true steps per second of a job while another job runs on the same GPUs. An unknown pair takes turns, each at
        half its exclusive rate. Slow GPUs and several nodes slow a colocated job down by the same factor as an exclusive one."""
        alone = self.rate(spec, cluster, gpus, levels)
        accelerator = cluster.pools[cluster.gpu_pool[gpus[0]]]
        known = self.rates.colocated_rates(spec.profile, other.profile, accelerator, len(gpus))
        if known is None or alone <= 0:
            return alone / 2
        return known[0] * (alone / self.rates.rate(spec.profile, accelerator, len(gpus))[0])

    def utilization(self, spec: JobSpec, accelerator: str, gpus: int) -> float:
        """Return the GPU utilization of a job with exclusive GPUs, derived from how two jobs of its profile slow each other down.
        NaN if that pair was not measured."""
        both = self.rates.colocated_rates(spec.profile, spec.profile, accelerator, gpus)
        alone = self.rates.rate(spec.profile, accelerator, gpus)[0]
        return min(max(2.0 - sum(both) / alone, 0.1), 1.0) if both is not None and alone > 0 else math.nan

    def fastest(self, spec: JobSpec, cluster: Cluster) -> dict[int, float]:
        """Return the upper limit of a job's true rate on each pool it may use, at any size it accepts, for bounds."""
        return {pool: max(by_width.values()) for pool, by_width in self.fastest_by_width(spec, cluster).items()}

    def fastest_by_width(self, spec: JobSpec, cluster: Cluster) -> dict[int, dict[int, float]]:
        """Return the upper limit of a job's true rate by pool and number of GPUs. Pools on which it does not run are left out."""
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
        """Return the upper limit of a job's true rate on this many GPUs of a pool, at the best batch size."""
        accelerator = cluster.pools[pool]
        # Some measured tables are faster across nodes than within one; beyond the nodes of a rack nothing gets faster.
        fewest = cluster.fewest_levels(pool, width)
        layouts = {fewest, max(fewest, 1)} if width > 1 and len(cluster.pool_nodes[pool]) > 1 else {0}
        batches = spec.batch_sizes or (spec.batch_size,)
        rate = max(self._over(spec, accelerator, width, levels, batch) for levels in layouts for batch in batches)
        if self.variability is not None:
            scores = np.sort(self.variability.scores[self.variability.row(spec.profile)][cluster.gpu_pool == pool])
            rate /= float(scores[width - 1])
        if self.gpu_speed is not None:
            # The best possible gang: its slowest member is the n-th fastest GPU of the pool.
            speeds = np.sort(self.gpu_speed[cluster.gpu_pool == pool])[::-1]
            rate *= float(speeds[width - 1])
        return rate

    def fastest_colocated(self, spec: JobSpec, cluster: Cluster, alone: Mapping[int, float]) -> dict[tuple[int, str], float]:
        """Return the upper limit of a job's colocated rate, by pool and profile of the partner, for known pairs. `alone` has the
        upper limits by pool at the requested size, the only size at which jobs are colocated."""
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
        """Return whether one of these jobs may run at another rate on other nodes of the same pool."""
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

    @cached_property
    def by_profile(self) -> bool:
        """Whether jobs of one profile and one size are equally fast on all GPUs of one type."""
        return self.gpu_speed is None and self.variability is None and not self.rates.batches

    @cached_property
    def costs(self) -> MoveCosts:
        """True costs of starting, stopping and moving jobs."""
        return MoveCosts(
            self.launch_seconds, self.checkpoint_seconds, self.restore_seconds, self.resize_seconds, memory=self.memory
        )

    @cached_property
    def whole_rates(self) -> Rates:
        """The true rates, including the cost of spreading a gang over nodes."""
        return self.rates if self.spread_penalty is None else replace(self.rates, spread_penalty=self.spread_penalty)

    def _over(self, spec: JobSpec, accelerator: str, gpus: int, levels: int, batch_size: int | None = None) -> float:
        if not (spec.gpu_counts or spec.batch_sizes or self.rates.batches):
            return self.whole_rates.rate(spec.profile, accelerator, gpus, levels)[0]
        examples = batch_size or spec.batch_size or 0
        return self.whole_rates.rate_of(spec.profile, spec.demand, accelerator, gpus, examples, levels)[0]


def _of_node(name: str, values: float | Floats, node: int) -> float:
    if not isinstance(values, np.ndarray):
        return float(values)
    if node >= len(values):
        raise OptionError("has too few values.", field=name, value=len(values), hint="one value for each node of the cluster")
    return float(values[node])
