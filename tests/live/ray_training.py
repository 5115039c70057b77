"""Forty short training jobs on a real Ray cluster of three nodes with GPUs of two types, under max-min fairness with PAL.

python -m tests.live.ray_training [--jobs N] [--seed N]

All have to finish with the weights of a run that was left alone, bit for bit. Then the journal is simulated again. The last line
is JSON. It needs PyTorch and Ray, takes about ten minutes, and ends what it started.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rota.experiments.fidelity_report import measure_fidelity
from tests.live.harness import until
from tests.live.ray_cluster import RayCluster
from tests.live.test_ray import PACKAGES, RaySite

NODES = (("n1", 4, "V100"), ("n2", 4, "V100"), ("n3", 4, "K80"))
MAX_SECONDS = 1500.0

SCRIPT = """
import hashlib, sys, time
import torch
from rota.train.torch import session

torch.set_num_threads(1)
steps, pause, seed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(seed)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(4 * steps, 8), torch.randn(4 * steps, 1))
with session(model, optimizer) as job:
    batches = job.loader(data, batch_size=4)
    for epoch in job.epochs(1):
        for inputs, targets in job.steps(batches):
            optimizer.zero_grad()
            (model(inputs) - targets).square().mean().backward()
            optimizer.step()
            time.sleep(pause)
state = b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
print("weights", hashlib.sha256(state).hexdigest(), job.step, flush=True)
"""


def weights(text: str) -> str:
    found = [line for line in text.splitlines() if line.startswith("weights")]
    return found[-1] if found else "none"


def scores(path: Path) -> None:
    """How slow each GPU is, as far as PAL is told: those of the second node take a tenth longer. Within a node all are equal:
    scripts of one node must not be put on two, and PAL would do that where it pays."""
    slow = [score for (_, gpus, _), score in zip(NODES, (1.0, 1.1, 1.0), strict=True) for _ in range(gpus)]
    lines = ["gpu,class,score"]
    lines += [f"{gpu},{name},{score}" for gpu, score in enumerate(slow) for name in ("A", "B")]
    path.write_text("\n".join(lines) + "\n")


def run(jobs: int, seed: int, folder: Path) -> dict[str, object]:
    draw = random.Random(seed)
    script = folder / "train.py"
    script.write_text(SCRIPT)
    scores(folder / "scores.csv")
    env = {"PYTHONPATH": PACKAGES, "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    (folder / "ray").mkdir()
    wanted: dict[int, tuple[int, int]] = {}
    with contextlib.closing(RayCluster(folder / "ray")) as cluster:
        for node in NODES:
            cluster.add(*node)
        with contextlib.closing(RaySite(folder, cluster, policy="max-min-fairness")) as place:
            place.flags |= {"--placer": "pal", "--variability": str(folder / "scores.csv"), "--round-seconds": "20"}
            place.up(wait_for_locality="")
            for number in range(jobs):
                gpus, steps = draw.choice([1, 1, 1, 2, 2, 4]), draw.choice([240, 480, 720])
                command = [sys.executable, str(script), str(steps), "0.05", str(number)]
                how: dict[str, object] = {"gpus": gpus, "progress": "session", "env": env, "workdir": str(place.work)}
                job = int(place.client().submit(run=command, steps=steps, name=f"train-{number}", **how).id)
                wanted[job] = (steps, number)
                time.sleep(1.0)
            until(lambda: all(row.ended for row in place.rows().values()), "all are done", MAX_SECONDS)
            rows = place.rows()
            place.down()
            for job, row in rows.items():
                if row.phase != "finished":
                    print(row.phase, row.last_change, *(each.read_text()[-1500:] for each in place.home.glob(f"logs/{job}.*")))
            said = {job: weights((place.home / "logs" / f"{job}.log").read_text()) for job in wanted}
            found = measure_fidelity([place.home])
    print(found)
    alone = {}
    for job, (steps, number) in wanted.items():
        command = [sys.executable, str(script), str(steps), "0", str(number)]
        alone[job] = weights(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    return {
        "jobs": jobs,
        "finished": sum(row.phase == "finished" for row in rows.values()),
        "same_weights": sum(said[job] == alone[job] for job in wanted),
        "suspensions": sum(row.suspensions for row in rows.values()),
        "lost_steps": sum(row.lost_steps for row in rows.values()),
        "fidelity": found.to_dict(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Training jobs on a Ray cluster, checked and simulated again.")
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-") as folder:
        found = run(given.jobs, given.seed, Path(folder))
    print(json.dumps(found))
    return 0 if found["finished"] == found["same_weights"] == given.jobs else 1


if __name__ == "__main__":
    sys.exit(main())
