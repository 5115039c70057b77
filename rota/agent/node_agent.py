"""The agent of one node of a cluster: everything a driver asks of the node's machine, in one message and one answer.

It knows nothing of what carries the messages, which are JSON. Whoever asks takes the node's whole inventory, or what changed
since the last answer; an answer that got lost is asked for again with `whole`. Supervisors outlive the agent, and the next one
finds them. What depends on this machine is found here: which way a job can be parked, and what its GPUs do.
"""

import contextlib
import fcntl
import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from rota.agent.constants import PARK_WAY
from rota.agent.disk import RUN, write_atomic
from rota.agent.gpu_readings import GpuWatch
from rota.agent.gpu_report import GpuReport, plain_report
from rota.agent.gpu_use import gpu_use, holders
from rota.agent.gpus import find_gpus
from rota.agent.host_memory import parking_gib, total_gib
from rota.agent.machine import AttemptManager
from rota.agent.node_parking import with_parking
from rota.agent.orders import AttemptStatus, LaunchOrder
from rota.agent.other_programs import OtherPrograms
from rota.agent.processes import boot_id, boot_s, life_of
from rota.folders import make_folder, state_folder

BOOT_FILE, AGENT_FILE, EPOCH_FILE = "boot.json", "agent", "epoch"
RANK, PARKING = "rank", "parking"
READ_SECONDS = 1.0
"""An answer waits so long for readings of the GPUs at most."""
LOOK_SECONDS = 1.0
"""How often to look for supervisors that were killed."""
_GET_ADDRESS = 0x8915
"""SIOCGIFADDR."""


@dataclass(frozen=True)
class NodeFacts:
    """What a node is."""

    name: str
    accelerator: str
    devices: tuple[str, ...]
    """The names of its GPUs, which stay theirs."""
    indices: tuple[int, ...]
    """What CUDA calls them."""
    boot: int
    """Rises with every boot."""
    host: str
    address: str
    """Where other nodes reach it,"""
    interface: str
    """and by which network interface; empty: not known."""
    host_gib: float | None
    """What parked jobs may take of its memory; None: not known."""
    pretend: bool
    boot_id: str = ""
    """What the kernel calls its boot; empty: an agent of an earlier version does not tell."""


class AgentReplaced(RuntimeError):
    """Another agent has the folder of this node, or the folder is gone: what this one knows may be wrong."""


class NodeAgent:
    """Of one node. Calls may come from several threads."""

    def __init__(self, folder: Path, name: str, address: str, *, accelerator: str = "", pretend_gpus: int = 0) -> None:
        """`folder`: on a disk of the node's own, below the user's state folder if it is relative; `accelerator` and
        `pretend_gpus`: for a node on which NVML finds no GPU."""
        folder = state_folder() / folder
        make_folder(folder, instead="--node-folder with a folder that only you can write, on a disk of each node's own")
        self._rang = threading.Event()
        self._lock = threading.Lock()
        self._waits = 0
        """The number of the last call that waits."""
        self._folder, self._token = folder, secrets.token_hex(8)
        write_atomic(folder, AGENT_FILE, self._token.encode(), durable=False)
        self._epoch = int((folder / EPOCH_FILE).read_text()) if (folder / EPOCH_FILE).exists() else 0
        """The latest of all schedulers that have asked."""
        self._machine = AttemptManager(folder, self._rang.set, detached=True)
        every = find_gpus() if not pretend_gpus else []
        found = [gpu for gpu in every if gpu.accelerator == every[0].accelerator]  # others would be another node
        self._uuids = {gpu.index: gpu.uuid for gpu in found}
        self._watch = GpuWatch() if found else None
        self._others = OtherPrograms(folder)
        self.facts = NodeFacts(
            name=name,
            accelerator=found[0].accelerator if found else accelerator,
            devices=tuple(f"{name}/{gpu.uuid}" for gpu in found) or tuple(f"{name}/{i}" for i in range(pretend_gpus)),
            indices=tuple(gpu.index for gpu in found) or tuple(range(pretend_gpus)),
            boot=_boot_number(folder),
            host=socket.gethostname(),
            address=address,
            interface=interface_of(address),
            host_gib=parking_gib(total_gib(), len(found) / len(every)) if found else None,
            pretend=not found,
            boot_id=boot_id(),
        )

    def hello(self) -> str:
        return json.dumps(asdict(self.facts))

    def exchange(self, text: str) -> str:
        """Carry out what is asked, in order, and tell how things are.

        `do` is a list of [operation, arguments]: those of `AttemptManager`, with a plain order for a launch. `whole`: tell
        everything. `gpus`: tell also how the GPUs are and how jobs use them, as far as that is known within a second.
        Leases end at instants of this machine's own clock, which every answer tells: however long a message was on its way, or
        this process stood still, no lease gets longer by it. A scheduler of an earlier `epoch` than the latest is refused.
        `agent`: the agent that gave the last answer. If that was another, what the node is has to be read again. `boot`: the
        number that the scheduler has for this boot, if this agent has told another, because its file was lost.
        """
        asked: Mapping[str, Any] = json.loads(text)
        with self._lock:
            if not self._has_node():
                raise AgentReplaced(f"another agent has {self._folder}, or the folder is gone")
            if asked.get("epoch", 0) < self._epoch:
                return json.dumps({"refused": self._epoch, "message": asked["message"]})
            self._keep_epoch(asked.get("epoch", 0))
            if "boot" in asked and asked["boot"] != self.facts.boot:
                _keep_boot_number(self._folder, asked["boot"])
                self.facts = replace(self.facts, boot=asked["boot"])
            lost: list[list[Any]] = []
            for operation, arguments in asked["do"]:
                self._do(operation, arguments)
                if operation != "forget":
                    job, attempt = (arguments["job"], arguments["attempt"]) if operation == "launch" else arguments[:2]
                    reply = self._machine.answer(job, attempt)
                    lost += [[job, attempt, reply.outcome]] if reply is not None else []
            self._rang.clear()
            changed = self._machine.poll()
            told = self._machine.inventory() if asked["whole"] else changed
            parts = [self._part(each) for each in told]
        answer = {"message": asked["message"], "boot": self.facts.boot, "lost": lost, "parts": parts}
        answer |= {"gpus": self._gpus()} if asked.get("gpus") else {}
        answer |= {"agent": self._token, "facts": asdict(self.facts)} if asked.get("agent") != self._token else {}
        return json.dumps(answer | {"boot_s": boot_s()})  # last: what came before it may have taken a while

    def _has_node(self) -> bool:
        """Whether this is the latest agent of the node. One that stood still may have been replaced."""
        try:
            return (self._folder / AGENT_FILE).read_bytes() == self._token.encode()
        except FileNotFoundError:
            return False

    def _gpus(self) -> dict[str, Any]:
        """Readings by the names that the GPUs have in the cluster. Not under the lock while a driver in trouble is waited for."""
        read = self._watch.latest(wait_seconds=READ_SECONDS) if self._watch is not None else {}
        mine = {uuid: read[uuid] for uuid in self._uuids.values() if uuid in read}
        with self._lock:
            everyone = holders(self._machine.inventory(), self._machine.variables, self._uuids)
        uses = gpu_use(everyone, mine, life_of) if mine else {}
        readings = {f"{self.facts.name}/{uuid}": reading for uuid, reading in mine.items()}
        others = self._others.look(mine, {holder.life for holder in everyone if holder.life})
        taken = {f"{self.facts.name}/{uuid}": by for uuid, by in others.items()}
        return plain_report(GpuReport(readings, uses, taken), time.time())

    def _keep_epoch(self, epoch: int) -> None:
        """Before anything is done in it."""
        if epoch > self._epoch:
            write_atomic(self._folder, EPOCH_FILE, str(epoch).encode(), durable=True)
            self._epoch = epoch

    def _part(self, status: AttemptStatus) -> dict[str, Any]:
        """With its place in its gang."""
        return asdict(status) | {RANK: int(self._machine.variables(status.job, status.attempt).get("NODE_RANK") or 0)}

    def wait(self, seconds: float) -> bool:
        """Until a supervisor has something to tell, or so long. One that was killed can't ring: that is looked for. Only the
        latest call waits: earlier ones may be of a scheduler that was killed."""
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
        if self._watch is not None:
            self._watch.close()

    def _do(self, operation: str, arguments: Any) -> None:
        if operation == "launch":
            self._launch(arguments)
        elif operation == "park" and not self._machine.variables(*arguments[:2]).get(PARK_WAY):
            self._machine.suspend(*arguments)  # it was found when it was started that it can't be parked
        elif operation == "resume":
            job, attempt, sequence, lease_s = arguments
            self._machine.resume(job, attempt, sequence, max(lease_s - boot_s(), 0.0))
        elif operation == "renew":
            job, attempt, lease_s = arguments
            if lease_s > boot_s():  # one that comes too late takes nothing away
                self._machine.renew(job, attempt, lease_s - boot_s())
        elif operation in ("suspend", "park", "resize", "kill", "forget"):
            getattr(self._machine, operation)(*arguments)

    def _launch(self, arguments: Mapping[str, Any]) -> None:
        """A launch that is repeated finds its attempt there, and has nothing to look up."""
        order = {name: value for name, value in arguments.items() if name in _ORDER_FIELDS}
        known = self._machine.variables(order["job"], order["attempt"])
        if PARKING in arguments and not known:
            order = with_parking(order, arguments[PARKING], real_gpus=not self.facts.pretend)
        lease_seconds = max(order["lease_seconds"] - boot_s(), 0.0)
        self._machine.launch(LaunchOrder(**{**order, "argv": tuple(order["argv"]), "lease_seconds": lease_seconds}))


_STATUS_FIELDS = frozenset(each.name for each in fields(AttemptStatus))
_FACT_FIELDS = frozenset(each.name for each in fields(NodeFacts))
_ORDER_FIELDS = frozenset(each.name for each in fields(LaunchOrder))
"""A scheduler of a later version may ask for more."""


def read_facts(plain: Mapping[str, Any]) -> NodeFacts:
    """As `hello` and `exchange` tell them. An agent of a later version may tell more than this one knows."""
    known = {name: value for name, value in plain.items() if name in _FACT_FIELDS}
    return NodeFacts(**{**known, "devices": tuple(plain["devices"]), "indices": tuple(plain["indices"])})


def read_part(plain: Mapping[str, Any]) -> tuple[AttemptStatus, int]:
    """As `exchange` tells it, and its place in its gang. An agent of a later version may tell more than this one knows."""
    return AttemptStatus(**{name: value for name, value in plain.items() if name in _STATUS_FIELDS}), int(plain[RANK])


def interface_of(address: str) -> str:
    """The network interface that has this address."""
    names = []
    with contextlib.suppress(OSError):  # some containers tell of none
        names = [name for _, name in socket.if_nameindex()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as box:
        for name in names:
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(box.fileno(), _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return ""


def _boot_number(folder: Path) -> int:
    """The same for as long as the machine runs, and larger after every boot, also on a disk that was wiped meanwhile. It is in
    two files: if it changed while jobs live here, the scheduler would take them for dead."""
    number = 0
    for path in _boot_files(folder):
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
            seen, before = json.loads(path.read_text(encoding="utf-8"))
            if seen == boot_id():
                _keep_boot_number(folder, int(before))
                return int(before)
            number = max(number, int(before))
    number = max(number + 1, int(time.time()))
    _keep_boot_number(folder, number)
    return number


def _keep_boot_number(folder: Path, number: int) -> None:
    for path in _boot_files(folder):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomic(path.parent, path.name, json.dumps([boot_id(), number]).encode(), durable=True)


def _boot_files(folder: Path) -> tuple[Path, Path]:
    return folder / BOOT_FILE, folder / RUN / BOOT_FILE
