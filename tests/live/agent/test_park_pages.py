"""The library that makes host memory for parked jobs, compiled and preloaded. There is no GPU here: `pretend_cuda.c` stands for
the CUDA runtime, the driver and the allocator."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rota.agent.constants import LOST
from rota.agent.pages_library import SOURCE, build_pages_library
from rota.park.park_environment import parking_environment
from rota.park.park_method import ParkingFacts
from tests.live.agent.bench import Bench
from tests.live.agent.test_hook import COUNTS, TORCH, start
from tests.waiting import until

CUDA = Path(__file__).with_name("pretend_cuda.c")
CYCLES = """
import ctypes, os, sys
pages, saver = ctypes.CDLL(os.environ["PAGES"]), ctypes.CDLL(os.environ["SAVER"])
ctypes.CDLL(os.environ["DRIVER"])
pages.rota_pages_end.restype = ctypes.c_long
for cycle in range(3):
    assert pages.rota_pages_begin()
    saver.tms_pause(None)
    pages.rota_pages_end()
    pages.rota_pages_pin()
    if "wait" in sys.argv:
        pages.rota_pages_wait()
    assert pages.rota_pages_begin()
    saver.tms_resume(None)
    print("damaged", pages.rota_pages_end(), flush=True)
saver.tms_free()
"""


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("cc")
    if found is None:
        pytest.skip("needs a C compiler")
    return found


@pytest.fixture(scope="module")
def libraries(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("libraries")
    pages, problem = build_pages_library(folder)
    assert pages, problem
    found = {"PAGES": pages, "SAVER": str(folder / "saver.so"), "DRIVER": str(folder / "libcuda.so.1")}
    for name in ("SAVER", "DRIVER"):
        soname = ["-Wl,-soname,libcuda.so.1"] if name == "DRIVER" else []
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", *soname, "-o", found[name], str(CUDA)], check=True)
    return found


def cycles(libraries: dict[str, str], *arguments: str, **more: str) -> list[str]:
    """Park and resume three times, and return what the allocator printed."""
    env = {"PATH": os.environ["PATH"], "LD_PRELOAD": f"{libraries['PAGES']}:{libraries['SAVER']}", **libraries, **more}
    done = subprocess.run([sys.executable, "-c", CYCLES, *arguments], env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_source_compiles_without_a_warning(compiler: str, tmp_path: Path) -> None:
    strict = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *strict, "-shared", "-fPIC", "-o", str(tmp_path / "a.so"), str(SOURCE), "-ldl"], check=True)


def test_memory_comes_back_as_it_was_and_the_second_time_needs_no_threads(libraries: dict[str, str]) -> None:
    """One small allocation has memory of the runtime; the three others have pages of the library, which are registered later."""
    lines = cycles(libraries, "wait")
    assert [line for line in lines if line.startswith("damaged")] == ["damaged 0"] * 3
    assert [line.split(",")[0] for line in lines if line.startswith("resume")] == ["resume same"] * 3
    pauses = [line for line in lines if line.startswith("pause")]
    assert pauses[0] == "pause 1 pinned, 1 registered", "the buffers of the threads"
    assert pauses[1:] == ["pause 1 pinned, 3 registered"] * 2, "no buffers any more"
    assert lines[-1] == "free 0 registered"


def test_it_may_be_resumed_before_its_pages_are_registered(libraries: dict[str, str]) -> None:
    lines = cycles(libraries)
    assert [line for line in lines if line.startswith("damaged")] == ["damaged 0"] * 3
    assert [line.split(",")[0] for line in lines if line.startswith("resume")] == ["resume same"] * 3


def test_pages_that_cannot_be_registered_are_copied_by_threads(libraries: dict[str, str]) -> None:
    """The limit of locked memory may be reached."""
    lines = cycles(libraries, "wait", REFUSE_TO_REGISTER="1")
    assert [line for line in lines if line.startswith("damaged")] == ["damaged 0"] * 3
    assert "same" in lines[-3] and lines[-3].endswith("3 refused"), "each block is tried once"


@pytest.mark.parametrize("at", [0, 1, 7, 4_194_304, 41_943_039, 41_943_551])
def test_one_bit_that_differs_is_noticed(libraries: dict[str, str], at: int) -> None:
    lines = cycles(libraries, "wait", FLIP=str(at))
    assert [line for line in lines if line.startswith("damaged")] == ["damaged 1"] * 3


def test_without_the_driver_nothing_is_checked_and_memory_still_comes_back(libraries: dict[str, str]) -> None:
    lines = cycles(libraries, "wait", DRIVER=libraries["SAVER"])
    assert [line for line in lines if line.startswith("damaged")] == ["damaged -1"] * 3
    assert "resume same" in lines[1]


PREPARED = """
import ctypes, os, time
pages, saver = ctypes.CDLL(os.environ["PAGES"]), ctypes.CDLL(os.environ["SAVER"])
pages.rota_pages_prepared.restype = ctypes.c_size_t
size = 64 << 20
assert pages.rota_pages_prepare(ctypes.c_size_t(size))
while pages.rota_pages_prepared() < size:
    time.sleep(0.01)
def regions():
    return sum(int(line.split()[1]) for line in open("/proc/self/smaps") if line.startswith("Rss:"))
before = regions()
assert pages.rota_pages_begin()
saver.tms_pause(None)
pages.rota_pages_end()
print("grew by", regions() - before, "KiB")
pages.rota_pages_pin()
print("left", pages.rota_pages_prepared())
assert pages.rota_pages_begin()
saver.tms_resume(None)
pages.rota_pages_end()
saver.tms_free()
"""


def test_prepared_pages_are_those_that_the_first_park_takes(libraries: dict[str, str]) -> None:
    env = {"PATH": os.environ["PATH"], "LD_PRELOAD": f"{libraries['PAGES']}:{libraries['SAVER']}", **libraries}
    done = subprocess.run([sys.executable, "-c", PREPARED], env=env, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    grown = next(int(line.split()[2]) for line in lines if line.startswith("grew by"))
    assert grown < 1024 * 80, "the GPU memory of the test itself, and buffers; the host memory was there"
    assert "left 0" in lines and any(line.startswith("resume same") for line in lines)


def test_it_is_compiled_once(compiler: str, tmp_path: Path) -> None:
    first, _ = build_pages_library(tmp_path / "libraries")
    made = Path(first).stat().st_mtime_ns
    assert build_pages_library(tmp_path / "libraries") == (first, "") and Path(first).stat().st_mtime_ns == made
    assert [path.name for path in (tmp_path / "libraries").iterdir()] == [Path(first).name]


def test_without_a_compiler_jobs_are_parked_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_pages_library(tmp_path / "libraries") == ("", "there is no C compiler; install gcc")
    (tmp_path / "cc").write_text("#!/bin/sh\necho 'no memory' >&2\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    assert build_pages_library(tmp_path / "libraries") == ("", f"{tmp_path}/cc failed: no memory")
    facts = ParkingFacts(real_gpus=True, python=sys.executable, torch_found=True, cuda_major=13, library="/saver.so")
    assert parking_environment(facts, {})["LD_PRELOAD"] == "/saver.so"


def on_a_gpu(libraries: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Return the variables of a job on a real GPU."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "torch.py").write_text(TORCH)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "packages")}
    facts = ParkingFacts(
        real_gpus=True,
        python=sys.executable,
        torch_found=True,
        cuda_major=13,
        library=libraries["SAVER"],
        pages_library=libraries["PAGES"],
    )
    return env | parking_environment(facts, env)


LOADS_DRIVER = "import torch, ctypes; ctypes.CDLL({!r})"


def test_a_job_is_parked_with_checked_memory(bench: Bench, libraries: dict[str, str], tmp_path: Path) -> None:
    start(bench, LOADS_DRIVER.format(libraries["DRIVER"]), on_a_gpu(libraries, tmp_path))
    for sequence in (2, 4):
        bench.machine.park(1, 1, sequence)
        bench.wait(state="parked")
        bench.machine.resume(1, 1, sequence + 1, 300.0)
        bench.wait(state="running")
    assert bench.said().count("resume same") == 2


def test_a_job_gets_host_memory_ready_while_it_goes_on(bench: Bench, libraries: dict[str, str], tmp_path: Path) -> None:
    """The pretended PyTorch says that it has 3 GiB. Making these takes long, so the job is parked before they are there."""
    start(bench, LOADS_DRIVER.format(libraries["DRIVER"]), on_a_gpu(libraries, tmp_path))
    pid = bench.part().pid
    assert pid is not None
    bench.machine.prepare(1, 1)
    until(lambda: largest_mapping(pid) >= 3 << 30, "its pages are being made")
    made = bench.said().count("\nstep ")
    until(lambda: bench.said().count("\nstep ") > made + 3, "it goes on")
    assert bench.part().state == "running"
    bench.machine.park(1, 1, 2)
    bench.wait(state="parked")
    assert largest_mapping(pid) < 3 << 30, "what the park did not need is given back"
    bench.machine.resume(1, 1, 3, 300.0)
    bench.wait(state="running")
    assert "resume same" in bench.said()


def largest_mapping(pid: int) -> int:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if len(line.split()) == 5]
    return max(int(end, 16) - int(begin, 16) for begin, end in ranges)


def test_a_job_does_not_go_on_with_damaged_memory(bench: Bench, libraries: dict[str, str], tmp_path: Path) -> None:
    """It is lost, so that it goes on from its last checkpoint, and it does not get the chance to save what it has."""
    script = LOADS_DRIVER.format(libraries["DRIVER"])
    start(bench, script, on_a_gpu(libraries, tmp_path) | {"FLIP": "4194304"})
    bench.machine.park(1, 1, 2)
    bench.wait(state="parked")
    steps = bench.said().count("\nstep ")
    bench.machine.resume(1, 1, 3, 300.0)
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code, ended.damaged_mib) == (LOST, -9, 1)
    assert ended.problem == "1 MiB of its GPU memory came back different after it was parked"
    assert bench.said().count("\nstep ") == steps, "it made no step"


def test_a_job_with_damaged_memory_is_not_started_again_for_another_size(
    bench: Bench, libraries: dict[str, str], tmp_path: Path
) -> None:
    """It reports no steps, so nothing shows that it has not saved. Its next start would hide that its work is lost."""
    script = LOADS_DRIVER.format(libraries["DRIVER"]) + "\nprint('up', flush=True)" + COUNTS
    env = on_a_gpu(libraries, tmp_path) | {"FLIP": "4194304"}
    bench.machine.launch(bench.order(sys.executable, "-c", script, env=env))
    until(lambda: "step 3" in bench.said(), "it runs")
    bench.machine.park(1, 1, 2)
    bench.wait(state="parked")
    bench.machine.resume(1, 1, 3, 300.0)
    bench.machine.resize(1, 1, 4, 64, {"ROTA_GPUS": "1"}, "another GPU")
    ended = bench.wait()
    assert (ended.outcome, ended.damaged_mib) == (LOST, 1)
    assert "started again" not in bench.said()
