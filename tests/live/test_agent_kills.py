"""A daemon and its supervisors killed with SIGKILL at any moment: none starts twice, none beside another, none after its end."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.live.agent.bench import Bench

ROOT = Path(__file__).resolve().parents[2]
JOBS = 6
KILLS = 10

# Says so if the one before still lives (a zombie, or another process of that number, has no such environment). Then a child of it
# trains, without a lock: only being killed ends that.
JOB = """
if [ -e "$HERE/pid" ] && read -r other < "$HERE/pid" && grep -qzxF "HERE=$HERE" "/proc/$other/environ" 2>/dev/null
then echo overlap >> "$HERE/told"; fi
(exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec sleep 0.5) &
echo $! > "$HERE/pid"
echo "began $I $(date +%s%N)" >> "$HERE/told"
wait
echo "done $I $(date +%s%N)" >> "$HERE/told"
"""

# The smallest daemon: whatever was lost is launched again under the next number.
DAEMON = """
import sys, time
from pathlib import Path
from rota.agent.machine import AttemptManager, LaunchOrder
home, script = Path(sys.argv[1]), sys.argv[2]
machine = AttemptManager(home, lambda: None)
while True:
    machine.poll()
    open_jobs = 0
    for job in range(1, int(sys.argv[3]) + 1):
        here = home / "jobs" / str(job)
        here.mkdir(parents=True, exist_ok=True)
        parts = [part for part in machine.inventory() if part.job == job]
        last = max(parts, key=lambda part: part.attempt, default=None)
        if last is not None and last.outcome == "finished":
            continue
        open_jobs += 1
        if last is not None and last.state != "ended":
            continue
        if last is not None:
            with (here / "told").open("a") as file:
                print("ended", last.attempt, time.time_ns(), file=file)
        attempt = last.attempt + 1 if last else 1
        machine.launch(LaunchOrder(
            job=job, attempt=attempt, sequence=attempt, argv=("sh", "-c", script), workdir="/", gpus_text="n1 GPU 0",
            env={"PATH": "/usr/bin:/bin", "HERE": str(here), "I": str(attempt)}, log=home / "logs" / f"{job}.log",
            from_step=0.0, lease_seconds=300.0, grace_seconds=60.0, lease_grace_seconds=1.0,
        ))
    if not open_jobs:
        break
    time.sleep(0.01)
machine.close()
"""


def start_daemon(home: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-S", "-P", "-c", DAEMON, str(home), JOB, str(JOBS)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd="/",
    )


def supervisors(home: Path) -> list[int]:
    found: list[int] = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdecimal() and f"rota.agent.supervisor\0{home}/".encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return sorted(found)


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.parametrize("seed", [3, 10])
def test_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    bench = Bench(tmp_path / "home")  # It cleans up; its own machine does nothing here.
    bench.machine.close()
    daemon = start_daemon(bench.home)
    try:
        for _ in range(KILLS):
            known = supervisors(bench.home)
            fault = draw.choice(["daemon", "supervisor", "both", "launch"])
            deadline = time.monotonic() + draw.uniform(0.05, 0.35)
            while time.monotonic() < deadline and not (fault == "launch" and set(supervisors(bench.home)) - set(known)):
                time.sleep(0.001)
            if fault != "supervisor":
                daemon.kill()
                daemon.wait()
            there = supervisors(bench.home)
            if fault == "launch":
                # Held up where it is, maybe before it has its lock, while the next daemon decides what became of it.
                send(there, signal.SIGSTOP)
            elif fault != "daemon" and there:
                send([draw.choice(there)], signal.SIGKILL)
            if fault != "supervisor":
                daemon = start_daemon(bench.home)
            if fault == "launch":
                time.sleep(draw.choice([0.3, 1.0]))
                send(there, signal.SIGCONT)
        assert daemon.wait(120) == 0
        for job in range(1, JOBS + 1):
            check(job, (bench.home / "jobs" / str(job) / "told").read_text())
    finally:
        daemon.kill()
        daemon.wait()
        send(supervisors(bench.home), signal.SIGCONT)
        bench.clean()


def check(job: int, told: str) -> None:
    assert "overlap" not in told, f"job {job}:\n{told}"
    lines = [line.split() for line in told.splitlines()]
    began = [int(attempt) for what, attempt, _ in lines if what == "began"]
    assert len(began) == len(set(began)), f"job {job} started an attempt twice:\n{told}"
    assert any(what == "done" for what, _, _ in lines), f"job {job} never got done:\n{told}"
    ends = {int(attempt): int(at) for what, attempt, at in lines if what == "ended"}
    late = [line for line in lines if line[0] in {"began", "done"} and int(line[2]) > ends.get(int(line[1]), 1 << 80)]
    assert not late, f"job {job} went on after its end was told:\n{told}"
