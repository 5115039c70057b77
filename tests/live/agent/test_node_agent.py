"""The agent of a node, with real processes: one message, one reply."""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.agent.attempt_files import AttemptStatus, LaunchOrder, read_status, status_of
from rota.agent.messages import AgentMessage, Forget, encode_message
from rota.agent.node_agent import cluster_agent, interface_of
from rota.agent.overdue import PROBLEM
from rota.agent.processes import ProcessIdentity, boot_s, end_all
from rota.model.commands import Kill, Renew, Suspend
from tests.waiting import alive, until


class Desk:
    """Speaks to an agent as a driver does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agent = cluster_agent(folder / "n1", "n1", "127.0.0.1", accelerator="V100", pretend_gpus=2)
        self.lives: set[str] = set()

    def again(self) -> None:
        """Another agent on the same node."""
        self.agent.close()
        self.agent = cluster_agent(self.folder / "n1", "n1", "127.0.0.1", accelerator="V100", pretend_gpus=2)

    def ask(self, *messages: AgentMessage, whole: bool = False) -> dict[str, Any]:
        do = [encode_message(message) for message in messages]
        answer: dict[str, Any] = json.loads(self.agent.exchange(json.dumps({"message": 7, "do": do, "whole": whole})))
        return answer

    def launch(self, script: str, *, attempt: int = 1, sequence: int = 1, lease_s: float | None = None) -> dict[str, Any]:
        order = LaunchOrder(
            job=1,
            attempt=attempt,
            sequence=sequence,
            argv=("sh", "-c", script),
            env={"PATH": os.environ["PATH"], "NODE_RANK": "1"},
            workdir="/",
            log=str(self.folder / "1.log"),
            gpus_text="n1:0",
            from_step=0.0,
            lease_seconds=boot_s() + 300.0 if lease_s is None else lease_s,
            grace_seconds=20.0,
            lease_grace_seconds=0.1,
        )
        return self.ask(order)

    def part(self) -> AttemptStatus:
        (found,) = [status_of(each) for each in self.ask(whole=True)["parts"]]
        assert found is not None
        return found

    def wait(self, state: str) -> AttemptStatus:
        until(lambda: self.part().state in (state, "ended"), state)
        assert self.part().state == state, self.part()
        return self.part()

    def close(self) -> None:
        for variables in (self.folder / "n1" / "run").glob("*/*/launch.json"):
            life = json.loads(variables.read_text())["env"]["ROTA_LIFE"]
            end_all(ProcessIdentity(life, 0.0), seconds=30.0)
        self.agent.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with contextlib.closing(Desk(tmp_path)) as made:
        yield made


def test_what_a_node_is(desk: Desk) -> None:
    facts = json.loads(desk.agent.hello())
    assert (facts["name"], facts["accelerator"], facts["devices"]) == ("n1", "V100", ["n1/0", "n1/1"])
    assert facts["pretend"] and facts["interface"] == interface_of("127.0.0.1") == "lo"
    desk.again()
    assert json.loads(desk.agent.hello())["boot"] == facts["boot"], "the machine was not booted"
    for path in (desk.folder / "n1" / "boot.json", desk.folder / "n1" / "run" / "boot.json"):
        path.write_text(json.dumps(["another boot", facts["boot"] + 10**6]))
    desk.again()
    assert json.loads(desk.agent.hello())["boot"] == facts["boot"] + 10**6 + 1


def test_a_job_outlives_the_agent_and_the_next_one_finds_it(desk: Desk) -> None:
    desk.launch("sleep 1000")
    running = desk.wait("running")
    assert desk.part().rank == 1, "its place in its gang"
    assert desk.ask()["parts"] == [], "nothing has changed"
    supervisor = json.loads((desk.folder / "n1/run/1/1/status.json").read_text())
    parent = int(Path(f"/proc/{supervisor['pid']}/stat").read_text().rpartition(")")[2].split()[1])
    above = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
    assert above != os.getpid(), "its supervisor is no child of the agent"
    desk.again()
    assert desk.part().started_s == running.started_s
    desk.ask(Suspend(1, 1, 2, ()))
    ended = desk.wait("ended")
    assert (ended.stop_reason, ended.outcome) == ("suspend", "yielded")
    desk.ask(Forget(1, 1))
    assert desk.ask(whole=True)["parts"] == []


def test_a_launch_that_comes_after_its_lease_starts_nothing(desk: Desk) -> None:
    """The agent stood still, or the message was long on its way. What it says is what its own clock says."""
    desk.launch("touch started; sleep 1000", lease_s=boot_s() - 1.0)
    assert desk.wait("ended").outcome == "lost"


def test_leases_end_by_the_clock_of_the_node(desk: Desk) -> None:
    desk.launch("sleep 1000", lease_s=boot_s() + 60.0)
    desk.wait("running")
    desk.ask(Renew(1, 1, (), boot_s() - 1.0))
    assert desk.ask()["message"] == 7 and desk.part().stop_reason is None, "a renewal that comes late takes nothing away"
    desk.ask(Renew(1, 1, (), boot_s() + 0.2))
    ended = desk.wait("ended")
    assert (ended.stop_reason, ended.outcome) == ("lease", "yielded")


def test_repeats_and_strangers(desk: Desk) -> None:
    desk.launch("sleep 1000")
    desk.launch("sleep 1000")
    desk.wait("running")
    assert desk.ask(Kill(1, 1, 5, ()), Renew(7, 1, (), boot_s() + 9.0))["lost"] == []
    assert desk.wait("ended").outcome == "lost"
    desk.ask(Forget(1, 1))
    assert desk.ask(Kill(1, 1, 6, ()))["lost"] == [[1, 1, "lost"]]
    assert desk.launch("sleep 1000", sequence=3)["lost"] == [[1, 1, "lost"]], "what was said to be lost never starts"


def test_an_agent_that_stood_still_does_nothing_when_there_is_another(desk: Desk) -> None:
    frozen = desk.agent
    desk.again()
    with pytest.raises(RuntimeError, match="another agent has "):
        frozen.exchange(json.dumps({"message": 1, "do": [], "whole": False}))


def test_a_job_whose_supervisor_is_stopped_ends_though_the_agent_is_asked_nothing(desk: Desk) -> None:
    """As when the network of its node is cut. What is asked later is answered with the reason."""
    desk.launch("sleep 1000")
    desk.wait("running")
    lease_s = boot_s() + 1.0
    desk.ask(Renew(1, 1, (), lease_s))
    folder = desk.folder / "n1/run/1/1"
    until(lambda: (status := read_status(folder)) is not None and (status.lease_s or 0.0) < lease_s + 1.0)
    desk.ask()  # the agent knows of it then
    status = read_status(folder)
    assert status is not None and status.pid is not None
    pid, supervisor = status.pid, int(Path(f"/proc/{status.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGSTOP)
    until(lambda: not alive(pid) and not alive(supervisor), "the end of both")
    ended = desk.wait("ended")
    assert (ended.outcome, ended.problem) == ("lost", PROBLEM)


def test_a_supervisor_that_was_killed_is_noticed_though_it_cannot_ring(desk: Desk) -> None:
    desk.launch("sleep 1000")
    until(lambda: desk.wait("running") and not desk.agent.wait(0.0), "all that it told was heard")
    status = read_status(desk.folder / "n1/run/1/1")
    assert status is not None and status.pid is not None
    supervisor = int(Path(f"/proc/{status.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGKILL)
    assert desk.agent.wait(60.0)
    assert desk.wait("ended").outcome == "lost"
    assert not desk.agent.wait(0.0)


def test_only_the_latest_call_waits(desk: Desk) -> None:
    """A scheduler that was killed leaves calls behind, and there is room for few at once."""
    came: list[bool] = []
    early = threading.Thread(target=lambda: came.append(desk.agent.wait(600.0)))
    early.start()
    until(lambda: not (desk.agent.wait(0.0) or early.is_alive()), "the early one has given up")
    assert came == [False]


@pytest.mark.parametrize("lost", ["boot.json", "run/boot.json"])
@pytest.mark.parametrize("how", ["removed", "empty", "cut short"])
def test_one_lost_file_does_not_change_the_number_of_the_boot(desk: Desk, lost: str, how: str) -> None:
    boot, path = json.loads(desk.agent.hello())["boot"], desk.folder / "n1" / lost
    path.unlink() if how == "removed" else path.write_text("" if how == "empty" else path.read_text()[:9])
    desk.again()
    assert json.loads(desk.agent.hello())["boot"] == boot
    assert json.loads(path.read_text())[1] == boot, "it is there again"
