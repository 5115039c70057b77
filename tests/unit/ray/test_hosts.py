"""Agents that do not answer, by a cluster that stands in for Ray's."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

from rota.ray import hosts
from rota.ray.hosts import RayHosts

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

    exceptions = SimpleNamespace(ActorDiedError=Died)

    def __init__(self) -> None:
        self.hello, self.wait = Call(json.dumps(FACTS)), Call(None)

    def nodes(self) -> list[dict[str, Any]]:
        labels = {"rota/node": "n1", "rota/pretend": "true"}
        host = {"NodeManagerHostname": "here", "NodeManagerAddress": "127.0.0.1", "Labels": labels}
        return [{"NodeID": LIFE, "Alive": True, "Resources": {"GPU": 1}, **host}]

    def remote(self, actor: object) -> SimpleNamespace:
        made = SimpleNamespace(remote=lambda *_: self)
        return SimpleNamespace(options=lambda **_: made)

    def shutdown(self) -> None: ...


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster()
    monkeypatch.setattr(hosts, "start_ray", lambda *_: made)
    monkeypatch.setattr(RayHosts, "_to_leave", lambda self: set())
    monkeypatch.setattr(hosts, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(hosts, "ASK_AGAIN_SECONDS", 0.1)
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
    met = RayHosts("here", "home")
    try:
        assert [each.facts.name for each in met.there().values()] == ["n1"]
        assert cluster.hello.count == 3
    finally:
        met.close()


def test_a_call_that_listens_and_never_returns_is_made_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "RING_SECONDS", 0.05)
    met = RayHosts("here", "home")
    try:
        until(lambda: cluster.wait.count >= 2)
        assert met.rang() == set()
        cluster.wait = Call(True, None)
        until(lambda: met.rang() == {LIFE})
    finally:
        met.close()
