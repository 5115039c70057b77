"""A phase of `park_gpu`: two sessions of `rota.train.torch` on one GPU, suspended again and again under a real scheduler.

Both draw dropout and noise on the GPU. Each saves, leaves and is launched again, and has to end with the weights of a run that
was left alone on the GPU, bit for bit. Algorithms are deterministic, as PyTorch's own pages on reproducibility say.
"""

import contextlib
import subprocess
import sys
import time
from typing import Any

import rota
from benchmarks.gpu_bench import Bench, with_rota

SUSPENSIONS = 6
ROUND_SECONDS = 3.0
MAX_SECONDS = 480.0

SESSION = '''
"""Trains until it and the other have been suspended so often, or for so many epochs."""
import hashlib, os, random, sys, time
import torch
from rota.train.torch import session

name, seed, times, most, width, folder = sys.argv[1], *map(int, sys.argv[2:6]), sys.argv[6]
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
restarts = int(os.environ.get("ROTA_RESTARTS", "0"))
torch.manual_seed(seed + 1000 * restarts)  # what a resumed run begins with must not matter
random.seed(seed + 1000 * restarts)

class Examples(torch.utils.data.Dataset):
    """The workers that load them draw random numbers too."""
    def __len__(self):
        return 640
    def __getitem__(self, index):
        return torch.randn(width) * random.random() + index / 640.0, torch.tensor([index / 640.0])

def often_enough():
    """Both have been launched again so often."""
    with open(os.path.join(folder, name + ".restarts"), "w") as file:
        file.write(str(restarts))
    counts = []
    for each in os.listdir(folder):
        if each.endswith(".restarts"):
            counts.append(int(open(os.path.join(folder, each)).read() or 0))
    return len(counts) == 2 and min(counts) >= times

model = torch.nn.Sequential(
    torch.nn.Linear(width, width), torch.nn.Dropout(0.2), torch.nn.BatchNorm1d(width), torch.nn.GELU(),
    torch.nn.Linear(width, width), torch.nn.Dropout(0.2), torch.nn.LayerNorm(width), torch.nn.Linear(width, 1),
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [5, 20])
with session(model, optimizer, scheduler, seed=seed, every_seconds=None) as job:
    batches = job.loader(Examples(), batch_size=64, num_workers=2, multiprocessing_context="fork")
    for epoch in job.epochs(most or 1_000_000):
        for inputs, targets in job.steps(batches):
            inputs, targets = inputs.to(device), targets.to(device)
            drawn = torch.randn_like(inputs)  # on the GPU
            loss = (model(inputs + 0.1 * drawn) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            job.log(loss=loss)
            if times:
                time.sleep(0.02)
        scheduler.step()
        if times and often_enough():
            break
state = [each.cpu().contiguous().numpy().tobytes() for each in model.state_dict().values()]
moments = [each.cpu().contiguous().numpy().tobytes() for one in optimizer.state_dict()["state"].values() for each in one.values()]
print("weights", hashlib.sha256(b"".join(state)).hexdigest(), hashlib.sha256(b"".join(moments)).hexdigest(), job.step, flush=True)
print("drawn next", torch.randn(4, device=device).tolist(), scheduler.get_last_lr(), flush=True)
print("epochs", epoch + 1, device, flush=True)
'''


def resumed(bench: Bench, times: int = SUSPENSIONS) -> dict[str, Any]:
    """Whether both come to what they come to alone."""
    begin = time.monotonic()
    bench.home = bench.folder / "home-resumed"
    script, shared = bench.folder / "session.py", bench.folder / "restarts"
    script.write_text(SESSION)
    shared.mkdir()
    env = bench.variables() | with_rota() | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    width = 16 if bench.rehearsal else 1024

    def command(number: int, suspended: int, epochs: int) -> list[str]:
        return [sys.executable, str(script), *map(str, (f"session-{number}", number, suspended, epochs, width, shared))]

    bench.up("las", "--decide", "rounds", "--round-seconds", f"{ROUND_SECONDS:g}")
    try:
        client = rota.connect(bench.home)
        how: dict[str, Any] = {"progress": "session", "park": False, "env": env, "workdir": str(bench.folder)}
        jobs = {
            number: int(client.submit(run=command(number, times, 0), name=f"session-{number}", **how).id) for number in (1, 2)
        }
        problem = ""
        try:
            bench.until(lambda: all(row.ended for row in bench.rows().values()), "both are done", MAX_SECONDS, 0.5)
        except TimeoutError as error:
            problem = str(error)
        rows, logs = bench.rows(), {number: bench.log(job) for number, job in jobs.items()}
    finally:
        bench.down()
    found: dict[str, Any] = {"seconds_under_rota": round(time.monotonic() - begin, 1)}
    for number, job in jobs.items():
        told, row = _outcome(logs[number]), rows[job]
        found[f"session_{number}"] = facts = {
            "phase": row.phase,
            "suspensions": row.suspensions,
            "lost_steps": row.lost_steps,
            "steps": row.steps_done,
            "under_rota": told,
        }
        if not told:
            facts["log_tail"] = logs[number][-800:]
            continue
        run = command(number, 0, int(told["epochs"].split()[0]))
        done = subprocess.run(run, env=env, capture_output=True, text=True, timeout=max(bench.left(), 1.0), check=False)
        facts["alone"] = _outcome(done.stdout)
        facts["bit_for_bit"] = facts["alone"] == told
        if not facts["alone"]:
            facts["alone_problem"] = f"exit code {done.returncode}: {done.stderr[-800:]}"
    with contextlib.suppress(KeyError):
        found["exact"] = all(found[f"session_{number}"]["bit_for_bit"] for number in jobs)
        found["suspended_enough"] = all(rows[job].suspensions >= times for job in jobs.values())
    if not found.get("exact") or not found.get("suspended_enough"):
        problem = problem or "a session did not come to what it comes to alone, or was not suspended often enough"
    return found | ({"error": problem} if problem else {})


def _outcome(text: str) -> dict[str, str]:
    """What a session printed in the end; empty: it did not come to its end."""
    said = {}
    for line in text.splitlines():
        for word in ("weights", "drawn next", "epochs"):
            if line.startswith(word + " "):
                said[word] = line.removeprefix(word + " ")
    return said if len(said) == 3 else {}
