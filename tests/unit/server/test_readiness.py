"""`/healthz`: the process is alive. `/readyz`: jobs can be accepted and run."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota.errors import UnreachableError
from rota.live.journal_store import lead_lost
from rota.server import readiness
from rota.server.serve import _Run
from rota.server.standby import Lead
from tests.unit.server.asking import ask
from tests.unit.server.standin import Served
from tests.waiting import LONG_SECONDS


def ready(served: Served) -> tuple[int, dict[str, object]]:
    status, found, _ = ask(served, "GET", "/readyz", token="")
    return status, found


def until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_SECONDS
    while not found():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_ready_needs_no_token_and_tells_no_secret(fresh: Served) -> None:
    assert ready(fresh) == (200, {"ready": True, "problems": {}, "nodes_up": 1, "nodes": 1})
    assert str(fresh.home) not in json.dumps(ready(fresh))


def test_what_is_not_well_is_named(fresh: Served) -> None:
    fresh.daemon.problem = "its disk is full"
    assert ready(fresh) == (503, {"ready": False, "problems": {"journal": "its disk is full"}, "nodes_up": 1, "nodes": 1})
    assert ask(fresh, "GET", "/healthz", token="")[0] == 200, "the process lives"


def test_a_scheduler_that_stands_still_is_not_ready(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PATIENCE_SECONDS", 0.3)
    fresh.daemon.stuck = threading.Event()
    try:
        with ThreadPoolExecutor(20) as pool:
            for status, found in pool.map(lambda _: ready(fresh), range(60)):
                assert status == 503 and "has not answered for" in str(found["problems"])
        assert fresh.daemon.asked_ready == 1, "strangers take no more than one thread"
        assert ask(fresh, "GET", "/healthz", token="")[0] == 200 and ask(fresh, "GET", "/api/v1/jobs")[0] == 200
    finally:
        fresh.daemon.stuck.set()
    fresh.daemon.stuck = None
    until(lambda: ready(fresh)[0] == 200)


def test_it_is_looked_at_once_a_second_at_most(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "KEPT_SECONDS", 600.0)
    assert {ready(fresh)[0] for _ in range(30)} == {200} and fresh.daemon.asked_ready == 1


def test_a_lead_that_is_not_sure_is_a_problem(tmp_path: Path) -> None:
    run = _Run()
    assert run.lead_problem() == ""
    run.lead = Lead(3, lambda: "its database has not confirmed it for 20 s")
    assert run.lead_problem() == "its database has not confirmed it for 20 s"
    run.fall(UnreachableError("something else"))
    assert run.lead_problem() == "its database has not confirmed it for 20 s"
    run.fall(lead_lost(3, 4))
    assert run.lead_problem() == "another scheduler leads"
