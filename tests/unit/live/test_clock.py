"""The daemon's clock, and what becomes of running jobs when somebody sets the time of the machine."""

import time
from pathlib import Path

import pytest

from rota.live.clock import Clock, ClockOrigin
from rota.live.journal import Journal
from rota.server.serve import JOURNAL_CODEC
from tests.unit.live import test_daemon
from tests.unit.live.test_daemon import ended, running, submit, until

DAY = 86_400.0


def jump(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The wall clock of this process."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + seconds)


@pytest.mark.parametrize("seconds", [DAY, -DAY])
def test_it_does_not_jump(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    clock, before = Clock(), time.time()
    jump(monkeypatch, seconds)
    assert abs(clock() - before) < DAY / 2
    assert abs(Clock(origin=clock.origin)() - before) < DAY / 2, "nor does one that goes on from it"
    assert abs(Clock()() - before - seconds) < DAY / 2, "one that is set anew does"
    other_boot = clock.origin._replace(boot="another")
    assert abs(Clock(origin=other_boot)() - before - seconds) < DAY / 2, "and so does one after a boot"


def test_it_is_never_before_what_was_recorded() -> None:
    later = time.time() + DAY
    assert Clock(later)() >= later and Clock(later, Clock().origin)() >= later


def test_a_journal_keeps_where_it_stands(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite", JOURNAL_CODEC)
    assert journal.clock_origin() is None
    for origin in (ClockOrigin("one", 0.1), ClockOrigin("another", 1_790_000_000.123456)):
        journal.keep_clock(origin)
        assert journal.clock_origin() == origin
    journal.close()


@pytest.mark.parametrize("seconds", [30 * DAY, -30 * DAY])
def test_jobs_keep_their_leases_when_a_daemon_comes_up_after_a_jump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """It would take them for over, end the job, and start the other on GPUs that are in use."""
    usual = test_daemon.configuration
    leases = {"retry_seconds": 5.0, "lease_seconds": 300.0, "lease_margin_seconds": 10.0}
    monkeypatch.setattr(test_daemon, "configuration", lambda *words: {**usual(*words), "settings": leases})
    with running(tmp_path) as daemon:
        long, waiting = submit(daemon, ["sleep", "300"], gpus=4), submit(daemon, "true")
        assert until(lambda: daemon.job(str(long)).phase == "running")
        began = daemon.job(str(long)).started_at
    jump(monkeypatch, seconds)
    with running(tmp_path) as daemon:
        again = submit(daemon, "true")  # taken by a turn after the first one
        row = daemon.job(str(long))
        assert (row.phase, row.started_at) == ("running", began)
        assert {daemon.job(str(job)).phase for job in (waiting, again)} == {"queued"}
        daemon.cancel(long)
        assert ended(daemon, long).phase == "cancelled"
        assert ended(daemon, waiting).phase == ended(daemon, again).phase == "finished"
        carried_s = daemon.clock.origin.unix_s
    with running(tmp_path) as daemon:
        moved = daemon.clock.origin.unix_s - carried_s
        assert abs(moved - max(seconds, 0.0)) < DAY / 2, "without jobs it is set by the wall clock again, and never back"
        journal = Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)
        assert until(lambda: journal.clock_origin() == daemon.clock.origin)
        journal.close()
