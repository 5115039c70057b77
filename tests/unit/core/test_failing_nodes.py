"""A node on which starts fail, while the same jobs run elsewhere, is cordoned."""

from collections.abc import Iterable
from typing import Any

import pytest

from rota.core import snapshot
from rota.core.learn.failing_nodes import CORDON_SECONDS, START_SECONDS, TRIAL_SECONDS, failing_nodes
from rota.core.scheduler import Scheduler
from rota.model.commands import Command, Launch
from rota.model.events import Exited, NodeReported, Outcome, Started, TimerFired
from tests.unit.core.helpers import Bench

THREE = "3x(2xV100)"


class Desk(Bench):
    """On some nodes, and for some jobs, every start ends within a second. Others run."""

    def __init__(self, bad_nodes: Iterable[int] = (), bad_jobs: Iterable[int] = (), **settings: Any) -> None:
        super().__init__(THREE, **{"cordon_failing_starts": 3, **settings})
        self.bad_nodes, self.bad_jobs = set(bad_nodes), set(bad_jobs)
        self.outcome = Outcome.LOST
        self.starts: list[tuple[int, int]] = []
        """Job and node of each."""
        self.most = 200
        self.waiting: list[Command] = []

    def play(self, commands: list[Command], until_s: float | None = None) -> None:
        """Answer until nothing is left to do, and let time pass."""
        self.waiting += commands
        while self.waiting and len(self.starts) < self.most:
            answers: list[Any] = []
            for command in self.waiting:
                if isinstance(command, Launch):
                    self.starts += [(command.job, node) for node in command.nodes]
                    if self.bad_nodes & set(command.nodes) or command.job in self.bad_jobs:
                        node = next((each for each in command.nodes if each in self.bad_nodes), command.nodes[0])
                        answers.append(Exited(command.job, command.attempt, self.now_s + 0.5, self.outcome, 0.0, node))
                    else:
                        for node in command.nodes:
                            answers.append(Started(command.job, command.attempt, command.sequence, self.now_s, node))
            self.waiting = self.tell(*answers, at_s=self.now_s + 1.0) if answers else []
        if until_s is not None:
            while self.now_s < until_s:
                self.play(self.tell(TimerFired(self.now_s + 10.0), at_s=self.now_s + 10.0))

    def nodes_of(self, job: int) -> list[int]:
        return [node for mine, node in self.starts if mine == job]


def test_a_black_hole_is_found_and_cordoned_for_an_hour_and_the_job_runs_elsewhere() -> None:
    desk = Desk(bad_nodes=[0])
    desk.play(desk.submit(gpus=1))
    assert desk.nodes_of(0)[:3] == [0, 0, 0] and desk.nodes_of(0)[3] != 0 and len(desk.starts) == 4
    assert failing_nodes(desk.state) == [
        "n1 is out of service: 3 starts ended there within 30 s (job 0), and it is tried on other nodes."
    ]
    desk.play([], until_s=desk.now_s + START_SECONDS + 10.0)
    (said,) = failing_nodes(desk.state)
    assert said == "n1 is out of service: 3 starts ended there within 30 s (job 0), and it runs on other nodes."
    for _ in range(3):
        desk.play(desk.submit(gpus=1))
    assert 0 not in [node for job, node in desk.starts if job > 0], "no job is put there"
    desk.play([], until_s=desk.now_s + CORDON_SECONDS - TRIAL_SECONDS)
    assert failing_nodes(desk.state)
    desk.play([], until_s=desk.now_s + TRIAL_SECONDS + 20.0)
    assert failing_nodes(desk.state) == [] and not desk.state.nodes.cordoned, "it gets another chance"


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.FAILED])
def test_a_job_that_fails_on_every_node_cordons_none(outcome: Outcome) -> None:
    desk = Desk(bad_jobs=[0])
    desk.outcome, desk.most = outcome, 40
    desk.play(desk.submit(gpus=1, retries=30))
    assert len(set(desk.nodes_of(0))) >= 2, "it was tried on another node"
    assert failing_nodes(desk.state) == [] and not desk.state.nodes.cordoned
    assert desk.state.nodes.failed_starts == {}


def test_jobs_that_fail_for_good_say_nothing() -> None:
    desk = Desk(bad_jobs=range(10))
    desk.outcome = Outcome.FAILED
    for _ in range(10):
        desk.play(desk.submit(gpus=1))
    desk.play([], until_s=desk.now_s + 20.0)
    assert not desk.state.nodes.failing and not desk.state.nodes.failed_starts


def test_a_job_that_fails_while_another_begins_to_run_there_says_nothing() -> None:
    desk = Desk(bad_jobs=[1])
    desk.most = 3
    commands = desk.submit(gpus=1) + desk.submit(gpus=1)
    desk.play(commands)
    assert desk.state.nodes.failed_starts
    desk.bad_jobs.clear()
    desk.most = 100
    desk.play([], until_s=desk.now_s + START_SECONDS + 20.0)
    assert not desk.state.nodes.failed_starts and not desk.state.nodes.failing


def test_a_job_that_runs_on_a_failing_node_stays() -> None:
    desk = Desk()
    desk.play(desk.submit(gpus=1, steps=1e9))
    assert desk.nodes_of(0) == [0]
    desk.play([], until_s=100.0)
    desk.bad_nodes = {0}
    desk.play(desk.submit(gpus=1, steps=1e9), until_s=200.0)
    assert desk.nodes_of(1)[:3] == [0, 0, 0] and desk.nodes_of(1)[3] != 0 and failing_nodes(desk.state)
    assert desk.nodes_of(0) == [0] and 0 in desk.state.jobs.attempts
    assert desk.state.nodes.cordoned == (1,), "only its free GPU"


def test_a_node_that_was_booted_gets_another_chance() -> None:
    desk = Desk(bad_nodes=[0])
    desk.play(desk.submit(gpus=1), until_s=60.0)
    assert desk.state.nodes.failing
    desk.tell(NodeReported(0, 5, desk.now_s, ()))
    assert not desk.state.nodes.failing and not desk.state.nodes.cordoned


def test_without_the_rule_nothing_is_remembered() -> None:
    desk = Desk(bad_nodes=[0], cordon_failing_starts=float("inf"))
    desk.most = 20
    desk.play(desk.submit(gpus=1))
    assert set(desk.nodes_of(0)) == {0} and not desk.state.nodes.failed_starts


def test_a_snapshot_keeps_it() -> None:
    desk = Desk(bad_nodes=[0])
    desk.play(desk.submit(gpus=1), until_s=60.0)
    words = snapshot.make_codec()
    again = snapshot.restore(snapshot.take(desk.state, words), words)
    assert again.nodes.failing == desk.state.nodes.failing and failing_nodes(again) == failing_nodes(desk.state)
    assert isinstance(desk.core, Scheduler)
