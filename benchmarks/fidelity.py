"""Thirty short training jobs on four pretend GPUs, really run under several policies, and simulated again.

python -m benchmarks.fidelity [--jobs N] [--policy NAME]... [--keep FOLDER]

A step trains a small network with PyTorch, about a millisecond of a CPU, and then waits, as a job waits for its GPU. So the jobs
that train at the same time do not slow each other down on a machine with few cores; those that start at the same time do. It
needs PyTorch, takes about a quarter of an hour, and stops what it started. With `--keep` the homes stay, for `rota fidelity`.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rota.experiments.fidelity_report import measure_fidelity
from rota.wire.client import connect

POLICIES = ("fifo", "tiresias:thresholds=15/60", "max-min-fairness")
MAX_SECONDS = 900.0

SCRIPT = """
import sys, time
import torch
from rota.train.torch import session

torch.set_num_threads(1)
torch.manual_seed(0)
steps, pause = int(sys.argv[1]), float(sys.argv[2])
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(4 * steps, 8), torch.randn(4 * steps, 1))
with session(model, optimizer) as job:
    batches = job.loader(data, batch_size=4)
    for epoch in job.epochs(1):
        for inputs, targets in job.steps(batches):
            loss = (model(inputs) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(pause)
"""


def run(policy: str, jobs: int, folder: Path) -> Path:
    """The home in which they ran."""
    home, work = folder / policy.partition(":")[0], folder / f"work-{policy.partition(':')[0]}"
    work.mkdir(parents=True)
    script = work / "train.py"
    script.write_text(SCRIPT)
    up = [
        sys.executable,
        "-m",
        "rota",
        "up",
        "--home",
        str(home),
        "--listen",
        "127.0.0.1:0",
        "--pretend",
        "4xV100",
        "--policy",
        policy,
    ]
    rounds = ["--round-seconds", "15"] if policy == "max-min-fairness" else []
    with subprocess.Popen([*up, *rounds], stdout=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stdout is not None and daemon.stdout.readline().startswith("ready")
            client, draw = connect(home), random.Random(1)
            for number in range(jobs):
                gpus, steps = draw.choice([1, 1, 1, 1, 2, 4]), draw.choice([60, 120, 240, 480])
                run = [sys.executable, str(script), str(steps), "0.05"]
                client.submit(run=run, gpus=gpus, name=f"train-{number}", progress="session", workdir=str(work), steps=steps)
                time.sleep(1.0)
            until_s = time.monotonic() + MAX_SECONDS
            while time.monotonic() < until_s and not all(row.ended for row in client.jobs(True)):
                time.sleep(2.0)
        finally:
            subprocess.run([sys.executable, "-m", "rota", "down", "--home", str(home)], check=False, capture_output=True)
            daemon.terminate()
    return home


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--policy", action="append", default=[])
    parser.add_argument("--keep", type=Path, default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-") as folder:
        homes = [run(policy, given.jobs, given.keep or Path(folder)) for policy in given.policy or POLICIES]
        found = measure_fidelity(homes)
    print(found)
    print(json.dumps(found.to_dict()))


if __name__ == "__main__":
    main()
