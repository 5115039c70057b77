"""Agents of many nodes in a few processes, for `benchmarks/cluster_scale.py`.

They speak the protocol of `rota/agent/node_agent.py` (`hello`, `exchange`), as JSON over pipes. What they hold is pretend: an
attempt is a record in memory that begins a moment after its launch, makes steps by the clock, tells them once a second as a
supervisor does, ends a moment after it was told to leave, and does not outlive its lease. Commands are judged by the rules that
real machines run (`rota/agent/rules.py`).

    python -m benchmarks.scale_agents FIRST COUNT GPUS     a process with some of the agents, for its parent to talk to

A line is a number of an agent, a tab, a word (`hello`, `ask`, `answer`, `ring`), a tab and a text.
"""

import heapq
import json
import os
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from rota.agent import rules
from rota.agent.attempt_files import AttemptStatus, LaunchOrder
from rota.agent.constants import (
    ENDED,
    FINISHED,
    KILL,
    LAUNCH,
    LEASE,
    LOST,
    RENEW,
    RESIZE,
    RUNNING,
    STARTING,
    SUSPEND,
    YIELDED,
)
from rota.agent.gpu_readings import Readings
from rota.agent.messages import ChangeSize, Forget, agent_command, decode_message
from rota.agent.node_agent import NodeFacts
from rota.agent.processes import boot_id, boot_s
from rota.live.node_channel import HostReply, ReachableHost
from rota.model.commands import Kill, Renew, Resume, Suspend

BEGIN_SECONDS, LEAVE_SECONDS, TELL_SECONDS = 0.05, 0.05, 1.0
"""From a launch to the first step, from the order to leave to the end, and between two reports of steps."""
STEPS_PER_SECOND = 10.0
PIECE = 1 << 20


@dataclass
class Held:
    """An attempt that the agent holds, in place of a supervisor and a process."""

    order: LaunchOrder
    known: rules.KnownJob
    rank: int
    state: str = STARTING
    started_s: float | None = None
    """Instants are of the scheduler's clock, as the order says how to tell them."""
    began_s: float | None = None
    ended_s: float | None = None
    steps: float = 0.0
    stepped_s: float | None = None
    outcome: str | None = None
    asked: str | None = None
    told: bool = False
    """Its agent has told how it is now."""

    def status(self) -> dict[str, Any]:
        """As an agent tells it."""
        order, held = self.order, self.known.held
        assert held is not None
        status = AttemptStatus(
            job=order.job,
            attempt=order.attempt,
            sequence=held.sequence,
            state=self.state,
            steps_done=self.steps,
            steps_total=order.steps_total,
            steps_saved=self.steps if self.outcome in (YIELDED, FINISHED) else order.from_step,
            outcome=self.outcome,
            exit_code={YIELDED: 75, FINISHED: 0, LOST: -9}[self.outcome] if self.outcome is not None else None,
            started_s=self.started_s,
            ended_s=self.ended_s,
            stop_reason=self.asked,
            problem=None,
            launch_sequence=order.sequence,
            start_sequence=order.sequence,
            began_s=self.began_s,
            stepped_s=self.stepped_s,
            gpus_text=order.gpus_text,
            from_step=order.from_step,
            rank=self.rank,
        )
        return status._asdict()


class PretendAgent:
    """Of one node. `later` asks to be called back: after so many seconds, with this attempt and this word."""

    def __init__(self, number: int, gpus: int, later: Callable[[float, "PretendAgent", Held, str], None]) -> None:
        self.number, self._later = number, later
        name = f"n{number:04d}"
        self.facts = NodeFacts(
            name=name,
            accelerator="V100",
            devices=tuple(f"{name}/{gpu}" for gpu in range(gpus)),
            indices=tuple(range(gpus)),
            boot=1,
            host=name,
            address="127.0.0.1",
            interface="lo",
            host_gib=None,
            pretend=True,
        )
        self._held: dict[tuple[int, int], Held] = {}
        self._known: dict[int, rules.KnownJob] = {}
        self.rung = False

    def hello(self) -> str:
        return json.dumps(asdict(self.facts))

    def exchange(self, text: str) -> str:
        """What `NodeAgent.exchange` does."""
        asked, now_s = json.loads(text), boot_s()
        lost: list[list[Any]] = []
        for message in map(decode_message, asked["do"]):
            if isinstance(message, Forget):
                self._forget(message.job, message.attempt)
                continue
            self._do(message)
            job, attempt = message.job, message.attempt
            if (job, attempt) not in self._held and attempt <= self._known_of(job).highest[0]:
                lost.append([job, attempt, LOST])
        self.rung = False
        told = [held for held in self._held.values() if asked["whole"] or not held.told]
        for held in told:
            held.told = True
        parts = [held.status() for held in told]
        return json.dumps({"boot": 1, "boot_s": now_s, "lost": lost, "parts": parts, "message": asked["message"]})

    def _known_of(self, job: int) -> rules.KnownJob:
        return self._known.get(job, rules.KnownJob())

    def _do(self, message: LaunchOrder | Suspend | Resume | ChangeSize | Kill | Renew) -> None:
        job, attempt = message.job, message.attempt
        if isinstance(message, LaunchOrder):
            command = rules.AgentCommand(LAUNCH, attempt, message.sequence, message.lease_seconds, boot_id())
        else:
            command = agent_command(message, boot_s())
        decision = rules.receive(self._known_of(job), command, now_s=boot_s(), boot=boot_id())
        self._known[job] = decision.known
        held = self._held.get((job, attempt))
        if isinstance(message, LaunchOrder) and decision.action == LAUNCH:
            held = Held(message, decision.known, int(message.env["NODE_RANK"]))
            self._held[job, attempt] = held
            held.steps = message.from_step
            self._later(BEGIN_SECONDS, self, held, RUNNING)
        elif held is not None and decision.action in (SUSPEND, KILL):
            held.known, held.asked, held.told = decision.known, command.op, False
            self._later(LEAVE_SECONDS if decision.action == SUSPEND else 0.0, self, held, ENDED)
        elif held is not None and decision.action in (RENEW, RESIZE):
            held.known = decision.known

    def _forget(self, job: int, attempt: int) -> None:
        held = self._held.get((job, attempt))
        if held is not None and held.state == ENDED:
            del self._held[job, attempt]

    def turn(self, held: Held, word: str) -> bool:
        """The moment has come that was asked for. Whether the agent's bell is to be rung."""
        if held.state == ENDED:
            return False
        order, before = held.order, (held.state, held.steps)
        now_s = boot_s() + order.clock_origin_s
        if word == RUNNING:
            held.state, held.started_s, held.began_s = RUNNING, now_s, now_s
        if held.rank == 0 and order.progress and held.began_s is not None:
            made = int((now_s - held.began_s) * STEPS_PER_SECOND)
            held.steps, held.stepped_s = order.from_step + made, held.began_s + made / STEPS_PER_SECOND
        finished = order.steps_total is not None and held.steps >= order.steps_total
        over = rules.expire_lease(held.known, boot_s()).action == LEASE
        if word == ENDED or over or finished:
            held.asked = held.asked or (LEASE if over else None)
            self._end(held, now_s, FINISHED if finished else LOST if held.asked == KILL else YIELDED)
        else:
            self._later(TELL_SECONDS, self, held, "tell")
        if (held.state, held.steps) == before:
            return False
        held.told = False
        rings, self.rung = not self.rung, True
        return rings

    def _end(self, held: Held, now_s: float, outcome: str) -> None:
        assert held.known.held is not None
        held.state, held.ended_s, held.outcome = ENDED, now_s, outcome
        held.known = held.known._replace(held=rules.ended(held.known.held, outcome))
        self._known[held.order.job] = held.known


# The process of some agents ------------------------------------------------------------------------------------------


def serve(first: int, count: int, gpus: int) -> None:
    """Until its input ends."""
    timers: list[tuple[float, int, PretendAgent, Held, str]] = []
    serial = 0

    def later(seconds: float, agent: PretendAgent, held: Held, word: str) -> None:
        nonlocal serial
        serial += 1
        heapq.heappush(timers, (boot_s() + seconds, serial, agent, held, word))

    agents = {number: PretendAgent(number, gpus, later) for number in range(first, first + count)}
    said = [f"{number}\thello\t{agent.hello()}\n" for number, agent in agents.items()]
    rest = b""
    while True:
        if said:
            sys.stdout.write("".join(said))
            sys.stdout.flush()
            said = []
        wait_seconds = max(timers[0][0] - boot_s(), 0.0) if timers else None
        ready, _, _ = select.select([0], [], [], wait_seconds)
        if ready:
            piece = os.read(0, PIECE)
            if not piece:
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                number, _, text = line.split(b"\t", 2)
                said.append(f"{int(number)}\tanswer\t{agents[int(number)].exchange(text.decode())}\n")
        now_s = boot_s()
        while timers and timers[0][0] <= now_s:
            _, _, agent, held, word = heapq.heappop(timers)
            if agent.turn(held, word):
                said.append(f"{agent.number}\tring\t\n")


# Their scheduler's side ----------------------------------------------------------------------------------------------


class _AgentProcess:
    """Some of the agents. Two threads carry what is said, so that neither side waits for the other."""

    def __init__(self, first: int, count: int, gpus: int, heard: Callable[[list[tuple[int, str, str]]], None]) -> None:
        command = [sys.executable, "-m", "benchmarks.scale_agents", str(first), str(count), str(gpus)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._heard = heard
        self._outbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=act, daemon=True) for act in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: str) -> None:
        self._outbox.put(line)

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(OSError):
            while (line := self._outbox.get()) is not None:
                lines = [line]
                with suppress(queue.Empty):
                    while (more := self._outbox.get_nowait()) is not None:
                        lines.append(more)
                    self._outbox.put(None)
                pipe.write("".join(lines).encode())
                pipe.flush()

    def _read(self) -> None:
        pipe, rest = self._process.stdout, b""
        assert pipe is not None
        while piece := os.read(pipe.fileno(), PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            said = [line.decode().split("\t", 2) for line in lines]
            self._heard([(int(number), word, text) for number, word, text in said])

    def close(self) -> None:
        self._outbox.put(None)
        self._threads[0].join()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._threads[1].join()
        self._process.stdout.close()


class PipedHosts:
    """`NodeChannel` (`rota/live/node_channel.py`) whose agents live in a few processes of this machine."""

    nodes_can_leave = True

    def __init__(self, agents: int, gpus: int, processes: int) -> None:
        self._there: dict[str, ReachableHost] = {}
        self._answers: queue.SimpleQueue[HostReply] = queue.SimpleQueue()
        self._rang: set[str] = set()
        self._lock = threading.Lock()
        self._all_there = threading.Event()
        self._agents = agents
        self._wake: Callable[[], None] = lambda: None
        each = -(-agents // processes)
        firsts = range(0, agents, each)
        self._processes = [_AgentProcess(first, min(each, agents - first), gpus, self._heard) for first in firsts]
        self._process_of = {f"host-{number}": self._processes[number // each] for number in range(agents)}
        if not self._all_there.wait(60.0):
            raise TimeoutError("agents did not say who they are within a minute")

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def nodes(self) -> Mapping[str, ReachableHost]:
        return self._there

    def send(self, host: str, text: str) -> None:
        self._process_of[host].send(f"{host.removeprefix('host-')}\task\t{text}\n")

    def replies(self) -> list[HostReply]:
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._answers.get_nowait())
        return found

    def changed(self, host: str, facts: NodeFacts) -> None:
        self._there[host] = ReachableHost(facts)

    def notes(self) -> list[str]:
        return []

    def read_gpus(self) -> Readings:
        return {}

    def notified(self) -> set[str]:
        with self._lock:
            found, self._rang = self._rang, set()
        return found

    def close(self) -> None:
        for process in self._processes:
            process.close()

    def _heard(self, said: list[tuple[int, str, str]]) -> None:
        arrived_s = boot_s()
        for number, word, text in said:
            host = f"host-{number}"
            if word == "answer":
                self._answers.put(HostReply(host, text, arrived_s))
            elif word == "ring":
                with self._lock:
                    self._rang.add(host)
            else:
                plain = json.loads(text)
                facts = NodeFacts(**{**plain, "devices": tuple(plain["devices"]), "indices": tuple(plain["indices"])})
                with self._lock:
                    self._there = {**self._there, host: ReachableHost(facts)}
                    if len(self._there) == self._agents:
                        self._all_there.set()
        self._wake()


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
