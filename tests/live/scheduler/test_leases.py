"""A scheduler continues on another machine: its clock counts from another boot, and jobs of a cluster keep their leases."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.agent.attempt_files import LaunchOrder
from rota.agent.messages import decode_message
from rota.agent.processes import ProcessIdentity, boot_s, end_all
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, read_setup
from rota.live import clock
from rota.live.daemon import Daemon
from rota.live.driver import Driver
from rota.live.journal import Journal
from rota.model.commands import Renew
from rota.model.events import Exited
from rota.model.units import FOREVER
from tests.live.scheduler.driver_bench import InProcess
from tests.live.scheduler.test_daemon import configuration, submit, until

LEASE_SECONDS = 200.0


class Recorded(InProcess):
    """Notes what leases agents are told."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        super().__init__(folder, names, 2)
        self.renewed: list[float] = []
        self.launched: list[float] = []

    def carry(self, host: str, text: str) -> None:
        for message in map(decode_message, json.loads(text)["do"]):
            if isinstance(message, Renew):
                self.renewed.append(message.lease_s)
            elif isinstance(message, LaunchOrder):
                self.launched.append(message.lease_seconds)
        super().carry(host, text)


@contextlib.contextmanager
def leading(folder: Path, hosts: InProcess) -> Iterator[Daemon]:
    failed: list[BaseException] = []
    settings = {"retry_seconds": 5.0, "lease_seconds": LEASE_SECONDS, "lease_margin_seconds": 10.0, "node_timeout_seconds": 30.0}
    chosen: dict[str, Any] = {**configuration("2x(2xV100)"), "settings": settings}
    daemon = Daemon(
        folder / "home",
        make_scheduler,
        JOURNAL_CODEC,
        Driver(folder / "home", hosts, lease_grace_seconds=1.0, gone_after_seconds=FOREVER),
        worker=lambda named: [sys.executable, "-m", "rota.server.policy_worker", named],
        setup=read_setup(chosen),
        on_failure=failed.append,
    )
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()
    assert not failed, failed


@pytest.mark.parametrize("wall", [86_400.0, -86_400.0], ids=["ahead", "behind"])
def test_leases_go_on_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall: float) -> None:
    (tmp_path / "home").mkdir()
    hosts = Recorded(tmp_path / "nodes", ("a", "b"))
    try:
        with leading(tmp_path, hosts) as daemon:
            job = submit(daemon, ["sleep", "1000"], gpus=2)
            assert until(lambda: daemon.job(str(job)).phase == "running")
        (before,) = set(hosts.launched)
        time.sleep(1.0)
        right = time.time
        monkeypatch.setattr(time, "time", lambda: right() + wall)
        monkeypatch.setattr(clock, "boot_id", lambda: "another machine")
        monkeypatch.setattr(clock, "boot_s", lambda: boot_s() + 1e6)
        with leading(tmp_path, hosts) as daemon:
            assert until(lambda: bool(hosts.renewed)), "the lease is told again, long before half of it is over"
            assert before < hosts.renewed[0] < before + LEASE_SECONDS, "by what passed meanwhile"
            assert daemon.job(str(job)).phase == "running" and len(hosts.launched) == 1
        with contextlib.closing(Journal(tmp_path / "home" / "journal.sqlite", JOURNAL_CODEC)) as journal:
            events = [event for entry in journal.entries() for event in entry.events]
            assert not any(isinstance(event, Exited) for event in events)
    finally:
        for path in tmp_path.glob("nodes/*/run/*/*/launch.json"):
            end_all(ProcessIdentity(json.loads(path.read_text())["env"]["ROTA_LIFE"], 0.0), seconds=30.0)
        for agent in hosts.agents.values():
            agent.close()
