"""Hooks, with the real packages: a suspended run ends with the weights of an uninterrupted one. Skipped if they are absent."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rota

PACKAGES = str(Path(rota.__file__).parents[1])
pytestmark = pytest.mark.slow

TRAINER = """
import hashlib, os, sys
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed
from rota.train.huggingface import RotaCallback, last_checkpoint

work, stop = sys.argv[1], int(sys.argv[2])
set_seed(0)
torch.set_num_threads(1)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
    def forward(self, inputs, labels):
        found = self.layers(inputs)
        return {"loss": (found - labels).square().mean(), "logits": found}

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return {"inputs": torch.full((4,), index / 64), "labels": torch.tensor([index / 7.0])}

class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == stop:
            os.killpg(os.getpid(), 15)

model = Model()
args = TrainingArguments(work, num_train_epochs=3, per_device_train_batch_size=4, logging_steps=5, save_strategy="no",
                         report_to=[], disable_tqdm=True, dataloader_num_workers=1, use_cpu=True)
trainer = Trainer(model=model, args=args, train_dataset=Data(), callbacks=[Stop(), RotaCallback()])
trainer.train(resume_from_checkpoint=last_checkpoint(work))
state = b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
print("weights", trainer.state.global_step, hashlib.sha256(state).hexdigest())
"""

ACCELERATE = """
import hashlib, os, sys
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from rota.train.accelerate import session

work, stop = sys.argv[1], int(sys.argv[2])
set_seed(0)
torch.set_num_threads(1)
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = [(torch.full((4,), index / 64), torch.tensor([index / 7.0])) for index in range(64)]
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, num_workers=1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
with session(accelerator, every_seconds=None) as job:
    for epoch in job.epochs(3):
        for inputs, targets in job.steps(loader):
            optimizer.zero_grad()
            accelerator.backward((model(inputs) - targets).square().mean())
            optimizer.step()
            if job.step + 1 == stop:
                os.killpg(os.getpid(), 15)
state = b"".join(tensor.numpy().tobytes() for tensor in accelerator.unwrap_model(model).state_dict().values())
print("weights", job.step, hashlib.sha256(state).hexdigest())
"""


def run(folder: Path, script: str, stop: int, attempt: int, *, under_rota: bool = True) -> tuple[int, str]:
    (folder / "script.py").write_text(script)
    (folder / f"run-{attempt}").mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HF_HUB_OFFLINE": "1", "HOME": str(folder)}
    if under_rota:
        env |= {
            "ROTA_RUN_DIR": str(folder / f"run-{attempt}"),
            "ROTA_CHECKPOINT_DIR": str(folder),
            "ROTA_JOB_ID": "1",
            "ROTA_ATTEMPT": str(attempt),
        }
    command = [sys.executable, str(folder / "script.py"), str(folder / "out"), str(stop)]
    # A group of its own: the signal goes to the whole group, as from Rota, and so to the processes that load data.
    done = subprocess.run(command, env=env, capture_output=True, text=True, start_new_session=True)
    return done.returncode, next((line for line in done.stdout.splitlines() if line.startswith("weights")), done.stderr)


@pytest.mark.parametrize(("package", "script"), [("transformers", TRAINER), ("accelerate", ACCELERATE)])
def test_a_suspended_run_is_the_same_run(tmp_path: Path, package: str, script: str) -> None:
    if importlib.util.find_spec(package) is None or importlib.util.find_spec("torch") is None:
        pytest.skip(f"{package} is not installed")
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    code, whole = run(tmp_path / "whole", script, 0, 1, under_rota=False)
    assert code == 0 and whole.startswith("weights 48 "), whole
    for attempt, stop in ((1, 7), (2, 30)):
        code, said = run(tmp_path / "parts", script, stop, attempt)
        assert code == 75, said
    assert run(tmp_path / "parts", script, 0, 3) == (0, whole)


def test_a_checkpoint_of_the_trainer_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from rota.train.folder_checkpoints import add_manifest
    from rota.train.huggingface import last_checkpoint
    from rota.train.session import CheckpointWarning

    assert last_checkpoint(tmp_path) is None
    for step in (9, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "model").write_bytes(b"x" * 100)
        add_manifest(tmp_path / f"checkpoint-{step}", step)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    (tmp_path / "checkpoint-11").mkdir()
    (tmp_path / "checkpoint-10" / "model").write_bytes(b"x" * 99)
    with pytest.warns(CheckpointWarning, match="The checkpoint before it is used"):
        assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-9")
