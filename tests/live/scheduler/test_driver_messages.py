"""The driver of a cluster, with real agents and processes: messages that are lost or late, and nodes that are gone."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rota.agent import node_agent, other_programs
from rota.agent.gpu_readings import Readings
from rota.agent.messages import decode_message, encode_message
from rota.agent.node_agent import NodeFacts, cluster_agent
from rota.agent.processes import ProcessIdentity, boot_s, end_all
from rota.live.driver import HEARTBEAT_SECONDS, LOST_SECONDS, Driver
from rota.live.driver_protocol import DriverCommand, DriverContext
from rota.live.journal_store import LeadershipLost
from rota.live.late_starts import FORGET_SECONDS, LATE_SECONDS
from rota.live.node_channel import HostReply, ReachableHost
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
    Started,
    Suspended,
)
from rota.wire.client import user_name
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.live.scheduler.test_real_gpus import STEPS, nvml
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

    def rang(self) -> set[str]:
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


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with contextlib.closing(Bench(tmp_path)) as made:
        made.events()
        yield made


def started(node: int) -> Callable[[External], bool]:
    return lambda event: isinstance(event, Started) and event.node == node


def test_a_gang_starts_on_both_nodes_and_is_suspended(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    found = bench.heard(started(0), started(1))
    assert [event.sequence for event in found if isinstance(event, Started)] == [1, 1], "each once"
    orders = [json.loads((bench.folder / name / "run/1/1/launch.json").read_text()) for name in "ab"]
    assert [order["env"]["NODE_RANK"] for order in orders] == ["0", "1"]
    assert {order["env"]["NNODES"] for order in orders} == {"2"} and {order["env"]["ROTA_GPUS"] for order in orders} == {"4"}
    assert orders[0]["env"]["GLOO_SOCKET_IFNAME"] == "lo" and orders[0]["progress"] and not orders[1]["progress"]
    assert [status.job for status in bench.driver.inventory()] == [1] == list(bench.driver.running())
    bench.carry_out([Suspend(1, 1, 2, (0, 1))])
    ends: dict[int | None, float] = {}

    def both_ended() -> bool:
        ends.update({event.node: event.steps_done for event in bench.events() if isinstance(event, Suspended)})
        return len(ends) == 2

    until(both_ended, "both parts have left")
    assert ends == {0: 0.0, 1: float("inf")}, "only the first part knows what is saved"
    assert bench.driver.inventory() == []
    until(lambda: not bench.events() and not list(bench.folder.glob("*/run/1/1/launch.json")), "it is forgotten")


def test_a_launch_that_is_repeated_is_answered_again(bench: Bench) -> None:
    """The core repeats it whole while one part has not begun, and then wants to hear of all."""
    assert bench.driver.carry_out([bench.launch()]) == []
    bench.heard(started(0), started(1))
    again = bench.driver.carry_out([bench.launch()])
    assert [(event.node, event.sequence) for event in again if isinstance(event, Started)] == [(0, 1), (1, 1)]


def test_an_answer_that_got_lost_is_asked_for_again(bench: Bench) -> None:
    bench.hosts.answers_to_lose = 2
    bench.carry_out([bench.launch()])
    bench.carry_out([bench.launch()])  # the core has had no answer, and says it again
    bench.ahead_s += 2.0
    found = bench.heard(started(0), started(1))
    assert sorted(event.node or 0 for event in found if isinstance(event, Started)) == [0, 1]


def test_a_launch_that_arrives_after_its_lease_starts_nothing(bench: Bench) -> None:
    """A frozen agent wakes up: by then the core may have started the job elsewhere."""
    bench.hosts.held = []
    bench.carry_out([bench.launch(seconds=1.0)])
    late, bench.hosts.held = bench.hosts.held, None
    time.sleep(1.1)
    for host, text in late:
        bench.hosts.carry(host, text)
    found = bench.heard(lambda event: isinstance(event, Exited) and event.node == 0)
    assert not any(isinstance(event, Started) for event in found)
    assert not list(bench.folder.glob("*/run/1/1/status.json"))


def test_a_launch_waits_for_all_its_nodes(bench: Bench) -> None:
    bench.hosts.away.add("b")
    bench.events()
    bench.carry_out([bench.launch()])
    assert not list(bench.folder.glob("*/run/1/1/launch.json")), "all or none"


def test_a_node_that_is_away_leaves_when_its_leases_are_over(bench: Bench) -> None:
    bench.hosts.away.add("b")
    assert not any(isinstance(event, NodeLeft) for event in bench.events())
    bench.ahead_s += GONE_AFTER + 1
    assert [event.node for event in bench.events() if isinstance(event, NodeLeft)] == [1]
    assert not any(isinstance(event, NodeLeft) for event in bench.events()), "it is told once"


def test_a_node_that_comes_back_tells_all_it_has(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(1))
    bench.hosts.away.add("b")
    bench.events()
    bench.hosts.away.clear()
    reports = [event for event in bench.events() if isinstance(event, NodeReported) and event.node == 1 and event.inventory]
    assert [part.job for part in reports[0].inventory] == [1]


def test_a_scheduler_that_comes_up_finds_what_runs(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0))
    bench.driver = bench.open()
    found = bench.heard(started(0), started(1))
    assert any(isinstance(event, NodeReported) and event.inventory for event in found)
    assert [status.job for status in bench.driver.inventory()] == [1]


def test_draining_is_told_and_taken_back(bench: Bench) -> None:
    bench.hosts.draining.add("a")
    assert [(event.node, event.draining) for event in bench.events() if isinstance(event, NodeDrainChanged)] == [(0, True)]
    bench.hosts.draining.clear()
    assert [(event.node, event.draining) for event in bench.events() if isinstance(event, NodeDrainChanged)] == [(0, False)]


def test_who_has_nothing_to_tell_is_asked_now_and_then(bench: Bench) -> None:
    before = bench.hosts.sent
    bench.events()
    assert bench.hosts.sent == before
    bench.ahead_s += HEARTBEAT_SECONDS
    (reports,) = [event for event in bench.events() if isinstance(event, NodesReported)]
    assert [report.node for report in reports.reports()] == [0, 1], "one event for all"


def test_a_renewal_counts_from_when_it_was_said(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0))
    bench.carry_out([Renew(1, 1, (0, 1), time.time() + 0.3)])
    ends = bench.heard(lambda event: isinstance(event, Exited | Suspended) and event.node == 0)
    assert ends
    bench.carry_out([Kill(1, 1, 9, (0, 1))])


def test_where_the_log_is(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    assert b"step 1" in bench.driver.read_log(1, 0, 1000).data and bench.driver.log_end(1) > 0
    assert (bench.folder / "home/logs/1.node1.log").exists()


def test_a_scheduler_that_comes_up_renews_leases_only_when_it_knows_the_clock_of_the_node(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    bench.driver = bench.open()
    bench.hosts.held = []
    bench.driver.events()
    bench.carry_out([Renew(1, 1, (0, 1), time.time() + 60.0), bench.launch()])
    assert all(json.loads(text)["do"] == [] for _, text in bench.hosts.held), "it asks first"
    late, bench.hosts.held = bench.hosts.held, None
    for host, text in late:
        bench.hosts.carry(host, text)
    found = bench.heard(started(0), started(1))
    assert not any(isinstance(event, Exited | Suspended) for event in found)


def test_a_renewal_that_got_lost_is_sent_again(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    bench.hosts.held = []
    bench.carry_out([Renew(1, 1, (0, 1), time.time() + 50.0), Kill(9, 1, 1, (0, 1))])
    bench.hosts.held = None  # both messages are gone for good
    bench.hosts.away = {"a", "b"}
    bench.events()
    bench.hosts.away = set()
    bench.hosts.held = []
    bench.driver.events()
    again = [decode_message(plain) for _, text in bench.hosts.held for plain in json.loads(text)["do"]]
    assert [type(message) for message in again] == [Renew, Renew], "the core says again what it has no answer to"


def test_a_node_with_a_running_job_leaves(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    bench.hosts.away.add("a")
    bench.events()
    bench.ahead_s += GONE_AFTER + 10
    assert any(isinstance(event, NodeLeft) for event in bench.events())
    bench.ahead_s += 10
    bench.events()


def test_a_machine_that_comes_back_with_fewer_gpus_is_another_node(bench: Bench, tmp_path: Path) -> None:
    bench.hosts.agents["b"].close()
    bench.hosts.agents["b"] = cluster_agent(tmp_path / "b", "b", "127.0.0.1", accelerator="V100", pretend_gpus=1)
    bench.events()
    bench.carry_out([bench.launch()])
    assert not list(bench.folder.glob("*/run/1/1/launch.json")), "it has not joined"
    assert [node.gpus for node in bench.driver.discover_cluster().nodes] == [2, 1]
    bench.ahead_s += GONE_AFTER + 1
    assert [event.node for event in bench.events() if isinstance(event, NodeLeft)] == [1]


def test_an_answer_to_an_earlier_message_is_not_taken_for_the_last(bench: Bench) -> None:
    bench.hosts.held = []
    bench.ahead_s += HEARTBEAT_SECONDS
    bench.driver.events()
    early = bench.hosts.held
    bench.ahead_s += LOST_SECONDS
    bench.hosts.held = []
    bench.driver.events()
    late, bench.hosts.held = bench.hosts.held, None
    assert len(early) == len(late) == 2 and all(json.loads(text)["whole"] for _, text in late)
    for host, text in (*early, *late):
        bench.hosts.carry(host, text)
    reports = [event for event in bench.driver.events() if isinstance(event, NodeReported)]
    assert [event.node for event in reports] == [0, 1]


def test_agents_refuse_a_scheduler_that_leads_no_more(bench: Bench) -> None:
    """Both would start the job: the former leader was frozen, and what it had decided is on its way."""
    former, bench.epoch = bench.driver, 2
    bench.driver = bench.open()
    bench.events()
    with pytest.raises(LeadershipLost, match="another leads epoch 2"):
        former.carry_out([bench.launch()])
    assert not list(bench.folder.glob("*/run/1")), "nothing was started"
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    again = cluster_agent(bench.folder / "a", "a", "127.0.0.1", accelerator="V100", pretend_gpus=2)
    with contextlib.closing(again):
        asked = {"message": 7, "do": [encode_message(Kill(1, 1, 9, ()))], "whole": False}
        for epoch in (0, 1):
            assert json.loads(again.exchange(json.dumps(asked | {"epoch": epoch}))) == {"refused": 2, "message": 7}
        assert json.loads(again.exchange(json.dumps(asked | {"do": []}))) == {"refused": 2, "message": 7}
        assert json.loads(again.exchange(json.dumps(asked | {"do": [], "epoch": 2})))["boot"] == again.facts.boot


def test_a_node_that_joins_is_used_when_all_that_it_had_has_ended(bench: Bench) -> None:
    """It was frozen for so long that its jobs were taken for dead. Now it is back, and they are in their grace."""
    bench.carry_out([bench.launch(seconds=1000.0)])
    bench.heard(started(0), started(1))
    bench.hosts.away.add("b")
    bench.events()
    bench.ahead_s += GONE_AFTER + 1
    assert [event.node for event in bench.events() if isinstance(event, NodeLeft)] == [1]
    bench.hosts.away.clear()
    sent = bench.hosts.sent
    assert not any(isinstance(event, NodeReported) and event.node == 1 for event in bench.driver.events())
    assert bench.hosts.sent - sent <= 1, "it is not spoken to before it has joined"
    number = bench.join("b")
    first = bench.driver.events()
    assert not any(isinstance(event, NodeReported) and event.node == number for event in first)
    reports: list[NodeReported] = []

    def reported() -> bool:
        bench.ahead_s += 1.0
        reports.extend(event for event in bench.events() if isinstance(event, NodeReported) and event.node == number)
        return bool(reports)

    until(reported, "it is reported")
    assert reports[0].inventory == ()
    assert bench.hosts.agents["a"].exchange(json.dumps({"message": 0, "do": [], "whole": True})).count('"running"'), "a goes on"


def test_of_two_lives_of_a_machine_the_newest_is_spoken_to(bench: Bench) -> None:
    bench.hosts.ghosts["earlier"] = "b"
    bench.carry_out([bench.launch()])
    before, found = bench.hosts.sent, list[External]()

    def begun() -> bool:
        found.extend(bench.driver.events())
        return any(started(1)(event) for event in found)

    until(begun, "the part on b has begun")
    assert sum(isinstance(event, NodeReported) and event.node == 1 for event in found) <= 1, "it was there all along"
    assert bench.hosts.sent - before < 20


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


def slept(kind: SuspendKind) -> Callable[[External], bool]:
    return lambda event: isinstance(event, Suspended) and event.kind is kind


def test_a_script_is_parked_and_woken_in_the_same_process(bench: Bench) -> None:
    """Its node finds out which way. Answers get lost, and the core says it again."""
    parkable(bench)
    assert bench.driver.how_parked(bench.job) == ("node", "the node that starts it chooses the method")
    bench.carry_out([bench.launch_one()])
    began = bench.heard(started(0))
    assert [event.can_park for event in began if isinstance(event, Started)] == [True]
    (status,) = bench.driver.inventory()
    assert (status.park_way, status.park_why) == ("sleep", "its GPUs are pretend GPUs, so its processes are only stopped")
    for sequence in (2, 4):
        bench.hosts.answers_to_lose = 1
        bench.carry_out([Suspend(1, 1, sequence, (0,), SuspendKind.PARK)])
        bench.carry_out([Suspend(1, 1, sequence, (0,), SuspendKind.PARK)])
        bench.ahead_s += 2.0
        parked = [event for event in bench.heard(slept(SuspendKind.PARK)) if isinstance(event, Suspended)]
        assert [(event.sequence, event.node, event.keeps) for event in parked] == [(sequence, 0, False)], "it is told once"
        assert bench.driver.running() == {} and [each.state for each in bench.driver.inventory()] == ["parked"]
        bench.carry_out([Resume(1, 1, sequence + 1, (0,), time.time() + bench.ahead_s + 600.0)])
        woken = bench.heard(lambda event: isinstance(event, Started))
        assert [event.sequence for event in woken if isinstance(event, Started)] == [sequence + 1]
        goes_on(bench)
    told = steps_told(bench)
    assert [step for step, _ in told] == list(range(1, len(told) + 1)), bench.log()
    assert len({process for _, process in told}) == 1
    assert bench.log().count("--- rota: parked at step") == bench.log().count("--- rota: woken at step") == 2


def test_a_scheduler_that_comes_up_finds_a_parked_job_and_wakes_it(bench: Bench) -> None:
    parkable(bench)
    bench.carry_out([bench.launch_one()])
    bench.heard(started(0))
    bench.carry_out([Suspend(1, 1, 2, (0,), SuspendKind.PARK)])
    bench.heard(slept(SuspendKind.PARK))
    bench.driver = bench.open()
    bench.heard(slept(SuspendKind.PARK))
    bench.carry_out([Resume(1, 1, 3, (0,), time.time() + 600.0)])
    woken = bench.heard(lambda event: isinstance(event, Started))
    assert [(event.sequence, event.can_park) for event in woken if isinstance(event, Started)] == [(3, True)]


def test_a_job_that_its_node_cannot_park_is_told_to_leave(bench: Bench) -> None:
    """The core hears of it when it starts. A word to park that is on its way already is taken for one to leave."""
    bench.job = Submission(Spec(run=["sleep", "1000"]), "me", "/", {"PATH": os.environ["PATH"]})
    bench.carry_out([bench.launch_one()])
    began = bench.heard(started(0))
    assert [event.can_park for event in began if isinstance(event, Started)] == [False]
    (status,) = bench.driver.inventory()
    assert (status.park_way, status.park_why) == ("exit", "its command sleep is not Python")
    bench.carry_out([Suspend(1, 1, 2, (0,), SuspendKind.PARK)])
    left = bench.heard(slept(SuspendKind.CHECKPOINT))
    assert not any(slept(SuspendKind.PARK)(event) for event in left)


def test_what_is_known_of_parking_before_a_job_has_a_node(bench: Bench) -> None:
    plain = Spec(run=["python", "x.py"])
    assert bench.driver.how_parked(Submission(plain, "me", "/", {}))[0] == "node"
    for more in ({"park": False}, {"gpus": 2}, {"gpus": {"min": 1, "max": 2}}):
        spec = Spec.model_validate({"run": ["python", "x.py"], **more})
        assert bench.driver.how_parked(Submission(spec, "me", "/", {}))[0] == "exit", more


SAVES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("gpus", os.environ["CUDA_VISIBLE_DEVICES"], os.environ["ROTA_GPUS"], os.environ.get("CUDA_MPS_PIPE_DIRECTORY"), flush=True)
for step in range(1, 100000):
    print(f"step {step} by {os.getpid()}", flush=True)
    time.sleep(0.02)
"""


def test_a_job_of_one_node_is_started_again_with_other_gpus_under_its_attempt(bench: Bench) -> None:
    bench.mps = bench.folder / "mps"
    bench.driver = bench.open()
    bench.events()
    parkable(bench, SAVES)
    bench.carry_out([bench.launch_one()])
    bench.heard(started(0))
    grown = Resize(1, 1, 2, 0, np.array([0, 1]), (0,))
    bench.carry_out([grown])
    again = bench.heard(lambda event: isinstance(event, Started))
    assert [(event.attempt, event.sequence) for event in again if isinstance(event, Started)] == [(1, 2)]
    (status,) = bench.driver.inventory()
    assert status.gpus_text == "a:0-1"
    assert [line for line in bench.log().splitlines() if line.startswith("gpus")] == [
        f"gpus 0 1 {bench.mps}",
        f"gpus 0,1 2 {bench.mps}",
    ]


def test_a_gang_of_two_nodes_saves_and_leaves_when_it_is_to_have_another_size(bench: Bench) -> None:
    """Its parts would not start again at the same moment. The core launches it with the other size."""
    parkable(bench, SAVES)
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    bench.carry_out([Resize(1, 1, 2, 0, np.array([0, 2]), (0, 1))])

    def left(node: int) -> Callable[[External], bool]:
        return lambda event: isinstance(event, Suspended) and event.node == node and event.kind is SuspendKind.CHECKPOINT

    bench.heard(left(0), left(1))


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Two nodes, each with the V100 that NVML tells of, and 125 GiB of memory."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    monkeypatch.setattr(node_agent, "total_gib", lambda: 125.0)
    with contextlib.closing(Bench(tmp_path, pretend_gpus=0)) as made:
        made.events()
        yield made


def test_what_nvml_tells_on_a_node_reaches_the_scheduler(real: Bench) -> None:
    assert real.driver.devices() == (("a/GPU-0",), ("b/GPU-0",))
    assert [node.host_gib for node in real.driver.discover_cluster().nodes] == [50.0, 50.0], (
        "of two GPUs one is the node's, and 80%"
    )

    def read() -> bool:
        real.ahead_s += HEARTBEAT_SECONDS
        real.events()
        return set(real.driver.readings()) == {"a/GPU-0", "b/GPU-0"}

    until(read, "readings of both nodes")
    reading = real.driver.readings()["b/GPU-0"]
    assert (reading.memory_gib, reading.used_gib, reading.utilisation, reading.temperature_c) == (16.0, 4.0, 0.93, 61)
    assert abs(reading.at_s - time.time() - real.ahead_s) < 60.0, "on the clock of the scheduler"
    real.hosts.away.add("b")
    real.events()
    assert set(real.driver.readings()) == {"a/GPU-0"}


def test_a_gpu_of_a_node_that_another_program_uses_is_told_once_and_when_it_is_free(
    real: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real process that is no job: NVML says that it computes on the GPU of both nodes, which are one machine here."""
    monkeypatch.setattr(other_programs, "tells_own_numbers", lambda: True)
    other = subprocess.Popen(["sleep", "600"])
    stays = [SimpleNamespace(pid=other.pid, usedGpuMemory=2**30)]
    monkeypatch.setattr(sys.modules["pynvml"], "nvmlDeviceGetComputeRunningProcesses", lambda handle: stays)
    seen: list[GpusTaken] = []

    def told(count: int) -> bool:
        real.ahead_s += HEARTBEAT_SECONDS
        seen.extend(event for event in real.events() if isinstance(event, GpusTaken))
        return len(seen) >= count

    try:
        until(lambda: told(2), "both nodes tell of it")
        words = (f"process {other.pid} (sleep) of {user_name()}",)
        assert sorted((event.node, event.gpus, event.by) for event in seen) == [(0, (0,), words), (1, (1,), words)]
    finally:
        other.kill()
        other.wait()
    stays.clear()
    until(lambda: told(4), "both nodes tell that it is gone")
    assert sorted((event.node, event.gpus, event.by) for event in seen[2:]) == [(0, (), ()), (1, (), ())]


def test_gpus_are_read_with_heartbeats_and_not_with_every_message(real: Bench) -> None:
    real.stopped_s = time.time() + HEARTBEAT_SECONDS
    real.events()
    asked, sent = real.hosts.asked_gpus, real.hosts.sent
    for sequence in range(1, 5):
        real.carry_out([Kill(9, 1, sequence, (0, 1))])
        real.events()
    assert (real.hosts.asked_gpus, real.hosts.sent) == (asked, sent + 8)
    real.ahead_s += HEARTBEAT_SECONDS
    real.events()
    assert real.hosts.asked_gpus == asked + 2


def test_how_a_job_uses_its_gpu_is_measured(real: Bench) -> None:
    parkable(real, STEPS)
    real.carry_out([real.launch_one()])
    real.heard(started(0))
    found: list[Measured] = []

    def measured() -> bool:
        real.ahead_s += HEARTBEAT_SECONDS
        found.extend(event for event in real.events() if isinstance(event, Measured))
        return any(event.peak_gib.tolist() == [4.0] for event in found)

    until(measured, "what it takes on its GPU")
    assert real.driver.readings()["a/GPU-0"].utilisation == 0.93


# An agent that was started again.


def restart_agent(bench: Bench, name: str, *, lose: tuple[str, ...] = ()) -> None:
    """Its process was killed, and these of its files are gone."""
    bench.hosts.agents[name].close()
    for file in lose:
        (bench.folder / name / file).unlink()
    time.sleep(max(bench.hosts.agents[name].facts.boot + 1 - time.time(), 0.0))  # else it may draw the same number
    bench.hosts.agents[name] = cluster_agent(bench.folder / name, name, "127.0.0.1", accelerator="V100", pretend_gpus=2)


def test_jobs_go_on_and_others_start_when_an_agent_has_lost_the_number_of_its_boot(bench: Bench) -> None:
    """The machine was not booted, so what runs there lives, and the next launch is not held back."""
    first = bench.launch_one()
    bench.carry_out([first])
    bench.heard(started(0))
    restart_agent(bench, "a", lose=("boot.json", "run/boot.json"))
    assert bench.hosts.agents["a"].facts.boot > first.boots[0]
    bench.ahead_s += HEARTBEAT_SECONDS + 1.0
    reports = bench.heard(lambda event: isinstance(event, NodeReported) and event.node == 0)
    assert {event.boot for event in reports if isinstance(event, NodeReported) and event.node == 0} == {first.boots[0]}
    assert 1 in bench.driver.running()
    lease_s = time.time() + bench.ahead_s + 600.0
    second = Launch(2, 1, 1, 0, np.array([1]), (0,), first.boots, 0.0, lease_s)
    bench.carry_out([second])
    bench.heard(lambda event: isinstance(event, Started) and event.job == 2)
    assert bench.hosts.agents["a"].facts.boot == first.boots[0], "the agent keeps the scheduler's number"
    restart_agent(bench, "a")
    assert bench.hosts.agents["a"].facts.boot == first.boots[0], "and so does the next"


def test_a_launch_that_cannot_be_sent_is_told_with_the_name_of_its_node(bench: Bench) -> None:
    told: list[str] = []
    bench.driver._context = replace(bench.driver._context, tell=told.append)
    launch = replace(bench.launch_one(), boots=(1,))
    bench.carry_out([launch])
    assert bench.driver.late_starts() == {} and told == []
    bench.ahead_s += LATE_SECONDS
    for _ in range(3):
        bench.carry_out([launch])
    said = "Not acknowledged for 15 s: a has been booted since the launch was decided. "
    assert told == [f"job 1, attempt 1: {said}The launch is sent again every few seconds."]
    assert bench.driver.late_starts()[1].startswith(said)
    bench.carry_out([bench.launch_one()])
    bench.heard(started(0))
    bench.carry_out([bench.launch_one()])
    assert bench.driver.late_starts() == {} and told[1:] == ["job 1 is acknowledged after 15 s"]


def test_a_launch_that_no_agent_answers_is_told_with_the_name_of_its_node(bench: Bench) -> None:
    told: list[str] = []
    bench.driver._context = replace(bench.driver._context, tell=told.append)
    bench.hosts.held = []
    for _ in range(2):
        bench.carry_out([bench.launch()])
        bench.ahead_s += LATE_SECONDS
    bench.carry_out([bench.launch()])
    assert len(told) == 1 and "no answer from the agent of a, b" in told[0]
    bench.ahead_s += FORGET_SECONDS + 1.0
    assert bench.driver.late_starts() == {}, "the core does not send it any more"
