"""What the benchmarks on a real GPU have in common: a folder, a job that knows nothing of Rota, a scheduler, and figures."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rota
from rota.agent.machine import AttemptManager, LaunchOrder

ENDLESS = 1_000_000_000
PACKAGES = str(Path(rota.__file__).resolve().parents[1])

JOB = '''
"""A training script that knows nothing of Rota. It notes when it made each step, in a file of its own."""
import os, signal, sys, time
import torch
gib, steps, seconds, name, width = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], int(sys.argv[5])
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(gib)
torch.set_num_threads(1)
layers = [torch.nn.Linear(width, width, bias=False, device=device) for _ in range(gib)]
model = torch.nn.Sequential(*layers)  # weights, gradients and two moments: 1 GiB for each layer of width 8192
optimizer = torch.optim.Adam(model.parameters(), 1e-5)
begin, step, saved = time.time(), 0, name + ".saved"
if len(sys.argv) > 6:  # it saves and leaves when it is told to, and goes on from there
    def leave(*_):
        state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, saved + ".new")
        os.replace(saved + ".new", saved)
        sys.exit(75)
    signal.signal(signal.SIGTERM, leave)
    if os.path.exists(saved):
        state = torch.load(saved, map_location=device)
        step = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        del state
with open(name + ".steps", "a", buffering=1) as notes:
    while step < steps and (not seconds or time.time() < begin + seconds):
        generator = torch.Generator(device=device).manual_seed(step)
        x = torch.randn(256, width, device=device, generator=generator)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        loss.item()
        step += 1
        notes.write(f"{time.time():.4f}\\n")
        if step % 5 == 0 or step == 1:
            print(f"step {step}/{steps}", flush=True)
        if step % 200 == 0 and gib == 2:
            print("partial", step, repr(sum(p.double().sum().item() for p in model.parameters())), flush=True)
print(f"step {step}/{steps}", flush=True)
print("result", step, repr(sum(p.double().sum().item() for p in model.parameters())), flush=True)
'''


def with_rota() -> dict[str, str]:
    """What a process needs to import Rota from here."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (PACKAGES, os.environ.get("PYTHONPATH", ""))))}


class Bench:
    """A folder, what was started in it, and when it has to be over."""

    def __init__(self, folder: Path, deadline_seconds: float, rehearsal: bool) -> None:
        """`rehearsal`: small models on a pretend GPU, to see that the benchmark itself works."""
        self.rehearsal, self.width = rehearsal, 64 if rehearsal else 8192
        self.folder, self.home = folder, folder / "home"
        self.end_s = time.monotonic() + deadline_seconds
        (folder / "train.py").write_text(JOB)
        self.daemon: subprocess.Popen[bytes] | None = None
        self.plain: list[subprocess.Popen[bytes]] = []
        self.steps: dict[int, int] = {}
        """By size: what the reference runs made."""
        self.results: dict[int, str] = {}
        self.partial = ""
        """What the smallest came to after half of its steps."""

    def left(self) -> float:
        return self.end_s - time.monotonic()

    def until(self, holds: Callable[[], bool], what: str, seconds: float, pause: float = 0.05) -> None:
        end = time.monotonic() + min(seconds, self.left())
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: not within {seconds:.0f} s, or the time of the benchmark was over")
            time.sleep(pause)

    def command(self, gib: int, steps: int, seconds: float, name: str) -> list[str]:
        arguments = (gib, steps, seconds, self.folder / name, self.width)
        return [sys.executable, str(self.folder / "train.py"), *map(str, arguments)]

    def variables(self) -> dict[str, str]:
        """What a job is given of this environment."""
        kept = ("PATH", "HOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH", "CUDA_HOME")
        return {name: os.environ[name] for name in kept if os.environ.get(name)}

    # The scheduler.

    def up(self, policy: str, *more: str) -> None:
        """`more`: further words for `rota up`."""
        words = ["--home", str(self.home), "--listen", "127.0.0.1:0", "--policy", policy, "--tactics", "none", *more]
        words += ["--pretend", "1xV100"] if self.rehearsal else []
        env = {**os.environ, **with_rota()}
        with (self.folder / "daemon.out").open("wb") as said:
            run = [sys.executable, "-m", "rota", "up", *words]
            self.daemon = subprocess.Popen(run, stdout=said, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        self.until(lambda: "home " in self.said() or self._dead(), "rota up is ready", 60.0)
        if self._dead() or ("pretend GPUs" in self.said() and not self.rehearsal):
            raise RuntimeError(f"rota up has no real GPU: {self.said()[-500:]}")

    def said(self) -> str:
        return (self.folder / "daemon.out").read_text(errors="replace")

    def _dead(self) -> bool:
        return self.daemon is None or self.daemon.poll() is not None

    def submit(self, gib: int, name: str) -> int:
        run = self.command(gib, self.steps.get(gib, ENDLESS), 0.0, name)
        job = rota.connect(self.home).submit(
            run=run,
            name=name,
            steps=self.steps.get(gib, ENDLESS),
            progress=r"step (\d+)/(\d+)",
            env=self.variables(),
            workdir=str(self.folder),
            checkpoint={"grace": 5},
        )
        return int(job.id)

    def rows(self) -> dict[int, Any]:
        return {row.id: row for row in rota.connect(self.home).jobs(everything=True)}

    def log(self, job: int) -> str:
        path = self.home / "logs" / f"{job}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def kill_daemon(self) -> None:
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait(30)

    def down(self) -> None:
        """End the scheduler and its jobs, and leave nothing of this home."""
        if self.daemon is not None and self.daemon.poll() is None:
            with contextlib.suppress(Exception):
                for job, row in self.rows().items():
                    if not row.ended:
                        rota.connect(self.home).cancel(str(job))
            self.daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.daemon.wait(15)
            self.daemon.kill()
            self.daemon.wait(15)
        self.daemon = None
        self.end_supervisors()

    def end_supervisors(self) -> None:
        """A job dies with its supervisor."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0") if entry.name.isdecimal() else []
                if "rota.agent.supervisor" in words and any(word.startswith(str(self.folder)) for word in words):
                    os.kill(int(entry.name), signal.SIGKILL)
        time.sleep(1.0)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.down()
        self.end_supervisors()
        for process in self.plain:
            process.kill()
            process.wait()


def gpu_mib() -> float | None:
    """Memory in use on the GPU, by all processes together."""
    run = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError, IndexError):
        return float(subprocess.run(run, capture_output=True, text=True, timeout=20, check=True).stdout.split()[0])
    return None


def host_mib(pid: int) -> dict[str, float]:
    """What a process has of the host's memory."""
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmPin", "VmLck"):
            found[name] = int(value.split()[0]) / 1024
    return found


def result_of(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.startswith("result")), "")


def step_times(path: Path) -> list[float]:
    return [float(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def nodes_json(bench: Bench) -> str:
    """What the scheduler says of its GPUs."""
    run = [sys.executable, "-m", "rota", "nodes", "-o", "json", "--home", str(bench.home)]
    env = {**os.environ, **with_rota()}
    return subprocess.run(run, capture_output=True, text=True, timeout=30, check=False, env=env).stdout[:3000]


def order_for(bench: Bench, run: list[str], env: dict[str, str], *, attempt: int = 1, grace_seconds: float = 20.0) -> LaunchOrder:
    return LaunchOrder(
        job=1,
        attempt=attempt,
        sequence=1 if attempt == 1 else 10,
        argv=tuple(run),
        env=env | {"ROTA_LIFE": f"{bench.home.name}-{attempt}"},
        workdir=str(bench.folder),
        log=bench.home / "logs" / "1.log",
        gpus_text="GPU 0",
        from_step=0.0,
        lease_seconds=600.0,
        grace_seconds=grace_seconds,
        lease_grace_seconds=1.0,
        progress=r"step (\d+)/(\d+)",
    )


def end_all_of(bench: Bench, agent: AttemptManager) -> None:
    with contextlib.suppress(Exception):
        for each in agent.inventory():
            agent.kill(1, each.attempt, 1 << 40)
        bench.until(lambda: all(each.state == "ended" for each in (agent.poll(), agent.inventory())[1]), "its end", 10.0)
    agent.close()
    bench.end_supervisors()
