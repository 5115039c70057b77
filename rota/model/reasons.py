"""Why a job is not running. `core/explain.py` decides which of several reasons is shown."""

from dataclasses import dataclass, field
from enum import IntEnum


class Reason(IntEnum):
    """One code per cause. A job shows the first reason that holds, or NONE if it runs or has ended. Missing numbers are
    retired and are not used again."""

    NONE = 0
    HELD = 1
    """The owner of the job or an operator holds it."""
    UNSATISFIABLE = 2
    """The job requests more than the cluster has."""
    NO_SUCH_ACCELERATOR = 3
    """No node has an accelerator type that the job accepts."""
    NODE_DOWN = 4
    """The job would fit if the nodes that are down or silent were back."""
    FRAGMENTED = 7
    """Enough GPUs are free, but not close together."""
    NO_FREE_GPUS = 8
    """Fewer GPUs of the accepted types are free than the job needs."""
    OUTRANKED = 9
    """Usable GPUs are free, but the policy keeps them for a job that ranks before this one."""
    SHARE_USED = 10
    """The job has had its share of time."""
    WAITING_FOR_SUSPEND = 12
    """The job has been granted GPUs that another job is still giving up."""
    STARTING = 13
    AWAITING_DECISION = 14
    """Usable GPUs are free, and the next decision has not been made yet."""
    POLICY_NOTE = 15
    """A note from the policy's last answer, such as a deadline that cannot be met."""
    BACKING_OFF = 16
    """The last attempt failed in a way in which the next is likely to fail too, so the job pauses."""
    DEPENDENCY = 17
    """The job waits for other jobs to end."""
    OVER_QUOTA = 20
    """The job would exceed the cap of its tenant or of its user."""
    RECLAIMED = 21
    """The job's GPUs were borrowed, and went back to the tenant to which they are guaranteed."""
    RESERVED = 22
    """GPUs that the job could use are reserved for others, or the job would have to leave them before its end."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason that holds for a job, with the facts behind it."""

    code: Reason
    sentence: str
    facts: dict[str, object] = field(default_factory=dict)
