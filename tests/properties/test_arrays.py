"""Arrays in a hostile world: no more tasks of an array have GPUs by the plan than its limit, with tenants and priorities too."""

import random
from dataclasses import replace

import pytest

from rota.core.plan.tactic import Tactics
from rota.core.reconcile import running_tasks
from rota.model.array_limit import ArrayLimit
from rota.placers.packed import Packed
from rota.policies.queues import QueueMemory
from rota.sim.chaos import HOSTILE_SETTINGS, Chaos
from rota.tactics.grow import Grow
from rota.tactics.pack import Pack
from tests.properties.test_tenants import FLOOR, POLICIES, owned, tenants_of


class WatchedChaos(Chaos):
    """Counts the tasks of each array that have GPUs by a plan, after each step."""

    most: dict[int, int]

    def _validate(self) -> None:
        super()._validate()
        self.most = getattr(self, "most", {})
        state, limits = self.core.state, {}
        for job in state.jobs.desired:
            array = state.jobs.specs[job].array
            if array is not None:
                limits.setdefault(array, []).append(job)
        for array in {spec.array for spec in state.jobs.specs.values() if spec.array is not None}:
            running = running_tasks(state, array.array)
            assert len(running) <= array.at_once, (array, running)
        for array, jobs in limits.items():
            self.most[array.array] = max(self.most.get(array.array, 0), len(jobs))
            settled = not state.cycle.needs_plan and state.cycle.call_jobs is None
            unsaved = all(not state.jobs.table.saves[state.jobs.row[job]] for job in jobs)
            assert not settled or unsaved or len(jobs) <= array.at_once, (array, jobs)


def tasks(seed: int, **options: bool) -> list:
    """Jobs of which most are tasks of two arrays, with priorities."""
    dice = random.Random(seed)
    arrays = (ArrayLimit(1000, 1 + seed % 3), ArrayLimit(2000, 2), None)
    return [replace(job, array=dice.choice(arrays), priority=dice.choice((-5, 0, 0, 5))) for job in owned(seed, **options)]


@pytest.mark.parametrize("with_tenants", [False, True])
@pytest.mark.parametrize("seed", range(14))
def test_no_limit_of_an_array_is_exceeded_in_a_hostile_world(seed: int, with_tenants: bool) -> None:
    """Nodes are lost, the core crashes and recovers, users hold and cancel. Each recovery must give the same state."""
    tactics = ((), (Grow(idle_seconds=5.0),), (Pack(settle_seconds=5.0),))[seed % 3]
    chaos = WatchedChaos(
        FLOOR,
        tasks(seed, parts=seed % 3 == 0, elastic=seed % 3 == 1),
        POLICIES[seed % len(POLICIES)],
        Packed(),
        seed=seed,
        settings=replace(HOSTILE_SETTINGS, tactics=Tactics(tactics)),
        memory_types=(QueueMemory,),
        tenants=tenants_of(seed) if with_tenants else None,
    )
    chaos.run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner
    assert chaos.most, "tasks have run"
