"""The hook inside a job. There is no GPU here: PyTorch is a module that records its calls, and the allocator a library with the
two functions that are called. Signal, handler, datagrams and preloading are real."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rota.park.park_environment import HOOK_FOLDER, parking_environment
from rota.park.park_method import ParkingFacts
from tests.live.agent.bench import Bench
from tests.waiting import until

ALLOCATOR = """
#include <stdio.h>
void tms_pause(const char *tag) { printf("pause %s\\n", tag ? tag : "all"); fflush(stdout); }
void tms_resume(const char *tag) { printf("resume %s\\n", tag ? tag : "all"); fflush(stdout); }
"""
TORCH = """
class cuda:
    held, graph = 3 << 30, 0
    is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    @staticmethod
    def is_current_stream_capturing():
        cuda.graph -= 1
        return cuda.graph >= 0
    @staticmethod
    def memory_reserved(device):
        return cuda.held
    @staticmethod
    def synchronize(device):
        print("synchronize", flush=True)
    @staticmethod
    def empty_cache():
        cuda.held = min(cuda.held, 2 << 30)
        print("empty_cache", flush=True)
"""
COUNTS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
for step in range(1, 100_000):
    print("step", step, flush=True)
    time.sleep(0.01)
"""
OTHER = "import torch, time; print('up', flush=True); time.sleep(1000)"


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Those of a job on a real GPU."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "saver.c").write_text(ALLOCATOR)
    library = tmp_path / "saver.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "saver.c")], check=True)
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "torch.py").write_text(TORCH)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "packages")}
    facts = ParkingFacts(real_gpus=True, python=sys.executable, torch_found=True, cuda_major=13, library=str(library))
    return env | parking_environment(facts, env)


def start(bench: Bench, script: str, env: dict[str, str]) -> None:
    bench.machine.launch(bench.order(sys.executable, "-c", script + COUNTS, env=env, progress=r"step (\d+)"))
    until(lambda: "step 3" in bench.said() or bench.part().state == "ended", "its first steps")


def calls(bench: Bench) -> list[str]:
    return [line for line in bench.said().splitlines() if not line.startswith(("step", "---"))]


def test_gpu_memory_goes_to_the_host_and_comes_back(bench: Bench, variables: dict[str, str]) -> None:
    start(bench, "import torch", variables)
    for sequence in (2, 4):
        bench.machine.park(1, 1, sequence)
        assert bench.wait(state="parked").parked_gib == 2.0, "what is cached is handed back first"
        bench.machine.resume(1, 1, sequence + 1, 300.0)
        bench.wait(state="running")
    wanted = ["synchronize", "empty_cache", "pause all", "resume all", "synchronize"] * 2
    until(lambda: len(calls(bench)) >= len(wanted), "its output has come")
    assert calls(bench) == wanted


def test_a_process_that_has_not_touched_a_gpu_only_sleeps(bench: Bench, variables: dict[str, str]) -> None:
    start(bench, "import torch\ntorch.cuda.is_initialized = lambda: False", variables)
    bench.machine.park(1, 1, 2)
    assert bench.wait(state="parked").parked_gib == 0.0 and not calls(bench)


def test_no_graph_is_disturbed_while_it_is_captured(bench: Bench, variables: dict[str, str]) -> None:
    """It is called again a little later."""
    start(bench, "import torch\ntorch.cuda.graph = 1", variables)
    bench.machine.park(1, 1, 2)
    bench.wait(state="parked")
    wanted = ["synchronize", "empty_cache", "pause all"]
    until(lambda: len(calls(bench)) >= len(wanted), "its output has come")
    assert calls(bench) == wanted


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("import torch\ntorch.cuda.held = 1 << 60", "the host has"),
        ("import torch\ntorch.cuda.memory_reserved = lambda device: 1 / 0", "ZeroDivisionError"),
        ("import torch, subprocess", "2 of its processes use a GPU"),
    ],
)
def test_what_cannot_be_parked_is_told_why_and_asked_to_leave(
    bench: Bench, variables: dict[str, str], script: str, problem: str
) -> None:
    if "subprocess" in script:
        script += f"\nother = subprocess.Popen([{sys.executable!r}, '-c', {OTHER!r}])"
    start(bench, script, variables)
    until(lambda: "subprocess" not in script or "up" in bench.said(), "the other process")
    bench.machine.park(1, 1, 2)
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code) == ("yielded", 75) and problem in ended.parking_problem
    assert bench.said().count("pause all") == bench.said().count("resume all"), "woken before it is told to leave"


def test_without_the_library_in_the_process_nothing_is_paused(bench: Bench, variables: dict[str, str]) -> None:
    del variables["LD_PRELOAD"]
    start(bench, "import torch", variables)
    bench.machine.park(1, 1, 2)
    assert "is not preloaded" in bench.wait().parking_problem and not calls(bench)


def test_the_hook_is_for_any_python_from_3_8_on_and_needs_nothing_but_it() -> None:
    for path in sorted(Path(HOOK_FOLDER).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= {*sys.stdlib_module_names, "rota_park_hook"}, path
