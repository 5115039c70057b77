"""A cluster that changes while more jobs wait than fit: the policy and the placement follow within one round.

Rounds are counted in the journal, and not in seconds. A round begins when the policy is asked, or, where its last answer still
holds, with the plan itself.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rota.agent.node_agent import cluster_agent
from rota.agent.processes import ProcessIdentity, end_all
from rota.compose.live_scheduler import JOURNAL_CODEC, make_home_setup, make_scheduler
from rota.core.decision_timing import AtRounds
from rota.core.settings import Settings
from rota.live.daemon import Daemon
from rota.live.driver import Driver
from rota.live.journal import Journal
from rota.live.replay import replay
from rota.model.events import NodeJoined, NodeLeft
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.live.harness import until
from tests.live.scheduler.driver_bench import InProcess

JOBS, B, C = 8, 1, 2
"""Jobs of one GPU each, and the core's numbers of two nodes."""


class Ringing(InProcess):
    """Wakes the daemon when there is an answer."""

    wake: Callable[[], None] = staticmethod(lambda: None)

    def open(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def carry(self, host: str, text: str) -> None:
        super().carry(host, text)
        self.wake()


class Round(NamedTuple):
    """A plan, as the journal has it."""

    asked: int
    """The entry at which the policy was asked for it."""
    decided: int
    """The entry that has it."""
    placed: dict[int, set[int]]
    """The nodes of jobs that it places anew."""


class Site:
    """A daemon with nodes of two GPUs each, and jobs that stay."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.home.mkdir()
        self.hosts = Ringing(folder, ("a", "b"), 2)
        self.failed: list[BaseException] = []
        driver = Driver(self.home, self.hosts, lease_grace_seconds=1.0, gone_after_seconds=3.0)
        settings = Settings(decide=AtRounds(round_seconds=2.0), lease_seconds=600.0, lease_margin_seconds=60.0, retry_seconds=5.0)
        self.daemon = Daemon(
            self.home,
            make_scheduler,
            JOURNAL_CODEC,
            driver,
            worker=lambda named: [sys.executable, "-m", "rota.server.policy_worker", named],
            setup=make_home_setup("srsf", "packed", settings, {}, driver.discover_cluster(), pretend=True),
            on_failure=self.failed.append,
        )
        self.daemon.start()
        for number in range(1, JOBS + 1):  # the first is the shortest, and comes first in every round
            spec = Spec(run=["sleep", "100000"], steps=100_000 * number, preemptible=True)
            self.daemon.submit(Submission(spec, "ana", "/", {"PATH": "/usr/bin:/bin"}))

    def run_on(self, node: str) -> set[int]:
        """Jobs that run there."""
        assert not self.failed, self.failed
        return {row.id for row in self.daemon.jobs() if row.phase == "running" and (row.placement or "").startswith(f"{node}:")}

    def end_processes(self, node: str) -> None:
        for path in (self.folder / node).glob("run/*/*/launch.json"):
            end_all(ProcessIdentity(json.loads(path.read_text())["env"]["ROTA_LIFE"], 0.0), seconds=30.0)

    def close(self) -> None:
        self.daemon.stop()
        for name, agent in self.hosts.agents.items():
            self.end_processes(name)
            agent.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with contextlib.closing(Site(tmp_path)) as made:
        yield made


@pytest.mark.slow
def test_a_node_joins_and_a_node_leaves_and_the_next_round_follows(site: Site, tmp_path: Path) -> None:
    until(lambda: site.run_on("a") | site.run_on("b") == {1, 2, 3, 4}, "the shortest four run")

    joining = cluster_agent(tmp_path / "c", "c", "127.0.0.1", accelerator="V100", pretend_gpus=2)
    site.hosts.agents = {**site.hosts.agents, "c": joining}
    until(lambda: site.run_on("c") == {5, 6}, "the next two run on the new node")

    had_b = site.run_on("b")
    site.hosts.away.add("b")  # no agent is there any more,
    site.end_processes("b")  # and all that it had is dead
    until(lambda: not site.run_on("b") and site.run_on("a") | site.run_on("c") == {1, 2, 3, 4}, "its jobs run elsewhere")
    site.daemon.stop()
    assert not site.failed, site.failed

    joined, left, rounds = read_journal(site.home)
    after_joining = next(each for each in rounds if each.asked >= joined)
    assert {job for job, nodes in after_joining.placed.items() if nodes == {C}} == {5, 6}
    after_leaving = next(each for each in rounds if each.asked >= left)
    assert len(had_b) == 2 and had_b <= after_leaving.placed.keys(), "its jobs are placed in the next round"
    for each in rounds:
        assert each.decided < left or not any(B in nodes for nodes in each.placed.values()), "no round places jobs there"


def read_journal(home: Path) -> tuple[int, int, list[Round]]:
    """The entries at which C joined and B left, and all rounds. The core decides all of it again, the same."""
    journal, joined, left, rounds, asked = Journal(home / "journal.sqlite", JOURNAL_CODEC), 0, 0, list[Round](), 0
    for entry, scheduler, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
        assert difference is None
        for event in entry.events:
            if isinstance(event, NodeJoined):
                joined = entry.number
            elif isinstance(event, NodeLeft) and event.node == B:
                left = entry.number
        if entry.decided is None:
            continue
        asked = entry.number if entry.decided.ticket else asked
        if entry.decided.plan is not None:
            node_of = scheduler.state.nodes.cluster.gpu_node
            changes = [(change.job, change.gpus) for change in entry.decided.plan.changes]
            placed = {job: set(node_of[gpus].tolist()) for job, gpus in changes if gpus is not None}
            rounds.append(Round(asked or entry.number, entry.number, placed))
            asked = 0
    journal.close()
    assert joined and left and joined < left
    return joined, left, rounds
