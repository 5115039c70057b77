"""Small immutable values that the state holds: an attempt, a command in flight, an answer."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from rota.model.allocation import Allocation
from rota.model.commands import JobCommand
from rota.model.units import FOREVER, Ints
from rota.model.value import plain_value, value

NO_GPUS: Ints = np.empty(0, dtype=np.int64)


def same_gpus(a: Ints, b: Ints) -> bool:
    if a is b:
        return True
    if len(a) == 1 == len(b):  # most jobs
        return a.item() == b.item()
    return len(a) == len(b) and bool((a == b).all())


class AttemptEnd(IntEnum):
    """How an attempt ends. Of several parts' ends the highest counts: a gang reaches its end together, so one part that
    finished means that the work is done, even if another was lost on the way out."""

    OPEN = 0
    SUSPENDED = 1
    LOST = 2
    FINISHED = 3
    FAILED = 4


@value
class Attempt:
    """One attempt, from the command that launches it until its last part is known to be gone."""

    number: int
    """Number of the attempt, from 1."""
    option: int
    gpus: Ints
    live_nodes: tuple[int, ...]
    """Nodes whose processes are not known to be gone."""
    parked: bool = False
    parked_before: bool = False
    host_memory_reserved: bool = False
    """Whether host memory is reserved for the attempt: from the command to park until it runs again or has ended."""
    host_gib: float = 0.0
    """Host memory that is reserved on each of its nodes, in GiB."""
    kept_gib: float = 0.0
    """Host memory that it keeps on each node until it ends, also while it runs, in GiB."""
    end: AttemptEnd = AttemptEnd.OPEN
    steps: float = FOREVER
    """Fewest saved steps of any node whose processes have ended."""
    setback: str | None = None
    """What the processes of a node failed to do (`Exited.setback`); None if there was no setback."""


@value
class InFlight:
    """A command in flight, and the nodes that have not answered."""

    command: JobCommand
    waiting: tuple[int, ...]
    sent_s: float


@plain_value
class Drain:
    """GPUs that an operator takes out of service for a time."""

    number: int
    """Number of the drain. Numbers rise."""
    gpus: tuple[int, ...]
    from_s: float
    """Time at which the drain begins."""
    until_s: float
    """Time at which the drain ends; infinite if an operator has to end it."""
    reason: str | None
    """Reason that the operator gave, or what the health check found; None if no reason was given."""
    by: str | None
    """Name of the user who requested it; None if unknown."""
    by_check: bool = False
    """Whether a health check failed there. The scheduler ends the drain when the check passes again."""


@value
class FailedStart:
    """Attempts of a job that ended on one node within seconds of their starts."""

    job: int
    times: int
    first_s: float
    elsewhere: bool = False
    """Whether the job has run on other nodes since the last of them."""


@plain_value
class Setback:
    """Attempts of a job in a row that failed in a way in which the next is likely to fail too."""

    times: int
    """Number of such attempts."""
    what: str
    """What the last of them failed to do, as text."""
    until_s: float
    """End of the pause; minus infinity if it is over."""


RateKey = tuple[str, int, int, int, str, int]
"""Profile, pool, GPUs, levels of locality spanned, the profile of who shares them, and batch size."""


class PlacementTraits(NamedTuple):
    """What placers see of a kind of job on a pool."""

    application_class: int
    """Application class: a row of the scores."""
    penalties: tuple[float, ...]
    """How many times longer its steps are believed to take across 0, 1, 2, ... levels of locality."""
    skew: float | None
    """The part of its model that the largest tensor is; None: unknown."""


@value
class PolicyAnswer:
    """The policy's last answer and the jobs that it is about."""

    allocation: Allocation
    ids: Ints
    version: int
    """The version of the jobs when the question was asked: while it stands, positions are rows."""
    policy: str | None
    """Name of the policy; None if unknown."""
