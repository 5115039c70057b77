"""Agents of the chaos driver: each does what it is told once, keeps its promises, and says what it has. `docs/drivers.md` lists
the promises; a real agent makes the same."""

from dataclasses import dataclass
from typing import Protocol

from rota.model.commands import JobCommand, Kill, Launch, Renew, Resume, Suspend, SuspendKind
from rota.model.events import Exited, External, NodeReported, Outcome, Part, PartState, Started, Suspended


@dataclass
class Process:
    """One node's processes of one incarnation, as they really are."""

    incarnation: int
    sequence: int
    state: PartState
    gpus: tuple[int, ...]
    lease_s: float
    steps: float = 0.0
    outcome: Outcome = Outcome.LOST

    @property
    def lives(self) -> bool:
        return self.state is not PartState.ENDED


class World(Protocol):
    """What an agent needs of the world around it."""

    now_s: float
    storage: dict[int, float]

    def span(self, node: int) -> tuple[int, int]: ...
    def to_core(self, node: int, event: External) -> None: ...
    def part_started(self, node: int, command: Launch, gpus: tuple[int, ...]) -> None: ...
    def part_resumed(self, node: int, command: Resume, gpus: tuple[int, ...]) -> None: ...
    def part_suspended(self, node: int, job: int, part: Process, kind: SuspendKind) -> float: ...
    def part_ended(self, node: int, job: int, part: Process) -> None: ...


class Agent:
    """A node: does what it is told once, and says what it has."""

    def __init__(self, world: World, node: int) -> None:
        self.world, self.node = world, node
        self.boot = 0
        self.up = True
        self.parts: dict[int, Process] = {}
        self.highest: dict[int, tuple[int, int]] = {}

    def receive(self, command: JobCommand | Renew) -> None:
        part = self.parts.get(command.job)
        mine = part if part is not None and part.incarnation == command.incarnation else None
        if isinstance(command, Renew):
            if mine is not None and mine.lives:
                mine.lease_s = max(mine.lease_s, command.lease_s)
            elif command.incarnation <= self.highest.get(command.job, (0, 0))[0]:
                self._answer(command.job, command.incarnation, mine)
            return  # of an incarnation never heard of nothing is said: its launch may still be on the way
        key = (command.incarnation, command.sequence)
        if key <= self.highest.get(command.job, (0, 0)):
            self._answer(command.job, command.incarnation, mine)
            return
        if isinstance(command, Launch):
            at = command.nodes.index(self.node)
            if command.boots[at] != self.boot or command.lease_s <= self.world.now_s:
                self._answer(command.job, command.incarnation, None)
                return
        self.highest[command.job] = key
        if isinstance(command, Launch):
            first, end = self.world.span(self.node)
            gpus = tuple(gpu for gpu in command.gpus.tolist() if first <= gpu < end)
            self.parts[command.job] = Process(command.incarnation, command.sequence, PartState.RUNNING, gpus, command.lease_s)
            self.world.part_started(self.node, command, gpus)
        elif mine is not None and mine.lives:
            mine.sequence = command.sequence
            if isinstance(command, Kill):
                self.end(command.job, mine, Outcome.LOST)
            elif isinstance(command, Suspend):
                self._suspend(command, mine)
            else:
                mine.state, mine.lease_s = PartState.RUNNING, max(mine.lease_s, command.lease_s)
                self.world.part_resumed(self.node, command, mine.gpus)
        self._answer(command.job, command.incarnation, self.parts.get(command.job))

    def _suspend(self, command: Suspend, part: Process) -> None:
        steps = self.world.part_suspended(self.node, command.job, part, command.kind)
        part.steps = steps
        if command.kind is SuspendKind.PARK:
            part.state = PartState.PARKED
        else:
            part.state, part.outcome = PartState.ENDED, Outcome.YIELDED

    def end(self, job: int, part: Process, outcome: Outcome) -> None:
        part.state, part.outcome = PartState.ENDED, outcome
        self.world.part_ended(self.node, job, part)
        part.steps = self.world.storage.get(job, 0.0)

    def _answer(self, job: int, incarnation: int, part: Process | None) -> None:
        """Say how things are with this incarnation here, whatever was asked."""
        send, now = self.world.to_core, self.world.now_s
        if part is None or part.incarnation != incarnation:
            send(self.node, Exited(job, incarnation, now, Outcome.LOST, self.world.storage.get(job, 0.0), self.node))
        elif part.state is PartState.RUNNING:
            send(self.node, Started(job, incarnation, part.sequence, now, self.node))
        elif part.state is PartState.PARKED:
            send(self.node, Suspended(job, incarnation, part.sequence, now, SuspendKind.PARK, part.steps, self.node))
        elif part.outcome is Outcome.YIELDED:
            kind = SuspendKind.CHECKPOINT
            send(self.node, Suspended(job, incarnation, part.sequence, now, kind, part.steps, self.node))
        else:
            send(self.node, Exited(job, incarnation, now, part.outcome, part.steps, self.node))

    def report(self) -> None:
        inventory = tuple(
            Part(job, part.incarnation, part.sequence, part.state, part.steps, part.outcome)
            for job, part in sorted(self.parts.items())
        )
        self.world.to_core(self.node, NodeReported(self.node, self.boot, self.world.now_s, inventory))
