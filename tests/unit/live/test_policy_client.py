"""Calling a policy in another process: the same answers, and no policy can harm the scheduler."""

import json
import os
import queue
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rota.compose.registry import make_policy
from rota.core.scheduler import Scheduler
from rota.live.policy_client import PolicyClient
from rota.live.views import decode_answer, decode_view, encode_answer, encode_view, memory_codec
from rota.model.allocation import Shares
from rota.model.cluster import Cluster
from rota.model.commands import CallPolicy
from rota.model.events import Allocated, PolicyFailed, PolicyTimedOut, Submitted
from rota.model.job import JobSpec
from rota.model.tenants import Tenants
from rota.placers.packed import Packed
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.traces.synthetic import synthetic

PATIENCE = 300.0


class Twice:
    """Asks the policy here and as another process would, and compares."""

    def __init__(self, name: str) -> None:
        self._here, self._there = make_policy(name), make_policy(name)
        self._memories = memory_codec(self._there)
        self.asked = 0

    def allocate(self, view: Any) -> Any:
        self.asked += 1
        answer = self._here.allocate(view)
        before = view.memory
        sent = json.loads(json.dumps(encode_view(_with_memory(view, None))))
        memory = None if before is None else self._memories.decode(json.loads(json.dumps(self._memories.encode(before))))
        got = encode_answer(self._there.allocate(decode_view(sent, memory)), self._memories)
        assert json.dumps(got) == json.dumps(encode_answer(answer, self._memories))
        assert decode_answer(json.loads(json.dumps(got))).until_s == answer.until_s
        return answer


def _with_memory(view: Any, memory: Any) -> Any:
    import dataclasses

    return dataclasses.replace(view, memory=memory)


@pytest.mark.parametrize("name", ["fifo", "fifo:backfill=true", "sjf", "srtf", "srsf", "las", "tiresias:promote=4", "gittins"])
def test_another_process_gives_the_same_answers(name: str) -> None:
    policy = Twice(name)
    trace = synthetic(60, 3, gpus=8, largest=4, load=1.5, longest_seconds=20_000)
    Engine(Scheduler(Cluster.parse("4xV100 + 4xK80"), Packed()), policy, Physics(), trace.arrivals).run()
    assert policy.asked > 20


def question(ticket: int = 1) -> CallPolicy:
    core = Scheduler(Cluster.parse("4xV100"), Packed())
    core.step(0.0, [Submitted(job, JobSpec(gpus=job), 0.0) for job in (1, 2, 3)])
    return CallPolicy(ticket, core.view())


def ask(tmp_path: Path, code: str, within: float = PATIENCE, times: int = 1) -> tuple[list[Any], list[int | None]]:
    (tmp_path / "mine.py").write_text(code)
    answers: queue.Queue[Any] = queue.Queue()
    command = [sys.executable, "-m", "rota.server.policy_worker", f"{tmp_path}/mine.py:Mine"]
    client = PolicyClient(command, answers.put, time.monotonic, within)
    found, pids = [], []
    try:
        for ticket in range(1, times + 1):
            client.ask(question(ticket))
            found.append(answers.get(timeout=PATIENCE))
            pids.append(client.pid)
    finally:
        client.close()
    return found, pids


GOOD = "import rota\nclass Mine:\n    def allocate(self, view):\n        {}\n        return rota.Ranking.by(-view.jobs.gpus)\n"


def test_an_answer(tmp_path: Path) -> None:
    (answer,), _ = ask(tmp_path, GOOD.format("print('a policy may print')"))
    assert isinstance(answer, Allocated) and answer.ticket == 1
    assert answer.allocation.order.tolist() == [2, 1, 0]  # type: ignore[attr-defined]


def test_a_policy_that_raises(tmp_path: Path) -> None:
    found, pids = ask(tmp_path, GOOD.format("raise KeyError('oops')"), times=2)
    assert all(isinstance(each, PolicyFailed) and "KeyError: 'oops'" in each.message for each in found)
    assert pids[0] == pids[1], "the worker lives on"


@pytest.mark.slow
def test_a_policy_that_takes_its_process_with_it(tmp_path: Path) -> None:
    found, _ = ask(tmp_path, GOOD.format("import os; os._exit(7)"), times=2)
    assert all(isinstance(each, PolicyFailed) and "exit code 7" in each.message for each in found)


def test_a_policy_that_never_answers(tmp_path: Path) -> None:
    found, _ = ask(tmp_path, GOOD.format("import time; time.sleep(3600)"), within=1.0)
    assert isinstance(found[0], PolicyTimedOut)


def test_a_policy_that_cannot_be_loaded(tmp_path: Path) -> None:
    (answer,), _ = ask(tmp_path, "raise RuntimeError('no')\n")
    assert isinstance(answer, PolicyFailed) and "died" in answer.message


@pytest.mark.slow
def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD.format("pass"))
    answers: queue.Queue[Any] = queue.Queue()
    client = PolicyClient(
        [sys.executable, "-m", "rota.server.policy_worker", f"{tmp_path}/mine.py:Mine"], answers.put, time.monotonic
    )
    try:
        client.ask(question(1))
        assert isinstance(answers.get(timeout=PATIENCE), Allocated)
        first = client.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        while client.pid == first:
            time.sleep(0.01)
        client.ask(question(2))
        assert isinstance(answers.get(timeout=PATIENCE), Allocated) and client.pid != first
    finally:
        client.close()


def test_a_policy_that_names_no_tenants_has_those_of_the_scheduler(tmp_path: Path) -> None:
    """Also in a worker that replaces a killed one."""
    core = Scheduler(Cluster.parse("4xV100"), Packed())
    specs = [JobSpec(gpus=4, tenant=tenant, steps=1e6) for tenant in ("small", "large")]
    core.step(0.0, [Submitted(job, spec, 0.0) for job, spec in enumerate(specs, 1)])
    tenants = Tenants({"small": 1.0, "large": 3.0})
    own = tmp_path / "own.yaml"
    own.write_text("small: {weight: 9}\nlarge: {weight: 1}\n")
    for named, large, times in (("hierarchical", 0.75, 2), (f"hierarchical:tenants={own}", 0.1, 1)):
        answers: queue.Queue[Any] = queue.Queue()
        command = [sys.executable, "-m", "rota.server.policy_worker", named]
        client = PolicyClient(command, answers.put, time.monotonic, tenants=tenants)
        try:
            for ticket in range(times):
                client.ask(CallPolicy(ticket, core.view()))
                found = answers.get(timeout=PATIENCE)
                assert isinstance(found, Allocated), found
                shares = found.allocation
                assert isinstance(shares, Shares)
                of_large = shares.share if shares.position is None else shares.share[shares.position == 1]
                assert of_large.sum() == pytest.approx(large, abs=1e-6)
                assert client.pid is not None
                os.kill(client.pid, signal.SIGKILL)
                while client.pid is not None:
                    time.sleep(0.01)
        finally:
            client.close()
