"""A live scheduler with real processes: its records are legal, explained, and the same when they are replayed."""

import random
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rota
import rota.errors
from rota.experiments.fidelity_report import measure_fidelity
from tests.live.harness import Site, check_record, site, until


def all_ended(place: Site, count: int) -> bool:
    rows = place.rows()
    return len(rows) == count and all(row.ended for row in rows.values())


@pytest.mark.parametrize("policy", [pytest.param("fifo", marks=pytest.mark.nightly), "tiresias:thresholds=2/5"])
def test_thirty_real_jobs(tmp_path: Path, policy: str) -> None:
    draw = random.Random(4)
    with site(tmp_path, policy=policy) as place:
        for number in range(30):
            place.submit(draw.choice([1, 1, 1, 2, 4]), draw.randint(4, 20), 0.1, name=f"job-{number}")
        until(lambda: all_ended(place, 30), "all jobs end")
        rows = place.rows()
        assert place.violations() == ""
        place.down()
        assert {row.phase for row in rows.values()} == {"finished"}
        assert all(row.steps_done == row.steps_total for row in rows.values())
        suspensions = sum(row.suspensions for row in rows.values())
        assert suspensions == 0 if policy == "fifo" else suspensions > 5
        assert all(row.lost_steps == 0 for row in rows.values()), "they saved whenever they were asked to stop"
        check_record(place)
        _check_fidelity(place, policy)


def test_jobs_that_leave_with_0_when_told_to_stop_are_started_again(tmp_path: Path) -> None:
    """As many training scripts do. Some tell their steps and some do not; none is taken for finished before it is."""
    with site(tmp_path, pretend="1xV100", policy="tiresias:thresholds=2") as place:
        script = [sys.executable, "-S", str(place.work / "job.py"), str(place.work), "40", "0.1", "0"]
        silent = place.client().submit(run=script, checkpoint={"grace": 20}).id
        until(lambda: place.rows()[silent].started_at is not None, "it runs")
        telling = place.submit(1, 15, 0.1, leave=0)
        why = "asked to stop and exited with code 0, and its steps don't show that it is done"
        until(lambda: why in place.rows()[silent].last_change, "it gives way to the other, and that is told")
        later = place.submit(1, 40, 0.1, leave=0)
        until(lambda: all_ended(place, 3), "all jobs end")
        rows = place.rows()
        assert place.violations() == ""
        assert {row.phase for row in rows.values()} == {"finished"}
        for job, steps in ((silent, 40), (telling, 15), (later, 40)):
            life = (place.work / f"{job}.life").read_text().splitlines()
            assert life[-1].split()[0] == "done" and life[-1].split()[2] == str(steps), life
        assert all(rows[job].steps_done == rows[job].steps_total and rows[job].lost_steps == 0 for job in (telling, later))
        place.down()
        check_record(place, waits=5)


def test_no_start_is_wasted(tmp_path: Path) -> None:
    """They load for longer than a slice of the policy lasts. None is suspended before it has made a step."""
    with site(tmp_path, pretend="1xV100", policy="tiresias:thresholds=1") as place:
        script = shlex.join([sys.executable, "-S", str(place.work / "job.py"), str(place.work), "15", "0.1", "75"])
        spec = {"progress": r"step (\d+)/(\d+)", "checkpoint": {"grace": 20}}
        jobs = [place.client().submit(run=f"sleep 2.5; exec {script}", **spec).id for _ in range(2)]
        until(lambda: all_ended(place, 2), "both end")
        assert {row.phase for row in place.rows().values()} == {"finished"}
        assert sum(row.suspensions for row in place.rows().values()) >= 1
        place.down()
        for job in jobs:
            steps = [int(line.split()[2]) for line in (place.work / f"{job}.life").read_text().splitlines()]
            starts, ends = steps[::2], steps[1::2]
            launches = (place.home / "logs" / f"{job}.log").read_text().count("(attempt ")
            assert len(starts) == len(ends) == launches, "none was stopped while it loaded"
            assert all(first < last for first, last in zip(starts, ends, strict=True)), steps


def test_the_policy_is_set_while_jobs_run_and_stays_set(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def allocate(self, view):\n        return 1 / 0\n")
    with site(tmp_path, pretend="1xV100", policy="fifo") as place:

        def rota_policy_set(named: str) -> "subprocess.CompletedProcess[str]":
            command = [sys.executable, "-m", "rota", "policy", "set", named, "--home", str(place.home)]
            return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

        first = place.submit(1, 20_000, 0.1)
        until(lambda: place.rows()[first].phase == "running", "it runs")
        second = place.submit(1, 10, 0.1)
        refused = rota_policy_set("./mine.py:Mine")
        assert refused.returncode == 2 and "its first answer failed: ZeroDivisionError" in refused.stderr
        assert place.client().status().policy == "fifo"
        done = rota_policy_set("srsf")
        assert done.stdout == "The policy is srsf with placer packed; it was fifo with packed.\n", done.stderr
        until(lambda: place.rows()[second].phase == "finished", "the shorter one goes first now")
        assert place.rows()[first].suspensions == 1 and "policy srsf takes over from fifo" in place.said()
        place.kill()
        del place.flags["--policy"]
        place.up()
        assert place.client().status().policy == "srsf" and "takes over" not in place.said()
        place.hurry()
        until(lambda: place.rows()[first].phase == "finished", "it goes on")
        place.down()
        place.up(policy="las")
        until(lambda: "policy las takes over from srsf" in place.said(), "another policy is told of")
        assert place.violations() == ""
        place.down()
        check_record(place, waits=0)


def test_cancel_by_name_never_hits_the_wrong_job(tmp_path: Path) -> None:
    with site(tmp_path) as place:

        def rota_cancel(key: str) -> "subprocess.CompletedProcess[str]":
            command = [sys.executable, "-m", "rota", "cancel", key, "--home", str(place.home)]
            return subprocess.run(command, capture_output=True, text=True)

        first, second = (place.submit(1, 10_000, 0.1, name="train") for _ in range(2))
        last = place.submit(1, 1, 0.01, name="train")
        until(lambda: place.rows()[last].phase == "finished", "the newest ends")
        refused = rota_cancel("train")
        assert refused.returncode == 2 and f"fits 2 jobs: {first}, {second}" in refused.stderr
        assert not place.rows()[first].ended and not place.rows()[second].ended
        assert rota_cancel(str(first)).returncode == 0
        until(lambda: place.rows()[first].phase == "cancelled", "the first is cancelled")
        assert f"{second} train" in rota_cancel("train").stdout
        until(lambda: place.rows()[second].phase == "cancelled", "the one that was left is cancelled")
        assert f"{last} train had already ended: finished" in rota_cancel("train").stdout


def test_the_address_goes_with_the_daemon(tmp_path: Path) -> None:
    with site(tmp_path) as place:
        address = place.home / "daemon.json"
        assert address.exists()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            process = place.process
            assert process is not None
            place.client().status()  # once it answers, it heeds signals
            process.send_signal(number)
            # A process that was started in the background ignores SIGINT before that, and after it leaves as after SIGTERM.
            assert process.wait(60) in ((130, 0) if number == signal.SIGINT else (0,))
            assert not address.exists(), number
            place.up()
        place.kill()
        assert address.exists(), "killed, it could not clear up"
        with pytest.raises(rota.errors.NotRunningError, match="is not running"):
            place.client()
        place.up()
        assert place.client().status().gpus == 4


def _check_fidelity(place: Site, policy: str) -> None:
    """Simulated from its own journal, with overheads as measured, the run takes as long as it took."""
    found = measure_fidelity([place.home])
    print(found)
    (mine,) = found.policies
    assert mine.policy == policy and mine.jobs == 30 and found.same_ranking is None
    assert abs(mine.mean_error) < 0.10, found
    assert mine.launching_seconds > 0, "starting a process takes time"
    assert mine.switching_seconds == 0 if policy == "fifo" else mine.suspend_seconds > 0
    assert sum(each.error for each in mine.causes) == pytest.approx(mine.mean_error, abs=1e-6)
    really = {each.cause: each.real_seconds for each in mine.causes}
    assert sum(really.values()) == pytest.approx(mine.real_mean_jct_seconds, abs=1e-6)
    assert really["starting"] > 0 and really["interference"] > 0 and really["order"] > 0
    assert (really["switching"] > 0) == (policy != "fifo"), "suspending and starting again takes time"
