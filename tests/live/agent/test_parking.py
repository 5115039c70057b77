"""Parking of real processes by a real supervisor: the hook gets into an unmodified script by its environment alone."""

import os
import signal
import sys
from pathlib import Path

import pytest

from rota.agent import constants
from rota.agent.machine import AttemptStatus
from rota.park.hook import rota_park_hook
from rota.park.park_environment import HOOK_FOLDER, parking_environment
from rota.park.park_method import ParkingFacts
from tests.live.agent.bench import Bench
from tests.waiting import alive, until

COUNTS = """
import os, time
for step in range(1, 100_000):
    print("step", step, "of", os.getpid(), flush=True)
    time.sleep(0.01)
"""
LEAVES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
"""


def start(bench: Bench, script: str, *flags: str, grace_seconds: float = 60.0, lease_seconds: float = 300.0) -> None:
    """A Python script as the launcher starts it where GPUs are pretend ones."""
    env = {"PATH": os.environ["PATH"]}
    env |= parking_environment(ParkingFacts(), env)
    order = bench.order(
        sys.executable,
        *flags,
        "-c",
        script,
        env=env,
        progress=r"step (\d+)",
        grace_seconds=grace_seconds,
        lease_seconds=lease_seconds,
        lease_grace_seconds=60.0,
    )
    bench.machine.launch(order)
    until(lambda: steps(bench) > 3 or bench.part().state == "ended", "its first steps")


def steps(bench: Bench) -> int:
    lines = [line.split() for line in bench.said().splitlines() if line.startswith("step ")]
    return int(lines[-1][1]) if lines else 0


def park(bench: Bench, sequence: int = 2) -> AttemptStatus:
    assert bench.machine.park(1, 1, sequence)
    return bench.wait(state="parked")


def resume(bench: Bench, sequence: int) -> AttemptStatus:
    assert bench.machine.resume(1, 1, sequence, 300.0)
    return bench.wait(state="running")


def test_the_hook_has_its_own_copy_of_the_names_it_shares_with_the_supervisor() -> None:
    """It can't import them: the job's Python has no Rota."""
    assert rota_park_hook.SIGNAL == constants.PARK_SIGNAL
    assert rota_park_hook.RUN_FOLDER == constants.RUN_FOLDER


def test_a_script_that_knows_nothing_of_it_sleeps_and_goes_on_in_the_same_process(bench: Bench) -> None:
    start(bench, COUNTS)
    for sequence in (2, 4, 6):
        parked = park(bench, sequence)
        assert (parked.sequence, parked.stop_reason, parked.parking_problem) == (sequence, None, None)
        said = steps(bench)
        assert parked.steps_done == said, "its steps are those it had"
        until(lambda: "S" in Path(f"/proc/{bench.part().started_s and pid(bench)}/stat").read_text(), "it sleeps")
        assert steps(bench) == said and parked.parked_s is not None
        running = resume(bench, sequence + 1)
        assert running.start_sequence == sequence + 1 and running.resumed_s is not None
        until(lambda said=said: steps(bench) > said + 3, "more steps")
        until(lambda: bench.part().pace.since_s is not None, "its supervisor has told of them")
        part = bench.part()
        assert part.pace.since_s is not None and part.resumed_s is not None
        assert part.pace.since_s >= part.resumed_s and part.pace.since_steps > said, "its pace is measured since it was woken"
    lines = [line.split() for line in bench.said().splitlines() if line.startswith("step ")]
    assert [int(line[1]) for line in lines] == list(range(1, len(lines) + 1)), "no step is lost, none is done twice"
    assert {line[3] for line in lines} == {str(pid(bench))}
    assert bench.said().count("--- rota: parked at step") == bench.said().count("--- rota: resumed at step") == 3


def pid(bench: Bench) -> int:
    """Of the job's main process."""
    return int(next(line for line in bench.said().splitlines() if line.startswith("step ")).split()[3])


def test_another_daemon_finds_it_parked_and_wakes_it(bench: Bench) -> None:
    start(bench, COUNTS)
    parked = park(bench)
    bench.open()
    assert bench.wait(state="parked").sequence == parked.sequence
    before = steps(bench)
    resume(bench, 3)
    until(lambda: steps(bench) > before, "more steps")


def test_what_is_parked_is_woken_before_it_is_told_to_leave(bench: Bench) -> None:
    """It saves in its handler, and for that its memory has to be where it was."""
    start(bench, LEAVES + COUNTS)
    park(bench)
    bench.machine.suspend(1, 1, 3)
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code, ended.stop_reason) == ("yielded", 75, "suspend")
    assert ended.steps_saved == ended.steps_done == steps(bench)


def test_a_parked_job_whose_lease_is_over_is_ended(bench: Bench) -> None:
    start(bench, LEAVES + COUNTS)
    park(bench)
    bench.machine.renew(1, 1, 0.0)
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code, ended.stop_reason) == ("yielded", 75, "lease")


def test_one_that_is_killed_while_it_sleeps_is_lost_and_has_not_failed(bench: Bench) -> None:
    start(bench, COUNTS)
    park(bench)
    os.kill(pid(bench), signal.SIGKILL)
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code) == ("lost", -9) and "while it was parked" in ended.problem


def test_with_its_supervisor_a_parked_job_dies(bench: Bench) -> None:
    start(bench, COUNTS)
    park(bench)
    os.kill(bench.supervisor(), signal.SIGKILL)
    ended = bench.wait()
    assert ended.outcome == "lost" and not alive(pid(bench))


def test_a_kill_ends_it_where_it_sleeps(bench: Bench) -> None:
    start(bench, COUNTS)
    park(bench)
    bench.machine.kill(1, 1, 3)
    assert bench.wait().outcome == "lost" and not alive(pid(bench))


OWN = f"import signal\nsignal.signal({constants.PARK_SIGNAL}, lambda *_: print('mine', flush=True))\n"
DEFAULT = f"import signal\nsignal.signal({constants.PARK_SIGNAL}, signal.SIG_DFL)\n"


@pytest.mark.parametrize(
    ("script", "flags", "problem"),
    [
        (OWN, (), "did not answer signal"),
        (DEFAULT, (), "has set signal"),
        ("", ("-S",), "no process of it has the start-up hook"),
        ("", ("-E",), "no process of it has the start-up hook"),
    ],
)
def test_one_that_cannot_be_parked_is_asked_to_leave(bench: Bench, script: str, flags: tuple[str, ...], problem: str) -> None:
    start(bench, LEAVES + script + COUNTS, *flags, grace_seconds=2.0)
    assert bench.machine.park(1, 1, 2)
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code, ended.stop_reason, ended.sequence) == ("yielded", 75, "suspend", 2)
    assert problem in ended.parking_problem


def test_a_hook_that_is_installed_before_the_command_to_park_is_known_when_it_is_obeyed(bench: Bench, tmp_path: Path) -> None:
    """The supervisor was too busy to read either: both messages wait in their sockets."""
    shell, hooked, go = tmp_path / "shell", tmp_path / "hooked", tmp_path / "go"
    script = f"import time\nopen({str(hooked)!r}, 'x').close()\nwhile True: time.sleep(0.01)"
    waits = f'touch {shell}; while [ ! -e {go} ]; do sleep 0.01; done; exec {sys.executable} -c "$SCRIPT"'
    env = {"PATH": os.environ["PATH"], "SCRIPT": script}
    bench.machine.launch(bench.sh(waits, env=env | parking_environment(ParkingFacts(), env)))
    until(shell.exists, "the shell")
    supervisor = bench.supervisor()
    os.kill(supervisor, signal.SIGSTOP)
    go.touch()
    until(hooked.exists, "the hook")
    assert bench.machine.park(1, 1, 2)
    os.kill(supervisor, signal.SIGCONT)
    assert bench.wait(state="parked").parking_problem is None


def test_one_that_ends_of_itself_while_it_is_called_has_finished(bench: Bench) -> None:
    """It hears the signal before its end, and sleeps, or it never does."""
    start(bench, "import os\nprint('step 4', flush=True)\nos._exit(0)", grace_seconds=60.0)
    bench.machine.park(1, 1, 2)
    until(lambda: bench.part().state in ("parked", "ended"), "it is parked or has ended")
    if bench.part().state == "parked":
        bench.machine.resume(1, 1, 3, 300.0)
    assert bench.wait().outcome == "finished"


def test_the_sitecustomize_of_the_user_still_runs(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("MINE = 'it ran'\n")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "own")}
    env |= parking_environment(ParkingFacts(), env)
    assert env["PYTHONPATH"] == f"{HOOK_FOLDER}:{tmp_path / 'own'}"
    script = "import sitecustomize\nprint(sitecustomize.MINE, sitecustomize.__file__, flush=True)\n" + COUNTS
    bench.machine.launch(bench.order(sys.executable, "-c", script, env=env, progress=r"step (\d+)"))
    until(lambda: steps(bench) > 3 or bench.part().state == "ended", "its first steps")
    assert f"it ran {tmp_path / 'own' / 'sitecustomize.py'}" in bench.said()
    park(bench)


CHILDREN = """
import os, subprocess, sys, time
other = subprocess.Popen([sys.executable, "-c", "import time\\nwhile True:\\n print('other', flush=True); time.sleep(0.01)"])
if os.fork() == 0:
    time.sleep(1000)
"""


def test_every_python_process_of_it_sleeps_and_forked_ones_are_left_alone(bench: Bench) -> None:
    start(bench, CHILDREN + COUNTS)
    until(lambda: "other" in bench.said(), "the other process")
    for sequence in (2, 4):
        park(bench, sequence)
        before = bench.said()
        bench.machine.renew(1, 1, 300.0)
        assert bench.said() == before
        resume(bench, sequence + 1)
        until(lambda before=before: bench.said().count("other") > before.count("other") and steps(bench) > 4, "both go on")
