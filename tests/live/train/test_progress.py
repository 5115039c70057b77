"""The one-line integration: a script reports its progress, in Python or by hand."""

import json
import os
import sys
from pathlib import Path

import pytest

from rota.agent import datagrams
from rota.agent.attempt_handle import PACKAGES
from rota.agent.disk import REPORT_SOCKET
from rota.errors import OptionError
from rota.train.progress import numbers, report
from tests.live.agent.bench import Bench
from tests.live.agent.conftest import bench
from tests.waiting import until

__all__ = ["bench"]


def test_a_script_tells_by_one_line(bench: Bench) -> None:
    script = (
        "from rota import train\n"
        "for step in range(1, 101):\n    train.report(step, 100, loss=1 / step)\n"
        "train.report(100, 100, saved=100)\n"
    )
    bench.machine.launch(bench.order(sys.executable, "-c", script, env={"PYTHONPATH": PACKAGES}, progress="session"))
    part = bench.wait()
    assert (part.outcome, part.steps_done, part.steps_total, part.steps_saved) == ("finished", 100.0, 100.0, 100.0)
    assert part.metrics == {"loss": 0.01} and part.reports_steps


def test_it_counts_as_begun_with_its_first_step(bench: Bench) -> None:
    """If its spec says that it tells its steps itself; else with its process."""
    wait = 'from rota import train\nopen("go").read()\ntrain.report(1)\nopen("go").read()'
    os.mkfifo(bench.home / "go")
    for job, progress in ((1, "session"), (2, "")):
        env = {"PYTHONPATH": PACKAGES}
        order = bench.order(sys.executable, "-c", wait, job=job, progress=progress, workdir=str(bench.home), env=env)
        bench.machine.launch(order)
        bench.wait(job, 1, "running")
        assert (bench.part(job).began_s is None) == (progress == "session")
        (bench.home / "go").write_text("")
        until(lambda job=job: bench.part(job).steps_done == 1)
        assert bench.part(job).began_s is not None
        (bench.home / "go").write_text("")
        bench.wait(job)


def test_a_job_can_only_report(bench: Bench) -> None:
    """Whatever it sends to its own socket: no kill, no lease."""
    bench.start("echo ready; sleep 100")
    box = bench.folder() / "job"
    for message in (
        {"op": "kill", "sequence": 9},
        {"op": "suspend", "sequence": 9},
        {"op": "renew", "seconds": 0},
        {"op": "report", "steps_done": 5, "metrics": {"x" * 99: 1, "ok": 2, "no": "x", "bad\n": 1, "yes": True, "deep": {}}},
        [],
    ):
        until(lambda message=message: datagrams.send(box, REPORT_SOCKET, json.dumps(message).encode()))
    until(lambda: bench.part().steps_done == 5)
    assert bench.part().stop_reason is None and bench.part().metrics == {"ok": 2.0}
    bench.machine.kill(1, 1, 2)
    bench.wait()


def test_what_a_job_leaves_in_its_folder_goes_with_it(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("stays")
    script = f'cd "$ROTA_RUN_DIR"; mkdir -p a/b; echo x > a/b/c; ln -s {tmp_path} link; ln -s {tmp_path}/precious file'
    bench.machine.launch(bench.sh(script))
    bench.wait()
    folder = bench.folder()
    assert (folder / "job" / "a" / "b" / "c").exists()
    bench.machine.forget(1, 1)
    until(lambda: bench.machine.poll() is not None and not folder.exists(), "its folder is removed")
    assert (tmp_path / "precious").read_text() == "stays"


def test_a_resize_is_found_in_its_folder_and_answered(bench: Bench) -> None:
    bench.start("echo ready; sleep 100")
    size = bench.folder() / "job" / "size.json"
    assert bench.part().start_sequence == 1
    assert bench.machine.resize(1, 1, 5, 128)
    until(lambda: bench.part().start_sequence == 5)
    assert json.loads(size.read_text()) == {"batch_size": 128}
    bench.datagram(b'{"op": "resize", "sequence": 4, "batch_size": 64}')  # one that comes late
    bench.datagram(b'{"op": "resize", "sequence": 6, "batch_size": "x"}')
    bench.datagram(b'{"op": "report", "steps_done": 3}')
    until(lambda: bench.part().steps_done == 3)
    assert json.loads(size.read_text()) == {"batch_size": 128} and bench.part().start_sequence == 5
    bench.open()  # another daemon finds it so
    assert bench.part().start_sequence == 5
    bench.machine.kill(1, 1, 7)
    bench.wait()
    assert not bench.machine.resize(1, 1, 8, 32)


def test_a_resize_that_cannot_be_written_comes_again(bench: Bench) -> None:
    bench.start("echo ready; sleep 100")
    in_the_way = bench.folder() / "job" / "size.json"
    in_the_way.mkdir()
    bench.machine.resize(1, 1, 5, 128)
    bench.datagram(b'{"op": "report", "steps_done": 3}')
    until(lambda: bench.part().steps_done == 3)
    assert bench.part().start_sequence == 1
    in_the_way.rmdir()
    bench.machine.resize(1, 1, 5, 128)
    until(lambda: bench.part().start_sequence == 5)
    bench.machine.kill(1, 1, 7)
    bench.wait()


KILLED = """
import os, sys
from rota import train
work, die_at = sys.argv[1], int(sys.argv[2])
done = []
def save(folder):
    with open(folder / "done", "w") as file:
        file.write(" ".join(done[: len(done) // 2]))
        file.flush()
        if len(done) == die_at:
            os.kill(os.getpid(), 9)  # in the middle of a checkpoint
        file.seek(0)
        file.write(" ".join(done))
def load(folder):
    done[:] = (folder / "done").read_text().split()
    print("loaded", *done, flush=True)
with train.session(save, load, every_seconds=0) as job:
    for number in job.steps(range(12)):
        done.append(str(number))
print("done", *done, flush=True)
"""


def test_killed_while_it_saves_it_goes_on_from_the_checkpoint_before(bench: Bench, tmp_path: Path) -> None:
    """And its supervisor knows what is lost: the steps since then."""
    env = {"PYTHONPATH": PACKAGES, "ROTA_CHECKPOINT_DIR": str(tmp_path), "ROTA_JOB_ID": "1"}
    for attempt, die_at in ((1, 5), (2, 9), (3, 0)):
        env["ROTA_ATTEMPT"] = str(attempt)
        argv = (sys.executable, "-c", KILLED, str(tmp_path), str(die_at))
        bench.machine.launch(bench.order(*argv, env=dict(env), attempt=attempt, progress="session"))
        part = bench.wait(1, attempt)
        if die_at:
            assert (part.exit_code, part.steps_saved) == (-9, die_at - 1)
    said = bench.said()
    assert "loaded 0 1 2 3\n" in said and "loaded 0 1 2 3 4 5 6 7\n" in said
    assert "done " + " ".join(str(number) for number in range(12)) in said
    assert not [entry.name for entry in (tmp_path / "rota-1").iterdir() if entry.name.startswith("new")]


def test_only_numbers_are_told() -> None:
    assert numbers({"a": 1, "b": "2.5", "c": float("inf"), "d": None, "e": "x"}) == {"a": 1.0, "b": 2.5}


@pytest.mark.parametrize("told", [("abc",), (None,), (1, "many"), (True,)])
def test_what_is_no_number_of_steps_is_refused_also_outside_rota(told: tuple[object, ...]) -> None:
    with pytest.raises(OptionError, match="is not a number of steps"):
        report(*told)  # type: ignore[arg-type]
