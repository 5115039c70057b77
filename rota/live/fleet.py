"""The driver of many machines: commands go to the agents of nodes, one message at a time, and what they tell becomes events.

It keeps nothing that the journal and the agents could not tell again. Every message may get lost, or be delivered and its answer
lost: commands carry sequences, so a repeat is harmless, and after a loss a node is asked for all it has. A node that is not heard
of goes silent in the core, which waits for the leases of its jobs. When these are surely over the node has left. If its machine
comes back, it joins anew.

A lease is told as an instant of the node's own clock: what its last answer said, and what passed here since that came. That is
early rather than late, so however long a message takes, no job runs longer than the core knows.

All nodes see the scheduler's home, where logs are, under the same path; what an agent needs for itself is on its node.
"""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rota.agent.constants import ENDED, PARKED
from rota.agent.gpu_readings import Readings
from rota.agent.log import LIMIT_BYTES, LogPiece, log_end, read_log
from rota.agent.node_agent import NodeFacts, read_part
from rota.agent.orders import IncarnationStatus, Order
from rota.live.driver import DriverCommand, DriverContext
from rota.live.hosts import Hosts, HostThere
from rota.live.job_environment import GangPlace, job_environment
from rota.live.local import home_id
from rota.live.part_events import PartEvents
from rota.live.step_rates import StepRates
from rota.live.where import where_text
from rota.model.cluster import Cluster, Node
from rota.model.commands import Kill, Launch, Renew, Resize, Resume, Suspend, SuspendKind
from rota.model.events import Exited, External, NodeDrained, NodeLeft, NodeReported, Outcome, Part, PartState
from rota.park.ways import EXIT
from rota.wire.submitted import SubmittedJob

PROGRESS_EVERY_SECONDS = 5.0
HEARTBEAT_SECONDS = 10.0
"""A node that has nothing to tell is asked so often whether it is there."""
AGAIN_SECONDS = 1.0
"""A node that did not answer is asked again after this."""

Operation = tuple[str, Any]


class FleetNode:
    """One node of the core, and the host that is there for it."""

    def __init__(self, number: int, facts: NodeFacts, parts: PartEvents) -> None:
        self.number, self.facts, self.parts = number, facts, parts
        self.host = ""
        """Empty: none is there."""
        self.away_s: float | None = None
        """Since when it is not there."""
        self.outbox: list[Operation] = []
        self.sent: list[Operation] | None = None
        """What its last message asked for, while the answer is awaited."""
        self.whole = True
        """It has to tell everything."""
        self.due_s = 0.0
        """When to ask it again, if there is nothing to tell it."""
        self.reported_s = 0.0
        """When the core was last told that it is there."""
        self.behind_s = float("inf")
        """How far its clock is behind ours, at most."""
        self.known: dict[tuple[int, int], tuple[IncarnationStatus, int]] = {}
        """Its parts of jobs, each with its place in the gang."""
        self.ended: set[tuple[int, int]] = set()
        """Of those, the ones that have ended and were told."""
        self.draining = False


class Fleet:
    """A driver (`rota/live/driver.py`) that runs jobs on the nodes of a cluster."""

    nodes_may_be_silent = True

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
        self._nodes: dict[str, FleetNode] = {}
        """By name: the one that is in the core now."""
        self._seen: Mapping[str, HostThere] = {}
        self._cluster: Cluster
        self._device_names: tuple[tuple[str, ...], ...] = ()
        self._step_rates = StepRates()
        self._progress_s = 0.0
        self._running: dict[int, IncarnationStatus] = {}
        self._lost: list[External] = []
        self._first_ended: dict[tuple[int, int], IncarnationStatus] = {}
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
        nodes = [Node(each.name, each.accelerator, len(each.devices), host_gib=_room(each)) for each in facts if each.devices]
        text = " + ".join(f"1x({node.gpus}x{node.accelerator})" for node in nodes)
        if nodes:  # while none is there, those that were are silent
            self._cluster = Cluster.of(nodes, text)
            self._device_names = tuple(each.devices for each in facts if each.devices)

    def _match(self, now_s: float) -> list[External]:
        """Which hosts stand for which of the core's nodes; events of those that are to leave, or have left."""
        cluster, events = self._context.cluster(), list[External]()
        firsts = [self._context.device(int(first)) for first in cluster.node_first[:-1]]
        numbers = {device: number for number, device in enumerate(firsts)}  # the latest of those that had it
        hosts = {each.facts.name: (host, each) for host, each in self._seen.items()}
        for name, (host, each) in hosts.items():
            number = numbers.get(each.facts.devices[0]) if each.facts.devices else None
            if number is None:
                continue  # it joins first
            node = self._nodes.get(name)
            if node is None or node.number != number:
                node = self._nodes[name] = FleetNode(number, each.facts, self._parts_of(name, number))
            if node.host != host:
                node.host, node.facts, node.away_s = host, each.facts, None
                node.sent, node.whole, node.due_s, node.outbox = None, True, 0.0, []
            if node.draining != each.draining:
                node.draining = each.draining
                events.append(NodeDrained(number, now_s, draining=each.draining))
        for number, known in enumerate(cluster.nodes):
            if known.name not in self._nodes and number == numbers[firsts[number]]:
                facts = NodeFacts(known.name, known.accelerator, (), (), 0, "", "", "", None, False)
                self._nodes[known.name] = FleetNode(number, facts, self._parts_of(known.name, number))
        for name, node in self._nodes.items():
            if name not in hosts and node.away_s is None:
                node.host, node.away_s, node.sent = "", now_s, None
            elif node.away_s is not None and now_s >= node.away_s + self._gone_after:
                node.away_s = float("inf")
                node.known.clear()
                events.append(NodeLeft(node.number, now_s))
        return events

    def _parts_of(self, name: str, number: int) -> PartEvents:
        return PartEvents(self._context, number, is_first=lambda status: self._rank(name, status) == 0)

    def _rank(self, name: str, status: IncarnationStatus) -> int:
        return self._nodes[name].known[status.job, status.incarnation][1]

    # Commands ----------------------------------------------------------------------------------------------------

    def carry_out(self, commands: Sequence[DriverCommand]) -> list[External]:
        """To the nodes' outboxes, and on their way."""
        by_number = {node.number: node for node in self._nodes.values()}
        for command in commands:
            if isinstance(command, Launch):
                self._launch(command, by_number)
                continue
            for number in command.nodes:
                if number in by_number and by_number[number].host:
                    by_number[number].outbox.append(self._operation(command, by_number[number]))
        self._send()
        lost, self._lost = self._lost, []
        return lost

    def _operation(self, command: Suspend | Resume | Resize | Kill | Renew, node: FleetNode) -> Operation:
        key = [command.job, command.incarnation]
        if isinstance(command, Renew):
            return "renew", [*key, command.lease_s - node.behind_s]
        if isinstance(command, Resume):
            return "resume", [*key, command.sequence, command.lease_s - node.behind_s]
        if isinstance(command, Resize):
            return "resize", [*key, command.sequence, command.batch_size]
        if isinstance(command, Kill):
            return "kill", [*key, command.sequence]
        return "park" if command.kind is SuspendKind.PARK else "suspend", [*key, command.sequence]

    def _launch(self, command: Launch, by_number: Mapping[int, FleetNode]) -> None:
        """On all its nodes, if each is there and has the boot that the core knows; else on none: the core sends it again."""
        nodes = [by_number.get(number) for number in command.nodes]
        if any(node is None or not node.host or node.facts.boot != boot for node, boot in zip(nodes, command.boots, strict=True)):
            return
        job, cluster, gpus = self._context.submitted(command.job), self._context.cluster(), command.gpus
        there = [node for node in nodes if node is not None]
        for rank, node in enumerate(there):
            mine = gpus[cluster.gpu_node[gpus] == node.number]
            places = (mine - cluster.node_first[node.number]).tolist()
            place = GangPlace(
                host=node.facts.host,
                node=node.facts.name,
                gpus=[node.facts.indices[each] for each in places],
                address=there[0].facts.address,
                nodes=len(there),
                rank=rank,
                interface=node.facts.interface,
            )
            order = Order(
                job=command.job,
                incarnation=command.incarnation,
                sequence=command.sequence,
                argv=job.argv,
                env=job_environment(command, job, place, self._home_id, secrets.token_hex(12)),
                workdir=job.workdir,
                log=str(self._log(command.job, rank)),
                gpus_text=where_text(cluster, gpus),
                from_step=command.from_step,
                lease_seconds=command.lease_s - node.behind_s,  # an instant there
                grace_seconds=job.grace_seconds,
                lease_grace_seconds=min(job.grace_seconds, self._lease_grace),
                progress=(job.progress or "") if rank == 0 else "",
                steps_total=job.steps,
                log_bytes=self._log_bytes,
                clock_origin_s=node.behind_s,
            )
            node.outbox.append(("launch", asdict(order)))

    def _send(self) -> None:
        """One message for each node that has to be told or asked something, and owes no answer."""
        now_s = self._context.clock()
        for node in self._nodes.values():
            if not node.host or node.sent is not None or (now_s < node.due_s and not node.outbox):
                continue
            node.sent, node.outbox, node.due_s = node.outbox, [], now_s + HEARTBEAT_SECONDS
            self._hosts.send(node.host, json.dumps({"do": node.sent, "whole": node.whole}))

    # Events ------------------------------------------------------------------------------------------------------

    def events(self) -> list[External]:
        now_s = self._context.clock()
        self._look()
        events = self._match(now_s)
        by_host = {node.host: node for node in self._nodes.values() if node.host}
        for host, text in self._hosts.answers():
            node = by_host.get(host)
            if node is None or node.sent is None:
                continue
            if text is None:
                node.sent, node.whole, node.due_s = None, True, now_s + AGAIN_SECONDS
                node.outbox.clear()  # the core says again what is not answered
            else:
                events += self._heard(node, json.loads(text), now_s)
        for host in self._hosts.rang():
            if host in by_host:
                by_host[host].due_s = 0.0
        for node in self._nodes.values():
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

    def _heard(self, node: FleetNode, answer: Mapping[str, Any], now_s: float) -> list[External]:
        whole, node.whole, node.sent = node.whole, False, None
        node.behind_s = now_s - answer["boot_s"]
        changed = [read_part(each) for each in answer["parts"]]
        if whole:
            there = {(status.job, status.incarnation) for status, _ in changed}
            node.known = {key: part for key, part in node.known.items() if key in there}
        node.known |= {(status.job, status.incarnation): (status, rank) for status, rank in changed}
        inventory = tuple(_part(status) for status, _ in node.known.values() if status.state != ENDED) if whole else ()
        events: list[External] = []
        if whole or now_s >= node.reported_s + HEARTBEAT_SECONDS:
            node.reported_s = now_s
            events.append(NodeReported(node.number, int(answer["boot"]), now_s, inventory))
        fresh = [status for status, _ in changed if (status.job, status.incarnation) not in node.ended]
        events += node.parts.take(fresh)
        node.ended |= {(status.job, status.incarnation) for status in fresh if status.state == ENDED}
        events += [
            Exited(job, incarnation, now_s, Outcome(outcome), 0.0, node.number)
            for job, incarnation, outcome in answer["lost"]
            if (job, incarnation) not in node.ended
        ]
        return events

    def _measure(self) -> None:
        first = [status for node in self._nodes.values() for status, rank in node.known.values() if rank == 0]
        began_s = {key: at_s for node in self._nodes.values() for key, at_s in node.parts.started.items() if key in node.known}
        self._step_rates.look(first, began_s)
        self._running = {status.job: status for status in first if status.state not in (ENDED, PARKED)}

    def acknowledge(self) -> None:
        for node in self._nodes.values():
            for job, incarnation in node.ended:
                node.outbox.append(("forget", [job, incarnation]))
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
        return {}

    def how_parked(self, job: SubmittedJob) -> tuple[str, str]:
        return EXIT, "jobs of a cluster are not parked in this version"

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece:
        return read_log(self._log(job), offset, limit)

    def log_end(self, job: int) -> int:
        return log_end(self._log(job))

    def _log(self, job: int, rank: int = 0) -> Path:
        return self.home / "logs" / (f"{job}.log" if rank == 0 else f"{job}.node{rank}.log")


def _room(facts: NodeFacts) -> float | None:
    return None if facts.host_gib is None else float(int(facts.host_gib))


def _part(status: IncarnationStatus) -> Part:
    """Under no sequence: whether it answers a command is told by an event of its own."""
    state = PartState.PARKED if status.state == PARKED else PartState.RUNNING
    return Part(status.job, status.incarnation, 0, state, status.steps_done)
