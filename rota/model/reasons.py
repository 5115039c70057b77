"""Why a job is not running. Order is precedence: structural before capacity before policy."""

from dataclasses import dataclass, field
from enum import IntEnum


class Reason(IntEnum):
    """One code per cause; the first that holds is the headline. NONE means: it runs, or it has ended. Numbers that are missing
    belonged to causes that no code gave."""

    NONE = 0
    HELD = 1
    """Its owner or an operator holds it back."""
    UNSATISFIABLE = 2
    """It asks for more than the cluster has."""
    NO_SUCH_ACCELERATOR = 3
    """No node has a type it accepts."""
    NODE_DOWN = 4
    """It would fit if the nodes that are down or silent were back."""
    FRAGMENTED = 7
    """Enough GPUs are free, but not together."""
    NO_FREE_GPUS = 8
    """Fewer GPUs of the types it accepts are left than it needs."""
    OUTRANKED = 9
    """GPUs are free that it could use, but the policy keeps them for a job ahead of it."""
    SHARE_USED = 10
    """It has had the share of time the policy gives it."""
    WAITING_FOR_SUSPEND = 12
    """Its GPUs are granted; the job that held them is still giving them up."""
    STARTING = 13
    AWAITING_DECISION = 14
    """GPUs it could use are free, and the next decision has not been made yet."""
    POLICY_NOTE = 15
    """What the policy's last answer says of it, such as a deadline that cannot be met."""
    BACKING_OFF = 16
    """Its last attempt failed in a way in which the next is likely to fail too: it pauses before that."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One reason that holds for one job, with the facts behind it."""

    code: Reason
    sentence: str
    facts: dict[str, object] = field(default_factory=dict)
