"""Jobs that ended long ago are removed, and what they used is not."""

import threading
from pathlib import Path

from rota.live.old_jobs import BATCH_JOBS, LOOK_SECONDS, OldJobs
from rota.live.read_past import usage_report
from rota.model.units import FOREVER
from rota.wire.submission import encode_submission
from tests.unit.live.test_job_events import DAY, Home


def old_jobs(home: Home, folder: Path, keep_seconds: float) -> OldJobs:
    return OldJobs(folder, home.journal, home.history, threading.Lock(), keep_seconds)


def test_an_old_job_goes_with_its_events_and_logs_and_its_usage_stays(tmp_path: Path) -> None:
    home = Home(tmp_path / "j.sqlite")
    old = home.submit(0.0)
    home.answer(1.0)
    home.end(old, 3601.0)
    young = home.submit(9 * DAY)
    home.answer(9 * DAY)
    home.end(young, 9 * DAY + 60)
    runs = home.submit(9 * DAY + 100)
    home.answer(9 * DAY + 100)
    logs = tmp_path / "logs"
    logs.mkdir()
    names = [f"{old}.log", f"{old}.log.1", f"{old}.node1.log", f"{young}.log", f"{old}{old}.log"]
    for name in names:
        (logs / name).write_text("said")
    used = usage_report(home.journal, "user", 20, 10 * DAY)
    tidy = old_jobs(home, tmp_path, 7 * DAY)
    assert tidy.remove(10 * DAY) == 1
    assert sorted(home.history.records) == [young, runs] == sorted(job for job, _, _ in home.journal.jobs())
    assert home.journal.events_of(old) == [] and home.kinds(young) == ["submitted", "started", "finished"]
    assert sorted(path.name for path in logs.iterdir()) == sorted(names[3:])
    left = usage_report(home.journal, "user", 20, 10 * DAY)
    assert (left.groups[0].gpu_seconds, left.total.finished) == (used.groups[0].gpu_seconds, 2)
    assert home.submit(10 * DAY) == runs + 1, "numbers are not used again"


def test_a_job_that_has_not_ended_is_never_removed(tmp_path: Path) -> None:
    home = Home(tmp_path / "j.sqlite")
    home.submit(0.0)
    home.answer(1.0)
    assert old_jobs(home, tmp_path, DAY).remove(1000 * DAY) == 0 and home.history.records


def test_many_jobs_are_removed_in_turns_and_then_it_waits(tmp_path: Path) -> None:
    home = Home(tmp_path / "j.sqlite")
    first = home.submit(0.0)
    home.end(first, 1.0) if first in home.state.jobs.attempts else None
    sent, ended = encode_submission(home.history.records[first].submitted), {"submitted_s": 0.0, "ended_s": 1.0}
    home.history.restore((job, sent, {**ended, "phase": "finished"}) for job in range(first + 1, first + BATCH_JOBS + 10))
    tidy = old_jobs(home, tmp_path, DAY)
    assert tidy.remove(2 * DAY) == BATCH_JOBS and tidy.remove(2 * DAY) > 0
    assert tidy.remove(2 * DAY) == 0, "until it is time to look again"
    home.history.restore([(9999, sent, {**ended, "phase": "failed"})])
    assert tidy.remove(2 * DAY + LOOK_SECONDS / 2) == 0 and tidy.remove(2 * DAY + LOOK_SECONDS) == 1
    assert old_jobs(home, tmp_path, FOREVER).remove(1000 * DAY) == 0
