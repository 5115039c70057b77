"""A day of use with real processes: all sorts of jobs, three policies, two restarts. Nothing lost or twice, waits explained."""

import contextlib
from pathlib import Path

import pytest

from rota.wire.rows import JobRow
from tests.live.day import GPUS, LOG_BYTES, STEPS, Day
from tests.live.harness import Site, check_record

pytestmark = pytest.mark.nightly

MARKERS_BYTES = 1 << 13
"""Lines of Rota's own in a log are not counted."""


def test_a_day_of_use(tmp_path: Path) -> None:
    with contextlib.closing(Site(tmp_path, pretend=f"{GPUS}xV100", policy="fifo")) as place:
        place.up(log_mb=str(LOG_BYTES / (1 << 20)))
        day = Day(place)
        day.submit_those_to_cancel()
        for _ in range(2):
            day.submit_one_of_each()
        day.until_cancelled("queued", "starting", "running", "finished")
        assert "it was fifo" in day.rota("policy", "set", "tiresias:thresholds=1/4")
        for _ in range(2):
            day.submit_one_of_each()
        day.until_in_phase("suspending")
        day.submit_one_of_each()
        place.kill()  # what was acknowledged a moment ago is safe
        del place.flags["--policy"]
        place.up()
        assert place.client().status().policy == "tiresias:thresholds=1/4"
        day.until_cancelled("suspending", "checkpointed")
        day.submit_one_of_each()
        day.until_ended(24)
        place.down()
        place.up(policy="max-min-fairness")
        day.until_all_ended()
        rows = place.rows()
        place.down()

        assert len(day.jobs) + day.refused == 60
        assert rows.keys() == day.jobs.keys(), "every job that was acknowledged, and no other"
        assert {job: rows[job].phase for job in rows} == {job: mine.ends for job, mine in day.jobs.items()}
        assert place.violations() == "", "nothing ran twice"
        for job in day.jobs:
            lives = day.lives(job)
            assert lives == sorted(set(lives)), f"an attempt of job {job} ran twice"
            _check(day, rows[job])
        assert day.children_alive() == []
        assert {"NO_FREE_GPUS", "STARTING"} <= day.explained.keys()
        assert sum(row.suspensions for job, row in rows.items() if day.jobs[job].sort != "yields") > 5, "some gave way to others"
        assert place.supervisors() == [] and place.jobs_running() == []
        check_record(place)


def _check(day: Day, row: JobRow) -> None:
    """What each sort leaves behind."""
    lives, sort = day.lives(row.id), day.jobs[row.id].sort
    if sort == "fails":
        assert row.exit_code == 3 and len(lives) >= 2, "it had another try"
    if sort == "yields":
        assert len(lives) >= STEPS / 3 and row.suspensions == len(lives) - 1, "three steps in each life"
    if sort == "floods":
        assert 0 < day.log_bytes(row.id) < LOG_BYTES + MARKERS_BYTES
    if row.phase == "finished":
        assert (day.place.work / f"{row.id}.step").read_text() == ("2" if day.jobs[row.id].cancel_in else str(STEPS))
        assert row.steps_done == row.steps_total, row
        assert sort == "ignores" or row.lost_steps == 0, "it saved whenever it was told to stop"
