"""One node of the core, as the driver of a cluster knows it: the host that is there for it, what it was told and what it told."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from rota.agent.constants import ENDED, PARKED, RUNNING
from rota.agent.gpu_report import GpuReport
from rota.agent.gpu_use import GpuUse
from rota.agent.node_agent import NodeFacts
from rota.agent.orders import AttemptStatus
from rota.live.attempt_events import AttemptEvents
from rota.live.step_rates import StepRates
from rota.model.events import InventoryItem, ProcessState
from rota.model.units import FOREVER

AttemptKey = tuple[int, int]
"""Job and attempt."""


LAST_SEQUENCE = 1 << 40
"""Of a command that is newer than all others for its attempt."""
_STATES = {PARKED: ProcessState.PARKED}


class PendingMessage(NamedTuple):
    """Something that a node is to be told. It is put into words when it is sent: leases are instants of the node's own clock."""

    words: Callable[["FleetNode"], list[Any]]
    renews: AttemptKey | None = None
    """Whose lease it extends. The core takes that for done, so it is sent again if it got lost; the latest counts."""


class FleetNode:
    """A node, and the host that is there for it."""

    def __init__(self, number: int, facts: NodeFacts, parts: AttemptEvents) -> None:
        self.number, self.facts, self.parts = number, facts, parts
        self.host = ""
        """Empty: none is there."""
        self.agent = ""
        """The agent that gave its last answer; another one may know the node to be otherwise."""
        self.tell_boot = False
        """Its agent has another number for this boot than the scheduler, and is to take the scheduler's."""
        self.away_s: float | None = None
        """Since when it is not there; infinite: it has left."""
        self.outbox: list[PendingMessage] = []
        self.sent: list[PendingMessage] | None = None
        """What its last message asked for, while the answer is awaited."""
        self.sent_s = 0.0
        self.message = 0
        """The number of its last message."""
        self.whole = True
        """It has to tell everything."""
        self.due_s = 0.0
        """When to ask it again, if there is nothing to tell it."""
        self.reported_s = 0.0
        """When the core was last told that it is there."""
        self.behind_s: float | None = None
        """How far its clock is behind ours, at most; None: it has not told."""
        self.known: dict[AttemptKey, tuple[AttemptStatus, int]] = {}
        """Its parts of jobs, each with its place in the gang."""
        self.ended: set[AttemptKey] = set()
        """Of those, the ones that have ended and were told."""
        self.draining = False
        self.clears: set[AttemptKey] | None = None
        """Of a node that has joined and is not used yet: what it still has from before, and was told to end."""
        self.read_s = float("-inf")
        """When it was last asked how its GPUs are,"""
        self.gpus = GpuReport()
        """and what it told."""
        self.taken: dict[int, str] = {}
        """GPUs that other programs use, by number, as the core was told last."""
        self.step_rates = StepRates()
        self.running: dict[int, AttemptStatus] = {}
        """First parts of jobs that are neither parked nor ended, by job, as of its last news."""

    def attach_host(self, host: str, facts: NodeFacts) -> None:
        """This host is there for it from now on, with these facts. What got lost with the one before is sent again, if it has to
        be. As long as the machine has not been booted, the number of its boot stays, also if its agent has lost it: what runs
        there lives."""
        if facts.boot_id and facts.boot_id == self.facts.boot_id and facts.boot != self.facts.boot:
            facts, self.tell_boot = replace(facts, boot=self.facts.boot), True
        if facts.boot != self.facts.boot:
            self.behind_s, self.tell_boot = None, False
        self.lose()
        self.host, self.facts, self.away_s, self.due_s = host, facts, None, 0.0

    def is_as(self, facts: NodeFacts) -> bool:
        """Whether these facts are those that are known, but for the number of a boot that its agent has lost."""
        return replace(facts, boot=self.facts.boot) == self.facts and (self.tell_boot or facts.boot == self.facts.boot)

    def lose(self) -> None:
        """Its last message got lost, or the answer did."""
        renewals = {errand.renews: errand for errand in (*(self.sent or ()), *self.outbox) if errand.renews is not None}
        self.outbox, self.sent, self.whole = list(renewals.values()), None, True
        self.clears = None if self.clears is None else set()

    def add(self, errand: PendingMessage) -> None:
        if errand.renews is not None:
            self.outbox = [other for other in self.outbox if other.renews != errand.renews]
        self.outbox.append(errand)

    def leave(self, parts: AttemptEvents) -> None:
        """All it had is dead."""
        self.away_s, self.parts = FOREVER, parts
        self.known.clear()
        self.ended.clear()
        self.outbox.clear()
        self.gpus = GpuReport()
        self.taken = {}

    def clear(self, told: list[tuple[AttemptStatus, int]]) -> bool:
        """Whether a node that has joined may be used. What it has from before is ended first: it may have been frozen for so long
        that all it had was taken for dead."""
        if self.clears is None:
            return True
        living = {(status.job, status.attempt) for status, _ in told if status.state != ENDED}
        for job, attempt in sorted(living - self.clears):
            self.add(_end(job, attempt))
        self.clears = living or None
        return not living

    def take(self, told: list[tuple[AttemptStatus, int]], whole: bool) -> None:
        """What it has; `whole`: and nothing else."""
        if whole:
            there = {(status.job, status.attempt) for status, _ in told}
            self.known = {key: part for key, part in self.known.items() if key in there}
            self.parts.only(there)
        self.known |= {(status.job, status.attempt): (status, rank) for status, rank in told}

    def look(self, uses: Mapping[AttemptKey, GpuUse]) -> None:
        """After news: which jobs run there, and how fast. Jobs that share GPUs have their first parts on one node, so what
        this node tells is enough."""
        first = [status for status, rank in self.known.values() if rank == 0]
        self.step_rates.look(first, {key: at_s for key, at_s in self.parts.started.items() if key in self.known}, uses)
        self.running = {status.job: status for status in first if status.state not in (ENDED, PARKED)}

    def is_first(self, status: AttemptStatus) -> bool:
        """Whether this is the first part of its gang."""
        known = self.known.get((status.job, status.attempt))
        return known is not None and known[1] == 0

    def uses(self) -> dict[AttemptKey, GpuUse]:
        """How those use its GPUs that run there."""
        runs = {key for key, (status, _) in self.known.items() if status.state == RUNNING}
        return {key: use for key, use in self.gpus.uses.items() if key in runs}

    def inventory(self) -> tuple[InventoryItem, ...]:
        """What lives there. Under no sequence: whether it answers a command is told by an event of its own."""
        return tuple(
            InventoryItem(status.job, status.attempt, 0, _STATES.get(status.state, ProcessState.RUNNING), status.steps_done)
            for status, _ in self.known.values()
            if status.state != ENDED
        )


def _end(job: int, attempt: int) -> PendingMessage:
    return PendingMessage(lambda node: ["kill", [job, attempt, LAST_SEQUENCE]])
