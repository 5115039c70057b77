"""Waiting for changes: many clients, one thread."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota.server import changes
from tests.unit.server.asking import ask, submit
from tests.unit.server.standin import Served, Standin, serve
from tests.waiting import LONG_SECONDS, until


def until_waiting(served: Served, count: int) -> None:
    """Wait until this many requests wait in the server."""
    until(lambda: served.server.config.app.state.changes._waiting == count, f"{count} waiting requests")


def test_a_change_ends_the_wait(fresh: Served) -> None:
    seen = ask(fresh, "GET", "/api/v1/changes?timeout=0")[1]["number"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, fresh, "GET", f"/api/v1/changes?seen={seen}&timeout=10000")
        until_waiting(fresh, 1)
        assert not waiting.done()
        submit(fresh)
        assert waiting.result(timeout=LONG_SECONDS)[1]["number"] == seen + 1


def test_the_time_ends_the_wait_too(fresh: Served) -> None:
    seen = ask(fresh, "GET", "/api/v1/changes?timeout=0")[1]["number"]
    assert ask(fresh, "GET", f"/api/v1/changes?seen={seen}&timeout=0.2")[1]["number"] == seen


def test_a_daemon_that_was_started_anew_is_a_change(fresh: Served) -> None:
    assert ask(fresh, "GET", "/api/v1/changes?seen=999&timeout=10000")[1]["number"] == 1


@pytest.mark.slow
def test_a_hundred_waiting_clients_keep_nobody_from_asking(fresh: Served) -> None:
    clients = 100
    before = threading.active_count()
    with ThreadPoolExecutor(clients) as pool:
        waiting = [pool.submit(ask, fresh, "GET", "/api/v1/changes?seen=1&timeout=10000") for _ in range(clients)]
        until_waiting(fresh, clients)
        assert not any(each.done() for each in waiting)
        assert ask(fresh, "GET", "/api/v1/status")[0] == 200
        # The clients' own threads apart, the server has one that waits and the few that answered.
        assert threading.active_count() - before - clients < 50
        submit(fresh)
        assert {each.result(timeout=LONG_SECONDS)[1]["number"] for each in waiting} == {2}


def test_more_than_a_limit_are_sent_away(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_WAITING", 2)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask, fresh, "GET", "/api/v1/changes?seen=1&timeout=10000") for _ in range(2)]
        until_waiting(fresh, 2)
        status, found, headers = ask(fresh, "GET", "/api/v1/changes?seen=1&timeout=10000")
        assert (status, headers["retry-after"]) == (503, "1") and found["hint"]
        submit(fresh)
        assert [each.result(timeout=LONG_SECONDS)[0] for each in waiting] == [200, 200]
    assert ask(fresh, "GET", "/api/v1/changes?seen=2&timeout=0.1")[0] == 200


def test_a_daemon_that_fails_while_it_is_watched_does_not_hang_the_client(tmp_path: Path) -> None:
    class Failing(Standin):
        def wait_for_change(self, seen: int, timeout: float) -> int:
            if timeout > 0:
                raise RuntimeError("a secret of the daemon")
            return self.number

    with serve(tmp_path, daemon=Failing()) as served:
        status, found, _ = ask(served, "GET", "/api/v1/changes?seen=1&timeout=10000")
        assert status == 500 and "secret" not in json.dumps(found)


async def _closed_while_waiting() -> int:
    found = changes.ChangeFeed(Standin())
    waiting = asyncio.create_task(found.after(1, 10_000.0))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    found.close()
    return await asyncio.wait_for(waiting, LONG_SECONDS)


def test_a_server_that_stops_lets_everybody_go() -> None:
    assert asyncio.run(_closed_while_waiting()) == 1


def test_nor_does_stopping_wait_for_them(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with serve(tmp_path) as served:
            waiting = pool.submit(ask, served, "GET", "/api/v1/changes?seen=1&timeout=10000")
            until_waiting(served, 1)
        assert waiting.result(timeout=LONG_SECONDS)[1] == {"number": 1}
