"""When the core decides, and how patient it is. Values, set once."""

from dataclasses import dataclass

from rota.errors import OptionError
from rota.model.units import FOREVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The defaults suit a simulation of perfect machines: decisions at events, no leases, nothing is ever sent twice."""

    round_seconds: float = 0.0
    """Decide at every multiple of this; 0: no rounds."""
    whole_steps: bool = False
    """Rounds as in Gavel: each job gets as many whole steps as fit into one; the next begins when all have done theirs."""
    at_events: bool = True
    """Decide whenever something happened that may change the answer."""
    solve_every_seconds: float = 0.0
    """Ask the policy at most this often; in between, plans are drawn from its last answer."""
    deficits_break_ties: bool = False
    """As in Gavel: shares are drawn by time received since they were answered, and what earlier ones owe only breaks ties.
    Otherwise it counts as time not received, so that answers may follow each other quickly."""
    steady: bool = False
    """Between two answers of a policy that ranks, running jobs go on and no other job starts."""
    backfill: bool = True
    """Others may run while one that comes before them does not fit; if not, no job overtakes, whatever the policy says."""
    wait_for_place: bool = False
    """A job whose GPUs the placer would keep together waits until they can be had on as few nodes as they need; running jobs keep
    their places."""
    upgrades: bool = False
    """A running job that no policy would suspend for another may still move to a faster type, if that pays."""
    slice_seconds: float = 360.0
    """Where time is shared without rounds, those who are drawn run this long before others are."""
    learn: bool = False
    """Believe what was measured of the jobs that ran, where it differs from what was believed."""
    learn_variability: bool = False
    """Learn from step times which GPUs are slow."""
    cordon_slower_than: float = FOREVER
    """GPUs that are believed to be slower than this for any class of applications, 1 the median, are taken out of service: a
    tenth of a pool at most, the slowest first."""
    packing: bool = False
    """Offer options by which two jobs share GPUs."""
    horizon_seconds: float = 3600.0
    """A move must pay for itself within this time."""
    lease_seconds: float = FOREVER
    """The right to run, renewed at half time."""
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
        for name in ("round_seconds", "solve_every_seconds", "lease_margin_seconds", "horizon_seconds"):
            if not getattr(self, name) >= 0:
                raise OptionError("must be 0 or more.", field=name, value=getattr(self, name))
        for name in ("lease_seconds", "retry_seconds", "node_timeout_seconds", "policy_retry_seconds", "slice_seconds"):
            if not getattr(self, name) > 0:
                raise OptionError("must be more than 0.", field=name, value=getattr(self, name))
        if self.seed < 0:
            raise OptionError("must be 0 or more.", field="seed", value=self.seed, hint="--seed 0")
        if self.whole_steps and (self.at_events or not self.round_seconds):
            raise OptionError("whole steps need rounds and no decisions between them.", field="whole_steps", value=True)
        if not self.cordon_slower_than > 1:
            raise OptionError(
                "must be more than 1: half of all GPUs are slower than that.",
                field="cordon_slower_than",
                value=self.cordon_slower_than,
                hint="cordon_slower_than=1.5",
            )
        if self.wait_for_place and self.packing:
            raise OptionError(
                "can't be combined with packing, where jobs share GPUs: the search doesn't handle pairs.",
                field="wait_for_place",
                value=True,
                hint="packing=false",
            )
        if not self.at_events and not self.round_seconds:
            raise OptionError("decisions need rounds, events or both.", field="round_seconds", value=self.round_seconds)

    @property
    def turn_seconds(self) -> float:
        """How long jobs that are picked by their shares run before others are."""
        return self.round_seconds or self.slice_seconds

    @property
    def leased(self) -> bool:
        return self.lease_seconds < FOREVER
