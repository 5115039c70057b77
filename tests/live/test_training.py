"""Real PyTorch training under a real scheduler: suspended again and again, it is the run that nobody interrupted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from tests.live.harness import Site, check_record, site, until

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

PACKAGES = str(Path(rota.__file__).parents[1])
TIMES = 20
PATIENCE = 600.0
"""Each of many launches loads PyTorch, and the machine may be busy."""

SCRIPT = """
import hashlib, os, random, sys, time
import torch
from rota.train.torch import session

torch.set_num_threads(1)
times, most = int(sys.argv[1]), int(sys.argv[2])
restarts = int(os.environ.get("ROTA_RESTARTS", "0"))
torch.manual_seed(restarts)  # what a resumed run begins with must not matter
random.seed(restarts)

class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, index):
        return torch.randn(6) * random.random() + index, torch.tensor([index / 9.0]), index

model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Dropout(0.2), torch.nn.BatchNorm1d(12), torch.nn.Linear(12, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
with session(model, optimizer, scheduler, every_seconds=None) as job:
    batches = job.loader(Noisy(), batch_size=6, num_workers=2)
    for epoch in job.epochs(most):
        for inputs, targets, indices in job.steps(batches):
            loss = (model(inputs) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            job.log(loss=loss)
            print("took", job.step + 1, *indices.tolist(), flush=True)
            time.sleep(0.05)
        scheduler.step()
        if restarts >= times:
            break  # it was suspended often enough
state = [tensor.numpy().tobytes() for tensor in model.state_dict().values()]
print("weights", hashlib.sha256(b"".join(state)).hexdigest(), job.step, scheduler.get_last_lr(), flush=True)
print("epochs", epoch + 1)
"""


def outcome(text: str) -> tuple[list[str], str]:
    """The examples of every step in order, and the weights in the end."""
    lines = text.splitlines()
    return [line for line in lines if line.startswith("took")], next(line for line in lines if line.startswith("weights"))


def test_suspended_twenty_times_a_job_ends_with_the_same_weights(tmp_path: Path) -> None:
    """Time slicing on one GPU. The signal goes to the processes that load data too."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with site(tmp_path, pretend="1xV100", policy="las") as place:
        place.down()
        place.up(decide="rounds", round_seconds="1")
        env = {"PYTHONPATH": PACKAGES, "PATH": os.environ["PATH"]}
        run = [sys.executable, str(script), str(TIMES), "1000000"]
        job = place.client().submit(run=run, env=env, progress="session", workdir=str(place.work)).id
        place.submit(1, 1_000_000, 0.05, name="the-other")
        until(lambda: place.rows()[job].ended, "it has been suspended so often, and is done", PATIENCE)
        row = place.rows()[job]
        log = (place.home / "logs" / f"{job}.log").read_text()
        assert row.phase == "finished", log
        assert row.suspensions >= TIMES and row.lost_steps == 0
        assert log.count("--- rota: suspended at step") >= TIMES
        epochs = log.splitlines()[-2].split()[1]
        alone = subprocess.run([*run[:3], epochs], env=env, capture_output=True, text=True, check=True)
        assert outcome(log) == outcome(alone.stdout)
        assert row.steps_done == row.steps_total == 10 * int(epochs)
        leave(place, "the-other")
        check_record(place, waits=0)


def leave(place: Site, name: str) -> None:
    place.client().cancel(name)
    until(lambda: all(row.ended for row in place.rows().values()), "all have ended")
    place.down()
