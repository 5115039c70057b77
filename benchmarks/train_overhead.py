"""What it costs a training script to be scheduled: nanoseconds of a step, and seconds from being told to stop to going on.

make bench ARGS=train
"""

import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rota.agent import datagrams
from rota.agent.disk import REPORT_SOCKET
from rota.agent.machine import AttemptStatus, LaunchOrder
from rota.train.agreement import ANNOUNCEMENT
from rota.train.rank_environment import JobEnvironment
from rota.train.session import Session
from tests.live.agent.bench import Machine

ROOT = Path(__file__).resolve().parents[1]
STEP_SECONDS = 0.005
STEPS = 200_000
BARE = """
import torch
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 1)).sum().backward()
optimizer.step()
"""
"""The least that PyTorch needs for a step. Its first one loads as much again as the import."""
TIMES = 5


def train() -> list[dict[str, Any]]:
    return [*_steps(), *_switches()]


def _steps() -> list[dict[str, Any]]:
    """CPU time of a step of nothing, beside a bare loop; the best of several."""
    bare = _best(lambda: _loop(range(STEPS)))
    rows = []
    for what, ranks in (("one process", 1), ("the first of four ranks", 4)):
        with tempfile.TemporaryDirectory() as folder:
            box = datagrams.listen(Path(folder), REPORT_SOCKET)
            spent = _best(lambda folder=folder, ranks=ranks: _session(Path(folder), ranks))
            box.close()
        each = (spent - bare) / STEPS
        rows.append(
            {"what": f"a session, {what}: a step and its loss", "ns": each * 1e9, "percent of 5 ms": 100 * each / STEP_SECONDS}
        )
    return rows


def _loop(batches: Any) -> None:
    for _ in batches:
        pass


def _session(folder: Path, ranks: int) -> None:
    (folder / f"ranks.i1.0/{ANNOUNCEMENT}").unlink(missing_ok=True)
    where = JobEnvironment(folder, folder, world_size=ranks)
    with Session(lambda folder: None, lambda folder: None, environment=where) as job:
        for batch in job.steps(range(STEPS)):
            job.log(loss=batch)


def _best(act: Callable[[], None]) -> float:
    spent = []
    for _ in range(TIMES):
        began = time.process_time()
        act()
        spent.append(time.process_time() - began)
    return min(spent)


def _switches() -> list[dict[str, Any]]:
    """The small network of the examples: told to stop while it trains, and started again as soon as it has left. Wall time; and,
    because the machine may be busy, the CPU time of a whole life: its start, a few steps, its end, and its supervisor."""
    if importlib.util.find_spec("torch") is None:
        return [{"what": "suspend and resume the small network: PyTorch is not installed"}]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    before = _cpu_of_children()
    with tempfile.TemporaryDirectory() as folder:
        found = _Switching(Path(folder), env).run()
    cpu = (_cpu_of_children() - before) / (len(found) + 1)
    before = _cpu_of_children()
    bare = statistics.median(_seconds([sys.executable, "-c", BARE], env) for _ in range(TIMES))
    cpu_of_bare = (_cpu_of_children() - before) / TIMES
    whole = statistics.median(sum(each) for each in found)
    out, up, back = (statistics.median(each[at] for each in found) for at in range(3))
    return [
        {
            "what": f"the small network: suspend to first step again, median of {len(found)}",
            "seconds": whole,
            "saved and gone after": out,
            "its process runs after": up,
            "and makes its first step after": back,
            "a bare step of PyTorch": bare,
            "CPU": cpu,
            "CPU of a bare step": cpu_of_bare,
        }
    ]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seconds(command: list[str], env: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=env, check=True)
    return time.perf_counter() - began


class _Switching:
    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.env = {**env, "ROTA_CHECKPOINT_DIR": str(folder), "ROTA_JOB_ID": "1"}
        self.folder, self.bell = folder, threading.Event()
        self.machine = Machine(folder / "home", self.bell.set)

    def run(self) -> list[tuple[float, float, float]]:
        """Seconds from the order to stop to its end, from there until its next process runs, and from that to its first step."""
        found = []
        self._launch(1, 0.0)
        self._wait(1, lambda part: part.began_s is not None)
        for attempt in range(2, TIMES + 2):
            asked_s = time.time()
            self.machine.suspend(1, attempt - 1, 2)
            part = self._wait(attempt - 1, lambda part: part.state == "ended")
            assert part.exit_code == 75, part
            gone_s = time.time()
            self._launch(attempt, part.steps_saved)
            part = self._wait(attempt, lambda part: part.began_s is not None)
            assert part.started_s is not None
            found.append((gone_s - asked_s, part.started_s - gone_s, time.time() - part.started_s))
        self.machine.kill(1, TIMES + 1, 9)
        self._wait(TIMES + 1, lambda part: part.state == "ended")
        self.machine.close()
        return found

    def _launch(self, attempt: int, from_step: float) -> None:
        self.machine.launch(
            LaunchOrder(
                job=1,
                attempt=attempt,
                sequence=1,
                argv=(sys.executable, str(ROOT / "examples/training/cnn.py"), "1000"),
                env={**self.env, "ROTA_ATTEMPT": str(attempt)},
                workdir=str(self.folder),
                log=self.folder / "log",
                gpus_text="n1",
                from_step=from_step,
                lease_seconds=600.0,
                grace_seconds=60.0,
                lease_grace_seconds=60.0,
                progress="session",
            )
        )

    def _wait(self, attempt: int, holds: Callable[[AttemptStatus], bool]) -> AttemptStatus:
        while True:
            self.bell.clear()
            self.machine.poll()
            (part,) = [each for each in self.machine.inventory() if each.attempt == attempt]
            if holds(part):
                return part
            assert part.state != "ended", part
            self.bell.wait(0.05)


if __name__ == "__main__":
    for row in train():
        print(row, flush=True)
