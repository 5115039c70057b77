"""Physics: how fast jobs really run and what starting, stopping and breaking really cost. The scheduler never sees this."""

from dataclasses import dataclass, field

import numpy as np

from rota.beliefs.rates import SAME_SPEED, Rates
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.job import JobSpec
from rota.model.units import FOREVER, Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Physics:
    """The truth about a simulated cluster. The defaults are the `ideal` machine: every GPU alike and nothing costs anything."""

    rates: Rates = field(default_factory=lambda: SAME_SPEED)
    """True steps per second of a gang on healthy GPUs in one node."""
    gpu_speed: Floats | None = None
    """Relative speed of each GPU, 1 the nominal one; the slowest of a gang decides."""
    spread_penalty: float = 1.0
    """Factor by which a step takes longer when a gang spans nodes."""
    launch_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    restore_seconds: float = 0.0
    checkpoint_every_seconds: float = FOREVER
    """Jobs also save their state this often while they run; between saves, a crash loses work."""
    node_mtbf_seconds: float = FOREVER
    """Mean time between failures of one node, exponential."""
    node_repair_seconds: float = 3600.0
    """Time a failed node is away."""

    def __post_init__(self) -> None:
        for name in ("launch_seconds", "checkpoint_seconds", "restore_seconds", "node_repair_seconds"):
            if not getattr(self, name) >= 0:
                raise OptionError("must be 0 or more.", field=name, value=getattr(self, name))
        for name in ("checkpoint_every_seconds", "node_mtbf_seconds"):
            if not getattr(self, name) > 0:
                raise OptionError("must be more than 0.", field=name, value=getattr(self, name))
        if not self.spread_penalty >= 1:
            raise OptionError(
                "must be 1 or more: spreading never makes a job faster.",
                field="spread_penalty",
                value=self.spread_penalty,
            )

    def rate(self, spec: JobSpec, cluster: Cluster, gpus: Ints, nodes: int) -> float:
        """True steps per second of a job on these GPUs."""
        accelerator = cluster.pools[cluster.gpu_pool[gpus[0]]]
        rate, _ = self.rates.rate(spec.profile, accelerator, len(gpus))
        if self.gpu_speed is not None:
            rate *= float(self.gpu_speed[gpus].min())
        return rate / self.spread_penalty if nodes > 1 else rate

    def fastest(self, spec: JobSpec, cluster: Cluster) -> dict[int, float]:
        """Upper limit of a job's true rate on each pool it may use, for bounds."""
        found = {}
        for pool, accelerator in enumerate(cluster.pools):
            if spec.gpus > cluster.pool_gpus[pool] or (spec.accelerators and accelerator not in spec.accelerators):
                continue
            rate, _ = self.rates.rate(spec.profile, accelerator, spec.gpus)
            if self.gpu_speed is not None:
                # The best gang there is: its slowest member is the n-th fastest GPU of the pool.
                speeds = np.sort(self.gpu_speed[cluster.gpu_pool == pool])[::-1]
                rate *= float(speeds[spec.gpus - 1])
            if rate > 0:
                found[pool] = rate
        return found

    @property
    def fails(self) -> bool:
        return self.node_mtbf_seconds < FOREVER
