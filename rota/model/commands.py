"""Commands: what the core tells a driver to do. Keyed (job, attempt, sequence), so that a repeat is harmless."""

from enum import StrEnum
from typing import TYPE_CHECKING

from rota.model.units import FOREVER, Ints
from rota.model.value import plain_value, value

if TYPE_CHECKING:
    from rota.model.view import View


class SuspendKind(StrEnum):
    PARK = "park"
    """Keep the processes asleep on the host."""
    CHECKPOINT = "checkpoint"
    """Write state to storage and exit."""


@value
class Launch:
    """Start a new attempt on these GPUs, all of them or none."""

    job: int
    attempt: int
    sequence: int
    option: int
    gpus: Ints
    nodes: tuple[int, ...]
    boots: tuple[int, ...]
    """The boot each node must still be in: a launch that outlived a reboot is refused."""
    from_step: float
    lease_s: float = FOREVER
    partner: int = -1
    """The job that may be on these GPUs at the same time; -1: nobody may."""
    batch_size: int = 0
    """Examples per step; 0: the job did not say."""


@plain_value
class Suspend:
    """Stop at a step boundary and keep the state."""

    job: int
    attempt: int
    sequence: int
    nodes: tuple[int, ...]
    kind: SuspendKind = SuspendKind.CHECKPOINT


@plain_value
class Resume:
    """Wake a parked attempt on the GPUs it had."""

    job: int
    attempt: int
    sequence: int
    nodes: tuple[int, ...]
    lease_s: float = FOREVER
    partner: int = -1
    """As of a launch."""


@value
class Resize:
    """Go on by another option of the same pool without a stop: with more of its nodes' GPUs, with fewer, or with another batch
    size. Answered by `Started`."""

    job: int
    attempt: int
    sequence: int
    option: int
    gpus: Ints
    """All GPUs it has from then on: those it had and more, or some of them."""
    nodes: tuple[int, ...]
    batch_size: int = 0
    """Examples per step from then on; 0: the job did not say."""


@plain_value
class Renew:
    """Extend the right to run. Not counted as in flight: a lost renewal only lets the lease end."""

    job: int
    attempt: int
    nodes: tuple[int, ...]
    lease_s: float


@plain_value
class Kill:
    """End this attempt's processes at once."""

    job: int
    attempt: int
    sequence: int
    nodes: tuple[int, ...]


@value
class CallPolicy:
    """Ask the policy. A driver reads the view on receipt: it solves there and then, or sends a copy away."""

    ticket: int
    view: "View"


@plain_value
class SetTimer:
    """Send `TimerFired` at this instant; replaces the wake-up asked for before."""

    at_s: float


JobCommand = Launch | Suspend | Resume | Resize | Kill
Command = JobCommand | Renew | CallPolicy | SetTimer
