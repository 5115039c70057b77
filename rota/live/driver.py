"""The driver of live jobs: it sends commands to the agents of nodes, one message at a time, and turns their replies into events.

The journal and the agents can restore all of its state. A message or its reply may get lost. Commands carry sequences, so a
repeat is harmless, and after a loss the driver requests the whole inventory of the node.

A node that does not reply becomes silent in the core, which waits for the leases of its jobs. When these are over, the node has
left. If its machine comes back, it joins again. A machine that comes back with other GPUs is another node. A single machine is
one agent that has all nodes of the core (`nodes_can_leave` of the channel is false), and cannot leave.

A lease is sent as an instant of the node's own clock, from the time in its last reply and the time since that arrived. This is
early rather than late, so a slow message never lets a job run longer than the core knows.

All nodes see the scheduler's home, where logs are, under the same path. Files of an agent are on its node.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rota.agent.attempt_files import AttemptStatus, status_of
from rota.agent.constants import ENDED
from rota.agent.disk import LOGS
from rota.agent.gpu_readings import Readings
from rota.agent.gpu_report import read_report
from rota.agent.gpu_use import GpuUse, combine_uses
from rota.agent.health_check import checks_of
from rota.agent.log import LIMIT_BYTES, LogPiece, log_end, read_log
from rota.agent.messages import Forget, encode_message
from rota.agent.node_agent import NodeFacts, read_facts
from rota.agent.processes import boot_s, other_user
from rota.folders import make_folder
from rota.live.attempt_events import AttemptEvents, progress_in_one
from rota.live.driver_node import AttemptKey, DriverNode, in_node_time
from rota.live.driver_protocol import DriverCommand, DriverContext
from rota.live.journal_store import lead_lost
from rota.live.late_starts import LateStarts
from rota.live.node_channel import HostReply, NodeChannel, ReachableHost
from rota.live.node_health import NodeHealth
from rota.live.node_messages import LaunchOrders, log_path
from rota.live.reported_steps import within_requested
from rota.live.step_rates import MeasuredRows, measured_of
from rota.model.cluster import Cluster, Node
from rota.model.commands import Kill, Launch, Renew
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
from rota.park.park_method import EXIT, MEMORY_LIMITED, how_to_park_on_a_node
from rota.wire.submission import Submission

PROGRESS_EVERY_SECONDS = 5.0
HEARTBEAT_SECONDS = 10.0
"""Heartbeat interval for nodes of a cluster without news, in seconds."""
REPORT_EVERY_SECONDS = 1.0
"""Interval at which nodes without news are reported to the core, all in one event, in seconds."""
RETRY_SECONDS = 1.0
"""Retry interval for nodes that did not reply, in seconds."""
REPLY_TIMEOUT_SECONDS = 30.0
"""A message without a reply after this time counts as lost, in seconds."""
STALE_SECONDS = 30.0
"""Age at which readings of GPUs are dropped, in seconds. Every heartbeat requests new ones."""
LOOK_SECONDS, OTHERS_SECONDS = 1.0, 5.0
"""How often to look, though no job runs, at the nodes of a cluster, and for other programs on the real GPUs of this machine."""


class Driver:
    """Runs live jobs (`rota/live/driver_protocol.py`)."""

    def __init__(
        self,
        home: Path,
        channel: NodeChannel,
        *,
        lease_grace_seconds: float,
        gone_after_seconds: float = FOREVER,
        log_bytes: int = LIMIT_BYTES,
        mps: Path | None = None,
    ) -> None:
        """`channel`: a host with GPUs is there. `gone_after_seconds`: after this time without an answer nothing of a node lives.
        `log_bytes`: the longest log of a job. `mps`: the folder of the control daemon of MPS, on every node that has one."""
        self.home, self._channel = home, channel
        self._gone_after = gone_after_seconds
        self.nodes_can_leave = channel.nodes_can_leave
        self._heartbeat_seconds = HEARTBEAT_SECONDS if channel.nodes_can_leave else 0.0
        """Interval at which nodes without news are queried, in seconds. An agent in this process is queried at every look."""
        self._orders = LaunchOrders(home, lease_grace_seconds=lease_grace_seconds, log_bytes=log_bytes, mps=mps)
        self._context: DriverContext
        self._first_joined = 0
        """Nodes from this number on have joined since this driver was opened."""
        self._nodes: dict[int | None, DriverNode] = {}
        """Machines by the core's node number; the machine that has all nodes is under None."""
        self._by_host: dict[str, DriverNode] = {}
        """Nodes that can be reached, by host."""
        self._seen: Mapping[str, ReachableHost] = {}
        self._matched: tuple[Mapping[str, ReachableHost], Cluster] | None = None
        """The hosts and the core's nodes that `_match` last saw."""
        self._cluster: Cluster
        self._device_names: tuple[tuple[str, ...], ...] = ()
        self._progress_s = 0.0
        self._reports: list[NodeReported] = []
        """Reports of nodes without news, for the next event of them all."""
        self._reported_s = 0.0
        self._running: dict[int, AttemptStatus] = {}
        self._readings: Readings = {}
        self._gpus_changed = False
        """Whether readings came, or nodes came or went, since `_readings` was made."""
        self._uses: dict[AttemptKey, GpuUse] = {}
        """How jobs use their GPUs, as of the last measurement."""
        self._first_ended: dict[AttemptKey, AttemptStatus] = {}
        """First parts of gangs that have ended while other parts have not."""
        self._late = LateStarts()
        self._health: NodeHealth | None = None
        self._look()

    @property
    def look_every_seconds(self) -> float:
        if self.nodes_can_leave or (self._health is not None and self._health.busy):
            return LOOK_SECONDS
        return FOREVER if all(each.facts.pretend for each in self._seen.values()) else OTHERS_SECONDS

    # Machines ----------------------------------------------------------------------------------------------------

    def discover_cluster(self) -> Cluster:
        """Return the nodes that can be reached now."""
        return self._cluster

    def devices(self) -> Sequence[tuple[str, ...]]:
        return self._device_names

    def open(self, context: DriverContext) -> None:
        make_folder(self.home / LOGS)
        self._context, self._health = context, context.health
        self._orders.open(context)
        self._first_joined = len(context.cluster().nodes)
        self._channel.open(context.wake)

    def close(self) -> None:
        self._channel.close()

    def _look(self) -> None:
        """Read from the channel which hosts can be reached."""
        there = self._channel.nodes()
        if there == self._seen:
            return
        self._seen = dict(there)
        by_name = {each.facts.name: each for each in there.values() if each.facts.devices}
        hosts = [by_name[name] for name in sorted(by_name)]
        if not hosts:  # those that were there are silent
            return
        nodes = [node for host in hosts for node in _nodes_of(host)]
        alone = hosts[0].machine if len(hosts) == 1 else None
        self._cluster = alone or Cluster.of(nodes, " + ".join(f"1x({node.gpus}x{node.accelerator})" for node in nodes))
        devices = iter(name for host in hosts for name in host.facts.devices)
        self._device_names = tuple(tuple(itertools.islice(devices, node.gpus)) for node in nodes)

    def _match(self, now_s: float) -> list[External]:
        """Find the host of each of the core's nodes. Return events of nodes that begin or end to drain.

        A node is recognised by its GPUs; of several nodes with the same GPUs, the latest is meant.
        """
        cluster, events = self._context.cluster(), list[External]()
        if self._matched is not None and self._matched[0] is self._seen and self._matched[1] is cluster:
            return events
        self._matched, self._gpus_changed = (self._seen, cluster), True
        if not self.nodes_can_leave:
            ((host, machine),) = self._seen.items()
            node = self._node(None, machine.facts)
            if node.host != host:
                node.attach_host(host, machine.facts)
            self._by_host = {host: node}
            return events
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
                continue  # it has left, and joins again
            there.add(number_or_none)
            if node.host != host or not node.is_as(each.facts):
                node.attach_host(host, each.facts)
            if node.draining != each.draining:
                node.draining = each.draining
                events.append(NodeDrainChanged(number_or_none, now_s, draining=each.draining))
        for devices, number in numbers.items():
            if number not in self._nodes:  # a scheduler before this one knew it
                known = cluster.nodes[number]
                self._node(number, NodeFacts(known.name, known.accelerator, devices, (), 0, "", "", "", None, False))
        for node in self._nodes.values():
            if node.number is not None and node.number not in there and node.away_s is None:
                node.host, node.away_s = "", now_s
                node.lose()
        self._by_host = {node.host: node for node in self._nodes.values() if node.host}
        return events

    def _advance(self, node: DriverNode, now_s: float) -> list[External]:
        """Give up an answer that does not come. Return starts that are not waited for any longer, and that a node has left
        because it was away too long."""
        if node.sent is not None and now_s >= node.sent_s + REPLY_TIMEOUT_SECONDS:
            node.lose()
        events: list[External] = []
        if node.parts.beginning and (events := node.parts.take(())):
            self._look_at(node)
        if node.number is not None and node.away_s is not None and now_s >= node.away_s + self._gone_after:
            node.leave(self._parts_of(node.number))
            self._look_at(node)
            events.append(NodeLeft(node.number, now_s))
        return events

    def _node(self, number: int | None, facts: NodeFacts) -> DriverNode:
        if number not in self._nodes:
            self._nodes[number] = DriverNode(number, facts, self._parts_of(number))
            joined = number is not None and number >= self._first_joined
            self._nodes[number].clears = set() if joined else None
        return self._nodes[number]

    def _at(self, number: int) -> DriverNode | None:
        """Return the machine that has a node of the core, if it is known."""
        return self._nodes.get(number if self.nodes_can_leave else None)

    def _at_all(self, numbers: Iterable[int]) -> list[DriverNode]:
        """Return the machines that have these nodes, each once."""
        return list(dict.fromkeys(node for number in numbers if (node := self._at(number)) is not None))

    def _parts_of(self, number: int | None) -> AttemptEvents:
        return AttemptEvents(self._context, number, is_first=lambda status: self._nodes[number].is_first(status))

    # Commands ----------------------------------------------------------------------------------------------------

    def carry_out(self, commands: Sequence[DriverCommand]) -> list[External]:
        """Put commands into the nodes' outboxes, and send them. Return the answers that are there at once.

        A launch comes again, whole, until all its nodes have answered it: parts that have started say so again.
        """
        answers, launches = list[External](), list[tuple[Launch, str]]()
        for command in commands:
            if isinstance(command, Launch):
                launches.append((command, self._wait_for_health(command) or self._launch(command)))
                for node in self._at_all(command.nodes):
                    answers += node.parts.again(command.job, command.attempt)
                continue
            nodes = self._at_all(command.nodes)
            if isinstance(command, Kill) and self._health is not None:
                self._health.drop(command.job)
            for node in nodes:
                if node.host or isinstance(command, Renew):
                    node.add(self._orders.message(command, nodes))
        now_s = self._context.clock()
        self._send(now_s, idle=False)
        answers += self._take_replies(now_s)
        for launch, problem in launches:
            self._note_start(launch, problem)
        return answers

    def _launch(self, command: Launch) -> str:
        """Launch on all nodes of a command, if each is there with its GPUs and has the boot that the core knows. Otherwise launch
        on none and return why: the core sends it again."""
        cluster, places = self._context.cluster(), dict[DriverNode, list[int]]()
        for number, boot in zip(command.nodes, command.boots, strict=True):
            node, name = self._at(number), cluster.nodes[number].name
            if node is None or not node.host:
                return f"{name} is not there"
            if node.facts.boot != boot:
                return f"{name} has been booted since the launch was decided"
            if node.behind_s is None:
                return f"the clock of {name} is not known yet"
            mine = command.gpus[cluster.gpu_node[command.gpus] == number].tolist()
            numbers = self._orders.cuda_numbers(node, mine)
            if None in numbers:
                return f"{name} no longer has GPU {self._context.device(mine[numbers.index(None)])}"
            places.setdefault(node, []).extend(each for each in numbers if each is not None)
        for node, message in self._orders.launches(command, places):
            node.add(message)
        return ""

    def _wait_for_health(self, command: Launch) -> str:
        """Return why a launch waits for health checks; empty if it may go, or an agent knows it already."""
        key = command.job, command.attempt
        if self._health is None or any(key in node.known for node in self._at_all(command.nodes)):
            return ""
        return self._health.admit(command, self._context.clock())

    def _launch_healthy(self, now_s: float) -> list[External]:
        """Launch what has waited for health checks that have passed. Return drains that end without a check."""
        if self._health is None:
            return []
        for command in self._health.ready(now_s):
            self._health.drop(command.job)
            self._launch(command)
        return self._health.look(now_s)

    def _request_checks(self, health: NodeHealth) -> None:
        """Put requests for health checks into the nodes' outboxes, and kills of launches that were given up."""
        bounds = self._context.cluster().node_first.tolist()
        for number, request in health.requests():
            node = self._at(number)
            if node is not None and node.host:
                gpus = self._orders.cuda_numbers(node, range(bounds[number], bounds[number + 1]))
                node.add(replace(request, gpus=tuple(gpu for gpu in gpus if gpu is not None)))
        for kill in health.kills():
            for node in self._at_all(kill.nodes):
                node.add(replace(kill, nodes=()))

    def _note_start(self, command: Launch, problem: str) -> None:
        """Note which nodes have not acknowledged a launch, each time that the core sends it."""
        key = command.job, command.attempt
        owing = [number for number in command.nodes if (node := self._at(number)) is None or key not in node.known]
        names = [self._context.cluster().nodes[number].name for number in owing]
        line = self._late.sent(key, names, problem, self._context.clock())
        if line:
            self._context.tell(line)

    def _send(self, now_s: float, *, idle: bool = True) -> None:
        """Send one message to each node that has something in its outbox and owes no answer; `idle`: also to nodes that are due
        to be asked for their state. A node whose clock is not known is asked for that first."""
        if self._health is not None:
            self._request_checks(self._health)
        for node in self._nodes.values():
            ready = node.outbox if node.behind_s is not None else []
            if not node.host or node.sent is not None or not (ready or (idle and now_s >= node.due_s)):
                continue
            reads = not node.facts.pretend and now_s >= node.read_s + self._heartbeat_seconds
            node.read_s = now_s if reads or node.facts.pretend else node.read_s
            node.sent, node.sent_s, node.due_s = ready, now_s, node.read_s + self._heartbeat_seconds
            node.outbox = node.outbox if node.behind_s is None else []
            node.message += 1
            do = [encode_message(in_node_time(message, node.behind_s or 0.0)) for message in node.sent]
            asked = {"message": node.message, "epoch": self._context.epoch, "do": do, "whole": node.whole, "gpus": reads}
            asked |= {"agent": node.agent, **({"boot": node.facts.boot} if node.tell_boot else {})}
            self._channel.send(node.host, json.dumps(asked))

    # Events ------------------------------------------------------------------------------------------------------

    def events(self) -> list[External]:
        now_s = self._context.clock()
        self._look()
        events = self._match(now_s) + self._take_replies(now_s)
        for host in self._channel.notified():
            if host in self._by_host:
                self._by_host[host].due_s = 0.0
        for node in self._nodes.values():
            events += self._advance(node, now_s)
        for line in self._channel.notes():
            self._context.tell(line)
        events += self._launch_healthy(now_s)
        self._send(now_s)
        events += self._take_replies(now_s)
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

    def _take_replies(self, now_s: float) -> list[External]:
        events: list[External] = []
        for answer in self._channel.replies():
            node = self._by_host.get(answer.host)
            if node is not None and node.sent is not None:
                events += self._take_reply(node, answer, now_s)
        return events

    def _take_reply(self, node: DriverNode, answer: HostReply, now_s: float) -> list[External]:
        """Return what a reply of a node says, or nothing if it was lost or is too late."""
        if answer.text is None:
            node.lose()
            node.due_s = now_s + RETRY_SECONDS
            return []
        reply: Mapping[str, Any] = json.loads(answer.text)
        if reply.get("refused", 0) > self._context.epoch:
            raise lead_lost(self._context.epoch, reply["refused"])
        if reply["message"] != node.message:
            return []  # of an earlier message, which was given up
        if "facts" in reply:
            node.agent, facts = reply["agent"], read_facts(reply["facts"])
            if not node.is_as(facts):  # its GPUs may be others: who it is comes before what it has
                self._channel.changed(answer.host, facts)
                node.attach_host(answer.host, facts)
                return []
        whole, node.whole, node.sent = node.whole, False, None
        taken: list[External] = []
        node.behind_s = now_s - (boot_s() - answer.arrived_s) - reply["boot_s"]
        if "gpus" in reply:
            node.gpus, self._gpus_changed = read_report(reply["gpus"], reply["boot_s"] + node.behind_s), True
            taken = self._taken(node, now_s)
            if len(self._nodes) == 1:  # no part of a gang is elsewhere
                self._uses = node.uses()
        parts = [status for each in reply["parts"] if (status := status_of(each)) is not None]
        changed = [within_requested(status, self._context.submitted) for status in parts]
        if not node.clear(changed):
            node.whole, node.due_s = True, now_s + RETRY_SECONDS
            return []
        node.take(changed, whole)
        events: list[External] = taken
        if self._health is not None and "health" in reply:
            events += self._health.take(checks_of(reply["health"]), now_s)
        if node.number is not None and (whole or now_s >= node.reported_s + HEARTBEAT_SECONDS):
            node.reported_s = now_s
            report = NodeReported(node.number, node.facts.boot, now_s, node.inventory())
            (events if whole else self._reports).append(report)
        fresh = [status for status in changed if (status.job, status.attempt) not in node.ended]
        events += node.parts.take(fresh)
        node.ended |= {(status.job, status.attempt) for status in fresh if status.state == ENDED}
        events += [
            Exited(job, attempt, now_s, Outcome(outcome), 0.0, node.number)
            for job, attempt, outcome in reply["lost"]
            if (job, attempt) not in node.ended
        ]
        if changed or whole or ("gpus" in reply and len(self._nodes) == 1):
            self._look_at(node)
        return events

    def _taken(self, node: DriverNode, now_s: float) -> list[External]:
        """Return which GPUs of a machine other programs use, for the nodes of the core where that has changed."""
        if not node.gpus.taken and not node.taken:
            return []
        cluster, before = self._context.cluster(), node.taken
        first, end = (0, cluster.gpus) if node.number is None else cluster.node_first[node.number : node.number + 2].tolist()
        names = {gpu: self._context.device(gpu) for gpu in range(first, end)}
        node.taken = {gpu: node.gpus.taken[name] for gpu, name in names.items() if name in node.gpus.taken}
        changed = sorted({cluster.gpu_node.item(gpu) for gpu, _ in node.taken.items() ^ before.items()})
        events: list[External] = []
        for number in changed:
            mine = {gpu: by for gpu, by in node.taken.items() if cluster.gpu_node.item(gpu) == number}
            events.append(GpusTaken(number, tuple(mine), tuple(mine.values()), now_s))
        return events

    def _look_at(self, node: DriverNode) -> None:
        """Bring rates and running jobs up to date after news of a node. Readers in other threads keep the mapping, so it changes
        job by job."""
        before = node.running
        node.look({key: self._uses[key] for key in node.known if key in self._uses})
        for job, status in before.items():
            if job not in node.running and self._running.get(job) is status:  # it may run elsewhere by now
                del self._running[job]
        self._running |= node.running

    def _measured(self, now_s: float) -> Measured | None:
        """Return the rates and GPU use of the jobs of all nodes since the last call; None if there is nothing new."""
        uses, self._uses = self._uses, self._all_uses()
        rows: MeasuredRows = {}
        for node in self._nodes.values():
            if uses or self._uses:
                self._look_at(node)
            rows |= node.step_rates.rows()
        return measured_of(rows, now_s)

    def _read_gpus(self, now_s: float) -> None:
        """Collect the latest readings of the GPUs of all nodes that can be reached."""
        self._gpus_changed = False
        self._readings = {
            name: reading
            for node in self._nodes.values()
            for name, reading in node.gpus.readings.items()
            if node.host and reading.at_s > now_s - STALE_SECONDS
        }

    def _all_uses(self) -> dict[AttemptKey, GpuUse]:
        """Return how jobs use their GPUs, for jobs of which all parts were read."""
        parts, uses = Counter(key for node in self._nodes.values() for key in node.known), dict[AttemptKey, list[GpuUse]]()
        for node in self._nodes.values():
            for key, use in node.uses().items():
                uses.setdefault(key, []).append(use)
        return {key: combine_uses(seen) for key, seen in uses.items() if len(seen) == parts[key]}

    def acknowledge(self) -> None:
        for node in self._nodes.values():
            if not node.ended:
                continue
            for job, attempt in node.ended:
                node.add(Forget(job, attempt))
                status = node.known.pop((job, attempt), None)
                if status is not None and status.rank == 0:
                    self._first_ended[job, attempt] = status
                node.parts.forget(job, attempt)
            node.ended.clear()
        if self._first_ended:
            known = {key for node in self._nodes.values() for key in node.known}
            self._first_ended = {key: status for key, status in self._first_ended.items() if key in known}

    def kill_unknown_attempts(self, wanted: Callable[[int, int], bool]) -> None:
        """Nodes of a cluster report all they have, and the core kills what it does not know."""
        for node in self._nodes.values():
            if node.number is None:
                node.kill_unwanted(wanted)
        self._send(self._context.clock(), idle=False)

    # Reading -----------------------------------------------------------------------------------------------------

    def inventory(self) -> list[AttemptStatus]:
        found = [status for node in self._nodes.values() for status in node.known.values() if status.rank == 0]
        found += self._first_ended.values()
        return sorted(found, key=lambda status: (status.job, status.attempt))

    def running(self) -> Mapping[int, AttemptStatus]:
        return self._running

    def late_starts(self) -> Mapping[int, str]:
        return self._late.late(self._context.clock())

    def readings(self) -> Readings:
        return self._channel.read_gpus() or self._readings

    def park_method(self, job: Submission) -> tuple[str, str]:
        if job.spec.park and not job.spec.may_park:
            return EXIT, MEMORY_LIMITED
        if self.nodes_can_leave or other_user(job.uid) is not None:  # no file of another user is read here
            return how_to_park_on_a_node(wanted=job.spec.park, gpus=job.spec.most_gpus)
        pretend = all(each.facts.pretend for each in self._seen.values())
        return self._orders.park_method_here(job, real_gpus=not pretend)

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece:
        return read_log(log_path(self.home, job), offset, limit)

    def log_end(self, job: int) -> int:
        return log_end(log_path(self.home, job))


def _nodes_of(host: ReachableHost) -> tuple[Node, ...]:
    """Return the nodes that a host is."""
    facts = host.facts
    if host.machine is not None:
        return tuple(host.machine.nodes)
    return (Node(facts.name, facts.accelerator, len(facts.devices), host_gib=facts.host_gib),)
