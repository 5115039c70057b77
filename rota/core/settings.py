"""How the core is set up: when it decides, how it draws, and how patient it is. Values, set once."""

from dataclasses import dataclass, field

from rota.core.decision_timing import AtEvents, DecisionTiming
from rota.core.plan.tactic import Tactics
from rota.core.selection import SelectionRules
from rota.errors import OptionError
from rota.model.units import FOREVER

RENEWAL_SECONDS = 600.0
"""A lease is renewed this long after it was given, or earlier. Most of a long one is left at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The defaults suit a simulation of perfect machines: decisions at events, no leases, nothing is ever sent twice."""

    decide: DecisionTiming = field(default_factory=AtEvents)
    """When it decides: at events, at rounds, or in rounds of whole steps."""
    drawing: SelectionRules = field(default_factory=SelectionRules)
    """How it draws from an answer who may run."""
    wait_for_place: bool = False
    """A job whose GPUs the placer would keep together waits until they can be had on as few nodes as they need; running jobs keep
    their places."""
    learn: bool = False
    """Believe what was measured of the jobs that ran, where it differs from what was believed."""
    learn_variability: bool = False
    """Learn from step times which GPUs are slow."""
    cordon_slower_than: float = FOREVER
    """GPUs that are believed to be slower than this for any class of applications, 1 the median, are taken out of service: a
    tenth of a pool at most, the slowest first."""
    cordon_failing_starts: float = FOREVER
    """A node is cordoned when this many starts ended there within seconds, of jobs that then ran on others. Infinite: never."""
    foresees: bool = False
    """The policy asks how long jobs train: that is learned from those that finish."""
    packing: bool = False
    """Offer options by which two jobs share GPUs."""
    parked_stay: bool = False
    """A parked job goes on where it sleeps or waits, unless its node is drained: elsewhere it would begin again from its last
    checkpoint, and an unmodified script has none."""
    min_run_factor: float = 0.0
    """An attempt is not suspended for another job before it has run for this many times what starting and stopping the job
    costs, as measured; 0: there is no minimum run time."""
    tactics: Tactics = field(default_factory=Tactics)
    """What any plan may gain, whatever policy it came from."""
    horizon_seconds: float = 3600.0
    """A move must pay for itself within this time."""
    lease_seconds: float = FOREVER
    """The right to run, renewed at half time, and after `RENEWAL_SECONDS` at the latest."""
    lease_margin_seconds: float = 0.0
    """How much later than a lease's end its processes are surely gone."""
    retry_seconds: float = FOREVER
    """A command without an answer is sent again after this."""
    node_timeout_seconds: float = FOREVER
    """A node silent for this long is unreachable."""
    policy_retry_seconds: float = 10.0
    """A policy that failed is asked again after this."""
    seed: int = 0
    policy: str = ""
    """The policy that is asked, as it is spelled. An answer of another one holds until this one has answered."""

    def __post_init__(self) -> None:
        for name in ("lease_margin_seconds", "horizon_seconds", "min_run_factor"):
            if not getattr(self, name) >= 0:
                raise OptionError("must be 0 or more.", field=name, value=getattr(self, name))
        for name in ("lease_seconds", "retry_seconds", "node_timeout_seconds", "policy_retry_seconds"):
            if not getattr(self, name) > 0:
                raise OptionError("must be more than 0.", field=name, value=getattr(self, name))
        if not self.cordon_failing_starts >= 1:
            raise OptionError("must be 1 or more.", field="cordon_failing_starts", value=self.cordon_failing_starts)
        if self.seed < 0:
            raise OptionError("must be 0 or more.", field="seed", value=self.seed, hint="--seed 0")
        if not self.cordon_slower_than > 1:
            raise OptionError(
                "must be more than 1: half of all GPUs are slower than that.",
                field="cordon_slower_than",
                value=self.cordon_slower_than,
                hint="cordon_slower_than=1.5",
            )
        if self.wait_for_place and (self.packing or self.tactics.colocating is not None):
            raise OptionError(
                "can't be combined with packing, where jobs share GPUs: the search doesn't handle pairs.",
                field="wait_for_place",
                value=True,
                hint="packing=false",
            )

    @property
    def leased(self) -> bool:
        return self.lease_seconds < FOREVER

    @property
    def renewed_at_seconds(self) -> float:
        """A lease with no more than this left is renewed."""
        return max(self.lease_seconds / 2, self.lease_seconds - RENEWAL_SECONDS)
