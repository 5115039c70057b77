"""The rules of an agent: what it does with a command, what it refuses, and what it answers.

A pure state machine: it has no clock and does no I/O. It takes what the agent knows of one job, a command or an observation, and
the time; it returns what the agent knows next, what to do, and whether to answer. The caller does the work.
The supervisors and the inventory of a real machine run this file, and so do the agents of chaos (`rota/sim/agents.py`).

The promises behind the rules are in `docs/contributing/drivers.md`. Named tuples, because a supervisor must be up in a moment.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from rota.agent.constants import (
    ENDED,
    EXITED,
    KILL,
    LAUNCH,
    LEASE,
    LOST,
    PARKED,
    RENEW,
    RESIZE,
    RESUME,
    RUNNING,
    STARTED,
    SUSPEND,
    SUSPENDED,
    YIELDED,
)

NOT_NEW = "a command at least as new was seen before"
OTHER_BOOT = "it was meant for another boot of the machine"
LEASE_OVER = "its lease was over before it could start"
NOT_HERE = "it does not live here"
NOT_RUNNING = "it does not run now"
LEAVING = "it is already stopping"
"""Why a command was refused, in words."""


class AgentCommand(NamedTuple):
    """A command for one job, as the rules see it."""

    op: str
    """launch, resume, resize, suspend, kill or renew."""
    attempt: int
    sequence: int = 0
    """Sequence of the command; 0 for a renewal, which has none."""
    lease_s: float = math.inf
    """End of the lease of a launch, a resume or a renewal."""
    boot: str = ""
    """Boot of the machine that a launch is meant for."""
    sent_s: float = -math.inf
    """Time at which a renewal or a resume was sent."""
    parks: bool = False
    """Whether a suspension parks the job if possible."""
    batch_size: int = 0
    """New batch size of a resize."""
    env: Mapping[str, str | None] | None = None
    """Variables with which a resize starts the job again; None if the job takes the batch size by itself. A variable without a
    value is removed."""
    gpus_text: str = ""
    """Placement after such a resize, for people."""


class TrackedAttempt(NamedTuple):
    """One attempt that the agent started and has not forgotten."""

    attempt: int
    sequence: int
    """Sequence of the newest command that it obeyed."""
    start_sequence: int
    """Sequence of the command that made it run as it does: its launch, or the last resume or resize."""
    state: str = RUNNING
    """running, parked or ended."""
    lease_s: float = math.inf
    renewed_s: float = -math.inf
    """Time at which the newest renewal was sent."""
    stop_reason: str | None = None
    """Reason for which it was asked to stop: suspend, kill or lease."""
    outcome: str | None = None

    @property
    def is_alive(self) -> bool:
        return self.state != ENDED


class KnownJob(NamedTuple):
    """What an agent knows of one job."""

    highest: tuple[int, int] = (0, 0)
    """Newest (attempt, sequence) that the agent has received."""
    held: TrackedAttempt | None = None


class Decision(NamedTuple):
    """What to do with a command."""

    known: KnownJob
    """Knowledge of the agent after the command."""
    action: str | None = None
    """Operation to carry out, or `lease` to end the attempt because its lease is over; None for nothing."""
    refusal: str = ""
    """Why nothing is done; empty if something is."""
    answers: bool = True
    """Whether to reply with the status of the attempt when the action is done (`describe`)."""


class Reply(NamedTuple):
    """Reply about one attempt."""

    kind: str
    """started, parked, suspended (it is on storage) or exited."""
    sequence: int = 0
    outcome: str = LOST


# Commands.


def receive(known: KnownJob, instruction: AgentCommand, *, now_s: float, boot: str) -> Decision:
    """Decide on a command that arrives now, in this boot of the machine."""
    if instruction.op == LAUNCH:
        return _launch(known, instruction, now_s, boot)
    if instruction.op == RENEW:
        return _renew(known, instruction)
    return _change(known, instruction)


def _launch(known: KnownJob, launch: AgentCommand, now_s: float, boot: str) -> Decision:
    if not is_new(known.highest, launch):
        return Decision(known, refusal=NOT_NEW)
    if not is_same_boot(launch, boot):
        return Decision(known, refusal=OTHER_BOOT)
    if is_over(launch.lease_s, now_s):
        return Decision(known, refusal=LEASE_OVER)
    held = TrackedAttempt(launch.attempt, launch.sequence, launch.sequence, lease_s=launch.lease_s)
    return Decision(KnownJob((launch.attempt, launch.sequence), held), LAUNCH)


def _change(known: KnownJob, command: AgentCommand) -> Decision:
    """Decide on a suspend, resume, resize or kill."""
    if not is_new(known.highest, command):
        return Decision(known, refusal=NOT_NEW)
    known = known._replace(highest=(command.attempt, command.sequence))
    held = known.held
    if held is None or not held.is_alive or not is_meant(held, command):
        return Decision(known, refusal=NOT_HERE)
    if command.op == RESIZE and (held.state != RUNNING or held.stop_reason is not None):
        return Decision(known, refusal=NOT_RUNNING)
    if command.op == RESUME and held.stop_reason is not None:
        return Decision(known, refusal=LEAVING)
    held = held._replace(sequence=command.sequence)
    if command.op == RESIZE:
        held = held._replace(start_sequence=command.sequence)
    elif command.op == RESUME:
        held = held._replace(
            start_sequence=command.sequence,
            state=RUNNING,
            stop_reason=None,
            lease_s=max(held.lease_s, command.lease_s),
            renewed_s=max(held.renewed_s, command.sent_s),
        )
    else:
        held = held._replace(stop_reason=KILL if held.stop_reason == KILL else command.op)
    return Decision(known._replace(held=held), command.op)


def _renew(known: KnownJob, renewal: AgentCommand) -> Decision:
    """Decide on a renewal. An unknown attempt gets no reply, because its launch may still arrive."""
    held = known.held
    if held is None or not held.is_alive or not is_meant(held, renewal):
        return Decision(known, refusal=NOT_HERE, answers=renewal.attempt <= known.highest[0])
    if renewal.sent_s < held.renewed_s:
        return Decision(known, refusal=NOT_NEW, answers=False)
    held = held._replace(lease_s=renewal.lease_s, renewed_s=renewal.sent_s)
    return Decision(known._replace(held=held), RENEW, answers=False)


# The four questions. Each is one rule.


def is_new(highest: tuple[int, int], command: AgentCommand) -> bool:
    """A launch opens a newer attempt; any other command is newer than every command seen before it."""
    if command.op == LAUNCH:
        return command.attempt > highest[0]
    return (command.attempt, command.sequence) > highest


def is_meant(held: TrackedAttempt, command: AgentCommand) -> bool:
    """A command is for one attempt and changes no other."""
    return held.attempt == command.attempt


def is_same_boot(launch: AgentCommand, boot: str) -> bool:
    """A launch that outlived a reboot is refused, because all processes that the scheduler knew are gone."""
    return launch.boot == boot


def is_over(lease_s: float, now_s: float) -> bool:
    """Without a valid lease nothing runs."""
    return now_s >= lease_s


# Observations.


def expire_lease(known: KnownJob, now_s: float) -> Decision:
    """End an attempt that outlives its lease, unless it was asked to stop before."""
    held = known.held
    if held is None or not held.is_alive or held.stop_reason is not None or not is_over(held.lease_s, now_s):
        return Decision(known, answers=False)
    return Decision(known._replace(held=held._replace(stop_reason=LEASE)), LEASE)


def parked(held: TrackedAttempt) -> TrackedAttempt:
    """Return an attempt that a suspension has parked."""
    return held._replace(state=PARKED, stop_reason=None)


def kept_running(held: TrackedAttempt) -> TrackedAttempt:
    """Return an attempt that could not be parked and keeps running. That is the reply to the command."""
    return held._replace(stop_reason=None, start_sequence=held.sequence)


def ended(held: TrackedAttempt, outcome: str) -> TrackedAttempt:
    """Return an attempt whose last process is gone."""
    return held._replace(state=ENDED, outcome=outcome)


# Answers.


def describe(held: TrackedAttempt | None, attempt: int) -> Reply:
    """Return the reply about an attempt. An attempt that is not held is lost, and never starts after this reply."""
    if held is None or held.attempt != attempt:
        return Reply(EXITED)
    if held.state == RUNNING:
        return Reply(STARTED, held.start_sequence)
    if held.state == PARKED:
        return Reply(PARKED, held.sequence)
    if held.outcome == YIELDED and held.stop_reason == SUSPEND:
        return Reply(SUSPENDED, held.sequence)
    return Reply(EXITED, held.sequence, held.outcome or LOST)
