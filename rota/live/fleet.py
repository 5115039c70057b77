"""The driver of many machines: commands go to the agents of nodes, one message at a time, and what they tell becomes events.

It keeps nothing that the journal and the agents could not tell again. Every message may get lost, or be delivered and its answer
lost: commands carry sequences, so a repeat is harmless, and after a loss a node is asked for all it has. A node that is not heard
of goes silent in the core, which waits for the leases of its jobs. When these are surely over the node has left. If its machine
comes back, it joins anew. A machine that comes back with other GPUs is another node.

A lease is told as an instant of the node's own clock: what its last answer said, and what passed here since that came. That is
early rather than late, so however long a message takes, no job runs longer than the core knows.

All nodes see the scheduler's home, where logs are, under the same path; what an agent needs for itself is on its node. Which way
a job can be parked is found by the node that starts it, and told with its parts.
"""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.agent.constants import ENDED
from rota.agent.gpu_readings import Readings
from rota.agent.gpu_report import read_report
from rota.agent.gpu_use import GpuUse, together
from rota.agent.log import LIMIT_BYTES, LogPiece, log_end, read_log
from rota.agent.node_agent import PARKING, NodeFacts, read_facts, read_part
from rota.agent.orders import AttemptStatus, LaunchOrder
from rota.agent.processes import boot_s
from rota.folders import make_folder
from rota.live.attempt_events import AttemptEvents, progress_in_one
from rota.live.driver import DriverCommand, DriverContext
from rota.live.fleet_node import AttemptKey, FleetNode, PendingMessage
from rota.live.fleet_starts import LateStarts
from rota.live.home_id import home_id
from rota.live.job_environment import GangPlace, job_environment
from rota.live.journal_store import lead_lost
from rota.live.node_channel import HostReply, NodeChannel, ReachableHost
from rota.live.placement_text import where_text
from rota.live.reported_steps import within_requested
from rota.live.step_rates import MeasuredRows, measured_of
from rota.model.cluster import Cluster, Node
from rota.model.commands import Kill, Launch, Renew, Resize, Resume, Suspend, SuspendKind
from rota.model.events import (
    Exited,
    External,
    GpusTaken,
    Measured,
    NodeDrainChanged,
    NodeLeft,
    NodeReported,
    NodesReported,
    Outcome,
)
from rota.model.units import FOREVER
from rota.park.park_method import PRELOAD, how_to_park_on_a_node
from rota.wire.submitted import SubmittedJob

PROGRESS_EVERY_SECONDS = 5.0
HEARTBEAT_SECONDS = 10.0
"""A node that has nothing to tell is asked so often whether it is there."""
REPORT_EVERY_SECONDS = 1.0
"""Nodes that had nothing to tell are reported to the core together, so often."""
AGAIN_SECONDS = 1.0
"""A node that did not answer is asked again after this."""
LOST_SECONDS = 30.0
"""What was not answered for so long got lost."""
STALE_SECONDS = 30.0
"""Older readings of GPUs say nothing any more. Nodes are asked for them with every heartbeat."""


class Fleet:
    """A driver (`rota/live/driver.py`) that runs jobs on the nodes of a cluster."""

    nodes_may_be_silent = True
    look_every_seconds = FOREVER
    starts_anew = False

    def __init__(
        self,
        home: Path,
        hosts: NodeChannel,
        *,
        lease_grace_seconds: float,
        gone_after_seconds: float,
        log_bytes: int = LIMIT_BYTES,
    ) -> None:
        """`hosts`: one with GPUs is there. `gone_after_seconds`: nothing of a node lives that was not heard of for so long."""
        self.home, self._hosts, self._log_bytes = home, hosts, log_bytes
        self._lease_grace, self._gone_after = lease_grace_seconds, gone_after_seconds
        self._context: DriverContext
        self._home_id = ""
        self._first_joined = 0
        """Nodes from this number on have joined since this driver was opened."""
        self._nodes: dict[int, FleetNode] = {}
        """By the core's number."""
        self._by_host: dict[str, FleetNode] = {}
        """Those that are there."""
        self._seen: Mapping[str, ReachableHost] = {}
        self._matched: tuple[Mapping[str, ReachableHost], Cluster] | None = None
        """The hosts and the core's nodes that `_match` last saw."""
        self._cluster: Cluster
        self._device_names: tuple[tuple[str, ...], ...] = ()
        self._progress_s = 0.0
        self._reports: list[NodeReported] = []
        """Of nodes that have nothing new to tell, for the next event of them all."""
        self._reported_s = 0.0
        self._running: dict[int, AttemptStatus] = {}
        self._readings: Readings = {}
        self._gpus_changed = False
        """A node has told how its GPUs are, or nodes came or went, since they were last looked at."""
        self._uses: dict[AttemptKey, GpuUse] = {}
        """How jobs use their GPUs, as of the last measurement."""
        self._first_ended: dict[AttemptKey, AttemptStatus] = {}
        """First parts of gangs that have ended while other parts have not."""
        self._late = LateStarts()
        self._look()

    # Machines ----------------------------------------------------------------------------------------------------

    def discover_cluster(self) -> Cluster:
        """Those that are there now."""
        return self._cluster

    def devices(self) -> Sequence[tuple[str, ...]]:
        return self._device_names

    def open(self, context: DriverContext) -> None:
        self._context = context
        make_folder(self.home / "logs")
        self._home_id = home_id(self.home)
        self._first_joined = len(context.cluster().nodes)
        self._hosts.open(context.wake)

    def close(self) -> None:
        self._hosts.close()

    def _look(self) -> None:
        """Who is there."""
        there = self._hosts.nodes()
        if there == self._seen:
            return
        self._seen = dict(there)
        facts = sorted({each.facts.name: each.facts for each in there.values()}.values(), key=lambda each: each.name)
        facts = [each for each in facts if each.devices]
        if facts:  # while none is there, those that were are silent
            nodes = [Node(each.name, each.accelerator, len(each.devices), host_gib=each.host_gib) for each in facts]
            self._cluster = Cluster.of(nodes, " + ".join(f"1x({node.gpus}x{node.accelerator})" for node in nodes))
            self._device_names = tuple(each.devices for each in facts)

    def _match(self, now_s: float) -> list[External]:
        """Which hosts stand for which of the core's nodes; events of those that are to leave, or have left. A node is known by
        its GPUs, and the latest that had them is meant."""
        cluster, events = self._context.cluster(), list[External]()
        if self._matched is not None and self._matched[0] is self._seen and self._matched[1] is cluster:
            return events
        self._matched, self._gpus_changed = (self._seen, cluster), True
        bounds = cluster.node_first.tolist()
        numbers: dict[tuple[str, ...], int] = {}
        for number in range(len(cluster.nodes)):
            numbers[tuple(self._context.device(gpu) for gpu in range(bounds[number], bounds[number + 1]))] = number
        there: set[int] = set()
        # A machine may be there twice: Ray takes a while to notice that its earlier life is over. The last is the newest.
        hosts = {each.facts.devices: (host, each) for host, each in self._seen.items()}
        for host, each in hosts.values():
            number_or_none = numbers.get(each.facts.devices)
            if number_or_none is None:
                continue  # it joins first
            node = self._node(number_or_none, each.facts)
            if node.away_s == FOREVER:
                continue  # it has left, and joins anew
            there.add(node.number)
            if node.host != host or not node.is_as(each.facts):
                node.attach_host(host, each.facts)
            if node.draining != each.draining:
                node.draining = each.draining
                events.append(NodeDrainChanged(node.number, now_s, draining=each.draining))
        for devices, number in numbers.items():
            if number not in self._nodes:  # a scheduler before this one knew it
                known = cluster.nodes[number]
                self._node(number, NodeFacts(known.name, known.accelerator, devices, (), 0, "", "", "", None, False))
        for node in self._nodes.values():
            if node.number not in there and node.away_s is None:
                node.host, node.away_s = "", now_s
                node.lose()
        self._by_host = {node.host: node for node in self._nodes.values() if node.host}
        return events

    def _see_to(self, node: FleetNode, now_s: float) -> list[External]:
        """What time alone brings: an answer that is not coming, a start that is not waited for any longer, and a node that has
        left because it was away for so long."""
        if node.sent is not None and now_s >= node.sent_s + LOST_SECONDS:
            node.lose()
        events: list[External] = []
        if node.parts.beginning and (events := node.parts.take(())):
            self._look_at(node)
        if node.away_s is not None and now_s >= node.away_s + self._gone_after:
            node.leave(self._parts_of(node.number))
            self._look_at(node)
            events.append(NodeLeft(node.number, now_s))
        return events

    def _node(self, number: int, facts: NodeFacts) -> FleetNode:
        if number not in self._nodes:
            self._nodes[number] = FleetNode(number, facts, self._parts_of(number))
            self._nodes[number].clears = set() if number >= self._first_joined else None
        return self._nodes[number]

    def _parts_of(self, number: int) -> AttemptEvents:
        return AttemptEvents(
            self._context,
            number,
            is_first=lambda status: self._nodes[number].is_first(status),
            keeps_memory=lambda status: status.park_way == PRELOAD,
        )

    # Commands ----------------------------------------------------------------------------------------------------

    def carry_out(self, commands: Sequence[DriverCommand]) -> list[External]:
        """To the nodes' outboxes, and on their way. A launch comes again, whole, until all its nodes have answered it: those that
        have started say so again."""
        answers: list[External] = []
        for command in commands:
            if isinstance(command, Launch):
                self._note_start(command, self._launch(command))
                for node in (self._nodes.get(number) for number in command.nodes):
                    answers += node.parts.again(command.job, command.attempt) if node is not None else []
                continue
            for node in (self._nodes.get(number) for number in command.nodes):
                if node is not None and (node.host or isinstance(command, Renew)):
                    node.add(_errand(command))
        self._send()
        return answers

    def _launch(self, command: Launch) -> str:
        """On all its nodes, if each is there with its GPUs and has the boot that the core knows; else on none, and why: the core
        sends it again."""
        cluster, places = self._context.cluster(), []
        for number, boot in zip(command.nodes, command.boots, strict=True):
            node, name = self._nodes.get(number), cluster.nodes[number].name
            if node is None or not node.host:
                return f"{name} is not there"
            if node.facts.boot != boot:
                return f"{name} has been booted since the launch was decided"
            if node.behind_s is None:
                return f"{name} has not told its time"
            index = dict(zip(node.facts.devices, node.facts.indices, strict=True))
            mine = command.gpus[cluster.gpu_node[command.gpus] == number].tolist()
            numbers = [index.get(self._context.device(gpu)) for gpu in mine]
            if None in numbers:
                return f"{name} no longer has GPU {self._context.device(mine[numbers.index(None)])}"
            places.append((node, [each for each in numbers if each is not None]))
        first = places[0][0].facts
        for rank, (node, gpus) in enumerate(places):
            place = GangPlace(
                host=node.facts.host,
                node=node.facts.name,
                gpus=gpus,
                address=first.address,
                nodes=len(places),
                rank=rank,
                interface=node.facts.interface,
            )
            node.add(self._start(command, place))
        return ""

    def _note_start(self, command: Launch, problem: str) -> None:
        """Which of its nodes have not acknowledged a launch, each time that the core sends it."""
        key = command.job, command.attempt
        owing = [number for number in command.nodes if number not in self._nodes or key not in self._nodes[number].known]
        names = [self._context.cluster().nodes[number].name for number in owing]
        line = self._late.sent(key, names, problem, self._context.clock())
        if line:
            self._context.tell(line)

    def _start(self, command: Launch, place: GangPlace) -> PendingMessage:
        job = self._context.submitted(command.job)
        parking = {"wanted": job.park, "gpus": _most_gpus(job)}
        return PendingMessage(lambda node: ["launch", vars(self._order(command, place, node)) | {PARKING: parking}])

    def _order(self, command: Launch, place: GangPlace, node: FleetNode) -> LaunchOrder:
        job = self._context.submitted(command.job)
        assert node.behind_s is not None
        return LaunchOrder(
            job=command.job,
            attempt=command.attempt,
            sequence=command.sequence,
            argv=job.argv,
            env=job_environment(command, job, place, self._home_id, secrets.token_hex(12)),
            workdir=job.workdir,
            log=str(self._log(command.job, place.rank)),
            gpus_text=where_text(self._context.cluster(), command.gpus),
            from_step=command.from_step,
            lease_seconds=command.lease_s - node.behind_s,  # an instant there
            grace_seconds=job.grace_seconds,
            lease_grace_seconds=min(job.grace_seconds, self._lease_grace),
            progress=(job.progress or "") if place.rank == 0 else "",
            steps_total=job.steps,
            stays=not (job.saves or job.preemptible),
            log_bytes=self._log_bytes,
            clock_origin_s=node.behind_s,
        )

    def _send(self) -> None:
        """One message for each node that has to be told or asked something, and owes no answer. One that has not told its clock
        is asked for that first."""
        now_s = self._context.clock()
        for node in self._nodes.values():
            ready = node.outbox if node.behind_s is not None else []
            if not node.host or node.sent is not None or (now_s < node.due_s and not ready):
                continue
            reads = not node.facts.pretend and now_s >= node.read_s + HEARTBEAT_SECONDS
            node.read_s = now_s if reads or node.facts.pretend else node.read_s
            node.sent, node.sent_s, node.due_s = ready, now_s, node.read_s + HEARTBEAT_SECONDS
            node.outbox = node.outbox if node.behind_s is None else []
            node.message += 1
            do = [errand.words(node) for errand in node.sent]
            asked = {"message": node.message, "epoch": self._context.epoch, "do": do, "whole": node.whole, "gpus": reads}
            asked |= {"agent": node.agent, **({"boot": node.facts.boot} if node.tell_boot else {})}
            self._hosts.send(node.host, json.dumps(asked))

    # Events ------------------------------------------------------------------------------------------------------

    def events(self) -> list[External]:
        now_s = self._context.clock()
        self._look()
        events = self._match(now_s)
        for answer in self._hosts.replies():
            node = self._by_host.get(answer.host)
            if node is not None and node.sent is not None:
                events += self._heard(node, answer, now_s)
        for host in self._hosts.rang():
            if host in self._by_host:
                self._by_host[host].due_s = 0.0
        for node in self._nodes.values():
            events += self._see_to(node, now_s)
        for line in self._hosts.notes():
            self._context.tell(line)
        self._send()
        if self._reports and now_s >= self._reported_s + REPORT_EVERY_SECONDS:
            events.append(NodesReported.of(self._reports, now_s))
            self._reports, self._reported_s = [], now_s
        if now_s >= self._progress_s + PROGRESS_EVERY_SECONDS:
            self._progress_s = now_s
            measured = self._measured(now_s)
            events += [measured] if measured is not None else []
            for node in self._nodes.values():
                events += node.parts.progress()
        if self._gpus_changed or self._progress_s == now_s:
            self._read_gpus(now_s)
        return progress_in_one(events)

    def _heard(self, node: FleetNode, answer: HostReply, now_s: float) -> list[External]:
        if answer.text is None:
            node.lose()
            node.due_s = now_s + AGAIN_SECONDS
            return []
        told: Mapping[str, Any] = json.loads(answer.text)
        if told.get("refused", 0) > self._context.epoch:
            raise lead_lost(self._context.epoch, told["refused"])
        if told["message"] != node.message:
            return []  # of an earlier message, which was given up
        if "facts" in told:
            node.agent, facts = told["agent"], read_facts(told["facts"])
            if not node.is_as(facts):  # its GPUs may be others: who it is comes before what it has
                self._hosts.changed(answer.host, facts)
                node.attach_host(answer.host, facts)
                return []
        whole, node.whole, node.sent = node.whole, False, None
        taken: list[External] = []
        node.behind_s = now_s - (boot_s() - answer.arrived_s) - told["boot_s"]
        if "gpus" in told:
            node.gpus, self._gpus_changed = read_report(told["gpus"], told["boot_s"] + node.behind_s), True
            taken = self._taken(node, now_s)
        parts = [read_part(each) for each in told["parts"]]
        changed = [(within_requested(status, self._context.submitted), rank) for status, rank in parts]
        if not node.clear(changed):
            node.whole, node.due_s = True, now_s + AGAIN_SECONDS
            return []
        node.take(changed, whole)
        events: list[External] = taken
        if whole or now_s >= node.reported_s + HEARTBEAT_SECONDS:
            node.reported_s = now_s
            report = NodeReported(node.number, node.facts.boot, now_s, node.inventory())
            (events if whole else self._reports).append(report)
        fresh = [status for status, _ in changed if (status.job, status.attempt) not in node.ended]
        events += node.parts.take(fresh)
        node.ended |= {(status.job, status.attempt) for status in fresh if status.state == ENDED}
        events += [
            Exited(job, attempt, now_s, Outcome(outcome), 0.0, node.number)
            for job, attempt, outcome in told["lost"]
            if (job, attempt) not in node.ended
        ]
        if changed or whole:
            self._look_at(node)
        return events

    def _taken(self, node: FleetNode, now_s: float) -> list[External]:
        """The GPUs of a node that other programs use, if these are others than before."""
        first = int(self._context.cluster().node_first[node.number])
        taken = {first + place: node.gpus.taken[name] for place, name in enumerate(node.facts.devices) if name in node.gpus.taken}
        if taken == node.taken:
            return []
        node.taken = taken
        return [GpusTaken(node.number, tuple(taken), tuple(taken.values()), now_s)]

    def _look_at(self, node: FleetNode) -> None:
        """After news of a node. Readers in other threads keep the mapping, so it changes job by job."""
        before = node.running
        node.look({key: self._uses[key] for key in node.known if key in self._uses})
        for job, status in before.items():
            if job not in node.running and self._running.get(job) is status:  # it may run elsewhere by now
                del self._running[job]
        self._running |= node.running

    def _measured(self, now_s: float) -> Measured | None:
        """What jobs of all nodes have made and taken since the last call."""
        uses, self._uses = self._uses, self._all_uses()
        rows: MeasuredRows = {}
        for node in self._nodes.values():
            if uses or self._uses:
                self._look_at(node)
            rows |= node.step_rates.rows()
        return measured_of(rows, now_s)

    def _read_gpus(self, now_s: float) -> None:
        """How the GPUs are of nodes that were heard of lately."""
        self._gpus_changed = False
        self._readings = {
            name: reading
            for node in self._nodes.values()
            for name, reading in node.gpus.readings.items()
            if node.host and reading.at_s > now_s - STALE_SECONDS
        }

    def _all_uses(self) -> dict[AttemptKey, GpuUse]:
        """How jobs use their GPUs, of which all parts were read."""
        parts, uses = Counter(key for node in self._nodes.values() for key in node.known), dict[AttemptKey, list[GpuUse]]()
        for node in self._nodes.values():
            for key, use in node.uses().items():
                uses.setdefault(key, []).append(use)
        return {key: together(seen) for key, seen in uses.items() if len(seen) == parts[key]}

    def acknowledge(self) -> None:
        for node in self._nodes.values():
            if not node.ended:
                continue
            for job, attempt in node.ended:
                node.add(_forget(job, attempt))
                status, rank = node.known.pop((job, attempt), (None, 0))
                if status is not None and rank == 0:
                    self._first_ended[job, attempt] = status
                node.parts.forget(job, attempt)
            node.ended.clear()
        if self._first_ended:
            known = {key for node in self._nodes.values() for key in node.known}
            self._first_ended = {key: status for key, status in self._first_ended.items() if key in known}

    def kill_unknown_attempts(self, wanted: Callable[[int, int], bool]) -> None:
        """The core does it: nodes report all they have."""

    # Reading -----------------------------------------------------------------------------------------------------

    def inventory(self) -> list[AttemptStatus]:
        found = [status for node in self._nodes.values() for status, rank in node.known.values() if rank == 0]
        found += self._first_ended.values()
        return sorted(found, key=lambda status: (status.job, status.attempt))

    def running(self) -> Mapping[int, AttemptStatus]:
        return self._running

    def late_starts(self) -> Mapping[int, str]:
        return self._late.late(self._context.clock())

    def readings(self) -> Readings:
        return self._readings

    def how_parked(self, job: SubmittedJob) -> tuple[str, str]:
        return how_to_park_on_a_node(wanted=job.park, gpus=_most_gpus(job))

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece:
        return read_log(self._log(job), offset, limit)

    def log_end(self, job: int) -> int:
        return log_end(self._log(job))

    def _log(self, job: int, rank: int = 0) -> Path:
        return self.home / "logs" / (f"{job}.log" if rank == 0 else f"{job}.node{rank}.log")


def _errand(command: Suspend | Resume | Resize | Kill | Renew) -> PendingMessage:
    key = [command.job, command.attempt]
    if isinstance(command, Renew):
        lease_s, renews = command.lease_s, (command.job, command.attempt)
        return PendingMessage(lambda node: ["renew", [*key, lease_s - (node.behind_s or 0.0)]], renews)
    if isinstance(command, Resume):
        return PendingMessage(lambda node: ["resume", [*key, command.sequence, command.lease_s - (node.behind_s or 0.0)]])
    if isinstance(command, Resize):
        return PendingMessage(lambda node: ["resize", [*key, command.sequence, command.batch_size]])
    if isinstance(command, Kill):
        return PendingMessage(lambda node: ["kill", [*key, command.sequence]])
    word = "park" if command.kind is SuspendKind.PARK else "suspend"
    return PendingMessage(lambda node: [word, [*key, command.sequence]])


def _forget(job: int, attempt: int) -> PendingMessage:
    return PendingMessage(lambda node: ["forget", [job, attempt]])


def _most_gpus(job: SubmittedJob) -> float:
    return max((job.gpus, *job.gpu_counts))
