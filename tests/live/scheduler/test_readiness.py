"""`/readyz` of a real scheduler."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota.live.journal_store import JournalUnavailable
from rota.server import readiness
from tests.live.scheduler.test_daemon import running, submit
from tests.unit.server.standin import serve
from tests.unit.server.test_readiness import ready, until


def test_a_real_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "KEPT_SECONDS", 0.0)
    with running(tmp_path) as daemon, serve(tmp_path, daemon=daemon) as served:
        assert ready(served) == (200, {"ready": True, "problems": {}, "nodes_up": 1, "nodes": 1})
        append, away = daemon.journal.append, threading.Event()

        def no_answer(*words: object, **more: object) -> None:
            if away.is_set():
                raise JournalUnavailable("the database does not answer.")
            append(*words, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(daemon.journal, "append", no_answer)
        away.set()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(submit, daemon, "true")
            until(lambda: ready(served)[0] == 503)
            assert ready(served)[1]["problems"] == {"journal": "its database does not answer"}
            away.clear()
            waiting.result(60)
        until(lambda: ready(served)[0] == 200)
        daemon.scheduler.state.nodes.node_up[:] = False
        assert ready(served) == (503, {"ready": False, "problems": {"nodes": "none is up"}, "nodes_up": 0, "nodes": 1})
        daemon.scheduler.state.nodes.node_up[:] = True


def test_a_write_that_takes_long_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.live.ready_row.SLOW_WRITE_SECONDS", 0.05)
    with running(tmp_path) as daemon:
        append, hangs = daemon.journal.append, threading.Event()
        monkeypatch.setattr(daemon.journal, "append", lambda *words: (hangs.wait(60), append(*words)))
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(submit, daemon, "true")
            until(lambda: not daemon.ready().ready)
            assert "a write has taken" in daemon.ready().problems["journal"]
            hangs.set()
            waiting.result(60)
        until(lambda: daemon.ready().ready)


def test_a_report_about_an_unknown_job_is_no_problem_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.live.ready_row.SLOW_WRITE_SECONDS", 0.0)
    with running(tmp_path) as daemon:
        with pytest.raises(KeyError):
            daemon._context().submitted(99)
        assert daemon.ready().problems == {}


def test_a_scheduler_that_has_stopped_is_not_ready(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        assert daemon.ready().ready
    assert daemon.ready().problems == {"scheduler": "it has stopped"}
