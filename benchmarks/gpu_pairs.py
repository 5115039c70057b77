"""Two phases of `park_gpu`: two processes on one GPU, with MPS and without, and what the preloaded allocator costs.

All processes of a measurement say that they are ready, make steps until the file `go` is there, and measure from then on. Medians
are of several runs in turns, because the speed of a GPU's host changes from one moment to the next.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu_bench import Bench
from rota.agent.mps import CONTROL, mps_environment, mps_folder
from rota.park.facts import parking_facts
from rota.park.park_environment import parking_environment
from rota.park.park_method import PRELOAD, SLEEP, choose_park_method

WARM_SECONDS = 2.0
"""All make steps for so long before they measure."""
START_SECONDS = 120.0
"""So long a process may take until it is ready."""

PAIR = '''
"""Steps a second of four layers of this width: the mean, and the median over blocks of 20 steps."""
import os, statistics, sys, time
import torch
width, seconds, folder = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_num_threads(1)
kind = torch.bfloat16 if device == "cuda" else torch.float32
model = torch.nn.Sequential(*[torch.nn.Linear(width, width, device=device, dtype=kind) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
x = torch.randn(1024 if device == "cuda" else 8, width, device=device, dtype=kind)
def block():
    for _ in range(20):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()
block()
if len(sys.argv) > 4:
    try:
        torch.empty(int(float(sys.argv[4]) * 2**30), dtype=torch.uint8, device=device)
        print("allocated", sys.argv[4], "GiB", flush=True)
    except Exception as error:
        print("refused", sys.argv[4], "GiB:", type(error).__name__, flush=True)
    sys.exit()
open(os.path.join(folder, f"ready-{os.getpid()}"), "w").close()
while not os.path.exists(os.path.join(folder, "go")):
    block()
begin, times = time.perf_counter(), []
while time.perf_counter() < begin + seconds:
    left = time.perf_counter()
    block()
    times.append(time.perf_counter() - left)
print("rate", 20 * len(times) / sum(times), 20 / statistics.median(times), flush=True)
end = time.perf_counter() + 2.0  # the others are still measuring
while time.perf_counter() < end:
    block()
'''


def colocation(bench: Bench, width: int = 4096, seconds: float = 4.0, times: int = 3) -> dict[str, Any]:
    """Two equal processes: what both do together over what one does alone, in turns and with MPS; and a limit of memory."""
    (bench.folder / "pair.py").write_text(PAIR)
    width = 64 if bench.rehearsal else width
    alone, in_turns = [], []
    for _ in range(times):
        alone += _rates(bench, width, 1, seconds, {})
        in_turns.append(sum(_rates(bench, width, 2, seconds, {})))
    found: dict[str, Any] = {
        "width": width,
        "alone_steps_per_second": _rounded(alone),
        "in_turns_steps_per_second": _rounded(in_turns),
        "in_turns": round(statistics.median(in_turns) / statistics.median(alone), 3),
    }
    if bench.rehearsal:
        return found | {"mps": "not in a rehearsal: it needs a GPU"}
    with _mps(bench) as folder:
        found["limit_of_4_gib"] = _allocation(bench, width, mps_environment(folder, [0], 4.0))
        found["without_limit"] = _allocation(bench, width, mps_environment(folder, [0], 0.0))
        with_mps = [sum(_rates(bench, width, 2, seconds, mps_environment(folder, [0], 0.0))) for _ in range(times)]
        found["with_mps_steps_per_second"] = _rounded(with_mps)
        found["with_mps"] = round(statistics.median(with_mps) / statistics.median(alone), 3)
    if not found["limit_of_4_gib"].startswith("refused"):
        found["error"] = "a process with a limit of 4 GiB was not refused 8 GiB"
    return found


def allocator(bench: Bench, width: int = 8192, seconds: float = 3.0, times: int = 6) -> dict[str, Any]:
    """One process with the preloaded allocator and without, in turns: by how many percent a step is slower with it."""
    (bench.folder / "pair.py").write_text(PAIR)
    width, seconds = (64, 0.5) if bench.rehearsal else (width, seconds)
    run = [sys.executable, str(bench.folder / "pair.py")]
    facts = parking_facts(run, bench.variables(), "/", wanted=True, gpus=1, real_gpus=not bench.rehearsal)
    way, why = choose_park_method(facts)
    if way != (SLEEP if bench.rehearsal else PRELOAD):
        raise RuntimeError(f"no allocator would be preloaded here: {way}, {why}")
    more = parking_environment(facts, bench.variables()) | {"ROTA_RUN_DIR": str(bench.folder)}
    plain, loaded = [], []
    for _ in range(times):
        plain += _rates(bench, width, 1, seconds, {}, of_blocks=True)
        loaded += _rates(bench, width, 1, seconds, more, of_blocks=True)
    slower = statistics.median(plain) / statistics.median(loaded) - 1.0
    return {
        "way": way,
        "preload": more.get("LD_PRELOAD", ""),
        "plain_steps_per_second": _rounded(plain),
        "preloaded_steps_per_second": _rounded(loaded),
        "spread_percent": round(100.0 * (max(plain) - min(plain)) / statistics.median(plain), 2),
        "slower_percent": round(100.0 * slower, 2),
    }


@contextlib.contextmanager
def _mps(bench: Bench) -> Iterator[Path]:
    """A control daemon of MPS with a folder of its own. Its folder holds a socket once it listens."""
    pipe = bench.folder / "mps"
    pipe.mkdir()
    env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(pipe)}
    if shutil.which("nvidia-cuda-mps-control") is None:
        raise FileNotFoundError("nvidia-cuda-mps-control is not on this machine")
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=env, timeout=20, check=True)
    try:
        bench.until(lambda: (pipe / CONTROL).exists(), f"MPS listens at {pipe / CONTROL}", 20.0)
        folder = mps_folder(str(pipe), pretend=False)
        assert folder is not None
        yield folder
    finally:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", env=env, timeout=20, check=False)


def _allocation(bench: Bench, width: int, more: Mapping[str, str]) -> str:
    """What a process says that wants 8 GiB."""
    run = [sys.executable, str(bench.folder / "pair.py"), str(width), "0", str(bench.folder), "8"]
    env = bench.variables() | dict(more)
    done = subprocess.run(run, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    said = [line for line in done.stdout.splitlines() if line.startswith(("refused", "allocated"))]
    return said[0] if said else f"exit code {done.returncode}: {done.stdout[-300:]}"


def _rates(
    bench: Bench, width: int, many: int, seconds: float, more: Mapping[str, str], *, of_blocks: bool = False
) -> list[float]:
    """Steps a second of each of so many processes that measure at the same time: the mean, or the median over blocks of steps."""
    folder = bench.folder / f"pair-{time.monotonic_ns()}"
    folder.mkdir()
    run = [sys.executable, str(bench.folder / "pair.py"), str(width), str(seconds), str(folder)]
    env = bench.variables() | dict(more)
    running = [subprocess.Popen(run, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(many)]
    bench.plain += running

    def ready() -> bool:
        return len(list(folder.glob("ready-*"))) == many or any(each.poll() is not None for each in running)

    try:
        bench.until(ready, "all processes are ready", START_SECONDS)
        time.sleep(0.0 if bench.rehearsal else WARM_SECONDS)
    finally:
        (folder / "go").touch()
    said = [process.communicate(timeout=START_SECONDS)[0].decode(errors="replace") for process in running]
    rows = [[line.split() for line in text.splitlines() if line.startswith("rate ")] for text in said]
    if not all(rows):
        raise RuntimeError(f"a process ended early: {[text[-500:] for text in said]}")
    return [float(each[0][2 if of_blocks else 1]) for each in rows]


def _rounded(rates: Sequence[float]) -> list[float]:
    return [round(each, 1) for each in rates]
