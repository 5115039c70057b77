"""One machine as the driver knows it: its host, the messages that were sent to it, and its replies."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from rota.agent.attempt_files import AttemptStatus, LaunchOrder
from rota.agent.constants import ENDED, PARKED, RUNNING
from rota.agent.gpu_report import GpuReport
from rota.agent.gpu_use import GpuUse
from rota.agent.messages import AgentMessage
from rota.agent.node_agent import NodeFacts
from rota.live.attempt_events import AttemptEvents
from rota.live.step_rates import StepRates
from rota.model.commands import Kill, Renew, Resume
from rota.model.events import InventoryItem, ProcessState
from rota.model.units import FOREVER

AttemptKey = tuple[int, int]
"""Job and attempt."""
LAST_SEQUENCE = 1 << 40
"""Sequence of a command that is newer than all others for its attempt."""
_STATES = {PARKED: ProcessState.PARKED}


def in_node_time(message: AgentMessage, behind_s: float) -> AgentMessage:
    """Return a message with its lease as an instant of the node's clock, which is this far behind the scheduler's, in seconds."""
    if isinstance(message, LaunchOrder):
        return message._replace(lease_seconds=message.lease_seconds - behind_s, clock_origin_s=behind_s)
    return replace(message, lease_s=message.lease_s - behind_s) if isinstance(message, Renew | Resume) else message


class DriverNode:
    """A machine that runs jobs: one node of the core, or all of them."""

    def __init__(self, number: int | None, facts: NodeFacts, parts: AttemptEvents) -> None:
        """`number`: the core's number of the node; None if the machine has all nodes."""
        self.number, self.facts, self.parts = number, facts, parts
        self.host = ""
        """Host of the machine; empty if there is none."""
        self.agent = ""
        """Agent that gave the last reply. Another agent may have other facts of the node."""
        self.tell_boot = False
        """Whether its agent has lost the number of this boot, and has to take the scheduler's."""
        self.away_s: float | None = None
        """Time since which it cannot be reached; None if it can; inf if it has left."""
        self.outbox: list[AgentMessage] = []
        self.sent: list[AgentMessage] | None = None
        """Messages without a reply yet; None if every message has one."""
        self.sent_s = 0.0
        self.message = 0
        """Number of its last message, from 1."""
        self.whole = True
        """Whether its next reply must have the whole inventory."""
        self.due_s = 0.0
        """When to query its state, if no command is sent before."""
        self.reported_s = 0.0
        """Time of its last report to the core."""
        self.behind_s: float | None = None
        """Upper bound of how far its clock is behind ours, in seconds; None if unknown."""
        self.known: dict[AttemptKey, AttemptStatus] = {}
        """Status of each attempt on the machine."""
        self.ended: set[AttemptKey] = set()
        """Attempts of these whose end was reported as an event."""
        self.draining = False
        self.clears: set[AttemptKey] | None = None
        """Attempts that a node which has joined still has from before, and that were killed; None if it may be used."""
        self.read_s = float("-inf")
        """Time of the last request for readings of its GPUs."""
        self.gpus = GpuReport()
        self.taken: dict[int, str] = {}
        """Number of a GPU that no job has -> its user, as the core knows it."""
        self.step_rates = StepRates()
        self.running: dict[int, AttemptStatus] = {}
        """The status of jobs whose first part is on it and is neither parked nor ended, by job."""

    def attach_host(self, host: str, facts: NodeFacts) -> None:
        """Attach this host to the node. Messages to the host before are lost.

        The boot number stays until the machine is booted, even if its agent has lost it, because its jobs are still running.
        """
        if facts.boot_id and facts.boot_id == self.facts.boot_id and facts.boot != self.facts.boot:
            facts, self.tell_boot = replace(facts, boot=self.facts.boot), True
        if facts.boot != self.facts.boot:
            self.behind_s, self.tell_boot = None, False
        self.lose()
        self.host, self.facts, self.away_s, self.due_s = host, facts, None, 0.0

    def is_as(self, facts: NodeFacts) -> bool:
        """Return whether these facts are the known ones, apart from a boot number that its agent has lost."""
        return replace(facts, boot=self.facts.boot) == self.facts and (self.tell_boot or facts.boot == self.facts.boot)

    def lose(self) -> None:
        """Take the last message, or its reply, for lost. Only the latest renewal of each attempt is sent again, because the core
        repeats all other commands."""
        sent = (*(self.sent or ()), *self.outbox)
        renewals = {(each.job, each.attempt): each for each in sent if isinstance(each, Renew)}
        self.outbox, self.sent, self.whole = list(renewals.values()), None, True
        self.clears = None if self.clears is None else set()

    def add(self, message: AgentMessage) -> None:
        if isinstance(message, Renew):
            key = message.job, message.attempt
            self.outbox = [each for each in self.outbox if not isinstance(each, Renew) or (each.job, each.attempt) != key]
        self.outbox.append(message)

    def leave(self, parts: AttemptEvents) -> None:
        """Forget its attempts, because the node has left and its jobs are dead."""
        self.away_s, self.parts = FOREVER, parts
        self.known.clear()
        self.ended.clear()
        self.outbox.clear()
        self.gpus = GpuReport()
        self.taken = {}

    def kill_unwanted(self, wanted: Callable[[int, int], bool]) -> None:
        """Kill every attempt, by (job, attempt), that is not wanted."""
        for (job, attempt), status in self.known.items():
            if status.state != ENDED and not wanted(job, attempt):
                self.add(_end(job, attempt))

    def clear(self, statuses: list[AttemptStatus]) -> bool:
        """Return whether a node that has joined may be used. Its old attempts are killed first, because it may have been frozen
        until they were declared dead."""
        if self.clears is None:
            return True
        living = {(status.job, status.attempt) for status in statuses if status.state != ENDED}
        for job, attempt in sorted(living - self.clears):
            self.add(_end(job, attempt))
        self.clears = living or None
        return not living

    def take(self, statuses: list[AttemptStatus], whole: bool) -> None:
        """Take in statuses. `whole`: whether the node has no others."""
        if whole:
            there = {(status.job, status.attempt) for status in statuses}
            self.known = {key: part for key, part in self.known.items() if key in there}
            self.parts.only(there)
        self.known |= {(status.job, status.attempt): status for status in statuses}

    def look(self, uses: Mapping[AttemptKey, GpuUse]) -> None:
        """Update running jobs and their rates. Jobs that share GPUs have their first parts on one node, so its news is enough."""
        first = [status for status in self.known.values() if status.rank == 0]
        self.step_rates.look(first, {key: at_s for key, at_s in self.parts.started.items() if key in self.known}, uses)
        self.running = {status.job: status for status in first if status.state not in (ENDED, PARKED)}

    def is_first(self, status: AttemptStatus) -> bool:
        """Return whether this is the first part of its gang."""
        known = self.known.get((status.job, status.attempt))
        return known is not None and known.rank == 0

    def uses(self) -> dict[AttemptKey, GpuUse]:
        """Return how the attempts that run here use the GPUs."""
        runs = {key for key, status in self.known.items() if status.state == RUNNING}
        return {key: use for key, use in self.gpus.uses.items() if key in runs}

    def inventory(self) -> tuple[InventoryItem, ...]:
        """Return the attempts on this node. Their items have no sequence, because other events reply to commands."""
        return tuple(
            InventoryItem(status.job, status.attempt, 0, _STATES.get(status.state, ProcessState.RUNNING), status.steps_done)
            for status in self.known.values()
            if status.state != ENDED
        )


def _end(job: int, attempt: int) -> Kill:
    return Kill(job, attempt, LAST_SEQUENCE, ())
