"""Commands that the core sends to a driver. Their key is (job, attempt, sequence), so that a repeated command has no effect."""

from enum import StrEnum
from typing import TYPE_CHECKING

from rota.model.units import FOREVER, Ints
from rota.model.value import plain_value, value

if TYPE_CHECKING:
    from rota.model.view import View


class SuspendKind(StrEnum):
    PARK = "park"
    """Stop the processes and keep their memory on the host."""
    CHECKPOINT = "checkpoint"
    """Save the state to storage and exit."""


@value
class Launch:
    """Start a new attempt on these GPUs, on all of its nodes or on none."""

    job: int
    attempt: int
    sequence: int
    option: int
    gpus: Ints
    nodes: tuple[int, ...]
    boots: tuple[int, ...]
    """Boot number of each node. A node that has rebooted since refuses the launch."""
    from_step: float
    lease_s: float = FOREVER
    partner: int | None = None
    """Job that may be on these GPUs at the same time; None if there is none."""
    batch_size: int | None = None
    """Examples per step; None if unknown."""


@plain_value
class Suspend:
    """Stop the job between two steps and keep its state."""

    job: int
    attempt: int
    sequence: int
    nodes: tuple[int, ...]
    kind: SuspendKind = SuspendKind.CHECKPOINT


@plain_value
class Resume:
    """Resume a parked attempt on the GPUs that it had."""

    job: int
    attempt: int
    sequence: int
    nodes: tuple[int, ...]
    lease_s: float = FOREVER
    partner: int | None = None
    """Job that may be on these GPUs at the same time; None if there is none."""


@value
class Resize:
    """Change to another option of the same pool without a stop: with more GPUs of the same nodes, with fewer, or with another
    batch size. The driver replies with `Started`."""

    job: int
    attempt: int
    sequence: int
    option: int
    gpus: Ints
    """All GPUs that the job has after the change: those that it had and more, or some of those."""
    nodes: tuple[int, ...]
    batch_size: int | None = None
    """Examples per step after the change; None if unknown."""


@plain_value
class Renew:
    """Extend a lease. A renewal has no reply: if it is lost, the lease expires."""

    job: int
    attempt: int
    nodes: tuple[int, ...]
    lease_s: float


@plain_value
class Prepare:
    """Get host memory ready on these nodes, into which a running job can be parked soon. It has no reply, and no event follows.
    The core does not send it."""

    job: int
    attempt: int
    nodes: tuple[int, ...]


@plain_value
class Kill:
    """Kill the processes of an attempt at once."""

    job: int
    attempt: int
    sequence: int
    nodes: tuple[int, ...]


@value
class CallPolicy:
    """Call the policy. The driver computes the answer at once, or sends a copy of the view to another process."""

    ticket: int
    view: "View"


@plain_value
class SetTimer:
    """Send `TimerFired` at this instant. It replaces the instant of the previous `SetTimer`."""

    at_s: float


JobCommand = Launch | Suspend | Resume | Resize | Kill
Command = JobCommand | Renew | CallPolicy | SetTimer
