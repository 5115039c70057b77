"""An interrupted PyTorch run has the result of an uninterrupted one, bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

from rota.agent import datagrams  # noqa: E402
from rota.agent.disk import REPORT_SOCKET, SIZE, write_atomic  # noqa: E402
from rota.errors import CheckpointError, OptionError  # noqa: E402
from rota.train.rank_environment import JobEnvironment  # noqa: E402
from rota.train.resumable_loader import ResumableLoader  # noqa: E402
from rota.train.session import YieldExit  # noqa: E402
from rota.train.torch import TorchSession, session  # noqa: E402
from tests.examples import examples  # noqa: E402
from tests.live.agent.bench import Bench  # noqa: E402
from tests.live.agent.conftest import bench  # noqa: E402
from tests.waiting import until  # noqa: E402

__all__ = ["bench"]

EXAMPLES, BATCH, EPOCHS = 22, 4, 3


@pytest.fixture(autouse=True, scope="module")
def signals_as_they_were() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Noisy:
    """Examples that draw from every generator there is, as augmentation does."""

    def __init__(self, length: int = EXAMPLES) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Any, Any, int]:
        noise = torch.rand(8) + random.random() + float(np.random.rand())
        return noise + index, torch.tensor([float(index)]), index


SCHEDULERS: dict[str, Any] = {
    "step": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
    "milestones": lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2]),
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2),
    "lambda": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
}


class Run:
    """One training run, in as many attempts as it takes."""

    def __init__(self, folder: Path, scheduler: str = "step", optimizer: str = "Adam", **options: Any) -> None:
        self.folder, self.scheduler, self.optimizer, self.options = folder, scheduler, optimizer, options
        self.seen: list[int] = []
        self.attempt = 0
        self.batch_size = 0
        """What Rota grants."""

    def once(self, stop_after: int | None) -> Any:
        """Its weights when it is done; None: it was told to stop after so many steps, and left."""
        self.attempt += 1
        seed = 5 if self.attempt == 1 else 1000 + self.attempt  # what a resumed one begins with must not matter
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 1)
        )
        optimizer = getattr(torch.optim, self.optimizer)(model.parameters(), lr=0.01)
        scheduler = SCHEDULERS[self.scheduler](optimizer)
        where = JobEnvironment(self.folder, self.folder / "ckpt", self.attempt, batch_size=self.batch_size)
        made = 0
        try:
            with TorchSession(model, optimizer, scheduler, seed=3, environment=where, every_seconds=None) as job:
                own = self.options.pop("own_loader", None)
                batches = own() if own else job.loader(Noisy(), BATCH, **self.options)
                self.options |= {"own_loader": own} if own else {}
                for _ in job.epochs(EPOCHS):
                    for inputs, targets, indices in job.steps(batches):
                        loss = (model(inputs) - targets).square().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                        job.log(loss=loss)
                        self.seen += indices.tolist()
                        made += 1
                        if made == stop_after:
                            os.kill(os.getpid(), signal.SIGTERM)
                    scheduler.step()
        except YieldExit:
            return None
        self.factor = job.rate_factor
        return [tensor.clone() for tensor in model.state_dict().values()] + [torch.tensor(scheduler.get_last_lr())]


def alike(ours: list[Any], theirs: list[Any]) -> bool:
    return len(ours) == len(theirs) and all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def interrupted(run: Run, stops: list[int]) -> Any:
    for stop in stops:
        if (found := run.once(stop)) is not None:
            return found
    return run.once(None)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, list[int]]]:
    """Runs that nobody interrupted, by scheduler."""
    found = {}
    for name in SCHEDULERS:
        run = Run(tmp_path_factory.mktemp(name), name)
        found[name] = run.once(None), run.seen
    return found


@examples(12)
@given(scheduler=st.sampled_from(sorted(SCHEDULERS)), stops=st.lists(st.integers(1, 7), max_size=6))
def test_interrupted_anywhere_it_is_the_same_run(
    tmp_path_factory: pytest.TempPathFactory, straight: dict[str, Any], scheduler: str, stops: list[int]
) -> None:
    run = Run(tmp_path_factory.mktemp("run"), scheduler)
    weights, seen = straight[scheduler]
    assert alike(interrupted(run, stops), weights)
    assert run.seen == seen, "data order included"


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "RMSprop", "Adagrad"])
def test_every_usual_optimizer_goes_on(tmp_path: Path, optimizer: str) -> None:
    whole, parts = (Run(tmp_path / name, optimizer=optimizer) for name in ("whole", "parts"))
    assert alike(interrupted(parts, [4, 5]), whole.once(None))


def test_worker_processes_draw_what_they_would_have_drawn(tmp_path: Path) -> None:
    """They begin in the middle of an epoch."""
    whole, parts = (Run(tmp_path / name, num_workers=2) for name in ("whole", "parts"))
    assert alike(interrupted(parts, [4, 3]), whole.once(None))
    assert parts.seen == whole.seen


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_of_the_user_goes_on_too(tmp_path: Path, workers: int) -> None:
    """One that shuffles by the generator of the process. What was used is drawn again and dropped."""

    def own_loader() -> Any:
        return torch.utils.data.DataLoader(Noisy(), batch_size=BATCH, shuffle=True, num_workers=workers)

    whole, parts = (Run(tmp_path / name, own_loader=own_loader) for name in ("whole", "parts"))
    assert alike(interrupted(parts, [4, 2, 5]), whole.once(None))
    assert parts.seen == whole.seen


def test_every_epoch_has_an_order_of_its_own_and_every_example_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.once(None)
    epochs = [run.seen[begin : begin + EXAMPLES] for begin in range(0, EPOCHS * EXAMPLES, EXAMPLES)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(EXAMPLES))] * EPOCHS
    assert len({tuple(epoch) for epoch in epochs}) == EPOCHS


@examples(60)
@given(
    length=st.integers(1, 40),
    parts=st.lists(st.tuples(st.integers(4, 9), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=5),
)
def test_other_batch_sizes_and_ranks_leave_no_example_out(length: int, parts: list[tuple[int, int, int]]) -> None:
    """Sizes change in the middle of an epoch; each part takes so many steps, the last as many as there are."""
    state = {"epoch": 0, "taken": 0, "seed": 9, "length": length}
    seen: list[int] = []
    for place, (batch_size, world_size, steps) in enumerate(parts):
        last = place == len(parts) - 1
        ranks = []
        for rank in range(world_size):
            loader = ResumableLoader(Noisy(length), batch_size=batch_size, seed=9, rank=rank, world_size=world_size)
            loader.load_state_dict(state)
            loader.resume_at(0, 1)
            ranks.append((loader, iter(loader)))
        done = 0
        while last or done < steps:
            batches = [next(drawn, None) for _, drawn in ranks]
            if batches[0] is None:
                assert all(batch is None for batch in batches), "all ranks have the same number of steps"
                break
            seen += [index for batch in batches for index in batch[2].tolist()]
            done += 1
        state = ranks[0][0].state_dict()
        assert all(loader.state_dict() == state for loader, _ in ranks)
    left_out = length - len(seen)
    assert len(set(seen)) == len(seen) and set(seen) <= set(range(length))
    assert left_out < parts[-1][1], "only a rest that has not one for each rank is left out"


def test_another_batch_size_raises_the_rate_over_an_epoch(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.once(6)
    run.batch_size = 2 * BATCH
    assert run.once(None) is not None
    assert run.factor == 2.0
    assert sorted(run.seen[:EXAMPLES]) == list(range(EXAMPLES)), "the epoch in which it changed has every example once"


def test_a_running_job_takes_another_batch_size(tmp_path: Path) -> None:
    """Told in the middle of an epoch, and told back: every example once, and Rota hears of usual steps."""
    box = datagrams.listen(tmp_path, REPORT_SOCKET)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    where = JobEnvironment(tmp_path, tmp_path / "ckpt", 1, batch_size=4)
    sizes, seen, factors, told = [], [], [], []
    with TorchSession(model, optimizer, environment=where, every_seconds=None) as job:
        batches = job.loader(Noisy(48), 4)
        for _ in job.epochs(2):
            for _, _, indices in job.steps(batches):
                sizes.append(len(indices))
                seen += indices.tolist()
                factors.append(job.rate_factor)
                optimizer.step()
                if job.step in (2, 9):
                    write_atomic(tmp_path, SIZE, json.dumps({"batch_size": 8 if job.step == 2 else 4}).encode(), durable=False)
                job._reporter.hurry()  # it looks with every step that it tells of
                told += datagrams.receive(box, 99)
    told = [json.loads(each) for each in [*told, *datagrams.receive(box, 99)]]
    box.close()
    assert sizes == [4] * 3 + [8] * 4 + [4] + [8] * 2 + [4] * 8
    assert [sorted(seen[:48]), sorted(seen[48:])] == [list(range(48))] * 2
    assert factors[:3] == [1.0] * 3 and 1.0 < factors[5] < 2.0 and factors[-1] < max(factors)
    assert told[-1]["steps_done"] == told[-1]["steps_total"] == 3 + 5 * 2 + 2 * 2 + 8


def test_the_schedule_never_sees_the_factor() -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    used: list[float] = []
    with TorchSession(model, optimizer, scheduler, environment=JobEnvironment(batch_size=8)) as job:
        optimizer.register_step_pre_hook(lambda optimizer, *_: used.append(optimizer.param_groups[0]["lr"]))
        batches = job.loader(Noisy(32), 2)
        for _ in job.epochs(3):
            for inputs, targets, _ in job.steps(batches):
                (model(inputs[:, :1]) - targets).square().mean().backward()
                optimizer.step()
            scheduler.step()
    assert scheduler.get_last_lr() == [0.1 * 0.5**3]
    assert used[:5] == pytest.approx([0.1, 0.175, 0.25, 0.325, 0.2]), "from 1 to 4 in four steps, then half of 0.1 times 4"


def test_mistakes_are_named(tmp_path: Path) -> None:
    model = torch.nn.Linear(1, 1)
    with pytest.raises(OptionError, match="scheduler: 'int' — has no state_dict"):
        session(model, scheduler=3)
    with session(model) as job:
        with pytest.raises(OptionError, match="sampler — is set by the session"):
            job.loader(Noisy(), 4, sampler=None)
        with pytest.raises(OptionError, match="dataset: 'list_iterator' — has no length"):
            job.loader(iter([]), 4)
        job.loader(Noisy(), 4)
        with pytest.raises(OptionError, match="a session has one loader"):
            job.loader(Noisy(), 4)


def test_a_checkpoint_of_another_script_is_refused(tmp_path: Path) -> None:
    model = torch.nn.Linear(1, 1)
    with session(model, folder=tmp_path, every_seconds=0) as job:
        list(job.steps(job.loader(Noisy(), 4)))
    with (
        pytest.raises(CheckpointError, match="holds model, and the script has model, optimizer"),
        session(model, torch.optim.SGD(model.parameters()), folder=tmp_path),
    ):
        pass
    with session(model, folder=tmp_path) as job, pytest.raises(OptionError, match="length of the data: 7 — was 22"):
        job.loader(Noisy(7), 4)


def test_loading_runs_no_code(tmp_path: Path) -> None:
    """A checkpoint that would run a command when it is loaded by other means."""
    model = torch.nn.Linear(1, 1)
    with session(model, folder=tmp_path, every_seconds=0) as job:
        list(job.steps(job.loader(Noisy(), 4)))

    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "owned",))

    from rota.train.checkpoint import checkpoints_at

    facts = {"epoch": 0, "offset": 1, "work": 1}
    checkpoints_at(tmp_path, attempt=9).write(1, facts, lambda folder: torch.save({"parts": Evil()}, folder / "common.pt"))
    with pytest.raises(Exception, match="Weights only load failed"), session(model, folder=tmp_path):
        pass
    assert not (tmp_path / "owned").exists()


GANG = """
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from pathlib import Path
from rota.train.torch import session
torch.set_num_threads(1)
work, stop = Path(sys.argv[1]), int(sys.argv[2])
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"file://{work}/meet", rank=rank, world_size=2)
torch.manual_seed(1 + rank)
class Data:
    def __len__(self): return 48
    def __getitem__(self, index): return torch.full((4,), index / 48.0), torch.tensor([index / 7.0])
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
with session(model, optimizer, every_seconds=None) as job:
    batches = job.loader(Data(), 8)
    for epoch in job.epochs(20):
        for inputs, targets in job.steps(batches):
            optimizer.zero_grad()
            (model(inputs) - targets).square().mean().backward()
            optimizer.step()
            time.sleep(0.02)  # limits reach a second ahead, and it must not be over by then
            if rank == 0 and job.step + 1 == stop:
                os.kill(os.getpid(), 15)
dist.destroy_process_group()
torch.save(model.module.state_dict(), work / f"weights.{rank}")
"""

RANKS = """
import os, runpy, sys
import torch.distributed, torch.nn.parallel, rota.train.torch  # once for both ranks
ranks = []
for rank in ("0", "1"):
    if (process := os.fork()) == 0:
        os.environ.update(RANK=rank, LOCAL_RANK=rank)
        runpy.run_path(sys.argv[3], run_name="__main__")
        sys.exit()
    ranks.append(process)
print([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in ranks])
"""


def gang(folder: Path, script: Path, attempt: int, stop: int) -> list[int]:
    """Run both ranks in processes that are forked after PyTorch is imported. Return their exit codes."""
    work, run = folder / f"work-{attempt}", folder / f"run-{attempt}"
    work.mkdir(parents=True)
    run.mkdir()
    packages = str(Path(session.__code__.co_filename).parents[2])
    where = {
        "PYTHONPATH": packages,
        "ROTA_RUN_DIR": str(run),
        "ROTA_CHECKPOINT_DIR": str(folder),
        "ROTA_JOB_ID": "1",
        "ROTA_ATTEMPT": str(attempt),
        "WORLD_SIZE": "2",
        "PATH": os.environ["PATH"],
    }
    command = [sys.executable, "-c", RANKS, str(work), str(stop), str(script)]
    done = subprocess.run(command, env=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [int(code) for code in json.loads(done.stdout)]


@pytest.mark.slow
def test_two_ranks_with_gloo_go_on_bit_for_bit(tmp_path: Path) -> None:
    script = tmp_path / "gang.py"
    script.write_text(GANG)
    assert gang(tmp_path / "whole", script, 1, 0) == [0, 0]
    assert gang(tmp_path / "parts", script, 1, 7) == [75, 75]
    assert gang(tmp_path / "parts", script, 2, 0) == [0, 0]
    found = [
        torch.load(tmp_path / name / work / f"weights.{rank}", weights_only=True)
        for name, work in (("whole", "work-1"), ("parts", "work-2"))
        for rank in range(2)
    ]
    for other in found[1:]:
        assert alike(list(found[0].values()), list(other.values()))


@pytest.mark.slow
def test_a_job_under_torchrun_is_suspended_without_loss(bench: Bench, tmp_path: Path) -> None:
    """Its supervisor signals torchrun, which passes it on to its ranks, and leaves with a code of its own."""
    script = tmp_path / "gang.py"
    script.write_text(GANG.replace(', init_method=f"file://{work}/meet", rank=rank, world_size=2', ""))
    env = {
        "PYTHONPATH": str(Path(session.__code__.co_filename).parents[2]),
        "PATH": os.environ["PATH"],
        "ROTA_CHECKPOINT_DIR": str(tmp_path),
        "ROTA_JOB_ID": "1",
        "OMP_NUM_THREADS": "1",
    }
    run = (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(script),
        str(tmp_path),
        "0",
    )

    def launch(attempt: int) -> None:
        where = {**env, "ROTA_ATTEMPT": str(attempt)}
        order = bench.order(*run, env=where, attempt=attempt, progress="session", workdir=str(tmp_path))
        bench.machine.launch(order)

    launch(1)
    until(lambda: bench.part().began_s is not None or bench.part().state == "ended", "the first step")
    bench.machine.suspend(1, 1, 2)
    left = bench.wait()
    assert left.outcome == "yielded" and left.steps_saved == left.steps_done > 0, (left, bench.said())
    launch(2)
    end = bench.wait(1, 2)
    assert (end.outcome, end.steps_done, end.steps_total) == ("finished", 120.0, 120.0), bench.said()
    found = [torch.load(tmp_path / f"weights.{rank}", weights_only=True) for rank in range(2)]
    assert alike(list(found[0].values()), list(found[1].values()))
