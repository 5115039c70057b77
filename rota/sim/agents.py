"""Agents of the chaos driver, one per node. `rota/agent/rules.py` decides what they do, refuse and reply, as on real machines.

This file carries that out in a simulated world. `docs/contributing/drivers.md` lists the promises behind the rules.
"""

from dataclasses import dataclass
from typing import Protocol

from rota.agent import rules
from rota.agent.constants import EXITED, KILL, LAUNCH, PARKED, RENEW, RESIZE, RESUME, STARTED, SUSPEND
from rota.model.commands import JobCommand, Kill, Launch, Renew, Resize, Resume, Suspend, SuspendKind
from rota.model.events import Exited, External, InventoryItem, NodeReported, Outcome, ProcessState, Started, Suspended

OPERATIONS: dict[type, str] = {Launch: LAUNCH, Resume: RESUME, Resize: RESIZE, Suspend: SUSPEND, Kill: KILL}


@dataclass
class SimulatedTask:
    """Processes of one attempt on one node, as they really are."""

    held: rules.TrackedAttempt
    gpus: tuple[int, ...]
    steps: float = 0.0

    @property
    def lives(self) -> bool:
        return self.held.is_alive

    @property
    def attempt(self) -> int:
        return self.held.attempt

    @property
    def lease_s(self) -> float:
        return self.held.lease_s


class World(Protocol):
    """The simulated world, as far as an agent uses it."""

    now_s: float
    storage: dict[int, float]

    def span(self, node: int) -> tuple[int, int]: ...
    def to_core(self, node: int, event: External) -> None: ...
    def part_started(self, node: int, command: Launch, gpus: tuple[int, ...]) -> None: ...
    def part_resumed(self, node: int, command: Resume, gpus: tuple[int, ...]) -> None: ...
    def part_resized(self, node: int, command: Resize, gpus: tuple[int, ...]) -> None: ...
    def part_suspended(self, node: int, command: Suspend, part: SimulatedTask) -> float: ...
    def part_ended(self, node: int, job: int, part: SimulatedTask) -> None: ...


class Agent:
    """The agent of one node. It follows the rules and reports its attempts."""

    def __init__(self, world: World, node: int) -> None:
        self.world, self.node = world, node
        self.boot = 0
        self.up = True
        self.parts: dict[int, SimulatedTask] = {}
        self.highest: dict[int, tuple[int, int]] = {}

    def receive(self, command: JobCommand | Renew) -> None:
        job = command.job
        decision = rules.receive(self._known(job), self._instruction(command), now_s=self.world.now_s, boot=str(self.boot))
        self.highest[job] = decision.known.highest
        held, part = decision.known.held, self.parts.get(job)
        if decision.action is not None and held is not None:
            if isinstance(command, Launch):
                self._start(command, held)
            elif part is not None:
                part.held = held
                self._change(command, part)
        if decision.answers:
            self._answer(job, command.attempt)

    def end(self, job: int, part: SimulatedTask, outcome: Outcome) -> None:
        part.held = rules.ended(part.held, outcome)
        self.world.part_ended(self.node, job, part)
        part.steps = self.world.storage.get(job, 0.0)

    def end_if_lease_is_over(self, job: int, agent_now_s: float) -> bool:
        """Stop a job whose lease has expired by this agent's own clock. Return whether it was stopped."""
        decision = rules.expire_lease(self._known(job), agent_now_s)
        part, held = self.parts[job], decision.known.held
        if decision.action is None or held is None:
            return False
        part.held = held
        self.end(job, part, Outcome.LOST)
        self._answer(job, part.attempt)
        return True

    def report(self) -> None:
        inventory = tuple(
            InventoryItem(
                job,
                part.attempt,
                part.held.sequence,
                ProcessState(part.held.state),
                part.steps,
                Outcome(part.held.outcome or Outcome.LOST),
            )
            for job, part in sorted(self.parts.items())
        )
        self.world.to_core(self.node, NodeReported(self.node, self.boot, self.world.now_s, inventory))

    def _known(self, job: int) -> rules.KnownJob:
        part = self.parts.get(job)
        return rules.KnownJob(self.highest.get(job, rules.KnownJob().highest), part.held if part is not None else None)

    def _instruction(self, command: JobCommand | Renew) -> rules.AgentCommand:
        """Convert a command to the form that agents use. All leases of one core are equally long, so the command with the later
        lease was sent later."""
        if isinstance(command, Renew):
            return rules.AgentCommand(RENEW, command.attempt, lease_s=command.lease_s, sent_s=command.lease_s)
        found = rules.AgentCommand(OPERATIONS[type(command)], command.attempt, command.sequence)
        if isinstance(command, Launch):
            boot = command.boots[command.nodes.index(self.node)]
            return found._replace(lease_s=command.lease_s, boot=str(boot))
        return found._replace(lease_s=command.lease_s, sent_s=command.lease_s) if isinstance(command, Resume) else found

    def _mine(self, command: Launch | Resize) -> tuple[int, ...]:
        """Return the GPUs of a command that are on this node."""
        first, end = self.world.span(self.node)
        return tuple(gpu for gpu in command.gpus.tolist() if first <= gpu < end)

    def _start(self, command: Launch, held: rules.TrackedAttempt) -> None:
        gpus = self._mine(command)
        self.parts[command.job] = SimulatedTask(held, gpus)
        self.world.part_started(self.node, command, gpus)

    def _change(self, command: JobCommand | Renew, part: SimulatedTask) -> None:
        if isinstance(command, Kill):
            self.end(command.job, part, Outcome.LOST)
        elif isinstance(command, Resume):
            self.world.part_resumed(self.node, command, part.gpus)
        elif isinstance(command, Resize):
            part.gpus = self._mine(command)
            self.world.part_resized(self.node, command, part.gpus)
        elif isinstance(command, Suspend):
            part.steps = self.world.part_suspended(self.node, command, part)
            park = command.kind is SuspendKind.PARK
            part.held = rules.parked(part.held) if park else rules.ended(part.held, Outcome.YIELDED)

    def _answer(self, job: int, attempt: int) -> None:
        """Report the state of this attempt on this node, whatever the command requested."""
        now, node, part = self.world.now_s, self.node, self.parts.get(job)
        reply = rules.describe(part.held if part is not None else None, attempt)
        mine = part is not None and part.attempt == attempt
        steps = part.steps if part is not None and mine else self.world.storage.get(job, 0.0)
        event: External
        if reply.kind == STARTED:
            event = Started(job, attempt, reply.sequence, now, node)
        elif reply.kind == EXITED:
            event = Exited(job, attempt, now, Outcome(reply.outcome), steps, node)
        else:
            kind = SuspendKind.PARK if reply.kind == PARKED else SuspendKind.CHECKPOINT
            event = Suspended(job, attempt, reply.sequence, now, kind, steps, node)
        self.world.to_core(node, event)
