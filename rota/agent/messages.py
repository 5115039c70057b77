"""Messages from a driver to the agent of a machine: the core's commands, and messages of the driver's own.

The codec that writes commands to the journal encodes them. An order has the format of launch.json. Leases in a message end at
instants of the agent's own clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rota.agent import rules
from rota.agent.attempt_files import LaunchOrder, order_of
from rota.agent.constants import KILL, RENEW, RESIZE, RESUME, SUSPEND
from rota.agent.health_check import CheckHealth
from rota.model.codec import Codec, Plain
from rota.model.commands import Kill, Prepare, Renew, Resume, Suspend, SuspendKind

PROTOCOL = 6
"""Version of these messages. A scheduler ends the agents of a cluster that use another version, and starts its own."""


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """The part of a resize that is for one machine."""

    job: int
    attempt: int
    sequence: int
    batch_size: int
    env: Mapping[str, str | None] | None = None
    """Variables with which the job is started again on other GPUs; None if it takes the batch size by itself. A variable without
    a value is removed."""
    gpus_text: str = ""
    """Placement after the change, for people."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the files of an attempt that has ended."""

    job: int
    attempt: int


JobMessage = LaunchOrder | Suspend | Resume | ChangeSize | Kill | Prepare | Renew | Forget
AgentMessage = JobMessage | CheckHealth

_CODEC = Codec(Suspend, SuspendKind, Resume, ChangeSize, Kill, Prepare, Renew, Forget, CheckHealth)
_OPERATIONS = {Suspend: SUSPEND, Resume: RESUME, ChangeSize: RESIZE, Kill: KILL, Renew: RENEW}


def encode_message(message: AgentMessage) -> Plain:
    if isinstance(message, LaunchOrder):
        return {"type": LaunchOrder.__name__, "fields": message._asdict()}
    return _CODEC.encode(message)


def decode_message(plain: Plain) -> AgentMessage:
    if plain["type"] != LaunchOrder.__name__:
        message: AgentMessage = _CODEC.decode(plain)
        return message
    order = order_of(plain["fields"])
    if order is None:
        raise ValueError("an order lacks a field")
    return order


def agent_command(
    message: Suspend | Resume | ChangeSize | Kill | Renew, sent_s: float, *, can_park: bool = True
) -> rules.AgentCommand:
    """Return a command as the rules see it. A job that cannot be parked, as its node found when it started, saves and exits."""
    command = rules.AgentCommand(_OPERATIONS[type(message)], message.attempt)
    if isinstance(message, Renew):
        return command._replace(lease_s=message.lease_s, sent_s=sent_s)
    command = command._replace(sequence=message.sequence)
    if isinstance(message, Resume):
        return command._replace(lease_s=max(message.lease_s, sent_s), sent_s=sent_s)
    if isinstance(message, ChangeSize):
        return command._replace(batch_size=message.batch_size, env=message.env, gpus_text=message.gpus_text)
    return command._replace(parks=can_park and isinstance(message, Suspend) and message.kind is SuspendKind.PARK)
