"""No work is lost in a loop: jobs that are not known to save, a minimum run time, and attempts that fail again and again.

What is counted is in the journal, and times are lower bounds: how fast the machine is does not matter.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rota.core.fold.setbacks import MAX_SETBACKS
from rota.model.commands import Launch, Suspend
from rota.model.events import Decided, Event, Started, Suspended
from tests.live import hurried
from tests.live.harness import Site, check_record, site, until


def journaled(place: Site) -> list[Event]:
    """Everything that happened and was decided, in order."""
    journal = place.journal()
    found: list[Event] = []
    for entry in journal.entries():
        found += [*entry.events, *([entry.decided] if entry.decided is not None else [])]
    journal.close()
    return found


def sent(place: Site, kind: type[Launch] | type[Suspend]) -> list[tuple[int, float]]:
    """Job and time of each command of this kind."""
    decisions = [each for each in journaled(place) if isinstance(each, Decided)]
    return [(command.job, each.at_s) for each in decisions for command in each.commands if isinstance(command, kind)]


def log(place: Site, job: int) -> str:
    path = place.home / "logs" / f"{job}.log"
    return path.read_text() if path.exists() else ""


def all_done(place: Site) -> bool:
    return all(row.ended for row in place.rows().values())


def test_shell_jobs_without_progress_do_not_suspend_each_other_for_ever(tmp_path: Path) -> None:
    """Under las three on one GPU and one on two had been suspended 56 times in a minute, and none had finished."""
    with site(tmp_path, pretend="4xV100", policy="las:quantum_seconds=1") as place:
        client = place.client()
        jobs = [int(client.submit(run="sleep 5", name="same").id) for _ in range(3)]
        jobs.append(int(client.submit(run="sleep 6", gpus=2, name="wide").id))
        until(lambda: "not known to save" in " ".join(each.sentence for each in client.why(str(jobs[3])).reasons), "it says so")
        until(lambda: all_done(place), "all are done")
        assert not [each for each in journaled(place) if isinstance(each, Suspended)]
        assert Counter(job for job, _ in sent(place, Launch)) == dict.fromkeys(jobs, 1)
        assert {(row.phase, row.suspensions, row.lost_seconds) for row in place.rows().values()} == {("finished", 0, 0.0)}
        place.down()
        check_record(place, waits=1)


def test_a_long_shell_job_is_not_ended_by_short_ones(tmp_path: Path) -> None:
    """Under short thresholds of tiresias one of a minute had been ended six times by jobs of two seconds."""
    with site(tmp_path, pretend="1xV100", policy="tiresias:thresholds=1") as place:
        client = place.client()
        long = int(client.submit(run="for i in 1 2 3 4 5 6 7 8; do sleep 1; echo $i; done", name="long").id)
        until(lambda: log(place, long).count("2\n") > 0, "it is past its threshold")
        short = [int(client.submit(run="true", name="short").id) for _ in range(3)]
        until(lambda: all_done(place), "all are done")
        assert place.rows()[long].suspensions == 0 and Counter(job for job, _ in sent(place, Launch))[long] == 1
        assert {place.rows()[job].phase for job in short} == {"finished"}


def test_one_that_is_preemptible_is_suspended_and_what_it_loses_is_told(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1xV100", policy="tiresias:thresholds=1") as place:
        client = place.client()
        long = int(client.submit(run="sleep 3; echo half; sleep 300", name="long", preemptible=True).id)
        until(lambda: "half" in log(place, long), "it runs")
        short = int(client.submit(run="true", name="short").id)
        until(lambda: place.rows()[short].ended, "the short one is done")
        row = place.rows()[long]
        assert row.suspensions == 1 and row.lost_seconds >= 3.0
        until(lambda: "of work lost" in log(place, long), "the log says so")
        assert "0 steps lost" not in log(place, long)
        shown = subprocess.run(
            [sys.executable, "-m", "rota", "show", str(long), "--home", str(place.home)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert re.search(r"suspensions +1, [0-9ms]+ of work lost\n", shown.stdout), shown.stdout
        client.cancel(str(long))
        until(lambda: all_done(place), "it is cancelled")


SAVES = "trap 'exit 75' TERM; while true; do sleep 0.1; done"


def test_every_attempt_runs_for_its_minimum(tmp_path: Path) -> None:
    """What starting costs is believed to be a second at first: with a factor of 3 an attempt has 3 s at least."""
    with site(tmp_path, pretend="1xV100", policy="las") as place:
        place.down()
        place.up(decide="both", round_seconds="1", min_run_factor="3")
        client = place.client()
        for name in ("one", "two"):
            client.submit(run=SAVES, name=name, park=False, checkpoint={"saves": True})
        until(lambda: sum(row.suspensions for row in place.rows().values()) >= 3, "they take turns")
        waiting = [job for job, row in place.rows().items() if row.phase != "running"]
        assert waiting
        events = journaled(place)
        began = {(each.job, each.attempt): each.at_s for each in events if isinstance(each, Started)}
        asked = [(each, command) for each in events if isinstance(each, Decided) for command in each.commands]
        lengths = [each.at_s - began[command.job, command.attempt] for each, command in asked if isinstance(command, Suspend)]
        assert len(lengths) >= 3 and min(lengths) >= 3.0 - 1e-6, lengths


@pytest.fixture
def hurried_site(tmp_path: Path) -> Site:
    """With pauses that are shorter."""
    place = Site(tmp_path, pretend="1xV100", policy="las")
    place.python = [sys.executable, hurried.__file__]
    return place


def test_exit_75_at_once_is_tried_five_times(hurried_site: Site) -> None:
    """It had been started 95 times in 51 s, and `rota jobs` said that it was starting."""
    place = hurried_site
    try:
        place.up()
        job = int(place.client().submit(run="echo hi; exit 75", name="again").id)
        until(lambda: place.rows()[job].setbacks >= 2 and place.rows()[job].retry_at is not None, "it pauses")
        said = place.client().why(str(job))
        if said.reasons:
            assert said.reasons[0].code in ("BACKING_OFF", "STARTING", "AWAITING_DECISION", "WAITING_FOR_SUSPEND")
        until(lambda: place.rows()[job].ended, "it is given up")
        row = place.rows()[job]
        assert row.phase == "failed" and "it left with exit code 75 after " in row.problem
        assert f"without a request to stop, {MAX_SETBACKS} times in a row" in row.last_change
        assert Counter(each for each, _ in sent(place, Launch)) == {job: MAX_SETBACKS}
    finally:
        place.close()


BROKEN = """
import time
from rota import train

def save(folder):
    raise RuntimeError("there is no such tensor")

with train.session(save, lambda folder: None) as job:
    for _ in job.steps(range(1_000_000)):
        time.sleep(0.05)
"""


def test_a_save_that_raises_fails_the_job_in_the_end_and_says_what_was_raised(hurried_site: Site) -> None:
    """Each time all of its work was lost, and `rota jobs` said that it waits for free GPUs."""
    place = hurried_site
    (place.work / "broken.py").write_text(BROKEN)
    try:
        place.up(decide="both", round_seconds="1")
        client = place.client()
        run = [sys.executable, str(place.work / "broken.py")]
        job = int(client.submit(run=run, name="broken", park=False, workdir=str(place.work)).id)
        other = int(client.submit(run=SAVES, name="other", park=False, checkpoint={"saves": True}).id)
        until(lambda: place.rows()[job].ended, "it is given up", 300.0)
        row = place.rows()[job]
        assert row.phase == "failed" and "save raised RuntimeError: there is no such tensor" in row.problem
        assert row.lost_steps > 0 and row.lost_seconds > 0
        ends = [each for each in journaled(place) if isinstance(each, Suspended) and each.job == job]
        assert len(ends) == MAX_SETBACKS and all("there is no such tensor" in each.setback for each in ends)
        assert "its state could not be saved: save raised RuntimeError" in log(place, job)
        client.cancel(str(other))
        until(lambda: place.rows()[other].ended, "the other is cancelled")
    finally:
        place.close()
