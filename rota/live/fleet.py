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
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rota.agent.constants import ENDED, PARKED
from rota.agent.gpu_readings import Readings
from rota.agent.gpu_report import read_report
from rota.agent.gpu_use import GpuUse, together
from rota.agent.log import LIMIT_BYTES, LogPiece, log_end, read_log
from rota.agent.node_agent import PARKING, NodeFacts, read_part
from rota.agent.orders import IncarnationStatus, Order
from rota.agent.processes import boot_s
from rota.live.driver import DriverCommand, DriverContext
from rota.live.fleet_node import Errand, FleetNode, PartKey
from rota.live.hosts import HostAnswer, Hosts, HostThere
from rota.live.job_environment import GangPlace, job_environment
from rota.live.local import home_id
from rota.live.part_events import PartEvents
from rota.live.step_rates import StepRates
from rota.live.where import where_text
from rota.model.cluster import Cluster, Node
from rota.model.commands import Kill, Launch, Renew, Resize, Resume, Suspend, SuspendKind
from rota.model.events import Exited, External, NodeDrained, NodeLeft, NodeReported, Outcome
from rota.model.units import FOREVER
from rota.park.ways import PRELOAD, how_to_park_on_a_node
from rota.wire.submitted import SubmittedJob

PROGRESS_EVERY_SECONDS = 5.0
HEARTBEAT_SECONDS = 10.0
"""A node that has nothing to tell is asked so often whether it is there."""
AGAIN_SECONDS = 1.0
"""A node that did not answer is asked again after this."""
LOST_SECONDS = 30.0
"""What was not answered for so long got lost."""
STALE_SECONDS = 30.0
"""Older readings of GPUs say nothing any more. Nodes are asked for them with every heartbeat."""


class Fleet:
    """A driver (`rota/live/driver.py`) that runs jobs on the nodes of a cluster."""

    nodes_may_be_silent = True
    starts_anew = False

    def __init__(
        self,
        home: Path,
        hosts: Hosts,
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
        self._seen: Mapping[str, HostThere] = {}
        self._cluster: Cluster
        self._device_names: tuple[tuple[str, ...], ...] = ()
        self._step_rates = StepRates()
        self._progress_s = 0.0
        self._running: dict[int, IncarnationStatus] = {}
        self._readings: Readings = {}
        self._first_ended: dict[PartKey, IncarnationStatus] = {}
        """First parts of gangs that have ended while other parts have not."""
        self._look()

    # Machines ----------------------------------------------------------------------------------------------------

    def machines(self) -> Cluster:
        """Those that are there now."""
        return self._cluster

    def devices(self) -> Sequence[tuple[str, ...]]:
        return self._device_names

    def open(self, context: DriverContext) -> None:
        self._context = context
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        self._home_id = home_id(self.home)
        self._first_joined = len(context.cluster().nodes)
        self._hosts.open(context.wake)

    def close(self) -> None:
        self._hosts.close()

    def _look(self) -> None:
        """Who is there."""
        there = self._hosts.there()
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
            if node.host != host:
                node.stand_in(host, each.facts)
            if node.draining != each.draining:
                node.draining = each.draining
                events.append(NodeDrained(node.number, now_s, draining=each.draining))
        for devices, number in numbers.items():
            if number not in self._nodes:  # a scheduler before this one knew it
                known = cluster.nodes[number]
                self._node(number, NodeFacts(known.name, known.accelerator, devices, (), 0, "", "", "", None, False))
        for node in self._nodes.values():
            if node.number in there or node.away_s == FOREVER:
                continue
            if node.away_s is None:
                node.host, node.away_s = "", now_s
                node.lose()
            elif now_s >= node.away_s + self._gone_after:
                node.leave(self._parts_of(node.number))
                events.append(NodeLeft(node.number, now_s))
        return events

    def _node(self, number: int, facts: NodeFacts) -> FleetNode:
        if number not in self._nodes:
            self._nodes[number] = FleetNode(number, facts, self._parts_of(number))
            self._nodes[number].clears = set() if number >= self._first_joined else None
        return self._nodes[number]

    def _parts_of(self, number: int) -> PartEvents:
        return PartEvents(
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
                self._launch(command)
                for node in (self._nodes.get(number) for number in command.nodes):
                    answers += node.parts.again(command.job, command.incarnation) if node is not None else []
                continue
            for node in (self._nodes.get(number) for number in command.nodes):
                if node is not None and (node.host or isinstance(command, Renew)):
                    node.add(_errand(command))
        self._send()
        return answers

    def _launch(self, command: Launch) -> None:
        """On all its nodes, if each is there with its GPUs and has the boot that the core knows; else on none: the core sends it
        again."""
        cluster, places = self._context.cluster(), []
        for number, boot in zip(command.nodes, command.boots, strict=True):
            node = self._nodes.get(number)
            if node is None or not node.host or node.facts.boot != boot or node.behind_s is None:
                return
            index = dict(zip(node.facts.devices, node.facts.indices, strict=True))
            mine = command.gpus[cluster.gpu_node[command.gpus] == number].tolist()
            numbers = [index.get(self._context.device(gpu)) for gpu in mine]
            if None in numbers:
                return
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

    def _start(self, command: Launch, place: GangPlace) -> Errand:
        job = self._context.submitted(command.job)
        parking = {"wanted": job.park, "gpus": _most_gpus(job)}
        return Errand(lambda node: ["launch", asdict(self._order(command, place, node)) | {PARKING: parking}])

    def _order(self, command: Launch, place: GangPlace, node: FleetNode) -> Order:
        job = self._context.submitted(command.job)
        assert node.behind_s is not None
        return Order(
            job=command.job,
            incarnation=command.incarnation,
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
            self._hosts.send(node.host, json.dumps({"message": node.message, "do": do, "whole": node.whole, "gpus": reads}))

    # Events ------------------------------------------------------------------------------------------------------

    def events(self) -> list[External]:
        now_s = self._context.clock()
        self._look()
        events = self._match(now_s)
        by_host = {node.host: node for node in self._nodes.values() if node.host}
        for answer in self._hosts.answers():
            node = by_host.get(answer.host)
            if node is not None and node.sent is not None:
                events += self._heard(node, answer, now_s)
        for host in self._hosts.rang():
            if host in by_host:
                by_host[host].due_s = 0.0
        for node in self._nodes.values():
            if node.sent is not None and now_s >= node.sent_s + LOST_SECONDS:
                node.lose()
            events += node.parts.take(())
        self._send()
        self._measure()
        if now_s >= self._progress_s + PROGRESS_EVERY_SECONDS:
            self._progress_s = now_s
            measured = self._step_rates.measured(now_s)
            events += [measured] if measured is not None else []
            for node in self._nodes.values():
                events += node.parts.progress()
        return events

    def _heard(self, node: FleetNode, answer: HostAnswer, now_s: float) -> list[External]:
        if answer.text is None:
            node.lose()
            node.due_s = now_s + AGAIN_SECONDS
            return []
        told: Mapping[str, Any] = json.loads(answer.text)
        if told["message"] != node.message:
            return []  # of an earlier message, which was given up
        whole, node.whole, node.sent = node.whole, False, None
        node.behind_s = now_s - (boot_s() - answer.arrived_s) - told["boot_s"]
        if "gpus" in told:
            node.gpus = read_report(told["gpus"], told["boot_s"] + node.behind_s)
        changed = [read_part(each) for each in told["parts"]]
        if not node.clear(changed):
            node.whole, node.due_s = True, now_s + AGAIN_SECONDS
            return []
        node.take(changed, whole)
        events: list[External] = []
        if whole or now_s >= node.reported_s + HEARTBEAT_SECONDS:
            node.reported_s = now_s
            events.append(NodeReported(node.number, int(told["boot"]), now_s, node.inventory()))
        fresh = [status for status, _ in changed if (status.job, status.incarnation) not in node.ended]
        events += node.parts.take(fresh)
        node.ended |= {(status.job, status.incarnation) for status in fresh if status.state == ENDED}
        events += [
            Exited(job, incarnation, now_s, Outcome(outcome), 0.0, node.number)
            for job, incarnation, outcome in told["lost"]
            if (job, incarnation) not in node.ended
        ]
        return events

    def _measure(self) -> None:
        first = [status for node in self._nodes.values() for status, rank in node.known.values() if rank == 0]
        began_s = {key: at_s for node in self._nodes.values() for key, at_s in node.parts.started.items() if key in node.known}
        self._step_rates.look(first, began_s, self._uses())
        self._readings = {
            name: reading
            for node in self._nodes.values()
            for name, reading in node.gpus.readings.items()
            if node.host and reading.at_s > self._context.clock() - STALE_SECONDS
        }
        self._running = {status.job: status for status in first if status.state not in (ENDED, PARKED)}

    def _uses(self) -> dict[PartKey, GpuUse]:
        """How jobs use their GPUs, of which all parts were read."""
        parts, uses = Counter(key for node in self._nodes.values() for key in node.known), dict[PartKey, list[GpuUse]]()
        for node in self._nodes.values():
            for key, use in node.uses().items():
                uses.setdefault(key, []).append(use)
        return {key: together(seen) for key, seen in uses.items() if len(seen) == parts[key]}

    def acknowledge(self) -> None:
        for node in self._nodes.values():
            for job, incarnation in node.ended:
                node.add(_forget(job, incarnation))
                status, rank = node.known.pop((job, incarnation), (None, 0))
                if status is not None and rank == 0:
                    self._first_ended[job, incarnation] = status
                node.parts.forget(job, incarnation)
            node.ended.clear()
        known = {key for node in self._nodes.values() for key in node.known}
        self._first_ended = {key: status for key, status in self._first_ended.items() if key in known}

    def end_strays(self, wanted: Callable[[int, int], bool]) -> None:
        """The core does it: nodes report all they have."""

    # Reading -----------------------------------------------------------------------------------------------------

    def inventory(self) -> list[IncarnationStatus]:
        found = [status for node in self._nodes.values() for status, rank in node.known.values() if rank == 0]
        found += self._first_ended.values()
        return sorted(found, key=lambda status: (status.job, status.incarnation))

    def running(self) -> Mapping[int, IncarnationStatus]:
        return self._running

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


def _errand(command: Suspend | Resume | Resize | Kill | Renew) -> Errand:
    key = [command.job, command.incarnation]
    if isinstance(command, Renew):
        lease_s, renews = command.lease_s, (command.job, command.incarnation)
        return Errand(lambda node: ["renew", [*key, lease_s - (node.behind_s or 0.0)]], renews)
    if isinstance(command, Resume):
        return Errand(lambda node: ["resume", [*key, command.sequence, command.lease_s - (node.behind_s or 0.0)]])
    if isinstance(command, Resize):
        return Errand(lambda node: ["resize", [*key, command.sequence, command.batch_size]])
    if isinstance(command, Kill):
        return Errand(lambda node: ["kill", [*key, command.sequence]])
    word = "park" if command.kind is SuspendKind.PARK else "suspend"
    return Errand(lambda node: [word, [*key, command.sequence]])


def _forget(job: int, incarnation: int) -> Errand:
    return Errand(lambda node: ["forget", [job, incarnation]])


def _most_gpus(job: SubmittedJob) -> float:
    return max((job.gpus, *job.gpu_counts))
