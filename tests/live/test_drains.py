"""Operators drain nodes under real jobs: those that save move, others stay; drains survive kill -9; an empty node is removed."""

import subprocess
import sys
from pathlib import Path

import pytest

from rota.errors import RotaError
from rota.wire.rows import DrainRow
from tests.live.harness import Site, check_record, site
from tests.waiting import until


def submit(place: Site, run: list[str], *, saves: bool, gpus: int = 2, steps: int | None = None) -> int:
    spec = {"steps": steps, "progress": r"step (\d+)/(\d+)"} if steps else {}
    return int(place.client().submit(run=run, gpus=gpus, checkpoint={"grace": 20, "saves": saves}, **spec).id)


def training(place: Site, steps: int = 10_000) -> list[str]:
    return [sys.executable, "-S", str(place.work / "job.py"), str(place.work), str(steps), "0.05", "75"]


def runs_on(place: Site, job: int) -> str | None:
    row = place.client().job(job)
    return row.placement.split(":")[0] if row.phase == "running" and row.placement else None


def drains(place: Site) -> list[DrainRow]:
    return place.client().reservations()


def test_a_job_that_saves_moves_and_the_drain_survives_kill_9(tmp_path: Path) -> None:
    with site(tmp_path, pretend="2x(2xV100)", policy="fifo") as place:
        job = submit(place, training(place), saves=True, steps=10_000)
        until(lambda: runs_on(place, job) and (place.client().job(job).steps_done or 0) > 3, "the job has made some steps")
        first = runs_on(place, job) or ""
        row = place.client().drain(first, reason="new disks", seconds=3600.0)
        assert row.leaving == [job] and row.staying == [] and row.until_at is not None
        until(lambda: f"{first} is drained by {row.by} (new disks)" in place.said(), "the log says it")
        assert f"job {job} moves away" in place.said()
        place.kill()
        place.up()
        until(lambda: runs_on(place, job) not in (None, first), "the job runs on the other node")
        (row,) = drains(place)
        assert any(f"{first} is drained by" in line for line in place.client().status().slow_gpus)
        assert row.empty and (row.places, row.reason, row.begun) == ([first], "new disks", True)
        moved = place.client().job(job)
        assert moved.suspensions == 1 and moved.lost_steps == 0
        other = submit(place, ["sleep", "300"], saves=False)
        until(lambda: bool(place.client().why(other).reasons), "the other job waits, with a reason")
        assert any(f"{first} is drained" in each.sentence for each in place.client().why(other).reasons)
        place.client().undrain(first)
        until(lambda: runs_on(place, other) == first, "the waiting job runs where the drain has ended")
        place.client().cancel_many([job, other])
        until(lambda: not place.client().jobs(), "both have ended")
        check_record(place, waits=0)


def test_a_job_that_does_not_save_stays_and_the_node_is_removed_when_it_is_empty(tmp_path: Path) -> None:
    with site(tmp_path, pretend="2x(2xV100)", policy="fifo") as place:
        job = submit(place, ["sleep", "300"], saves=False)
        until(lambda: runs_on(place, job), "the job runs")
        node = runs_on(place, job) or ""
        words = [sys.executable, "-m", "rota", "drain", node, "--wait", "--home", str(place.home)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            assert f"Job {job} is not known to save its state, and runs until it ends." in waiting.stdout.readline()
            with pytest.raises(RotaError, match=f"{node} still has job {job}"):
                place.client().remove_node(node)
            assert runs_on(place, job) == node and place.client().job(job).suspensions == 0 and waiting.poll() is None
            place.client().cancel(job)
            assert waiting.wait(60) == 0
        place.client().remove_node(node)
        assert [each.name for each in place.client().nodes()] == [name for name in ("n1", "n2") if name != node]
        place.kill()
        place.up()
        assert len(place.client().nodes()) == 1, "a removed node does not join when the scheduler starts again"
        place.client().undrain(node)
        until(lambda: len(place.client().nodes()) == 2, "the node joins again")
        assert f"{node} (2xV100) joined" in place.said()
        check_record(place, waits=0)


def test_a_maintenance_window_begins_and_ends_while_the_scheduler_is_down(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1xV100", policy="fifo") as place:
        begins = place.client().drain("n1", 0, seconds=2.0)
        assert begins.until_at is not None
        place.kill()
        place.up()
        until(lambda: not drains(place), "the timer has ended the drain")
        job = submit(place, ["true"], saves=False, gpus=1)
        until(lambda: place.client().job(job).ended, "the job ran on the GPU")
