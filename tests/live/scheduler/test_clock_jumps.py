"""Running jobs keep their leases when the time of the machine is set."""

from pathlib import Path

import pytest

from rota.live.journal import Journal
from rota.server.serve import JOURNAL_CODEC
from tests.live.scheduler import test_daemon
from tests.live.scheduler.test_daemon import ended, running, submit, until
from tests.unit.live.test_clock import DAY, jump


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
