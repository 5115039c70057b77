"""What a driver asks of the agent of a machine: the core's commands, and messages of the driver's own, all as values.

The codec that writes commands to the journal carries them. Leases in a message end at instants of the agent's own clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.model.codec import Codec
from rota.model.commands import Kill, Renew, Resume, Suspend, SuspendKind

PROTOCOL = 2
"""The version of these messages. A scheduler ends the agents of a cluster that speak another one, and starts its own."""


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """The part of a launch that is for one machine."""

    job: int
    attempt: int
    order: Mapping[str, Any]
    """The fields of a `LaunchOrder`, by name."""
    parking: Mapping[str, Any] | None = None
    """What the agent has to know to find how the job is parked (`with_parking`); None: the job is not to be parked."""


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """The part of a resize that is for one machine."""

    job: int
    attempt: int
    sequence: int
    batch_size: int
    env: Mapping[str, str | None] | None = None
    """Variables with which the job is started again on other GPUs; None: it takes the batch size by itself. A variable without a
    value is taken away."""
    gpus_text: str = ""
    """Where it then runs, for people."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the files of an attempt that has ended."""

    job: int
    attempt: int


AgentMessage = StartAttempt | Suspend | Resume | ChangeSize | Kill | Renew | Forget

AGENT_CODEC = Codec(StartAttempt, Suspend, SuspendKind, Resume, ChangeSize, Kill, Renew, Forget)
