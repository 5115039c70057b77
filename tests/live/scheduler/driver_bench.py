"""A driver of a cluster with real agents in this process, and a clock that is set by hand."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from rota.agent.gpu_readings import Readings
from rota.agent.node_agent import NodeFacts, cluster_agent
from rota.agent.processes import ProcessIdentity, boot_s, end_all
from rota.live.driver import Driver
from rota.live.driver_protocol import DriverCommand, DriverContext
from rota.live.node_channel import HostReply, ReachableHost
from rota.model.cluster import Cluster, Node
from rota.model.commands import Launch
from rota.model.events import External, Started
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.waiting import until

GONE_AFTER = 100.0


class InProcess:
    """Agents of a cluster in this process. Messages are carried at once, unless they are to be lost or held back."""

    nodes_can_leave = True

    def __init__(self, folder: Path, names: tuple[str, ...], pretend_gpus: int) -> None:
        self.agents = {
            name: cluster_agent(folder / name, name, "127.0.0.1", accelerator="V100", pretend_gpus=pretend_gpus) for name in names
        }
        self.away: set[str] = set()
        self.ghosts: dict[str, str] = {}
        """Hosts that are dead and were not noticed to be, and the names of their nodes."""
        self.draining: set[str] = set()
        self.answers_to_lose = 0
        self.held: list[tuple[str, str]] | None = None
        """Messages that are on their way; None: none is held back."""
        self.sent = 0
        self.asked_gpus = 0
        """Messages that asked how the GPUs are."""
        self._answers: list[HostReply] = []

    def open(self, wake: Callable[[], None]) -> None: ...

    def close(self) -> None: ...

    def nodes(self) -> Mapping[str, ReachableHost]:
        ghosts = {host: ReachableHost(self.agents[name].facts) for host, name in self.ghosts.items()}
        return ghosts | {
            f"host-{name}": ReachableHost(agent.facts, draining=name in self.draining)
            for name, agent in self.agents.items()
            if name not in self.away
        }

    def send(self, host: str, text: str) -> None:
        self.sent += 1
        self.asked_gpus += json.loads(text)["gpus"]
        if self.held is not None:
            self.held.append((host, text))
        else:
            self.carry(host, text)

    def carry(self, host: str, text: str) -> None:
        answer: str | None = self.agents[host.removeprefix("host-")].exchange(text)
        if self.answers_to_lose:
            self.answers_to_lose, answer = self.answers_to_lose - 1, None
        self._answers.append(HostReply(host, answer, boot_s()))

    def replies(self) -> list[HostReply]:
        found, self._answers = self._answers, []
        return found

    def changed(self, host: str, facts: NodeFacts) -> None: ...

    def notes(self) -> list[str]:
        return []

    def read_gpus(self) -> Readings:
        return {}

    def notified(self) -> set[str]:
        return {f"host-{name}" for name, agent in self.agents.items() if agent.wait(0.0)}


class Bench:
    """A driver of two nodes, and a clock that is set by hand."""

    def __init__(self, folder: Path, pretend_gpus: int = 2) -> None:
        """`pretend_gpus`: 0: the GPUs that NVML tells of."""
        self.folder = folder
        self.hosts = InProcess(folder, ("a", "b"), pretend_gpus)
        self.ahead_s = 0.0
        self.epoch = 0
        self.mps: Path | None = None
        self.answers: list[External] = []
        self.stopped_s: float | None = None
        """Where the clock stands; None: it goes."""
        self.job = Submission(Spec(run=["sh", "-c", "echo step 1; sleep 1000"], progress=r"step (\d+)"), "me", "/", {})
        self.driver = self.open()

    def open(self) -> Driver:
        made = Driver(self.folder / "home", self.hosts, lease_grace_seconds=1.0, gone_after_seconds=GONE_AFTER, mps=self.mps)
        self.cluster, self.devices = made.discover_cluster(), [name for names in made.devices() for name in names]
        made.open(
            DriverContext(
                wake=lambda: None,
                submitted=lambda number: self.job,
                clock=lambda: (self.stopped_s or time.time()) + self.ahead_s,
                cluster=lambda: self.cluster,
                device=lambda gpu: self.devices[gpu],
                epoch=self.epoch,
            )
        )
        return made

    def join(self, name: str) -> int:
        """As the core would have it join. Its number."""
        facts = self.hosts.agents[name].facts
        nodes = [*self.cluster.nodes, Node(name, facts.accelerator, len(facts.devices))]
        self.cluster, self.devices = Cluster.of(nodes, "joined"), [*self.devices, *facts.devices]
        return len(nodes) - 1

    def events(self) -> list[External]:
        """Until nothing more is told."""
        found, quiet, self.answers = self.answers, 0, []
        while quiet < 3:
            some = self.driver.events()
            self.driver.acknowledge()
            found += some
            quiet = 0 if some else quiet + 1
        return found

    def carry_out(self, commands: list[DriverCommand]) -> None:
        """What is answered at once is told with the next events."""
        self.answers += self.driver.carry_out(commands)

    def heard(self, *wanted: Callable[[External], bool]) -> list[External]:
        """Events until there was one of each."""
        found: list[External] = []

        def look() -> bool:
            found.extend(self.events())
            return all(any(each(event) for event in found) for each in wanted)

        until(look, "such an event")
        return found

    def launch(self, attempt: int = 1, sequence: int = 1, seconds: float = 60.0) -> Launch:
        boots = tuple(agent.facts.boot for agent in self.hosts.agents.values())
        lease_s = time.time() + self.ahead_s + seconds
        return Launch(1, attempt, sequence, 0, np.arange(4), (0, 1), boots, 0.0, lease_s)

    def launch_one(self) -> Launch:
        """On the first GPU of the first node."""
        boot, lease_s = self.hosts.agents["a"].facts.boot, time.time() + self.ahead_s + 600.0
        return Launch(1, 1, 1, 0, np.array([0]), (0,), (boot,), 0.0, lease_s)

    def log(self) -> str:
        path = self.folder / "home/logs/1.log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        for path in self.folder.glob("*/run/*/*/launch.json"):
            end_all(ProcessIdentity(json.loads(path.read_text())["env"]["ROTA_LIFE"], 0.0), seconds=30.0)
        for agent in self.hosts.agents.values():
            agent.close()


def started(node: int) -> Callable[[External], bool]:
    return lambda event: isinstance(event, Started) and event.node == node


PLAIN = """
import os, time
for step in range(1, 100000):
    print(f"step {step} by {os.getpid()}", flush=True)
    time.sleep(0.02)
"""


def parkable(bench: Bench, script: str = PLAIN) -> None:
    """The next launch is of a script that knows nothing of Rota."""
    path = bench.folder / "plain.py"
    path.write_text(script)
    spec = Spec(run=[sys.executable, str(path)], progress=r"step (\d+)")
    bench.job = Submission(spec, "me", str(bench.folder), {"PATH": os.environ["PATH"]})


def steps_told(bench: Bench) -> list[tuple[int, int]]:
    """Step and process of each whole line."""
    lines = [line for line in bench.log().splitlines(keepends=True) if line.startswith("step ") and line.endswith("\n")]
    return [(int(step), int(process)) for _, step, _, process in (line.split() for line in lines)]


def goes_on(bench: Bench) -> None:
    many = len(steps_told(bench))
    until(lambda: len(steps_told(bench)) > many, "it goes on")
