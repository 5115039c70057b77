"""What the records of the state hold: small frozen values, one attempt, one command on its way, one answer."""

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
    """Which life of the job it is, from 1."""
    option: int
    gpus: Ints
    parts: tuple[int, ...]
    """Nodes whose processes are not known to be gone."""
    parked: bool = False
    parked_before: bool = False
    reserved: bool = False
    """Host memory is set aside for it, from the command to park until it runs again or is gone."""
    host_gib: float = 0.0
    """How much is set aside on each of its nodes."""
    kept_gib: float = 0.0
    """What it took on each when it was parked, and keeps until it ends, also while it runs."""
    verdict: AttemptEnd = AttemptEnd.OPEN
    steps: float = FOREVER
    """Fewest steps any part that ended had safe."""
    setback: str = ""
    """What a part that ended failed to do (`Exited.setback`)."""


@value
class InFlight:
    """A command on its way, and the nodes that have not answered."""

    command: JobCommand
    waiting: tuple[int, ...]
    sent_s: float


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
    """How many there were."""
    what: str
    """What the last of them failed to do, in words."""
    until_s: float
    """When the pause after it is over; minus infinity: it is over, and the job may run."""


PaceKey = tuple[str, int, int, int, str, int]
"""Profile, pool, GPUs, levels of locality spanned, the profile of who shares them, and batch size."""


class PlacementTraits(NamedTuple):
    """What placers may know of a kind of job on a pool."""

    application: int
    """Its class, as a row of the scores."""
    penalties: tuple[float, ...]
    """How many times longer its steps are believed to take across 0, 1, 2, ... levels of locality."""
    skew: float | None
    """The part of its model that the largest tensor is; None: unknown."""


@value
class PolicyAnswer:
    """The policy's last answer and the jobs it speaks of."""

    allocation: Allocation
    ids: Ints
    version: int
    """The version of the jobs when the question was asked: while it stands, positions are rows."""
    policy: str
    """Whose answer it is."""
