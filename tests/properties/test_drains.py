"""Operators drain GPUs in a hostile world: no job is placed on a drained GPU, drained GPUs empty, and recovery keeps drains."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from rota.core.fold import drains
from rota.core.state.state import State
from rota.model.cluster import Cluster, Node
from rota.model.commands import Command, Launch, Resize, Resume
from rota.model.events import DrainCancelled, External, GpusDrained, GpusUndrained
from rota.model.units import FOREVER
from rota.placers.packed import Packed
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.las import Las
from rota.policies.queues import QueueMemory
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from rota.sim.chaos import Broken, Chaos, Faults
from rota.sim.chaos_jobs import mixed_jobs
from tests.packing import Crowded, Evenly, pairs
from tests.properties.test_chaos import SHARING

FLOOR = Cluster.of([Node("a", "V100", 4, host_gib=16.0), Node("b", "V100", 4), Node("c", "V100", 8, host_gib=8.0)])
POLICIES = (Tiresias(thresholds=(40.0, 100.0)), Fifo(backfill=True), Las(quantum_seconds=15.0), Srsf())
EMPTY_AFTER_SECONDS = 90.0
"""In a calm world, jobs that save have left a drained GPU after this time. Rounds last 20 s, and messages take a few seconds."""
CALM = Faults(
    until_s=600.0, core_crash_in_step=0, drop=0, repeat=0, node_crash=0, job_crash=0, core_crash=0, partition=0, policy_failure=0
)


class Drained(Chaos):
    """A world in which operators drain GPUs, end drains and plan maintenance windows, every few seconds."""

    def __init__(self, seed: int, *, sharing: bool = False, mixture: dict[str, Any] | None = None, **options: Any) -> None:
        """`sharing`: pairs of jobs share GPUs. `mixture`: kinds of jobs, of `mixed_jobs`."""
        jobs = [
            replace(job, saves=(None, True, False)[number % 3])
            for number, job in enumerate(mixed_jobs(25, seed, 4, **(mixture or {})))
        ]
        if sharing:
            options |= {"settings": SHARING, "rates": pairs(0.8)}
        policy = (Crowded(), Evenly())[seed % 2] if sharing else POLICIES[seed % 4]
        placer = (Packed(), Spread())[seed // 2 % 2]
        super().__init__(FLOOR, jobs, policy, placer, seed=seed, memory_types=(QueueMemory,), **options)
        self.launched: set[tuple[int, int]] = set()
        self.resized: set[tuple[int, int]] = set()
        self.had: dict[int, set[int]] = {}
        """GPUs with which each job was last launched or resized."""
        self._recur(1 / 15, self._drain_some)

    def _drain_some(self) -> None:
        now_s, dice = self.now_s, self.dice
        first = dice.choice((0, 4, 8, 12))
        gpus = tuple(range(first, first + dice.randint(1, 4)))
        from_s = now_s + dice.choice((0.0, 0.0, 25.0))
        number = self.core.state.nodes.last_drain + 1
        event = GpusDrained(number, gpus, now_s, from_s, from_s + dice.uniform(10.0, 60.0), None, "ana")
        ends: list[External] = [GpusUndrained(gpus, now_s), DrainCancelled(number - 1, now_s)]
        self._count("drains of operators")
        self.tell([event, event] if dice.random() < 0.8 else [dice.choice(ends)])

    def recover(self) -> None:
        """Recover. A launch of the step that was lost is sent later, and was decided before."""
        super().recover()
        for job, flight in self.core.state.jobs.in_flight.items():
            if isinstance(flight.command, Launch) and (job, flight.command.attempt) not in self.launched:
                self.launched.add((job, flight.command.attempt))
                self.had[job] = set(flight.command.gpus.tolist())

    def _carry_out(self, command: Command) -> None:
        drained, table = set(self.core.state.nodes.drained), self.core.state.jobs.table
        if isinstance(command, Launch) and (command.job, command.attempt) not in self.launched:
            self.launched.add((command.job, command.attempt))
            self.had[command.job] = set(command.gpus.tolist())
            if drained & self.had[command.job]:
                raise Broken(f"job {command.job} was placed on drained GPUs")
        if isinstance(command, Resize) and (command.job, command.sequence) not in self.resized:
            self.resized.add((command.job, command.sequence))
            more = set(command.gpus.tolist()) - self.had[command.job]
            self.had[command.job] = set(command.gpus.tolist())
            if drained & more:
                raise Broken(f"job {command.job} grows onto drained GPUs")
        if isinstance(command, Resume) and table.saves[self.core.state.jobs.row[command.job]]:
            flight = self.core.state.jobs.in_flight[command.job]
            if flight.sent_s == self.now_s and drained & set(self.core.state.jobs.attempts[command.job].gpus.tolist()):
                raise Broken(f"job {command.job} resumes on drained GPUs though it could leave them")
        super()._carry_out(command)


@pytest.mark.parametrize("seed", range(16))
def test_no_job_is_placed_on_a_drained_gpu_and_all_jobs_end(seed: int) -> None:
    chaos = Drained(seed, check_every=5).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner
    assert chaos.counts["drains of operators"] > 3 and chaos.counts["core crashes"] > 0 and len(chaos.launched) > 20


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("sharing", "mixture"),
    [(False, {"parts": True}), (True, {"parts": True}), (False, {"elastic": True}), (True, {"elastic": True})],
)
def test_nor_where_jobs_share_gpus_or_change_their_sizes(seed: int, sharing: bool, mixture: dict[str, Any]) -> None:
    faults = Faults(node_join=1 / 60, node_leave=1 / 90, node_drain=1 / 60)
    chaos = Drained(seed, sharing=sharing, mixture=mixture, faults=faults, check_every=5).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner
    assert chaos.counts["drains of operators"] > 3 and len(chaos.launched) > 20


def leavers(state: State) -> set[int]:
    """Return the jobs on drained GPUs that are known to save their state."""
    here = {job for job, mine in state.jobs.attempts.items() if set(mine.gpus.tolist()) & set(state.nodes.drained)}
    return {job for job in here if state.jobs.table.saves[state.jobs.row[job]]}


class Emptied(Drained):
    """A calm world with one drain, whose GPUs are looked at after a while."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, faults=CALM)
        self.before: set[int] = set()
        self.after: set[int] | None = None
        self._at(120.0, self._look)

    def _drain_some(self) -> None:
        """Do nothing: there is one drain."""

    def _look(self) -> None:
        self.tell([GpusDrained(1, (0, 1, 2, 3, 8, 9), self.now_s, self.now_s, self.now_s + 300.0)])
        self.before = leavers(self.core.state) | self.core.state.jobs.staying
        self._at(self.now_s + EMPTY_AFTER_SECONDS, partial(self._look_again, set(self.core.state.jobs.staying)))

    def _look_again(self, staying: set[int]) -> None:
        self.after = leavers(self.core.state)
        here = {job for job, mine in self.core.state.jobs.attempts.items() if set(mine.gpus.tolist()) <= {0, 1, 2, 3, 8, 9}}
        assert here <= staying | self.after, "none has come"


def test_drained_gpus_empty() -> None:
    worlds = [Emptied(seed).run(200_000) for seed in range(8)]
    assert sum(bool(each.before) for each in worlds) > 4, "there were jobs to leave"
    assert all(each.after == set() for each in worlds), [each.after for each in worlds]


def test_the_checker_notices_a_drain_that_is_not_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPUs are known as drained, but stay usable."""
    monkeypatch.setattr(State, "out_of_service", lambda state: [])
    with pytest.raises(Broken, match="placed on drained GPUs"):
        for seed in range(8):
            Drained(seed).run(200_000)


def test_the_checker_notices_placements_that_are_not_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drains, "_withdraw", lambda state, gpus: None)
    with pytest.raises(Broken):
        for seed in range(8):
            Drained(seed).run(200_000)


def test_a_drain_without_an_end_stays() -> None:
    chaos = Drained(1)
    chaos.tell([GpusDrained(1, (0,), 0.0, 0.0, FOREVER)])
    chaos.recover()
    assert chaos.core.state.nodes.drained == (0,)
