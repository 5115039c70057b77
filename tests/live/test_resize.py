"""`Resize` for real: a training job gets more GPUs while it runs, under one attempt."""

import contextlib
import os
import re
import sys
from pathlib import Path

import rota
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.live.replay import replay
from rota.model.commands import Launch, Resize
from rota.model.events import Decided
from tests.live.harness import Site, until

PACKAGES = str(Path(rota.__file__).parents[1])
TRAIN = """
import os, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from rota.train.torch import session

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.arange(64.0)[:, None], torch.arange(64))
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
with session(model, optimizer, every_seconds=None) as job:
    batches = job.loader(data, batch_size=8)
    for epoch in job.epochs(100_000):
        for inputs, indices in job.steps(batches):
            optimizer.zero_grad()
            model(inputs).mean().backward()
            optimizer.step()
            line = " ".join(map(str, indices.tolist()))
            os.write(1, f"took {epoch} {dist.get_world_size()} {line}\\n".encode())  # whole, also beside another rank
            time.sleep(0.2)
        if os.path.exists("enough"):
            break
"""
RUN = "exec {python} -m torch.distributed.run --standalone --nproc-per-node $ROTA_GPUS {script}"


def took(log: str) -> dict[int, list[int]]:
    """Which examples were taken in each epoch."""
    found: dict[int, list[int]] = {}
    for epoch, numbers in re.findall(r"^took (\d+) \d+ ([\d ]+)$", log, re.MULTILINE):
        found.setdefault(int(epoch), []).extend(map(int, numbers.split()))
    return found


def test_a_job_grows_while_it_runs_and_takes_every_example_once(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    with contextlib.closing(Site(tmp_path, pretend="2xV100", policy="fifo")) as place:
        place.up(tactics="grow:idle_seconds=1")
        first = place.submit(1, 1_000_000, 0.05, name="first")
        until(lambda: place.rows()[first].phase == "running", "the first runs")
        env = {"PYTHONPATH": PACKAGES, "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
        run = RUN.format(python=sys.executable, script=script)
        how: dict[str, object] = {"progress": "session", "gpus": {"min": 1, "max": 2}, "env": env, "workdir": str(place.work)}
        job = int(place.client().submit(run=run, name="elastic", **how).id)
        log = place.home / "logs" / f"{job}.log"

        def sizes() -> list[int]:
            """World sizes, one after the other."""
            seen = [int(each) for each in re.findall(r"^took \d+ (\d+) ", log.read_text(), re.MULTILINE)] if log.exists() else []
            return [size for at, size in enumerate(seen) if at == 0 or seen[at - 1] != size]

        until(lambda: sizes() == [1], "it trains on the GPU that is left")
        place.client().cancel("first")
        until(lambda: sizes() == [1, 2], "it has grown", 240.0)
        (place.work / "enough").touch()
        until(lambda: place.rows()[job].ended, "it is done", 240.0)
        row, text = place.rows()[job], log.read_text()
        assert (row.phase, row.lost_steps, row.suspensions) == ("finished", 0, 0), text
        assert text.count("--- rota: started on") == 1 and text.count("--- rota: started again on") == 1, text
        epochs = took(text)
        assert all(sorted(numbers) == list(range(64)) for numbers in epochs.values()), epochs
        place.down()
        journal = place.journal()
        made = [
            entry.decided for entry, _, _ in replay(journal, JOURNAL_CODEC, make_scheduler) if isinstance(entry.decided, Decided)
        ]
        journal.close()
        commands = [each for decided in made for each in decided.commands if each.job == job]
        assert {each.attempt for each in commands} == {1}
        assert {len(each.gpus) for each in commands if isinstance(each, Launch | Resize)} == {1, 2}
