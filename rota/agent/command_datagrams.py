"""Commands from an agent to a supervisor, as datagrams. Supervisors outlive agents, so both versions of an upgrade must agree on
this format."""

from typing import Any

from rota.agent.attempt_files import is_count, seconds
from rota.agent.constants import KILL, PARK, RENEW, RESIZE, RESUME, SUSPEND
from rota.agent.rules import AgentCommand


def encode_command(command: AgentCommand) -> dict[str, object]:
    """Return the datagram of a command."""
    plain: dict[str, object] = {"op": PARK if command.parks else command.op, "sequence": command.sequence}
    if command.op in (RENEW, RESUME):
        plain |= {"seconds": seconds(command.lease_s - command.sent_s) or 0.0, "sent_boot_s": command.sent_s}
    if command.op == RESIZE:
        plain["batch_size"] = command.batch_size
        plain |= {} if command.env is None else {"env": dict(command.env), "gpus_text": command.gpus_text}
    return plain


def read_command(message: dict[str, Any], attempt: int, now_s: float) -> AgentCommand | None:
    """Return the command in a datagram that arrived now; None if it has none."""
    op, sequence = message.get("op"), message.get("sequence")
    length, sent_s = seconds(message.get("seconds")), seconds(message.get("sent_boot_s"))
    # The datagram may have waited while this process was stopped. A lease starts when it was sent.
    sent_s = now_s if sent_s is None else min(sent_s, now_s)
    if op == RENEW and length is not None:
        return AgentCommand(RENEW, attempt, lease_s=sent_s + length, sent_s=sent_s)
    if not is_count(sequence):
        return None
    if op == RESUME and length is not None:
        return AgentCommand(RESUME, attempt, sequence, lease_s=sent_s + length, sent_s=sent_s)
    if op == RESIZE and is_count(message.get("batch_size")):
        resize = AgentCommand(RESIZE, attempt, sequence, batch_size=message["batch_size"])
        env, gpus_text = message.get("env"), message.get("gpus_text")
        if not isinstance(env, dict) or not isinstance(gpus_text, str):
            return resize
        fine = all(value is None or isinstance(value, str) for value in env.values())
        return resize._replace(env=env, gpus_text=gpus_text) if fine else resize
    if op in (SUSPEND, PARK, KILL):
        return AgentCommand(KILL if op == KILL else SUSPEND, attempt, sequence, parks=op == PARK)
    return None
