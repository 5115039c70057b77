"""Facts that a scheduler is given at a later start, with real jobs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, plain_settings
from rota.core.fold.configured import Configured
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.live import daemon as daemon_module
from rota.live.daemon import Daemon
from rota.live.recovery import recover
from rota.live.replay import replay
from tests.live.scheduler import test_daemon
from tests.live.scheduler.test_daemon import ended, running, submit
from tests.unit.live.test_given_beliefs import FAST_K80, FAST_V100, beliefs, scores, told


@contextmanager
def told_daemon(home: Path, monkeypatch: pytest.MonkeyPatch, says: Mapping[str, Any], cluster: str) -> Iterator[Daemon]:
    usual = test_daemon.configuration

    def chosen(cluster: str = "", policy: str = "fifo", tenants: None = None) -> dict[str, Any]:
        settings = plain_settings(Settings(policy=policy, retry_seconds=5.0, learn_variability=True))
        return {**usual(cluster, policy), "settings": settings, "given": dict(says)}

    with monkeypatch.context() as patch:
        patch.setattr(test_daemon, "configuration", chosen)
        with running(home, cluster=cluster) as daemon:
            yield daemon


def check_journal(home: Path) -> Scheduler:
    """Every decision is the same again; the scheduler at the end."""
    journal = daemon_module.Journal(home / "journal.sqlite", JOURNAL_CODEC)
    last = None
    for _, scheduler, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
        assert difference is None, difference
        last = scheduler
    journal.close()
    assert last is not None
    return last


def until_scores(daemon: Daemon, expected: list[list[float]]) -> None:
    seen = 0
    while True:
        known = daemon.scheduler.state.beliefs.variability
        if known is not None and known.scores.tolist() == expected:
            return
        seen = daemon.wait_for_change(seen, 10.0)


def test_gpus_that_join_are_told_their_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = told(slow=scores(1.1, 1.2, 1.3))
    with told_daemon(tmp_path, monkeypatch, says, "1xV100") as daemon:
        until_scores(daemon, [[1.1]])
        ended(daemon, submit(daemon, "true"))
    with told_daemon(tmp_path, monkeypatch, says, "2xV100 + 1xK80") as daemon:
        until_scores(daemon, [[1.0, 1.1, 1.2, 1.3]])  # the node of one V100 left
        ended(daemon, submit(daemon, "true"))
        daemon.set_policy("las")
        assert daemon.scheduler.state.beliefs.variability.scores.tolist() == [[1.0, 1.1, 1.2, 1.3]]  # type: ignore[union-attr]
    known = check_journal(tmp_path).state.beliefs.variability
    assert known is not None and known.scores.tolist() == [[1.0, 1.1, 1.2, 1.3]]


def test_recovery_from_a_snapshot_knows_what_was_told_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.live.upkeep.SNAPSHOT_EVERY", 1)
    with told_daemon(tmp_path, monkeypatch, told(FAST_V100), "2xV100 + 1xK80") as daemon:
        ended(daemon, submit(daemon, "true", profile="net"))
    monkeypatch.setattr("rota.live.upkeep.SNAPSHOT_EVERY", 1000)
    for _ in range(2):
        with told_daemon(tmp_path, monkeypatch, told(FAST_K80), "2xV100 + 1xK80") as daemon:
            assert daemon.begun.wait(test_daemon.PATIENCE)
            assert daemon.scheduler.state.beliefs.rates.table["net", "K80", 1] == 40.0
            ended(daemon, submit(daemon, "true", profile="net"))
    journal = daemon_module.Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)
    found = recover(journal, JOURNAL_CODEC, make_scheduler)
    configured = [entry.number for entry in journal.entries() for event in entry.events if isinstance(event, Configured)]
    assert len(configured) == 2 and configured[0] == 1, "a start with the same flags has no entry"
    journal.close()
    assert beliefs(found) == beliefs(check_journal(tmp_path))
