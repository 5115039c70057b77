"""Leases of jobs whose supervisor is frozen or whose log disk hangs, with real processes and a disk that is really frozen."""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.agent import overdue
from rota.agent.attempt_files import AttemptStatus, read_status
from rota.agent.attempt_handle import AttemptHandle
from rota.agent.processes import boot_s
from tests.live.agent.bench import FOREVER, Bench
from tests.waiting import alive, until

STUBBORN = f"trap '' TERM; echo ready; {FOREVER}"
TALKS = "trap 'exit 75' TERM; echo ready; while :; do seq 1 20000; done"
LEASE_SECONDS = 1.0


def main_of(bench: Bench) -> int:
    status = read_status(bench.folder())
    assert status is not None and status.pid is not None
    return status.pid


def ended(bench: Bench) -> AttemptStatus | None:
    """As its supervisor has written it, without an agent."""
    status = read_status(bench.folder())
    return status if status is not None and status.state == "ended" else None


def until_ended(bench: Bench) -> AttemptStatus:
    until(lambda: ended(bench) is not None, "its end")
    status = ended(bench)
    assert status is not None
    return status


@contextlib.contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """What is still there goes on later."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@pytest.fixture
def freeze(bench: Bench, tmp_path: Path) -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
    """Logs are on a disk of their own, on which every write hangs for a while."""
    image, logs = tmp_path / "image", bench.home / "logs"
    image.write_bytes(b"\0" * (16 << 20))
    made = subprocess.run(["mkfs.ext4", "-q", image], capture_output=True, check=False).returncode == 0
    if not made or subprocess.run(["mount", "-o", "loop", image, logs], capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a disk to freeze")

    @contextlib.contextmanager
    def frozen() -> Iterator[None]:
        subprocess.run(["fsfreeze", "--freeze", logs], check=True)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", logs], check=True)

    try:
        yield frozen
    finally:
        bench.clean()
        subprocess.run(["umount", "-l", logs], check=True)


# The log.


@pytest.fixture(params=["disk", "writer"])
def hung(request: pytest.FixtureRequest, bench: Bench) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Nothing gets into the log meanwhile: its disk is frozen, or what writes it is stopped."""
    if request.param == "disk":
        frozen: Callable[[], contextlib.AbstractContextManager[None]] = request.getfixturevalue("freeze")
        return frozen
    return lambda: stopped(bench.log_writer())


Hung = Callable[[], contextlib.AbstractContextManager[None]]


def test_a_job_ends_at_its_lease_while_its_log_hangs(bench: Bench, hung: Hung) -> None:
    bench.start(TALKS)
    main = main_of(bench)
    bench.machine.close()
    with hung():
        bench.datagram(json.dumps({"op": "renew", "seconds": LEASE_SECONDS}).encode())
        status = until_ended(bench)
        assert not alive(main) and bench.job_lock_is_free()
        assert (status.outcome, status.stop_reason) == ("yielded", "lease")
        assert status.problem == "the end of its log could not be written: the disk does not answer"
        until(lambda: not bench.processes("rota.agent.supervisor"), "the supervisor ends, though its log still hangs")
    until(lambda: not bench.processes("rota.agent.log_writer"), "what hung ends")


def test_a_job_that_ends_while_its_log_hangs_is_reported(bench: Bench, hung: Hung) -> None:
    os.mkfifo(bench.home / "gate")
    bench.start("echo ready; read line < gate; echo late; exit 3", workdir=str(bench.home))
    with hung():
        (bench.home / "gate").write_text("go\n")
        part = bench.wait()
        assert (part.outcome, part.exit_code) == ("failed", 3) and "could not be written" in part.problem
        bench.machine.launch(bench.sh("exit 0", job=2))


def test_steps_are_told_while_the_log_hangs(bench: Bench, hung: Hung) -> None:
    os.mkfifo(bench.home / "gate")
    script = f"echo ready; read line < gate; echo step 7; {FOREVER}"
    bench.start(script, workdir=str(bench.home), progress=r"step (\d+)")
    with hung():
        (bench.home / "gate").write_text("go\n")
        until(lambda: bench.part().steps_done == 7.0)
    until(lambda: "step 7" in bench.said(), "its log goes on")


def test_a_job_waits_for_a_log_that_hangs_and_goes_on_with_it(bench: Bench, hung: Hung) -> None:
    """Nothing of its output is lost, and its supervisor does not keep it all in memory."""
    os.mkfifo(bench.home / "gate")
    bench.start("echo ready; read line < gate; exec seq 1 300000", workdir=str(bench.home))
    main = main_of(bench)
    with hung():
        (bench.home / "gate").write_text("go\n")
        until(lambda: _waits_in_a_pipe(main), "it waits for its log")
        assert bench.part().state == "running"
    assert bench.wait().outcome == "finished"
    numbers = [line for line in bench.said().splitlines() if line.isdecimal()]
    assert numbers == [str(number) for number in range(1, 300_001)]


def _waits_in_a_pipe(pid: int) -> bool:
    """Whether it sleeps, has written more than its pipe holds, and less than all."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    written = int(re.findall(r"^wchar: (\d+)$", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)[0])
    return fields[0] == "S" and written > 65_536


def test_a_log_that_does_not_open_keeps_the_job_from_starting(bench: Bench, freeze: Hung) -> None:
    """The supervisor says so, and leaves."""
    with freeze():
        bench.machine.launch(bench.sh("echo never"))
        part = bench.wait()
        assert (part.outcome, part.started_s) == ("lost", None)
        assert part.problem.endswith("1.log cannot be written: the disk does not answer within 15 s")


def test_another_process_writes_the_log_when_the_first_was_killed(bench: Bench) -> None:
    os.mkfifo(bench.home / "gate")
    script = "echo ready; read line < gate; seq 1 100000"
    bench.start(script, workdir=str(bench.home))
    until(lambda: "ready" in bench.said())
    os.kill(bench.log_writer(), signal.SIGKILL)
    (bench.home / "gate").write_text("go\n")
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.problem) == ("finished", 0, None)
    assert bench.said().endswith("99999\n100000\n--- rota: finished ---\n")
    assert not bench.processes("rota.agent.log_writer")


def test_what_was_written_before_the_supervisor_was_killed_is_in_the_log(bench: Bench) -> None:
    """And the process beside it ends, also if it was stopped."""
    os.mkfifo(bench.home / "gate")
    bench.start(f"echo ready; read line < gate; echo step 7; {FOREVER}", workdir=str(bench.home), progress=r"step (\d+)")
    os.kill(bench.log_writer(), signal.SIGSTOP)
    (bench.home / "gate").write_text("go\n")
    until(lambda: bench.part().steps_done == 7.0)
    os.kill(bench.supervisor(), signal.SIGKILL)
    until(lambda: not bench.processes("rota.agent.log_writer"), "its end")
    assert bench.said().endswith("step 7\n")


# The supervisor.

HIDING = {
    "plain": "",
    "has its own session": "setsid sh -c 'echo pid $$; exec sleep 300' &",
    "has its own session and environment": "setsid env -i sh -c 'echo pid $$; exec /bin/sleep 300' &",
    "has lost its parents": "(setsid env -i sh -c 'echo pid $$; exec /bin/sleep 300' >&1 &) &",
}


@pytest.mark.parametrize("how", HIDING)
def test_a_stopped_supervisor_does_not_let_its_job_outlive_its_lease(bench: Bench, how: str) -> None:
    """Without an agent: the process beside it sees to that."""
    bench.start(f"{HIDING[how]} {STUBBORN}", from_step=3.0)
    until(lambda: ("pid " in bench.said()) == bool(HIDING[how]))
    pids = [main_of(bench), *(int(found) for found in re.findall(r"^pid (\d+)$", bench.said(), re.MULTILINE))]
    renew(bench, LEASE_SECONDS)
    bench.machine.close()
    with stopped(bench.supervisor()):
        until(lambda: not any(map(alive, pids)), "the end of the job")
        assert ended(bench) is None
    status = until_ended(bench)
    assert (status.outcome, status.stop_reason, status.exit_code) == ("yielded", "lease", -9)
    assert status.problem == "its supervisor stood still when its lease ended"
    assert re.search(r"suspended after [\d.]+s, [\d.]+s of work lost \(lease over\)", bench.said())


def renew(bench: Bench, seconds: float) -> None:
    """Until its supervisor has taken it, and its agent knows."""
    bench.machine.renew(1, 1, seconds)
    until(lambda: bench.machine.poll() is not None and handle_of(bench).gone_s(fresh=False) < boot_s() + seconds + 1.0)


def handle_of(bench: Bench) -> AttemptHandle:
    (handle,) = bench.machine._handles.values()
    return handle


def test_a_renewal_that_a_stopped_supervisor_did_not_take_is_none(bench: Bench) -> None:
    """Also for the agent, which goes on sending them. It ends the supervisor and reports that."""
    bench.start(STUBBORN, from_step=4.0)
    main, supervisor = main_of(bench), bench.supervisor()
    renew(bench, LEASE_SECONDS)
    with stopped(supervisor):
        until(lambda: bench.machine.renew(1, 1, 300.0) and bench.part().state == "ended", "its end")
    part = bench.part()
    assert (part.outcome, part.problem, part.steps_saved) == ("lost", overdue.PROBLEM, 4.0)
    assert not alive(main) and bench.job_lock_is_free()
    until(lambda: not bench.processes("rota.agent.supervisor") and not bench.processes("rota.agent.log_writer"))


def test_the_agent_ends_a_job_when_all_beside_it_is_stopped(bench: Bench) -> None:
    """No driver asks anything: the agent looks by itself."""
    bench.start(STUBBORN)
    main, supervisor, writer = main_of(bench), bench.supervisor(), bench.log_writer()
    renew(bench, LEASE_SECONDS)
    with stopped(supervisor, writer):
        until(lambda: not alive(main) and not alive(supervisor) and not alive(writer), "the end of all three")
    assert bench.rung.wait(30)
    assert (bench.wait().outcome, bench.part().problem) == ("lost", overdue.PROBLEM)


def test_a_supervisor_that_is_stopped_for_less_than_its_lease_goes_on(bench: Bench) -> None:
    bench.start(f"trap 'exit 75' TERM; echo ready; {FOREVER}")
    with stopped(bench.supervisor()):
        bench.machine.renew(1, 1, 200.0)
    bench.datagram(b'{"op": "report", "steps_done": 7}')
    until(lambda: bench.part().steps_done == 7.0)
    bench.machine.suspend(1, 1, 2)
    assert (bench.wait().exit_code, bench.part().problem) == (75, None)


def test_the_agent_leaves_a_supervisor_alone_that_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may keep it from writing that its lease was renewed."""
    bench.start(STUBBORN)
    monkeypatch.setattr(overdue, "STILL_SECONDS", -1.0)
    monkeypatch.setattr(AttemptHandle, "gone_s", lambda handle, *, fresh: 0.0)
    handle = handle_of(bench)
    assert overdue._is_overdue(handle)
    bench.machine._leases._look(handle, {})
    assert handle.problem == "" and bench.part().state == "running"
    with stopped(bench.supervisor()):
        until(lambda: bench.machine._leases._look(handle, {}) or handle.problem != "", "the agent finds it stopped")


def test_an_agent_that_was_started_later_knows_the_lease(bench: Bench) -> None:
    bench.start(STUBBORN, lease_seconds=60.0, lease_grace_seconds=300.0, grace_seconds=300.0)
    bench.machine.renew(1, 1, 250.0)
    until(lambda: handle_of(bench).gone_s(fresh=True) > boot_s() + 400.0)
    bench.open()
    handle = handle_of(bench)
    assert handle.gone_s(fresh=True) > boot_s() + 300.0 and not overdue._is_overdue(handle)
