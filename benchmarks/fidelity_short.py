"""Twelve short jobs on four pretend GPUs, really run under `las` and simulated again, with the error by cause.

python -m benchmarks.fidelity_short [--runs N] [--jobs N] [--policy NAME] [--seed N] [--busy N] [--heavy] [--keep FOLDER]

The jobs train alone for 6 to 20 s, want 1 or 2 GPUs, and come 0.5 to 2 s apart, so that they preempt each other. A step computes
for about 3 ms and waits, as a job waits for its GPU. `--heavy` makes it compute for about 20 ms, and a start for about 1 s, so
that jobs slow each other down. `--busy` keeps as many other processes computing. A run takes one to two minutes and stops what it
started. With `--keep` the homes stay, for `rota fidelity`.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rota.experiments.fidelity_report import measure_fidelity
from rota.wire.client import connect

STEP_SECONDS = 0.05
LIGHT, HEAVY = (0.047, 200_000, 0), (0.03, 1_500_000, 80_000_000)
"""Seconds that a step waits, numbers that it adds up, and numbers that a start adds up."""
MAX_SECONDS = 600.0

SCRIPT = """
import os, signal, sys, time
steps, pause, compute, load, state = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
stop = False
def ask(*_):
    global stop
    stop = True
signal.signal(signal.SIGTERM, ask)
def save(step):
    with open(state + ".new", "w") as file:
        file.write(str(step))
        file.flush()
        os.fsync(file.fileno())
    os.replace(state + ".new", state)
sum(range(load))
step = int(open(state).read()) if os.path.exists(state) else 0
while step < steps:
    if stop:
        save(step)
        sys.exit(75)
    sum(range(compute))
    time.sleep(pause)
    step += 1
    print(f"step {step}/{steps}", flush=True)
save(step)
"""


def run(policy: str, jobs: int, seed: int, heavy: bool, folder: Path) -> Path:
    """Run the jobs of this seed and return the home."""
    home, work = folder / f"home-{seed}", folder / f"work-{seed}"
    work.mkdir(parents=True)
    script = work / "train.py"
    script.write_text(SCRIPT)
    up = [sys.executable, "-m", "rota", "up", "--home", str(home), "--listen", "127.0.0.1:0", "--pretend", "4xV100"]
    with subprocess.Popen([*up, "--policy", policy], stdout=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stdout is not None
            while not (line := daemon.stdout.readline()).startswith("ready"):
                assert line, "rota up has ended"
            client, draw = connect(home), random.Random(seed)
            costs = [str(each) for each in (HEAVY if heavy else LIGHT)]
            for number in range(jobs):
                gpus, steps = draw.choice([1, 1, 2]), round(draw.uniform(6.0, 20.0) / STEP_SECONDS)
                client.submit(
                    run=[sys.executable, "-S", str(script), str(steps), *costs, str(work / f"{number}.step")],
                    gpus=gpus,
                    steps=steps,
                    name=f"train-{number}",
                    progress=r"step (\d+)/(\d+)",
                    checkpoint={"grace": 20},
                )
                time.sleep(draw.uniform(0.5, 2.0))
            until_s = time.monotonic() + MAX_SECONDS
            while time.monotonic() < until_s and not all(row.ended for row in client.jobs(True)):
                time.sleep(1.0)
        finally:
            subprocess.run([sys.executable, "-m", "rota", "down", "--home", str(home)], check=False, capture_output=True)
            daemon.terminate()
    return home


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--policy", default="las")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--heavy", action="store_true")
    parser.add_argument("--keep", type=Path, default=None)
    given = parser.parse_args()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
    try:
        with tempfile.TemporaryDirectory(prefix="rota-") as folder:
            homes = []
            for seed in range(given.seed, given.seed + given.runs):
                homes.append(run(given.policy, given.jobs, seed, given.heavy, given.keep or Path(folder)))
                print(f"run {seed}: load {os.getloadavg()[0]:.1f}", flush=True)
            found = measure_fidelity(homes)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    print(found)
    print(json.dumps(found.to_dict()))


if __name__ == "__main__":
    main()
