"""Real PyTorch training under a real scheduler: a job suspended many times has the result of an uninterrupted run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from tests.live.harness import Site, check_record, site, until

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


@pytest.mark.nightly
def test_suspended_twenty_times_a_job_ends_with_the_same_weights(tmp_path: Path) -> None:
    """Time slicing on one GPU. The signal goes to the processes that load data too."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with site(tmp_path, pretend="1xV100", policy="las") as place:
        place.down()
        place.up(decide="rounds", round_seconds="1")
        env = {"PYTHONPATH": PACKAGES, "PATH": os.environ["PATH"]}
        run = [sys.executable, str(script), str(TIMES), "1000000"]
        how: dict[str, object] = {"progress": "session", "park": False, "workdir": str(place.work)}
        job = place.client().submit(run=run, env=env, **how).id
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


CHANGES = """
import itertools, sys, time
import torch
from rota.train.torch import session

torch.set_num_threads(1)
data = torch.utils.data.TensorDataset(torch.arange(64.0)[:, None], torch.arange(64))
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
sizes = []
with session(model, optimizer) as job:
    batches = job.loader(data, batch_size=4)
    for epoch in job.epochs(1000):
        for inputs, indices in job.steps(batches):
            model(inputs).mean().backward()
            optimizer.step()
            sizes.append(job.batch_size)
            print("took", epoch, *indices.tolist(), flush=True)
            time.sleep(0.05)
        if len(list(itertools.groupby(sizes))) > 3:
            break
print("sizes", *(size for size, _ in itertools.groupby(sizes)), job.rate_factor > 0, flush=True)
"""

TURNS = """
import numpy as np
import rota

class Turns:
    '''Batches of 4 and of 8 in turn, two seconds each.'''
    def allocate(self, view):
        turn = int(view.now_s // 2)
        size = (4, 8)[turn % 2]
        options = view.options
        found = [next(row for row in options.of_kind[kind] if options.batch_size[row] == size) for kind in view.jobs.kind]
        rows = np.array(found, dtype=np.int64)
        return rota.Assignment(position=np.arange(len(found)), option=rows, until_s=2.0 * (turn + 1))
"""


def test_a_policy_changes_the_batch_size_of_a_running_job(tmp_path: Path) -> None:
    """It is not suspended for that, and every epoch has every example once."""
    (tmp_path / "train.py").write_text(CHANGES)
    (tmp_path / "turns.py").write_text(TURNS)
    with site(tmp_path, pretend="1xV100", policy=f"{tmp_path / 'turns.py'}:Turns") as place:
        env = {"PYTHONPATH": PACKAGES, "PATH": os.environ["PATH"]}
        run = [sys.executable, str(tmp_path / "train.py")]
        batch = {"size": 4, "max": 8}
        job = place.client().submit(run=run, env=env, progress="session", batch=batch, workdir=str(place.work)).id
        until(lambda: place.rows()[job].ended, "it is done", PATIENCE)
        row = place.rows()[job]
        log = (place.home / "logs" / f"{job}.log").read_text()
        assert row.phase == "finished" and row.suspensions == 0 and log.count("(attempt ") == 1, log
        sizes = next(line for line in log.splitlines() if line.startswith("sizes")).split()[1:]
        assert set(sizes[:-1]) == {"4", "8"} and len(sizes) > 4
        epochs: dict[str, list[int]] = {}
        for words in (line.split() for line in log.splitlines() if line.startswith("took")):
            epochs.setdefault(words[1], []).extend(map(int, words[2:]))
        assert all(sorted(taken) == list(range(64)) for taken in epochs.values())
        assert row.steps_done == row.steps_total
        place.down()
        check_record(place, waits=0)
