"""Health checks before launches, with a real scheduler and real jobs: a check that fails while a file exists."""

import sys
from pathlib import Path

import pytest

from rota.errors import RotaError
from rota.wire.rows import DrainRow
from tests.live.harness import Site, check_record, site
from tests.waiting import alive, until

CHECK = """
import os, pathlib, sys, time
work = pathlib.Path(sys.argv[1])
with open(work / "checks", "a") as file:
    file.write(os.environ["ROTA_NODE"] + " " + os.environ["ROTA_NODE_GPUS"] + " " + str(os.getpid()) + "\\n")
while (work / "wait").exists():
    time.sleep(0.05)
if (work / ("bad-" + os.environ["ROTA_NODE"])).exists():
    sys.exit("row remap failed")
"""


def start(place: Site, **flags: str) -> None:
    (place.work / "check.py").write_text(CHECK)
    place.kill()
    command = f"{sys.executable} -S {place.work / 'check.py'} {place.work}"
    place.up(health_check=command, **flags)


def checks(place: Site) -> list[list[str]]:
    path = place.work / "checks"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def drains(place: Site) -> list[DrainRow]:
    return place.client().reservations()


def submit(place: Site) -> int:
    return int(place.client().submit(run=["sleep", "300"], gpus=2, checkpoint={"saves": False}).id)


def node_of(place: Site, job: int) -> str | None:
    row = place.client().job(job)
    return row.placement.split(":")[0] if row.phase == "running" and row.placement else None


def finish(place: Site, jobs: list[int]) -> None:
    place.client().cancel_many(jobs)
    until(lambda: not place.client().jobs(), "all jobs have ended")
    check_record(place, waits=0)


def test_a_node_that_fails_is_drained_and_the_job_starts_elsewhere(tmp_path: Path) -> None:
    with site(tmp_path, pretend="2x(2xV100)", policy="fifo") as place:
        (place.work / "bad-n1").touch()
        start(place, health_check_every="1s")
        first = submit(place)
        until(lambda: node_of(place, first) == "n2", "the first job runs on the healthy node")
        second = submit(place)
        until(lambda: bool(place.client().why(second).reasons), "the second job waits, with a reason")
        (row,) = drains(place)
        assert (row.places, row.reason, row.by, row.until_at) == (["n1"], "health check: row remap failed", None, None)
        assert row.empty and "n1 is drained (health check: row remap failed)" in place.said()
        why = place.client().why(second)
        assert any("n1 is drained (health check: row remap failed)" in each.sentence for each in why.reasons)
        assert place.client().job(first).lost_steps == 0
        place.kill()
        place.up()
        assert [each.reason for each in drains(place)] == ["health check: row remap failed"]
        (place.work / "bad-n1").unlink()
        until(lambda: node_of(place, second) == "n1", "the drain ends when the check passes, and the waiting job starts")
        assert not drains(place) and "n1 is no longer drained" in place.said()
        finish(place, [first, second])


def test_a_node_is_checked_once_per_interval_and_the_home_keeps_the_flag(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1x(2xV100)", policy="fifo") as place:
        start(place)
        del place.flags["--health-check"]
        for _ in range(3):
            job = int(place.client().submit(run=["true"], gpus=1).id)
            until(lambda job=job: place.client().job(job).ended, "the job has ended")
        assert [each[:2] for each in checks(place)] == [["n1", "0,1"]]
        place.kill()
        place.up()
        until(lambda: "as before: " in place.said() and "--health-check " in place.said(), "it says what is as before")
        again = submit(place)
        until(lambda: node_of(place, again), "the job runs")
        assert len(checks(place)) == 2, "another scheduler checks again"
        place.kill()
        place.up(unset="health-check")
        assert "no longer: --health-check" in place.said()
        finish(place, [again])


def test_a_scheduler_killed_during_a_check_checks_again_and_starts_the_job_once(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1x(2xV100)", policy="fifo") as place:
        (place.work / "wait").touch()
        start(place)
        job = submit(place)
        until(lambda: checks(place), "the check runs")
        assert place.client().job(job).phase == "starting" and not place.supervisors()
        place.kill()
        until(lambda: not alive(int(checks(place)[0][2])), "the check is gone with its scheduler")
        place.up()
        until(lambda: len(checks(place)) == 2, "the next scheduler checks again")
        assert place.client().job(job).phase == "starting" and not place.supervisors()
        (place.work / "wait").unlink()
        until(lambda: node_of(place, job), "the job runs")
        assert len(place.supervisors()) == 1 and len(checks(place)) == 2
        finish(place, [job])


def test_a_job_cancelled_during_a_check_never_starts_and_other_requests_are_answered(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1x(2xV100)", policy="fifo") as place:
        (place.work / "wait").touch()
        start(place)
        job = submit(place)
        until(lambda: checks(place), "the check runs")
        place.client().cancel(job)
        until(lambda: place.client().job(job).ended, "the job has ended while the check still runs")
        assert alive(int(checks(place)[0][2])) and not place.supervisors()
        other = submit(place)
        (place.work / "wait").unlink()
        until(lambda: node_of(place, other), "the next job runs after the same check")
        assert len(checks(place)) == 1
        finish(place, [other])


def test_a_check_that_takes_too_long_drains_the_node_until_the_flag_is_forgotten(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1x(2xV100)", policy="fifo") as place:
        (place.work / "wait").touch()
        start(place, health_check_seconds="1")
        job = submit(place)
        until(lambda: drains(place), "the node is drained")
        assert drains(place)[0].reason == "health check: no result within 1 s"
        for flag in ("--health-check", "--health-check-seconds"):
            del place.flags[flag]
        place.kill()
        place.up(unset="health-check,health-check-seconds")
        until(lambda: node_of(place, job), "the job runs without checks")
        assert not drains(place)
        finish(place, [job])


@pytest.mark.parametrize("value", ["", "'open", "  "])
def test_a_command_that_cannot_be_split_is_refused_at_the_start(tmp_path: Path, value: str) -> None:
    from rota.live.node_health import health_flags

    with pytest.raises(RotaError, match="--health-check"):
        health_flags(value, None, None)
