"""Settings of the core: when it decides, how it selects jobs, and how long it waits."""

from dataclasses import dataclass, field

from rota.core.decision_timing import AtEvents, DecisionTiming
from rota.core.plan.tactic import Tactics
from rota.core.selection import SelectionRules
from rota.errors import OptionError
from rota.model.units import FOREVER

RENEWAL_SECONDS = 600.0
"""Longest time until a lease is renewed, in seconds, so that most of a long lease is left at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a scheduler. The defaults suit a simulation of perfect machines: decisions at events, no leases, no retries."""

    decide: DecisionTiming = field(default_factory=AtEvents)
    """When the core decides: at events, at rounds, or in rounds of whole steps."""
    selection: SelectionRules = field(default_factory=SelectionRules)
    """How the core selects the jobs that may run from an answer."""
    wait_for_locality: bool = False
    """Whether a job whose GPUs the placer would keep together waits until the fewest possible nodes have them. Running jobs keep
    their places."""
    learn: bool = False
    """Whether measured rates of jobs override the given ones."""
    learn_variability: bool = False
    """Whether to learn from step times which GPUs are slow."""
    cordon_slower_than: float = FOREVER
    """Slowdown above which GPUs are cordoned, relative to the median GPU, for any class of applications. At most a tenth of a
    pool is cordoned, the slowest first; inf if no GPU is."""
    cordon_failing_starts: float = FOREVER
    """Number of starts that fail within seconds on a node, of jobs that then run elsewhere, after which it is cordoned; inf if
    never."""
    needs_predictions: bool = False
    """Whether to learn from finished jobs how long jobs train, because the policy reads predictions."""
    colocation: bool = False
    """Whether to offer options with which two jobs share GPUs."""
    resume_in_place: bool = False
    """Whether a parked job resumes or waits on its node, unless the node is drained. On another node it would restart from its
    last checkpoint, and an unmodified script has none."""
    min_run_factor: float = 0.0
    """Minimum running time of an attempt before another job may get its GPUs, as a multiple of the measured cost of starting and
    stopping the job; 0 for no minimum."""
    tactics: Tactics = field(default_factory=Tactics)
    """Improvements to any plan, whatever its policy."""
    horizon_seconds: float = 3600.0
    """Time within which a move must pay for itself, in seconds."""
    lease_seconds: float = FOREVER
    """Length of a lease, in seconds. It is renewed at half time, and after `RENEWAL_SECONDS` at the latest; inf for no leases."""
    lease_margin_seconds: float = 0.0
    """Time after the end of a lease by which its processes have certainly ended, in seconds."""
    retry_seconds: float = FOREVER
    """Time after which a command without a reply is sent again, in seconds; inf if never."""
    node_timeout_seconds: float = FOREVER
    """Time without a heartbeat after which a node is unreachable, in seconds; inf if never."""
    policy_retry_seconds: float = 10.0
    """Time after which a policy that failed is called again, in seconds."""
    seed: int = 0
    policy: str | None = None
    """Policy with its options, as text; None if it has no name. An answer of another policy holds until this one has answered."""

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
        if self.wait_for_locality and (self.colocation or self.tactics.colocating is not None):
            raise OptionError(
                "can't be combined with packing, where jobs share GPUs: the search doesn't handle pairs.",
                field="wait_for_locality",
                value=True,
                hint="colocation=false",
            )

    @property
    def leased(self) -> bool:
        return self.lease_seconds < FOREVER

    @property
    def renewed_at_seconds(self) -> float:
        """Remaining time at which a lease is renewed, in seconds."""
        return max(self.lease_seconds / 2, self.lease_seconds - RENEWAL_SECONDS)
