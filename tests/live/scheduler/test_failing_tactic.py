"""A tactic that raises is switched off by an entry of the journal, until the scheduler starts again."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.compose.parse_tactics import make_tactics
from rota.core.fold.configured import Configured
from rota.core.validate import validate
from rota.live.daemon import Daemon
from rota.live.driver import Driver
from rota.live.home_setup import HomeSetup
from rota.live.journal import Journal
from rota.live.local_channel import LocalChannel
from rota.live.recovery import recover
from rota.live.replay import replay
from rota.model.cluster import Cluster
from tests.live.scheduler.test_daemon import configuration, ended, read_setup, submit

TACTIC = """
from rota.core.plan.tactic import Tactic


class Broken(Tactic):
    def improve(self, draft):
        raise ValueError("not written yet")
"""


@pytest.fixture
def setup(tmp_path: Path) -> HomeSetup:
    """Tactics of which the second raises."""
    path = tmp_path / "mine.py"
    path.write_text(TACTIC)
    made = read_setup(configuration())
    return replace(made, settings=replace(made.settings, tactics=make_tactics(f"grow,{path}:Broken,defragment:rest_seconds=9")))


@contextmanager
def running(home: Path, setup: HomeSetup, said: list[str]) -> Iterator[Daemon]:
    daemon = Daemon(
        home,
        make_scheduler,
        JOURNAL_CODEC,
        Driver(home, LocalChannel(home, Cluster.parse("4xV100")), lease_grace_seconds=5.0),
        worker=lambda named: [sys.executable, "-m", "rota.server.policy_worker", named],
        setup=setup,
        tell=said.append,
    )
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()


def test_recovery_has_the_tactic_switched_off_and_a_start_switches_it_on(tmp_path: Path, setup: HomeSetup) -> None:
    home, said = tmp_path / "home", list[str]()
    home.mkdir(mode=0o700)
    with running(home, setup, said) as daemon:
        assert ended(daemon, submit(daemon, "true")).phase == "finished"
        assert daemon.setup.settings.tactics.text == "grow,defragment:rest_seconds=9"
    (line,) = [each for each in said if "switched off" in each]
    assert line.startswith("Broken.improve (mine.py:7): raised ValueError: not written yet.")
    with closing(Journal(home / "journal.sqlite", JOURNAL_CODEC)) as journal:
        entries = list(journal.entries())
        texts = [event.setup.settings.tactics.text for each in entries for event in each.events if isinstance(event, Configured)]
        assert texts == [setup.settings.tactics.text, "grow,defragment:rest_seconds=9"]
        found = recover(journal, JOURNAL_CODEC, make_scheduler)
        validate(found.state)
        assert found.settings.tactics.text == texts[1] and len(found.settings.tactics.active) == 2
        assert all(difference is None for _, _, difference in replay(journal, JOURNAL_CODEC, make_scheduler))
    with running(home, setup, said) as daemon:
        assert ended(daemon, submit(daemon, "true")).phase == "finished"
    assert len([each for each in said if "switched off" in each]) == 2
