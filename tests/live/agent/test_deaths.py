"""Supervisors that are killed, and daemons that die between any two steps."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from rota.agent.attempt_files import AttemptStatus, read_status, write_order, write_status
from rota.agent.disk import JOB_LOCK, LAUNCH, STATUS, SUPERVISOR_LOCK, TOMBSTONE, try_lock, unlock
from rota.agent.machine import on_disk
from rota.agent.processes import boot_id, boot_s
from tests.live.agent.bench import FOREVER, Bench
from tests.waiting import alive, until

RUNS = f"echo ready; {FOREVER}"


def pid_said(bench: Bench) -> int:
    (line,) = [line for line in bench.said().splitlines() if line.startswith("pid ")]
    return int(line.split()[1])


# A supervisor that is killed.


CLOSE = "; ".join(f"exec {number}>&-" for number in range(3, 10))
HIDING = {
    "plain": "sh -c 'echo pid $$; echo ready; exec sleep 300' &",
    "own session": "setsid sh -c 'echo pid $$; echo ready; exec sleep 300' &",
    "own session and environment": "setsid env -i sh -c 'echo pid $$; echo ready; exec /bin/sleep 300' &",
    "lock closed": f"setsid sh -c 'echo pid $$; echo ready; {CLOSE}; exec sleep 300' &",
}


@pytest.mark.parametrize("new_daemon", [False, True])
@pytest.mark.parametrize("how", HIDING)
def test_a_killed_supervisor_takes_the_job_with_it(bench: Bench, how: str, new_daemon: bool) -> None:
    bench.start(f"trap '' TERM; {HIDING[how]} {FOREVER}", from_step=12.0)
    main = read_status(bench.folder())
    assert main is not None and main.pid is not None and alive(main.pid)
    os.kill(bench.supervisor(), signal.SIGKILL)
    if new_daemon:
        until(lambda: bench.job_lock_is_free() or not alive(main.pid or 0))
        bench.open()
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.steps_saved) == ("lost", None, 12.0)
    assert part.problem == "its supervisor was killed"
    assert not alive(main.pid) and not alive(pid_said(bench)) and bench.job_lock_is_free()
    assert (bench.folder() / TOMBSTONE).exists()
    bench.machine.launch(bench.sh("echo next", attempt=2, sequence=2))
    assert bench.wait(attempt=2).outcome == "finished"


def test_it_has_not_ended_before_its_lock_is_free(bench: Bench) -> None:
    bench.start(RUNS)
    # This process has the lock open as one of the job would, and does not die.
    lock = os.open(bench.home / "run" / "1" / JOB_LOCK, os.O_RDWR)
    os.kill(bench.supervisor(), signal.SIGKILL)
    until(bench.job_lock_is_free)
    held = try_lock(bench.home / "run" / "1" / JOB_LOCK)
    assert held is not None
    assert [bench.part().state for _ in range(2)] == ["running", "running"]
    unlock(held)
    os.close(lock)
    assert bench.wait().outcome == "lost"


def test_a_lost_one_does_not_wait_for_the_lock_of_the_next(bench: Bench) -> None:
    bench.machine.launch(bench.sh("echo ready", attempt=1))
    bench.wait(attempt=1)
    # As if its supervisor had been killed just before it could write the end.
    status = read_status(bench.folder())
    assert status is not None
    write_status(bench.folder(), status._replace(state="running"))
    bench.start(RUNS, attempt=2, sequence=2)
    bench.open()
    assert bench.wait(attempt=1).outcome == "lost"
    assert bench.part(attempt=2).state == "running", "the processes of the living one are left alone"


def test_numbers_of_another_boot_mean_nothing(bench: Bench) -> None:
    """A session of that number exists here, and is a stranger's."""
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as stranger:
        try:
            prepare(bench)
            running = AttemptStatus(1, 1, 1, "running", stranger.pid, stranger.pid, 1.0, 50.0, None, 40.0)
            write_status(bench.folder(), running._replace(boot_id="another", written_boot_s=boot_s() + 1e6))
            bench.open()
            part = bench.wait()
            assert (part.outcome, part.steps_saved, part.problem) == ("lost", 40.0, "the machine was restarted")
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_session_whose_number_was_used_again_is_left_alone(bench: Bench) -> None:
    seen_s = boot_s()
    time.sleep(0.03)
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as stranger:
        try:
            prepare(bench)
            running = AttemptStatus(1, 1, 1, "running", stranger.pid, stranger.pid, 1.0, boot_id=boot_id(), written_boot_s=seen_s)
            write_status(bench.folder(), running)
            bench.open()
            assert bench.wait().problem == "its supervisor was killed"
            assert stranger.poll() is None
        finally:
            stranger.kill()


# A daemon that dies between two steps of a launch.


def prepare(bench: Bench, *, launch: bool = True) -> None:
    """What a launch has on disk before a supervisor is started."""
    bench.folder().mkdir(parents=True)
    (bench.folder().parent / JOB_LOCK).touch()
    (bench.folder() / SUPERVISOR_LOCK).touch()
    if launch:
        write_order(bench.folder(), on_disk(bench.sh(RUNS, from_step=6.0)))


@pytest.mark.parametrize(
    "files", [[], [SUPERVISOR_LOCK], [SUPERVISOR_LOCK, "launch.json.new"], [SUPERVISOR_LOCK, TOMBSTONE, STATUS]]
)
def test_dead_before_the_order_was_written(bench: Bench, files: list[str]) -> None:
    """Also what a removal that was cut short leaves."""
    bench.folder().mkdir(parents=True)
    for name in files:
        (bench.folder() / name).touch()
    bench.open()
    assert bench.machine.inventory() == [] and not bench.folder().parent.exists()
    bench.machine.launch(bench.sh("exit 0"))
    assert bench.wait().outcome == "finished"


@pytest.mark.parametrize("tombstone", [False, True])
def test_dead_before_the_supervisor_was_started(bench: Bench, tombstone: bool) -> None:
    prepare(bench)
    if tombstone:
        (bench.folder() / TOMBSTONE).touch()
    (part,) = bench.open().poll()
    assert (part.state, part.outcome, part.steps_saved, part.sequence) == ("ended", "lost", 6.0, 1)
    assert part.problem == "its supervisor did not start it"
    bench.machine.launch(bench.sh("echo again"))
    assert bench.supervise().wait(30) == 1, "a supervisor that comes late leaves"
    assert bench.said() == "" and bench.machine.poll() == []


def test_dead_before_the_supervisor_had_its_lock(bench: Bench) -> None:
    """Many times over: either it was declared lost and never started, or it had its lock first and runs."""
    for attempt in range(1, 6):
        folder = bench.folder(1, attempt)
        folder.mkdir(parents=True)
        (folder / SUPERVISOR_LOCK).touch()
        write_order(folder, on_disk(bench.sh(f"echo i{attempt}", attempt=attempt)))
        supervisor = bench.supervise(1, attempt)
        time.sleep(0.03 * attempt)
        bench.open()
        part = bench.wait(attempt=attempt)
        supervisor.wait(30)
        assert (part.outcome == "finished") == (f"i{attempt}\n" in bench.said()), part
        assert part.outcome in {"finished", "lost"}


def test_dead_after_the_supervisor_had_its_lock(bench: Bench) -> None:
    prepare(bench)
    lock = try_lock(bench.folder() / SUPERVISOR_LOCK)
    assert lock is not None
    bench.open()
    assert bench.part().state == "starting"
    unlock(lock)
    assert bench.wait().outcome == "lost"


def test_of_two_supervisors_one_leaves(bench: Bench) -> None:
    prepare(bench)
    pair = [bench.supervise(), bench.supervise()]
    until(lambda: any(process.poll() is not None for process in pair))
    until(lambda: "ready" in bench.said())
    assert sorted(process.poll() or 0 for process in pair) == [0, 1] and bench.said().count("ready") == 1
    bench.open()
    bench.machine.kill(1, 1, 2)
    bench.wait()
    assert bench.supervise().wait(30) == 1, "one that has ended is not started again"
    assert bench.said().count("ready") == 1


def test_files_that_cannot_be_read(bench: Bench) -> None:
    """A power cut may leave an empty status; whatever else is there, it must not stop the daemon."""
    prepare(bench)
    for text in (b"", b"\0" * 100, b"[]", b'{"job": 1}'):
        (bench.folder() / STATUS).write_bytes(text)
        assert read_status(bench.folder()) is None
    bench.open()
    assert bench.wait().outcome == "lost"
    (bench.folder() / LAUNCH).write_bytes(b"nothing")
    (bench.folder() / STATUS).unlink()
    (part,) = bench.open().poll()
    assert (part.state, part.outcome) == ("ended", "lost")
    (bench.home / "run" / "notes").mkdir()
    (bench.home / "run" / "007").mkdir()
    (bench.home / "run" / "8").touch()
    assert bench.open().inventory() == [part]


def test_a_folder_that_somebody_removed(bench: Bench) -> None:
    bench.start(f"trap '' TERM; echo pid $$; {RUNS}")
    shutil.rmtree(bench.folder())
    assert bench.part().state == "running"
    os.kill(pid_said(bench), signal.SIGKILL)
    os.kill(bench.supervisor(), signal.SIGKILL)
    assert bench.wait().outcome == "lost"
