"""The interface between the daemon and its driver: the daemon uses only the protocol, so any driver works."""

import ast
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.agent.attempt_files import AttemptStatus
from rota.agent.gpu_readings import Readings
from rota.agent.log import LogPiece
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, read_setup
from rota.live import daemon as daemon_module
from rota.live.cluster_changes import pretend_devices
from rota.live.daemon import Daemon
from rota.live.driver import Driver
from rota.live.driver_protocol import DriverCommand, DriverContext, DriverProtocol
from rota.live.local_channel import LocalChannel
from rota.live.requests import to_job_spec
from rota.model.cluster import Cluster
from rota.model.commands import Kill, Launch, Renew, Resize, Resume, Suspend
from rota.model.events import Exited, External, Outcome, Started
from rota.model.units import FOREVER
from rota.wire.spec import Spec
from rota.wire.submission import Submission

PATIENCE = 300.0


class Instant:
    """Has no processes: what is launched has finished at once."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.context: DriverContext
        self.launched: list[Submission] = []
        self.acknowledged = 0
        self._events: list[External] = []

    nodes_can_leave = False
    look_every_seconds = FOREVER

    def discover_cluster(self) -> Cluster:
        return self.cluster

    def devices(self) -> Sequence[tuple[str, ...]]:
        return pretend_devices(self.cluster)

    def open(self, context: DriverContext) -> None:
        self.context = context

    def park_method(self, job: Submission) -> tuple[str, str]:
        return "exit", "it has no processes"

    def carry_out(self, commands: Sequence[DriverCommand]) -> list[External]:
        for command in commands:
            if isinstance(command, Launch):
                now = self.context.clock()
                self.launched.append(self.context.submitted(command.job))
                self._events.append(Started(command.job, command.attempt, command.sequence, now))
                self._events.append(Exited(command.job, command.attempt, now, Outcome.FINISHED, 1.0))
                self.context.wake()
        return []

    def events(self) -> list[External]:
        events, self._events = self._events, []
        return events

    def acknowledge(self) -> None:
        self.acknowledged += 1

    def kill_unknown_attempts(self, wanted: Callable[[int, int], bool]) -> None:
        pass

    def inventory(self) -> list[AttemptStatus]:
        return []

    def running(self) -> Mapping[int, AttemptStatus]:
        return {}

    def late_starts(self) -> Mapping[int, str]:
        return {}

    def readings(self) -> Readings:
        return {}

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece:
        return LogPiece(offset, f"output of job {job}\n".encode()[offset : offset + limit])

    def log_end(self, job: int) -> int:
        return len(f"output of job {job}\n")

    def close(self) -> None:
        pass


def test_a_daemon_runs_on_any_driver(tmp_path: Path) -> None:
    chosen = {"policy": "fifo", "placer": "packed", "cluster": "4xV100", "pretend": True, "settings": {"retry_seconds": 5.0}}
    instant = Instant(Cluster.parse("4xV100"))
    driver: DriverProtocol = instant
    worker = [sys.executable, "-m", "rota.server.policy_worker", "fifo"]
    daemon = Daemon(tmp_path, make_scheduler, JOURNAL_CODEC, driver, worker=lambda named: worker, setup=read_setup(chosen))
    daemon.start()
    try:
        job = daemon.submit(Submission(Spec(run=["train", "--fast"], gpus=2), "ana", "/", {"A": "1"})).id
        end = time.monotonic() + PATIENCE
        while not daemon.job(str(job)).ended:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert daemon.job(str(job)).phase == "finished"
        (launched,) = instant.launched
        assert (launched.argv, launched.variables, launched.spec.gpus) == (("train", "--fast"), {"A": "1"}, 2)
        assert daemon.job(str(job)).name == f"job-{job}"
        assert daemon.logs(job, 0, 1000).text == f"output of job {job}\n"
        assert instant.acknowledged > 0
    finally:
        daemon.stop()


def test_the_daemon_imports_no_driver() -> None:
    tree = ast.parse(Path(daemon_module.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "rota.live.driver_protocol" in imported
    assert not {name for name in imported if name and name in ("rota.live.driver", "rota.live.local_channel")}


# The driver of this machine.


def device(gpu: int) -> str:
    return f"V100:{gpu}"


def launch(job: int = 1, attempt: int = 1, lease_s: float = 1e12) -> Launch:
    return Launch(job, attempt, 1, 0, np.array([0, 1]), (0,), (0,), 0.0, lease_s)


def submitted(*argv: str, **fields: Any) -> Submission:
    spec = Spec.model_validate({"run": list(argv), "name": "mine", "gpus": 2, "checkpoint": {"grace": 1.0}, **fields})
    return Submission(spec, "ana", "/", {"PATH": "/usr/bin:/bin"})


@pytest.fixture
def local(tmp_path: Path) -> Driver:
    driver = Driver(tmp_path, LocalChannel(tmp_path, Cluster.parse("4xV100")), lease_grace_seconds=1.0)
    driver.open(DriverContext(lambda: None, lambda job: submitted("echo", "hello"), time.time, driver.discover_cluster, device))
    assert driver.events() == [], "nothing is there"
    return driver


def events_until_exit(driver: Driver, answers: Sequence[External] = ()) -> list[External]:
    found = list(answers)
    end = time.monotonic() + PATIENCE
    while not any(isinstance(event, Exited) for event in found):
        assert time.monotonic() < end
        found += driver.events()
        time.sleep(0.01)
    return found


def test_a_launch_is_told_as_events_and_forgotten_when_acknowledged(local: Driver) -> None:
    try:
        assert local.carry_out([launch()]) == []
        found = events_until_exit(local)
        assert [type(event) for event in found] == [Started, Exited]
        assert b"hello\n" in local.read_log(1, 0, 1000).data and local.read_log(2, 0, 1000).data == b""
        (status,) = local.inventory()
        assert (status.outcome, status.exit_code, dict(local.running())) == ("finished", 0, {})
        local.acknowledge()
        assert local.inventory() == []
        assert local.carry_out([launch()]) != [], "an attempt that was forgotten is lost, and not started again"
    finally:
        local.close()


LEAVES_LATER = """
import pathlib, sys, time
print("step 1/2", flush=True)
print("step 2/2", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
"""


def test_an_end_tells_when_the_last_step_was_made(tmp_path: Path) -> None:
    """Between that and its end a job is only leaving: it tears down its framework, say."""
    leave = tmp_path / "leave"
    job = submitted(sys.executable, "-c", LEAVES_LATER, str(leave), progress=r"step (\d+)/(\d+)")
    driver = Driver(tmp_path / "home", LocalChannel(tmp_path / "home", Cluster.parse("4xV100")), lease_grace_seconds=1.0)
    driver.open(DriverContext(lambda: None, lambda number: job, time.time, driver.discover_cluster, device))
    try:
        driver.events()
        driver.carry_out([launch()])
        deadline = time.monotonic() + PATIENCE
        while not (found := driver.inventory()) or found[0].steps_done < 2:
            assert time.monotonic() < deadline
            driver.events()
            time.sleep(0.01)
        told_s = time.time()
        leave.touch()
        end = events_until_exit(driver)[-1]
        assert isinstance(end, Exited) and end.steps_done == 2
        assert end.stepped_s is not None and end.stepped_s <= told_s <= end.at_s
    finally:
        driver.close()


def test_a_job_that_tells_no_steps_tells_no_last_one(local: Driver) -> None:
    try:
        local.carry_out([launch()])
        end = events_until_exit(local)[-1]
        assert isinstance(end, Exited) and end.steps_done is None and end.stepped_s is None
    finally:
        local.close()


def test_a_resize_is_answered_once_and_again_after_a_restart(tmp_path: Path) -> None:
    """Between two daemons its supervisor remembers what it was granted."""

    def opened() -> Driver:
        driver = Driver(tmp_path, LocalChannel(tmp_path, Cluster.parse("4xV100")), lease_grace_seconds=1.0)
        driver.open(
            DriverContext(lambda: None, lambda job: submitted("sleep", "100"), time.time, driver.discover_cluster, device)
        )
        return driver

    def starts(driver: Driver, found: Sequence[External] = ()) -> list[int]:
        """The sequences of what it answered, or tells next."""
        end = time.monotonic() + PATIENCE
        while not (found := found or driver.events()):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert all(isinstance(event, Started) for event in found)
        return [event.sequence for event in found if isinstance(event, Started)]

    local = opened()
    try:
        assert local.events() == []
        local.carry_out([replace(launch(), gpus=np.array([0]))])
        assert starts(local) == [1]
        answers = local.carry_out([Resize(1, 1, 2, 0, np.array([0]), (0,), 128)])
        assert starts(local, answers) == [2] and local.events() == []
        assert json.loads((tmp_path / "run/1/1/job/size.json").read_text()) == {"batch_size": 128}
        local.close()
        local = opened()
        assert starts(local) == [2]
        events_until_exit(local, local.carry_out([Kill(1, 1, 3, (0,))]))
        (answer,) = local.carry_out([Resize(7, 1, 2, 0, np.array([0]), (0,), 128)])
        assert isinstance(answer, Exited) and answer.outcome is Outcome.LOST
    finally:
        local.close()


@pytest.mark.parametrize(
    ("more", "session"),
    [
        ({"progress": "session", "gpus": 1}, True),
        ({"progress": "session", "gpus": 0.5}, True),
        ({"progress": r"step (\d+)", "gpus": 1}, False),
        ({"progress": "session", "gpus": 2}, True),
        ({"progress": "session", "gpus": {"min": 1, "max": 2}}, True),
    ],
)
def test_a_session_changes_its_size_where_it_is(more: dict[str, object], session: bool) -> None:
    """In one process it takes another batch size by itself; otherwise its processes are started again. A job that is no session
    is suspended and launched again."""
    spec = Spec.model_validate({"run": "train", "batch": {"size": 64, "min": 32, "max": 128}, **more})
    job = Submission(spec, "ana", "/", {})
    assert to_job_spec(job, 0.0).can_resize is session


def test_what_is_not_there_is_answered(local: Driver) -> None:
    try:
        assert local.carry_out([Renew(1, 1, (0,), 1e12)]) == [], "its launch may be on the way"
        for command in (Suspend(1, 1, 2, (0,)), Kill(2, 1, 2, (0,))):
            (answer,) = local.carry_out([command])
            assert isinstance(answer, Exited) and (answer.job, answer.outcome) == (command.job, Outcome.LOST)
        (answer,) = local.carry_out([Resume(1, 1, 3, (0,), 1e12)])
        assert isinstance(answer, Exited) and answer.outcome is Outcome.LOST
    finally:
        local.close()


def test_a_launch_whose_lease_is_over_is_lost(local: Driver) -> None:
    try:
        (end,) = local.carry_out([launch(lease_s=time.time() - 1.0)])
        assert isinstance(end, Exited) and end.outcome is Outcome.LOST
        assert local.inventory()[0].problem == "its lease was over before it could start"
    finally:
        local.close()
