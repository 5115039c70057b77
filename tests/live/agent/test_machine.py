"""Launching, reporting and forgetting attempts."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from rota.agent import attempt_handle as attempts
from rota.agent.attempt_files import unix_s
from rota.agent.disk import COMPLAINTS, JOB_LOCK, LAUNCH, try_lock, unlock
from rota.agent.machine import AttemptManager, AttemptStatus, on_disk
from rota.agent.processes import boot_s
from tests.live.agent.bench import FOREVER, Bench
from tests.waiting import until

RUNS = f"echo ready; {FOREVER}"


def test_a_launch_is_done_once(bench: Bench) -> None:
    order = bench.sh("echo once")
    for _ in range(3):
        bench.machine.launch(order)
    assert bench.wait().outcome == "finished"
    bench.machine.launch(order)
    bench.open().launch(order)
    assert bench.wait().outcome == "finished"
    assert bench.said().count("once") == 1 and bench.said().count("started on") == 1


def test_an_older_attempt_is_not_launched(bench: Bench) -> None:
    bench.machine.launch(bench.sh("echo second", attempt=2))
    bench.machine.launch(bench.sh("echo first", attempt=1))
    bench.wait(attempt=2)
    bench.machine.forget(1, 2)
    bench.machine.launch(bench.sh("echo again", attempt=2))
    assert bench.machine.inventory() == []
    assert "first" not in bench.said() and "again" not in bench.said()


def test_poll_tells_what_changed(bench: Bench) -> None:
    def runs() -> bool:
        told.extend(bench.machine.poll())
        return told[-1].state == "running"

    assert bench.machine.poll() == []
    bench.machine.launch(bench.sh(f"trap 'exit 75' TERM; {RUNS}", sequence=7, from_step=3.0, steps_total=9.0))
    (part,) = bench.machine.inventory()
    assert (part.state, part.sequence, part.launch_sequence) == ("starting", 7, 7)
    assert (part.steps_done, part.steps_saved, part.steps_total) == (3.0, 3.0, 9.0)
    told: list[AttemptStatus] = []
    until(runs)
    assert [part.state for part in told] in (["starting", "running"], ["running"])
    until(lambda: "ready" in bench.said())
    assert bench.machine.poll() == [] and bench.machine.inventory() == told[-1:]
    bench.machine.suspend(1, 1, 8)
    part = bench.wait()
    assert (part.sequence, part.launch_sequence) == (8, 7)
    assert bench.machine.poll() == []
    assert bench.open().poll() == [part], "a new daemon is told everything once"


def test_a_bell_rings_at_every_change(bench: Bench) -> None:
    bench.machine.launch(bench.sh(f"trap 'exit 75' TERM; {RUNS}"))
    assert bench.rung.wait(30)
    until(lambda: "ready" in bench.said())
    bench.machine.poll()
    time.sleep(0.05)
    bench.rung.clear()
    bench.machine.suspend(1, 1, 2)
    assert bench.rung.wait(30)
    bench.wait()


def test_without_the_bell_a_poll_finds_out(bench: Bench) -> None:
    (bench.home / "run" / "notify").unlink()
    bench.machine.launch(bench.sh("exit 0"))
    assert bench.wait().outcome == "finished"


def test_commands_sent_before_it_listens_are_kept(bench: Bench) -> None:
    bench.machine.launch(bench.sh(f"trap '' TERM; {RUNS}"))
    assert bench.machine.renew(1, 1, 300.0) and bench.machine.suspend(1, 1, 2) and bench.machine.kill(1, 1, 3)
    part = bench.wait()
    assert (part.outcome, part.sequence) == ("lost", 3)


def test_nobody_there_to_tell(bench: Bench) -> None:
    assert not bench.machine.suspend(9, 1, 1) and not bench.machine.kill(9, 1, 1) and not bench.machine.renew(9, 1, 1.0)


def test_a_new_daemon_takes_over(bench: Bench) -> None:
    bench.start(f"trap 'exit 75' TERM; {RUNS}")
    bench.open()
    assert bench.part().state == "running"
    assert bench.machine.renew(1, 1, 300.0) and bench.machine.suspend(1, 1, 2)
    assert bench.wait().outcome == "yielded"


def test_no_zombies(bench: Bench) -> None:
    for job in (1, 2, 3):
        bench.machine.launch(bench.sh("exit 0", job=job))
    mine = attempts._children[-3:]
    for job in (1, 2, 3):
        bench.wait(job)
    until(lambda: bench.machine.poll() or not {child.pid for child in attempts._children} & {child.pid for child in mine})
    assert all(child.returncode == 0 for child in mine)


def test_a_home_may_be_deep(tmp_path: Path) -> None:
    bench = Bench(tmp_path / ("d" * 100) / ("e" * 100) / "home")
    try:
        bench.start(f"trap 'exit 75' TERM; {RUNS}")
        bench.rung.clear()
        bench.machine.suspend(1, 1, 2)
        assert bench.wait().exit_code == 75 and bench.rung.is_set()
    finally:
        bench.clean()


# When a launch can't be carried out.


def test_a_supervisor_that_does_not_come_up_says_why(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "PACKAGES", "/nowhere")
    bench.machine.launch(bench.sh("exit 0"))
    part = bench.wait()
    assert part.outcome == "lost" and part.problem.startswith("its supervisor did not start it: ")
    assert "rota" in part.problem and (bench.folder() / COMPLAINTS).stat().st_size > 0


def test_no_python_to_run_it_with(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    bench.machine.launch(bench.sh("exit 0"))
    part = bench.wait()
    assert part.outcome == "lost" and "/nowhere/python" in part.problem


def test_an_order_that_cannot_be_written(bench: Bench) -> None:
    (bench.home / "run" / "1").write_text("in the way")
    bench.machine.launch(bench.sh("exit 0", from_step=4.0))
    part = bench.wait()
    assert (part.outcome, part.steps_saved) == ("lost", 4.0) and "could not be written" in part.problem
    bench.machine.forget(1, 1)
    assert bench.machine.inventory() == [] and bench.machine._forgotten == []


def test_a_log_that_cannot_be_written(bench: Bench) -> None:
    bench.log().mkdir()
    bench.machine.launch(bench.sh("exit 0"))
    part = bench.wait()
    assert part.outcome == "lost" and "cannot be written: Is a directory" in part.problem and bench.job_lock_is_free()


def test_one_that_takes_too_long_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped before it has its lock; when it goes on it finds the tombstone."""
    monkeypatch.setattr(sys, "executable", str(bench.home / "slow"))
    (bench.home / "slow").write_text("#!/bin/sh\nexec sleep 300\n")
    (bench.home / "slow").chmod(0o700)
    bench.machine.launch(bench.sh("exit 0"))
    try:
        assert bench.part().state == "starting"
        monkeypatch.setattr(attempts, "PATIENCE_SECONDS", 0.0)
        assert bench.wait().outcome == "lost"
    finally:
        attempts._children[-1].kill()


# Forgetting.


def test_forgetting(bench: Bench) -> None:
    bench.start(f"trap 'exit 75' TERM; {RUNS}")
    bench.machine.forget(1, 1)
    bench.machine.forget(5, 5)
    assert bench.part().state == "running", "it has not ended"
    bench.machine.suspend(1, 1, 2)
    bench.wait()
    bench.machine.forget(1, 1)
    assert bench.machine.inventory() == [] and bench.machine.poll() == []
    until(lambda: bench.machine.poll() or not bench.folder().parent.exists())
    assert bench.log().exists() and bench.open().inventory() == []


def test_forgetting_one_of_two_keeps_the_job(bench: Bench) -> None:
    bench.machine.launch(bench.sh("exit 75"))
    bench.wait()
    bench.start(RUNS, attempt=2, sequence=2)
    bench.machine.forget(1, 1)
    until(lambda: bench.machine.poll() or not bench.folder().exists())
    assert not bench.job_lock_is_free() and bench.part(attempt=2).state == "running"


def test_a_job_is_not_forgotten_while_its_lock_is_held(bench: Bench) -> None:
    bench.machine.launch(bench.sh("exit 0"))
    bench.wait()
    until(bench.job_lock_is_free)
    lock = try_lock(bench.home / "run" / "1" / JOB_LOCK)
    assert lock is not None
    bench.machine.forget(1, 1)
    until(lambda: bench.machine.poll() or not bench.folder().exists())
    assert (bench.home / "run" / "1" / JOB_LOCK).exists()
    unlock(lock)
    bench.open()
    assert not (bench.home / "run" / "1").exists()


def test_what_is_kept_is_for_its_owner_only(bench: Bench) -> None:
    bench.machine.launch(bench.sh("exit 0"))
    bench.wait()
    for path in (bench.home, bench.home / "run", bench.home / "logs", bench.folder(), bench.folder() / LAUNCH, bench.log()):
        assert path.stat().st_mode & 0o077 == 0, path


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    machine = AttemptManager(tmp_path, lambda: None)
    machine.close()
    machine.close()


# Whose time it is.


def test_instants_are_told_by_the_clock_of_the_daemon(bench: Bench) -> None:
    """Whatever the wall clock says: somebody may set it."""
    origin_s, before_s = -1e6, boot_s() - 1e6
    bench.start(RUNS, clock_origin_s=origin_s)
    bench.machine.suspend(1, 1, 2)
    part = bench.wait()
    assert part.started_s is not None and part.ended_s is not None
    assert before_s <= part.started_s <= part.ended_s <= origin_s + boot_s()


def test_the_end_of_one_that_lost_its_supervisor_too(bench: Bench) -> None:
    before_s = boot_s() - 1e6
    bench.start(RUNS, clock_origin_s=-1e6)
    os.kill(bench.supervisor(), signal.SIGKILL)
    assert before_s <= (bench.wait().ended_s or 0.0) <= boot_s() - 1e6


def test_a_clock_of_another_boot_says_nothing(bench: Bench) -> None:
    order = on_disk(bench.sh("true", clock_origin_s=-1e6))
    assert unix_s(order, order.boot_id) < 0.0 < time.time() - 60.0 < unix_s(order, "another") < time.time() + 60.0
    assert time.time() - 60.0 < unix_s(None, order.boot_id) < time.time() + 60.0
