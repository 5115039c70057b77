"""Sweeps on other machines, which here are threads with worker processes and copies of their own."""

import queue
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from rota.errors import InputError
from rota.experiments.grid import Grid
from rota.experiments.node_runner import NodeRunner
from rota.experiments.runner import run
from rota.experiments.worker_pool import WorkerReply

JOBS = "synthetic:jobs=30,gpus=8,largest=4,longest_seconds=20000"


class Machines:
    """Each thread is a machine: it has nothing but what is sent to it."""

    def __init__(self, count: int = 2) -> None:
        self.most = 0
        self._count, self._running = count, 0
        self._kept: dict[str, bytes] = {}
        self._todo: queue.SimpleQueue[tuple[int, str, dict[str, bytes]] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[int, WorkerReply]] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._machine) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _machine(self) -> None:
        there = NodeRunner()
        while (sent := self._todo.get()) is not None:
            number, text, files = sent
            self._answers.put((number, there.run(text, files.__getitem__)))
        there.close()

    def keep(self, digest: str, content: bytes) -> None:
        self._kept[digest] = content

    def room(self) -> int:
        return self._count - self._running

    def send(self, number: int, text: str, digests: Sequence[str]) -> None:
        self._running += 1
        self.most = max(self.most, self._running)
        self._todo.put((number, text, {digest: self._kept[digest] for digest in digests}))

    def receive(self, seconds: float) -> list[tuple[int, WorkerReply]]:
        try:
            found = self._answers.get(timeout=seconds)
        except queue.Empty:
            return []
        self._running -= 1
        return [found]

    def close(self) -> None:
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            thread.join()


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grid:
    (tmp_path / "jobs.csv").write_text("submit_time,gpus,duration\n0,1,600\n5,2,60\n9,4,300\n20,1,30\n")
    monkeypatch.chdir(tmp_path)
    return Grid(policies=("fifo", "srsf"), traces=("jobs.csv", JOBS), clusters=("4xV100 + 4xK80",))


@pytest.mark.slow
def test_the_same_bytes_as_here(tmp_path: Path, grid: Grid) -> None:
    made: list[Machines] = []
    told: list[tuple[int, int]] = []

    def backend() -> Machines:
        made.append(Machines())
        return made[-1]

    run(grid, tmp_path / "here")
    found = run(grid, tmp_path / "there", backend=backend, watch=lambda done, total: told.append((done, total)))
    assert len(found.rows) == 4 and not found.failed and made[0].most == 2
    assert told[0] == (0, 4) and told[-1] == (4, 4)
    for name in ("results.csv", "results.json", "grid.json"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    next((tmp_path / "there" / "cells").glob("*.json")).unlink()
    again = run(grid, tmp_path / "there", backend=backend)
    assert again.reused == 3 and again.rows == found.rows
    run(grid, tmp_path / "there", backend=backend)
    assert len(made) == 2, "where nothing is missing, other machines are not asked for"


@pytest.mark.slow
def test_what_fails_there_is_told_as_here(tmp_path: Path) -> None:
    huge = "synthetic:jobs=10,gpus=64,largest=16,seed=2"
    grid = Grid(policies=("fifo",), traces=(JOBS, huge), clusters=("4xV100 + 4xK80",))
    here, there = run(grid, tmp_path / "a"), run(grid, tmp_path / "b", backend=Machines)
    assert [each.error for each in there.failed] == [each.error for each in here.failed] and len(there.failed) == 1


@pytest.mark.slow
def test_machines_that_let_every_cell_die_stop_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os\nclass Dies:\n    def allocate(self, view):\n        os._exit(7)\n")
    grid = Grid(policies=(f"{tmp_path / 'dies.py'}:Dies",), traces=(JOBS,), clusters=("8xV100",), seeds=9)
    found = run(grid, tmp_path / "out", backend=lambda: Machines(1))
    assert len(found.failed) == 3 and found.untried == 6 and "its worker died (exit code 7)" in found.failed[0].error


@pytest.mark.slow
def test_a_stop_keeps_what_is_done(tmp_path: Path, grid: Grid) -> None:
    def stop(done: int, total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(grid, tmp_path / "out", backend=lambda: Machines(1), watch=stop)
    assert run(grid, tmp_path / "out", backend=lambda: Machines(1)).reused == 1


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path: Path, grid: Grid) -> None:
    def backend() -> Machines:
        (tmp_path / "jobs.csv").write_text("submit_time,gpus,duration\n0,1,601\n")
        return Machines()

    with pytest.raises(InputError, match=r"jobs\.csv — has changed since the sweep was started"):
        run(grid, tmp_path / "out", backend=backend)
