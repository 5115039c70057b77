"""The agent of one machine. Each request of a driver is one message with one reply.

Messages are JSON, and any channel may carry them. A reply has all statuses, or those that have changed since the last reply.
After a loss, a driver requests all of them. Supervisors outlive the agent, and the next agent finds them. The agent also chooses
park methods and reads the GPUs, because both depend on the machine.
"""

import contextlib
import fcntl
import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from rota.agent.attempt_files import LaunchOrder
from rota.agent.constants import PARK_METHOD
from rota.agent.gpu_readings import GpuWatch, Readings
from rota.agent.gpu_report import GpuReport, plain_report
from rota.agent.gpu_use import gpu_use, holders
from rota.agent.gpus import find_gpus
from rota.agent.health_check import CheckHealth, HealthChecks
from rota.agent.host_memory import parking_gib, total_gib
from rota.agent.machine import AttemptManager
from rota.agent.messages import Forget, JobMessage, agent_command, decode_message
from rota.agent.node_files import NodeFiles, boot_number, keep_boot_number
from rota.agent.node_parking import with_parking
from rota.agent.other_programs import OtherPrograms
from rota.agent.processes import attempt_id_of, boot_id, boot_s
from rota.folders import make_folder, state_folder
from rota.model.commands import Prepare, Renew

READ_SECONDS = 1.0
"""Longest wait of a reply for readings of the GPUs, in seconds."""
LOOK_SECONDS = 1.0
"""Interval between two checks for killed supervisors, in seconds."""
_GET_ADDRESS = 0x8915
"""SIOCGIFADDR."""


@dataclass(frozen=True)
class NodeFacts:
    """Facts about a node."""

    name: str
    accelerator: str
    devices: tuple[str, ...]
    """Names of its GPUs. A GPU keeps its name."""
    indices: tuple[int, ...]
    """CUDA's numbers of its GPUs."""
    boot: int
    """Number of the boot, which rises with every boot."""
    host: str
    address: str
    """Address at which other nodes reach it."""
    interface: str
    """Network interface of this address; empty if unknown."""
    host_gib: float | None
    """Host memory for parked jobs, in GiB; None if unknown."""
    pretend: bool
    boot_id: str = ""
    """The kernel's id of the boot; empty if the agent is of an earlier version."""


class AgentReplaced(RuntimeError):
    """Another agent has the folder of this node, or the folder is gone. This agent's state may be wrong."""


class NodeAgent:
    """The agent of one machine. Calls may come from several threads."""

    def __init__(
        self,
        folder: Path,
        facts: NodeFacts,
        uuids: Mapping[int, str],
        *,
        files: NodeFiles | None = None,
        detached: bool = False,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`uuids`: UUIDs of real GPUs by CUDA's number, in the order of `facts.devices`. `files`: how agents of a node agree on
        the latest one; None if the agent's process has a lock on the folder. `detached`: whether the agent's process may be ended
        with all its children. `wake` is called when a supervisor rings."""
        self.facts, self._folder, self._files, self._uuids = facts, folder, files, uuids
        self._token = files.token if files is not None else secrets.token_hex(8)
        self._names = dict(zip(uuids.values(), facts.devices, strict=False))
        """Names of real GPUs in the cluster, by UUID."""
        self.read_seconds = READ_SECONDS
        self._wake = wake
        self._rang = threading.Event()
        self._lock = threading.Lock()
        self._waits = 0
        """Number of the last call that waits."""
        self._machine = AttemptManager(folder, self._ring, detached=detached)
        self._watch = GpuWatch() if uuids else None
        self._others = OtherPrograms(folder)
        self._health = HealthChecks(self._ring)

    def _ring(self) -> None:
        self._rang.set()
        self._wake()

    def hello(self) -> str:
        return json.dumps(asdict(self.facts))

    def exchange(self, text: str) -> str:
        """Carry out the messages in a request, in order, and return a reply with the statuses of attempts.

        `do` is the list of messages (`rota/agent/messages.py`). `whole`: whether the reply has all statuses, or those that have
        changed. `gpus`: whether it also has a GPU report, as far as that is known within a second.
        Leases end at instants of this machine's own clock, which every reply contains. So no lease gets longer because a message
        was late or this process stood still. A scheduler of an earlier `epoch` than the latest is refused.
        `agent`: the agent that gave the last reply. If that was another one, the reply has the facts of the node. `boot`: the
        scheduler's number of this boot, if this agent has lost its file and reported another one.
        """
        asked: Mapping[str, Any] = json.loads(text)
        with self._lock:
            if self._files is not None and not self._admit(self._files, asked):
                return json.dumps({"refused": self._files.epoch, "message": asked["message"]})
            lost: list[list[Any]] = []
            for plain in asked["do"]:
                message = decode_message(plain)
                if isinstance(message, CheckHealth):
                    self._health.request(message)
                    continue
                self._carry_out(message)
                reply = self._machine.answer(message.job, message.attempt) if not isinstance(message, Forget) else None
                lost += [[message.job, message.attempt, reply.outcome]] if reply is not None else []
            self._rang.clear()
            changed = self._machine.poll()
            told = self._machine.inventory() if asked["whole"] else changed
            parts = [each._asdict() for each in told]
        answer = {"message": asked["message"], "boot": self.facts.boot, "lost": lost, "parts": parts}
        health = self._health.results()
        answer |= {"health": health} if health else {}
        answer |= {"gpus": self._gpus()} if asked.get("gpus") else {}
        answer |= {"agent": self._token, "facts": asdict(self.facts)} if asked.get("agent") != self._token else {}
        return json.dumps(answer | {"boot_s": boot_s()})  # last, because the rest may have taken a while

    def _admit(self, files: NodeFiles, asked: Mapping[str, Any]) -> bool:
        """Keep the scheduler's epoch and boot number. Return False if a later scheduler has sent a request before."""
        if not files.is_latest():
            raise AgentReplaced(f"another agent has {self._folder}, or the folder is gone")
        if asked.get("epoch", 0) < files.epoch:
            return False
        files.keep_epoch(asked.get("epoch", 0))
        if "boot" in asked and asked["boot"] != self.facts.boot:
            keep_boot_number(self._folder, asked["boot"])
            self.facts = replace(self.facts, boot=asked["boot"])
        return True

    def readings(self) -> Readings:
        """Return readings of the GPUs by their names in the cluster. Any thread; takes `READ_SECONDS` at most."""
        return self._named(self._watch.latest(wait_seconds=READ_SECONDS)) if self._watch is not None else {}

    def _named(self, read: Readings) -> Readings:
        return {name: read[uuid] for uuid, name in self._names.items() if uuid in read}

    def _gpus(self) -> dict[str, Any]:
        """Return the GPU report. The lock is not held while a GPU driver may hang."""
        read = self._watch.latest(wait_seconds=self.read_seconds) if self._watch is not None else {}
        mine = {uuid: read[uuid] for uuid in self._names if uuid in read}
        with self._lock:
            everyone = holders(self._machine.inventory(), self._machine.variables, self._uuids)
        uses = gpu_use(everyone, mine, attempt_id_of) if mine else {}
        others = self._others.look(mine, {holder.attempt_id for holder in everyone if holder.attempt_id})
        taken = {self._names[uuid]: by for uuid, by in others.items()}
        return plain_report(GpuReport(self._named(mine), uses, taken), time.time())

    def wait(self, seconds: float) -> bool:
        """Wait until a supervisor has news, but at most this long. A killed supervisor can't ring, so this looks for that too.
        Only the latest call waits, because earlier ones may be of a scheduler that was killed."""
        end_s = boot_s() + seconds
        self._waits = number = self._waits + 1
        while not self._rang.wait(min(LOOK_SECONDS, max(end_s - boot_s(), 0.0))):
            with self._lock:
                if self._machine.has_dead():
                    return True
            if boot_s() >= end_s or number != self._waits:
                return False
        return True

    def close(self) -> None:
        self._machine.close()
        self._health.close()
        if self._watch is not None:
            self._watch.close()

    def _carry_out(self, message: JobMessage) -> None:
        if isinstance(message, LaunchOrder):
            self._launch(message)
        elif isinstance(message, Forget):
            self._machine.forget(message.job, message.attempt)
        elif isinstance(message, Prepare):
            self._machine.prepare(message.job, message.attempt)
        else:
            can_park = bool(self._machine.variables(message.job, message.attempt).get(PARK_METHOD))
            command = agent_command(message, boot_s(), can_park=can_park)
            if not isinstance(message, Renew) or command.lease_s > command.sent_s:  # a late renewal takes nothing away
                self._machine.carry_out(message.job, command)

    def _launch(self, order: LaunchOrder) -> None:
        """Launch an attempt. A launch that is repeated finds its attempt, so its park method is not looked for again."""
        if order.may_park is not None and not self._machine.variables(order.job, order.attempt):
            order = with_parking(order, real_gpus=not self.facts.pretend)
        self._machine.launch(order._replace(lease_seconds=max(order.lease_seconds - boot_s(), 0.0)))


def cluster_agent(folder: Path, name: str, address: str, *, accelerator: str = "", pretend_gpus: int = 0) -> NodeAgent:
    """Return the agent of a cluster's node, the latest of it from now on.

    `folder`: on a disk of the node's own, below the user's state folder if it is relative; `accelerator` and `pretend_gpus`: for
    a node on which NVML finds no GPU.
    """
    folder = state_folder() / folder
    make_folder(folder, instead="--node-dir with a folder that only you can write, on a disk of each node's own")
    files = NodeFiles(folder)
    every = find_gpus() if not pretend_gpus else []
    found = [gpu for gpu in every if gpu.accelerator == every[0].accelerator]  # other types would be another node
    facts = NodeFacts(
        name=name,
        accelerator=found[0].accelerator if found else accelerator,
        devices=tuple(f"{name}/{gpu.uuid}" for gpu in found) or tuple(f"{name}/{i}" for i in range(pretend_gpus)),
        indices=tuple(gpu.index for gpu in found) or tuple(range(pretend_gpus)),
        boot=boot_number(folder),
        host=socket.gethostname(),
        address=address,
        interface=interface_of(address),
        host_gib=parking_gib(total_gib(), len(found) / len(every)) if found else None,
        pretend=not found,
        boot_id=boot_id(),
    )
    return NodeAgent(folder, facts, {gpu.index: gpu.uuid for gpu in found}, files=files, detached=True)


_FACT_FIELDS = frozenset(each.name for each in fields(NodeFacts))


def read_facts(plain: Mapping[str, Any]) -> NodeFacts:
    """Return the facts in a reply of `hello` or `exchange`. Fields of a later version are ignored."""
    known = {name: value for name, value in plain.items() if name in _FACT_FIELDS}
    return NodeFacts(**{**known, "devices": tuple(plain["devices"]), "indices": tuple(plain["indices"])})


def interface_of(address: str) -> str:
    """Return the network interface that has this address; empty if there is none."""
    names = []
    with contextlib.suppress(OSError):  # some containers list none
        names = [name for _, name in socket.if_nameindex()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as box:
        for name in names:
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(box.fileno(), _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return ""
