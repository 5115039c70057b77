"""Ends of real processes, with and without a request to stop."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rota.agent.attempt_files import read_status
from rota.agent.attempt_handle import PACKAGES
from rota.agent.processes import boot_s
from tests.live.agent.bench import FOREVER, Bench
from tests.waiting import alive, until

STUBBORN = f"trap '' TERM; echo ready; {FOREVER}"


def leaves_with(code: int, before: str = "") -> str:
    return f"trap '{before} exit {code}' TERM; echo ready; {FOREVER}"


@pytest.mark.parametrize(
    ("script", "outcome", "code", "marker"),
    [
        ("exit 0", "finished", 0, "finished"),
        ("exit 75", "yielded", 75, r"yielded after [\d.]+s, no work lost"),
        ("exit 3", "failed", 3, "failed with exit code 3"),
        ("kill -SEGV $$", "failed", -signal.SIGSEGV, "failed: killed by SIGSEGV"),
        ("kill -TERM $$", "failed", -signal.SIGTERM, "failed: killed by SIGTERM"),
    ],
)
def test_it_ends_of_itself(bench: Bench, script: str, outcome: str, code: int, marker: str) -> None:
    bench.machine.launch(bench.sh(f"printf begun; {script}", from_step=40.0))
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.stop_reason, part.steps_saved) == (outcome, code, None, 40.0)
    assert part.started_s is not None and part.ended_s is not None and part.started_s <= part.ended_s
    *before, last = bench.said().splitlines()
    assert before == ["--- rota: resumed on n1 GPUs 0,1 (attempt 1, from step 40) ---", "begun"]
    assert re.fullmatch(f"--- rota: {marker} ---", last)
    assert bench.job_lock_is_free()


@pytest.mark.parametrize(
    ("code", "outcome", "saved", "marker"),
    [
        (0, "yielded", 98_600.0, r"suspended at step 98,600, 0 steps lost \(exit code 0 after it was asked to stop\)"),
        (75, "yielded", 98_600.0, "suspended at step 98,600, 0 steps lost"),
        (3, "yielded", 98_000.0, r"suspended at step 98,600, 600 steps lost \([\dms.]+ of work\)"),
    ],
)
def test_it_leaves_when_suspended(bench: Bench, code: int, outcome: str, saved: float, marker: str) -> None:
    script = leaves_with(code, before="echo step 98_600;")
    bench.start(script, from_step=98_000.0, progress=r"step ([\d_]+)")
    assert bench.machine.suspend(1, 1, 2)
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.stop_reason, part.sequence) == (outcome, code, "suspend", 2)
    assert (part.steps_done, part.steps_saved) == (98_600.0, saved)
    assert re.fullmatch(f"--- rota: {marker} ---", bench.said().splitlines()[-1])
    assert not bench.machine.suspend(1, 1, 3) and not bench.machine.kill(1, 1, 4) and not bench.machine.renew(1, 1, 60.0)


@pytest.mark.parametrize(("total", "outcome"), [(98_600.0, "finished"), (98_601.0, "yielded"), (None, "yielded")])
def test_after_it_was_told_to_stop_exit_code_0_is_an_end_only_if_its_steps_say_so(
    bench: Bench, total: float | None, outcome: str
) -> None:
    bench.start(leaves_with(0, before="echo step 98600;"), progress=r"step (\d+)", steps_total=total)
    bench.machine.suspend(1, 1, 2)
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.stop_reason) == (outcome, 0, "suspend")


def test_one_that_saves_and_leaves_when_its_lease_is_over_has_not_finished(bench: Bench) -> None:
    bench.start(leaves_with(0), lease_grace_seconds=20.0)
    bench.machine.renew(1, 1, 0.1)
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.stop_reason) == ("yielded", 0, "lease")


def test_what_a_shell_runs_may_leave_with_0_too(bench: Bench) -> None:
    """The shell dies of the signal, and what it runs saves and exits with 0."""
    inner = f"trap 'sleep 0.2; echo step 7; exit 0' TERM; echo ready; {FOREVER}"  # a shell that still lives would hide its end
    env = {"PATH": os.environ["PATH"], "INNER": inner}
    bench.machine.launch(bench.order("bash", "-c", 'sh -c "$INNER"; true', env=env, progress=r"step (\d+)"))
    until(lambda: "ready" in bench.said())
    bench.machine.suspend(1, 1, 2)
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.steps_saved) == ("yielded", 0, 7.0)


def test_an_end_before_it_was_told_to_stop_counts_as_its_own(bench: Bench) -> None:
    """Its supervisor sleeps while it ends, and finds the order to suspend when it wakes up."""
    os.mkfifo(bench.home / "gate")
    bench.start("echo ready; read line < gate", workdir=str(bench.home))
    status, supervisor = read_status(bench.folder()), bench.supervisor()
    assert status is not None and status.pid is not None
    os.kill(supervisor, signal.SIGSTOP)
    try:
        (bench.home / "gate").write_text("go\n")
        until(lambda: not alive(status.pid or 0), "its end")
        bench.machine.suspend(1, 1, 2)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    part = bench.wait()
    assert (part.outcome, part.exit_code) == ("finished", 0)


def test_another_signal_can_be_asked_for(bench: Bench) -> None:
    bench.start(f"trap 'exit 75' USR2; echo ready; {FOREVER}", stop_signal="USR2")
    bench.machine.suspend(1, 1, 2)
    assert bench.wait().exit_code == 75


def test_what_it_says_when_it_is_asked_to_stop_is_called_its_own(bench: Bench) -> None:
    """Launchers such as torchrun write a traceback then."""
    bench.start(leaves_with(75, before="echo Traceback: got SIGTERM;"))
    bench.machine.suspend(1, 1, 2)
    bench.wait()
    lines = bench.said().splitlines()
    assert lines[1:3] == ["ready", "--- rota: asked to save and stop; messages about SIGTERM below are the job's own ---"]
    assert "Traceback: got SIGTERM" in lines[3:-1] and re.fullmatch(
        r"--- rota: suspended after [\d.]+s, no work lost ---", lines[-1]
    )


def test_one_that_ignores_the_signal_is_killed_after_its_grace(bench: Bench) -> None:
    bench.start(STUBBORN, grace_seconds=0.2, from_step=5.0)
    bench.machine.suspend(1, 1, 2)
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.stop_reason, part.steps_saved) == ("yielded", -9, "suspend", 5.0)


def test_a_stopped_one_hears_it_all_the_same(bench: Bench) -> None:
    bench.start(f"trap 'exit 75' TERM; echo ready; kill -STOP $$; {FOREVER}")
    bench.machine.suspend(1, 1, 2)
    assert bench.wait().exit_code == 75


def test_grace_is_also_for_what_a_shell_runs(bench: Bench) -> None:
    """The shell has no handler and dies of the signal at once; its child still saves."""
    inner = f"trap 'sleep 0.2; echo saved; exit 75' TERM; echo ready; {FOREVER}"
    bench.machine.launch(bench.order("bash", "-c", 'sh -c "$INNER"; true', env={"PATH": os.environ["PATH"], "INNER": inner}))
    until(lambda: "ready" in bench.said())
    bench.machine.suspend(1, 1, 2)
    part = bench.wait()
    assert "saved\n" in bench.said()
    assert (part.outcome, part.exit_code) == ("yielded", 75)


def test_a_kill_is_at_once_and_shortens_a_suspension(bench: Bench) -> None:
    bench.start(STUBBORN)
    bench.machine.suspend(1, 1, 2)
    until(lambda: bench.part().stop_reason == "suspend")
    bench.machine.kill(1, 1, 3)
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.stop_reason, part.sequence) == ("lost", -9, "kill", 3)
    assert re.search(r"killed after [\dms.]+, [\dms.]+ of work lost", bench.said()), "and not that 0 steps were lost"


def test_a_command_that_is_not_newer_changes_nothing_and_is_answered(bench: Bench) -> None:
    bench.start(leaves_with(75), sequence=4)
    for sequence in (3, 4):
        bench.rung.clear()
        assert bench.machine.kill(1, 1, sequence) and bench.machine.suspend(1, 1, sequence)
        assert bench.rung.wait(30)
    assert bench.part().state == "running" and bench.part().stop_reason is None and bench.part().sequence == 4


def test_datagrams_that_make_no_sense_are_passed_over(bench: Bench) -> None:
    bench.start(leaves_with(75))
    numbers: list[object] = [None, "2", 2.0, True, [], {}]
    datagrams: list[object] = [{"op": "kill", "sequence": number} for number in numbers]
    datagrams += [{"op": "renew", "seconds": "1"}, {"op": []}, 1, None]
    for text in [*map(json.dumps, datagrams), "", "{", "[" * 50_000, "\x00", '{"op":"renew","seconds":NaN}', "1" * 60_000]:
        bench.datagram(text.encode())
    bench.datagram(b'{"op": "report", "steps_done": 7, "steps_saved": -1, "steps_total": "x", "more": 1}')
    until(lambda: bench.part().steps_done == 7.0)
    part = bench.part()
    assert (part.state, part.stop_reason, part.steps_saved, part.steps_total) == ("running", None, 0.0, None)


def test_a_job_may_report_its_own_steps(bench: Bench) -> None:
    bench.start(STUBBORN, grace_seconds=0.0)
    bench.datagram(b'{"op": "report", "steps_done": 90, "steps_saved": 80, "steps_total": 100}')
    until(lambda: bench.part().steps_saved == 80.0)
    bench.machine.suspend(1, 1, 2)
    part = bench.wait()
    assert (part.steps_done, part.steps_saved, part.steps_total) == (90.0, 80.0, 100.0)
    assert "suspended at step 90, 10 steps lost" in bench.said()


CLOSE = "; ".join(f"exec {number}>&-" for number in range(3, 10))
HIDING = {
    "ignores signals": "sh -c 'trap \"\" TERM; echo pid $$; echo ready; sleep 300 & wait' &",
    "has its own session": "setsid sh -c 'echo pid $$; echo ready; exec sleep 300' &",
    "has its own session and environment": "setsid env -i sh -c 'echo pid $$; echo ready; exec /bin/sleep 300' &",
    "has lost its parents": "(setsid sh -c 'echo pid $$; echo ready; exec sleep 300' >&1 &) &",
    "has closed its files": f"setsid sh -c 'echo pid $$; echo ready; {CLOSE}; exec sleep 300' &",
}


@pytest.mark.parametrize("how", HIDING)
def test_nothing_of_it_lives_on(bench: Bench, how: str) -> None:
    bench.start(f"trap 'exit 75' TERM; {HIDING[how]} {FOREVER}")
    (pid,) = [int(line.split()[1]) for line in bench.said().splitlines() if line.startswith("pid ")]
    assert alive(pid)
    bench.machine.suspend(1, 1, 2)
    assert bench.wait().exit_code == 75
    assert not alive(pid)
    assert bench.job_lock_is_free()


def test_a_lease_ends_without_a_daemon(bench: Bench) -> None:
    bench.start(leaves_with(75))
    bench.datagram(b'{"op": "renew", "seconds": 0.1}')
    bench.machine.close()
    until(lambda: '"ended"' in (bench.folder() / "status.json").read_text())
    bench.open()
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.stop_reason) == ("yielded", 75, "lease")
    assert "(lease over)" in bench.said()


def test_the_grace_of_a_lease_is_short(bench: Bench) -> None:
    bench.start(STUBBORN)
    bench.machine.renew(1, 1, 0.0)
    assert (bench.wait().exit_code, bench.part().stop_reason) == (-9, "lease")


def test_a_lease_that_ends_shortens_a_long_grace(bench: Bench) -> None:
    bench.start(STUBBORN)
    bench.machine.suspend(1, 1, 2)
    bench.machine.renew(1, 1, 0.0)
    assert (bench.wait().exit_code, bench.part().stop_reason) == (-9, "suspend")


def test_a_renewal_keeps_it_alive(bench: Bench) -> None:
    bench.start(STUBBORN)
    end_s = boot_s() + 1.0
    bench.machine.renew(1, 1, 1.0)
    bench.machine.renew(1, 1, 300.0)
    until(lambda: boot_s() > end_s + 0.2)
    assert bench.part().stop_reason is None and bench.part().state == "running"


def test_a_renewal_counts_from_when_it_was_sent(bench: Bench) -> None:
    """It may have lain in the box while the supervisor was stopped."""
    bench.start(STUBBORN)
    bench.datagram(json.dumps({"op": "renew", "seconds": 5.0, "sent_boot_s": boot_s() - 10.0}).encode())
    assert bench.wait().stop_reason == "lease"


def test_it_is_not_started_when_its_lease_is_over(bench: Bench) -> None:
    bench.machine.launch(bench.sh("echo never", lease_seconds=0.0))
    part = bench.wait()
    assert (part.outcome, part.problem) == ("lost", "its lease was over before it could start")
    assert "never" not in bench.said()


def test_the_supervisor_does_not_heed_sigterm(bench: Bench) -> None:
    bench.start(leaves_with(75))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(bench.supervisor(), number)
    bench.datagram(b'{"op": "report", "steps_done": 1}')
    until(lambda: bench.part().steps_done == 1.0)
    assert bench.part().state == "running"


def test_a_second_attempt_is_kept_out_while_the_first_lives(bench: Bench) -> None:
    bench.start(leaves_with(75))
    assert not bench.job_lock_is_free()
    bench.machine.launch(bench.sh("echo second", attempt=2, sequence=2))
    part = bench.wait(attempt=2)
    assert (part.outcome, part.problem) == ("lost", "a process of an earlier attempt of job 1 is still running")
    assert bench.part(attempt=1).state == "running" and "second" not in bench.said()
    bench.machine.suspend(1, 1, 3)
    bench.wait(attempt=1)
    bench.machine.launch(bench.sh("echo third", attempt=3, sequence=4))
    assert bench.wait(attempt=3).outcome == "finished" and "third" in bench.said()


def test_progress_is_told_while_it_runs(bench: Bench) -> None:
    script = f"echo 'step 1/8'; echo ready; printf 'bar 3/8\\rstep 1,003/2_000 \\377\\nstep 7'; {FOREVER}"
    bench.start(script, progress=r"step ([\d,._]+)(?:/([\d_]+))?", steps_total=8.0)
    until(lambda: bench.part().steps_done == 1003.0)
    assert bench.part().steps_total == 2000.0 and bench.part().steps_saved == 0.0
    bench.machine.kill(1, 1, 2)
    assert bench.wait().steps_done == 7.0, "the last line is complete when nobody can add to it"


@pytest.mark.parametrize("first", [41, 12])
def test_it_begins_with_its_first_step(bench: Bench, tmp_path: Path, first: int) -> None:
    """What it says before is where it starts from. It may know of an earlier checkpoint than we do."""
    go = tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done"
    bench.start(f"echo step 40; echo ready; {wait}; echo step {first}; {FOREVER}", from_step=40.0, progress=r"step (\d+)")
    assert bench.part().began_s is None
    bench.rung.clear()
    before_s = time.time()
    go.touch()
    until(lambda: bench.part().began_s is not None)
    part = bench.part()
    assert part.began_s is not None and before_s <= part.began_s <= time.time()
    assert part.steps_done == first and part.stepped_s == part.began_s
    until(bench.rung.is_set, "word of it")
    bench.open()
    assert bench.part().began_s == part.began_s, "another daemon finds it"


def test_the_moment_of_a_step_is_when_its_line_came(bench: Bench, tmp_path: Path) -> None:
    """Not when it was looked at, and not when something else was said."""
    go, moment = tmp_path / "go", tmp_path / "moment"
    script = f"echo step 1; echo ready; while [ ! -e {go} ]; do sleep 0.02; done; date +%s.%N > {moment}; echo step 2; {FOREVER}"
    bench.start(script, progress=r"step (\d+)")
    until(lambda: bench.part().steps_done == 1)
    first_s = bench.part().stepped_s
    go.touch()
    until(lambda: bench.part().steps_done == 2)
    second_s = bench.part().stepped_s
    assert first_s is not None and second_s is not None and first_s < float(moment.read_text()) <= second_s
    bench.open()
    assert (bench.part().stepped_s, bench.part().gpus_text) == (second_s, "n1 GPUs 0,1"), "another daemon finds it"


@pytest.mark.parametrize("pattern", ["", "(", "no group"])
def test_one_whose_steps_are_not_read_begins_with_its_process(bench: Bench, pattern: str) -> None:
    bench.start(f"echo ready; {FOREVER}", progress=pattern)
    part = bench.part()
    assert part.began_s is not None and part.began_s == part.started_s


def test_one_that_ends_without_a_step_never_began(bench: Bench) -> None:
    bench.machine.launch(bench.sh("echo no steps here", progress=r"step (\d+)"))
    assert bench.wait().began_s is None


def test_a_pattern_that_never_ends_is_given_up(bench: Bench) -> None:
    bench.start(f"echo {'a' * 100}b; trap 'exit 75' TERM; echo ready; {FOREVER}", progress=r"^(a+)+$")
    until(lambda: "took more than" in (bench.part().problem or ""))
    bench.machine.suspend(1, 1, 2)
    assert bench.wait().exit_code == 75


@pytest.mark.parametrize(
    ("argv", "workdir", "code", "problem"),
    [
        (["no-such-command"], "/", 127, "the command 'no-such-command' cannot be run: no such file or directory"),
        (["/proc/self/nothing"], "/", 127, "the command '/proc/self/nothing' cannot be run: no such file or directory"),
        (["/etc/passwd"], "/", 126, "the command '/etc/passwd' cannot be run: permission denied"),
        (["true"], "/no/such/place", 126, "the working directory /no/such/place cannot be entered: no such file or directory"),
        (["a\0b"], "/", 126, "the command 'a\\x00b' cannot be run: embedded null byte"),
        ([], "/", 126, "there is no command to run"),
    ],
)
def test_what_cannot_be_run_says_so(bench: Bench, argv: list[str], workdir: str, code: int, problem: str) -> None:
    bench.machine.launch(bench.order(*argv, workdir=workdir))
    part = bench.wait()
    assert (part.outcome, part.exit_code, part.problem, part.started_s) == ("failed", code, problem, None)
    assert bench.said().endswith(f"\n--- rota: failed: {problem} ---\n")
    assert bench.job_lock_is_free()


LOOKS_AROUND = """
import json, os, signal
open_files = [f"/proc/self/fd/{n}" for n in range(3, 20)]
print(json.dumps({
    "env": dict(os.environ), "cwd": os.getcwd(), "stdin": os.readlink("/proc/self/fd/0"), "leader": os.getsid(0) == os.getpid(),
    "files": [os.path.basename(os.readlink(path)) for path in open_files if os.path.lexists(path)],
    "blocked": list(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
    "ignored": [n for n in (1, 2, 3, 10, 12, 13, 14, 15, 17) if signal.getsignal(n) == signal.SIG_IGN],
}))
"""


def test_what_a_job_sees(bench: Bench, tmp_path: Path) -> None:
    """Nothing of the daemon's: neither its environment, nor its files, nor what it does with signals."""
    mine = {"A": "1", "ROTA_LIFE": "of an outer job", "LANG": "C.UTF-8", "ODD": "\udcff\n'\""}
    bench.machine.launch(bench.order(sys.executable, "-c", LOOKS_AROUND, env=mine, workdir=str(tmp_path)))
    assert bench.wait().outcome == "finished"
    seen = json.loads(next(line for line in bench.said().splitlines() if line.startswith("{")))
    assert seen["env"].pop("ROTA_LIFE") != mine.pop("ROTA_LIFE")
    assert seen["env"].pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"  # Python adds it to its own.
    assert seen["env"].pop("ROTA_RUN_DIR") == str(bench.folder() / "job")
    assert seen["env"] == mine
    assert (seen["cwd"], seen["stdin"], seen["leader"]) == (str(tmp_path), "/dev/null", True)
    assert seen["files"] == ["job.lock"]
    # Python itself ignores SIGPIPE (13), and heeds SIGINT.
    assert (seen["blocked"], seen["ignored"]) == ([], [13])


def test_a_supervisor_loads_next_to_nothing() -> None:
    """It is to be up in a moment, for every launch."""
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", "import sys, rota.agent.supervisor; print(*sys.modules)"],
        env={"PYTHONPATH": PACKAGES},
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"numpy", "pydantic", "dataclasses", "inspect", "asyncio", "logging", "rota.model", "rota.wire"}
    assert heavy.isdisjoint(done.stdout.split())
