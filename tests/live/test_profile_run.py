"""`rota profile run`: a job really runs with every option that it accepts, and its rates go to a table."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rota.agent.gpus import Gpu
from rota.model.cluster import Cluster, Node
from rota.model.job import JobSpec
from rota.profiles.simulation_rates import read_rates
from tests.live.harness import heed_interrupts, until

TRAIN = """
import os, signal, sys, time
batch, gpus, way = int(os.environ.get("ROTA_BATCH_SIZE", 0)), int(os.environ["ROTA_GPUS"]), sys.argv[1]
open("pids", "a").write(f"{os.getpid()}\\n")
if way == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if way == "fails" and batch == 128:
    sys.exit("CUDA out of memory")
for step in range(1, 10**9):
    time.sleep(0.01)
    if way == "silent" and gpus == 1:
        print("training hard", flush=True)
        continue
    if way == "short" and step > 3:
        break
    print("step", step, flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def spec(folder: Path, way: str, **fields: Any) -> None:
    plain = {"name": "toy", "run": [sys.executable, "train.py", way], "progress": r"step (\d+)", **fields}
    (folder / "job.yaml").write_text(json.dumps(plain))


def command(*more: str) -> list[str]:
    return [sys.executable, "-m", "rota", "profile", "run", "job.yaml", "--pretend", "2xV100 + 1xK80", "--seconds", "0.3", *more]


def run(folder: Path, *more: str) -> tuple[int, str, str]:
    done = subprocess.run(command(*more), cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    return done.returncode, done.stdout, done.stderr


def living(folder: Path) -> list[str]:
    """Processes of the job that have not ended."""
    pids = (folder / "pids").read_text().split()
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        found += [pid] if state not in "ZX" else []
    return found


def test_every_type_size_and_batch_size(folder: Path) -> None:
    spec(folder, "well", gpus={"min": 1, "max": 2}, batch={"size": 64, "min": 64, "max": 128})
    code, out, err = run(folder, "-o", "json", "--out", "rates.csv")
    assert code == 0, err
    found = json.loads(out)
    options = [(each["accelerator"], each["gpus"], each["batch_size"], each["profile"]) for each in found["rates"]]
    sizes = [("V100", 1), ("V100", 2), ("K80", 1)]
    assert options == [(kind, gpus, batch, f"toy/global{batch}") for kind, gpus in sizes for batch in (64, 128)]
    assert found["profile"] == "toy/global64" and "measuring 6 of 6" in err
    for each in found["rates"]:
        assert each["steps"] >= 4 and each["seconds"] >= 0.3 and not each["problem"]
        assert each["steps_per_second"] == pytest.approx(each["steps"] / each["seconds"])
    assert not living(folder), "every run was stopped"
    rates, job = read_rates(folder / "rates.csv"), JobSpec(profile="toy/global64", batch_size=64, batch_sizes=(64, 128))
    measured = {(each["accelerator"], each["gpus"], each["batch_size"]): each["steps_per_second"] for each in found["rates"]}
    for (kind, gpus, batch), rate in measured.items():
        told, _ = rates.rate_of(job.profile, job.demand, kind, gpus, batch)
        assert told == pytest.approx(rate * rates.progress(job.profile, job.demand, batch), rel=1e-4), "the scheduler finds it"


def test_what_fails_gets_a_line_and_the_others_go_on(folder: Path) -> None:
    spec(folder, "fails", accelerators=["K80"], batch={"size": 64, "max": 128})
    code, out, _ = run(folder)
    first, second, where, last = out.splitlines()
    assert code == 0 and "steps/s" in first
    assert second.startswith("1xK80, batch size 128") and "not measured: it failed (exit code 1)" in second
    assert second.endswith("its output ends: CUDA out of memory")
    assert last == "Put `profile: toy/global64` into job.yaml." and "rota up --profile job-rates.csv" in where
    assert list(read_rates(folder / "job-rates.csv").table) == [("toy/global64", "K80", 1)]


def test_what_makes_no_step_gets_a_line_and_the_others_go_on(folder: Path) -> None:
    spec(folder, "silent", accelerators=["V100"], gpus={"min": 1, "max": 2}, profile="mine")
    code, out, _ = run(folder, "--step-timeout", "2")
    first, second, last = out.splitlines()
    assert code == 0 and "found no step in 2 s; its output ends: training hard" in first and "steps/s" in second
    assert "rota up --profile" in last and not living(folder)
    assert list(read_rates(folder / "job-rates.csv").table) == [("mine", "V100", 2)]


def test_nothing_measured(folder: Path) -> None:
    spec(folder, "short", accelerators=["K80"])
    code, out, _ = run(folder)
    assert code == 1 and "it finished after 3 steps, too soon to be measured" in out and not (folder / "job-rates.csv").exists()


def test_a_job_that_does_not_heed_sigterm_is_killed(folder: Path) -> None:
    spec(folder, "deaf", accelerators=["K80"], checkpoint={"grace": "1s"})
    code, _, err = run(folder)
    assert code == 0, err
    assert not living(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_stops_the_job_and_keeps_what_was_measured(folder: Path, number: signal.Signals) -> None:
    spec(folder, "well", batch={"size": 64, "max": 1024})
    process = subprocess.Popen(
        command("--out", "rates.csv"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )
    try:
        until(lambda: (folder / "rates.csv").exists(), "the first rate is in the table")
        until(lambda: len((folder / "pids").read_text().split()) >= 2, "the next one runs")
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130 and "rates are kept in rates.csv" in err, err
    assert not living(folder)
    assert ("toy/global64", "V100", 1) in read_rates(folder / "rates.csv").table and "steps/s" in out


@pytest.mark.parametrize(
    ("fields", "flags", "expected"),
    [
        ({"progress": None}, (), "must report its steps"),
        ({"gpus": 4}, (), "4 GPUs of any type are not on one node here"),
        ({"accelerators": ["A100"]}, (), "1 GPU of A100 is not on one node here"),
        ({"gpu": 4}, (), "unknown field 'gpu'"),
        ({}, ("--seconds", "0"), "must be more than 0"),
        ({}, ("--out", "rates.json"), "must end in .csv"),
        ({}, ("--pretend", "2xV10O"), "Closest: V100"),
    ],
)
def test_mistakes_are_told_before_anything_runs(
    folder: Path, fields: dict[str, Any], flags: tuple[str, ...], expected: str
) -> None:
    spec(folder, "well", **fields)
    code, out, err = run(folder, *flags)
    problem, hint = err.rstrip("\n").split("\n")
    assert (code, out) == (2, "") and expected in problem and hint.startswith("Try: ")
    assert not (folder / "pids").exists()


def test_gpus_that_others_use_are_left_alone(folder: Path) -> None:
    from rota.live.driver import Driver
    from rota.live.local_channel import LocalChannel
    from rota.live.profiling import Profiling, profile_options
    from rota.wire.client import passed_environment
    from rota.wire.spec import Spec
    from rota.wire.submission import Submission

    spec(folder, "well")
    gpus = [Gpu(i, "V100", "V100", 16.0, f"GPU-{i}") for i in range(2)]
    cluster = Cluster.of([Node("box", "V100", 2)], "1x(2xV100)")
    wanted = Spec(run=[sys.executable, "train.py", "well"], gpus={"min": 1, "max": 2}, progress=r"step (\d+)")
    job = Submission(wanted, "ana", str(folder), passed_environment({}))
    local = Driver(folder / "home", LocalChannel(folder / "home", cluster, [gpus]), lease_grace_seconds=5.0)
    profiling = Profiling(
        local, job, folder / "home", seconds=0.3, patience_seconds=120, grace_seconds=5, busy=frozenset({"GPU-0"})
    )
    try:
        one, two = (profiling.measure(option) for option in profile_options(job, "toy", cluster))
    finally:
        profiling.close()
    assert one.steps_per_second and two.problem.startswith("other processes use these GPUs")
