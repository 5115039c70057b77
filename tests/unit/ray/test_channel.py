"""Agents that do not answer, on an imitation of a Ray cluster."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from rota.agent.messages import PROTOCOL
from rota.ray import channel, names
from rota.ray.channel import RayChannel

LIFE = "ab" * 28
FACTS = {
    "name": "n1",
    "accelerator": "V100",
    "devices": ["n1/0"],
    "indices": [0],
    "boot": 1,
    "host": "here",
    "address": "127.0.0.1",
    "interface": "lo",
    "host_gib": None,
    "pretend": True,
}


class Died(Exception):
    """As Ray's."""


class Raised(Exception):
    """As Ray's: an agent has raised."""


class Call:
    """A method of an actor. What becomes of each call is said by `answers`, the last of which stands for all later ones."""

    def __init__(self, *answers: str | bool | Exception | None) -> None:
        """None: it never returns."""
        self._answers, self.count = list(answers), 0

    def remote(self, *_: object) -> SimpleNamespace:
        self.count += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        future: Future[Any] = Future()
        if isinstance(answer, Exception):
            future.set_exception(answer)
        elif answer is not None:
            future.set_result(answer)
        return SimpleNamespace(future=lambda: future)


class Cluster:
    """One node with an agent, in place of Ray."""

    exceptions = SimpleNamespace(ActorDiedError=Died, RayTaskError=Raised)

    def __init__(self) -> None:
        self.hello, self.wait = Call(json.dumps(FACTS)), Call(None)
        self.there = {LIFE: "127.0.0.1"}
        """Hosts and their addresses."""
        self.actors: dict[str, SimpleNamespace] = {}
        """Agents of hosts that have one of their own."""
        self.made: list[str] = []
        """Hosts whose agents were made, in order."""
        self.known: list[str] = []
        """Agents that are there from before."""
        self.killed: list[str] = []
        self.draining: set[str] = set()
        """Hosts that Ray drains."""
        self.util = SimpleNamespace(list_named_actors=lambda: self.known)

    def nodes(self) -> list[dict[str, Any]]:
        labels = {"rota/node": "n1", "rota/pretend": "true"}
        node = {"NodeManagerHostname": "here", "Labels": labels, "Alive": True, "Resources": {"GPU": 1}}
        return [{"NodeID": host, "NodeManagerAddress": address, **node} for host, address in self.there.items()]

    def remote(self, actor: object) -> SimpleNamespace:
        def options(**how: Any) -> SimpleNamespace:
            self.made.append(how["name"].partition("-")[2])
            return SimpleNamespace(remote=lambda *_: self.actors.get(self.made[-1], self))

        return SimpleNamespace(options=options)

    def get_actor(self, name: str) -> str:
        if name not in self.known:
            raise ValueError(name)
        return name

    def kill(self, actor: str) -> None:
        self.killed.append(actor)

    def shutdown(self) -> None: ...


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster()
    monkeypatch.setattr(channel, "start_ray", lambda *_: made)
    monkeypatch.setattr(RayChannel, "_to_leave", lambda self: set(made.draining))
    monkeypatch.setattr(channel, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(channel, "ASK_AGAIN_SECONDS", 0.1)
    yield made


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("lost", [None, ConnectionError(), Died()])
def test_an_agent_that_does_not_say_who_it_is_is_asked_again(cluster: Cluster, lost: Exception | None) -> None:
    """Before the scheduler is up too: it would wait for this agent."""
    cluster.hello = Call(lost, lost, json.dumps(FACTS))
    met = RayChannel("here", "home")
    try:
        assert [each.facts.name for each in met.nodes().values()] == ["n1"]
        assert cluster.hello.count == 3
    finally:
        met.close()


def test_a_call_that_listens_and_never_returns_is_made_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "RING_SECONDS", 0.05)
    met = RayChannel("here", "home")
    try:
        until(lambda: cluster.wait.count >= 2)
        assert met.notified() == set()
        cluster.wait = Call(True, None)
        until(lambda: met.notified() == {LIFE})
    finally:
        met.close()


def test_an_agent_that_raises_is_told_once(cluster: Cluster) -> None:
    problem = Raised()
    problem.cause = OSError("no space left")  # type: ignore[attr-defined]
    cluster.hello = Call(problem, problem, json.dumps(FACTS))
    met = RayChannel("here", "home")
    try:
        assert met.notes() == ["the agent of n1 failed: OSError: no space left"] and met.notes() == []
    finally:
        met.close()


# Two hosts of one name.

SECOND = "cd" * 28


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "ASK_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(names, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(names, "SURE_SECONDS", 0.6)


def agent(*answers: str | Exception | None) -> SimpleNamespace:
    return SimpleNamespace(hello=Call(*answers), wait=Call(None))


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_the_second_of_a_name_is_refused_with_a_word_and_used_when_the_first_is_gone(cluster: Cluster, address: str) -> None:
    met = RayChannel("here", "home")
    try:
        cluster.actors[SECOND] = agent(json.dumps(FACTS))
        cluster.there |= {SECOND: address}
        told: list[str] = []
        until(lambda: bool(told.extend(met.notes()) or told))
        assert told == [
            f"WARNING: two Ray nodes are named n1, at 127.0.0.1 and {address}. The first is used, the second is not. "
            "Try: start Ray on the second with another name, --labels rota/node=OTHER"
        ]
        assert list(met.nodes()) == [LIFE] and cluster.made == [LIFE], "the first goes on, and its folder is not touched"
        del cluster.there[LIFE]
        until(lambda: list(met.nodes()) == [SECOND])
        assert met.notes() == []
    finally:
        met.close()


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("answer", [Died(), ConnectionError(), None], ids=["died", "unavailable", "silent"])
def test_a_machine_that_came_back_before_ray_noticed_is_used_without_a_word(cluster: Cluster, answer: Exception | None) -> None:
    """Ray lists both lives for a while. The agent of the earlier one does not answer."""
    met = RayChannel("here", "home")
    try:
        cluster.actors[SECOND] = agent(json.dumps(FACTS))
        cluster.hello = Call(answer)
        cluster.there |= {SECOND: "127.0.0.1"}
        until(lambda: list(met.nodes()) == [SECOND])
        looks = cluster.hello.count
        time.sleep(4 * names.SURE_SECONDS)
        assert met.notes() == [] and list(met.nodes()) == [SECOND] and looks >= 1
    finally:
        met.close()


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("former", [False, True])
def test_the_next_scheduler_uses_the_one_that_was_used_before(cluster: Cluster, former: bool) -> None:
    """An agent to which other messages were sent is ended; its node gets another."""
    cluster.there = {SECOND: "127.0.0.2", LIFE: "127.0.0.1"}
    cluster.known = [f"agent-{LIFE}" if former else f"agent{PROTOCOL}-{LIFE}"]
    met = RayChannel("here", "home")
    try:
        assert list(met.nodes()) == [LIFE] and cluster.made == [LIFE]
        assert cluster.killed == [f"agent-{LIFE}"] * former
    finally:
        met.close()


def test_a_node_that_ray_drains_is_reported_so_until_the_drain_is_taken_back(cluster: Cluster) -> None:
    met = RayChannel("here", "home")
    try:
        until(lambda: list(met.nodes()) == [LIFE] and not met.nodes()[LIFE].draining)
        cluster.draining = {LIFE, "another"}
        until(lambda: met.nodes()[LIFE].draining)
        cluster.draining = set()
        until(lambda: not met.nodes()[LIFE].draining)
        assert list(met.nodes()) == [LIFE] and cluster.made == [LIFE], "its agent stays"
    finally:
        met.close()
