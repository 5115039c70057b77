"""A gang gets its place by moves before jobs behind it take what is free."""

from typing import Any

import pytest

from rota.beliefs.locality import Locality
from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.core.plan.tactic import Tactics
from rota.model.commands import Suspend
from rota.model.events import Exited, Outcome
from rota.placers.spread import Spread
from rota.policies.tiresias import Tiresias
from rota.tactics.defragment import Defragment
from tests.unit.core.helpers import Bench, of_type

LONG = 100_000.0


def two_leave(behind: int, tactics: Tactics) -> tuple[Bench, list[Any]]:
    """Two nodes of four with two jobs of two GPUs each. A gang of four waits and, behind it, jobs of two; then a job on each node
    ends."""
    found = Bench("2x(4xV100)", Tiresias(), Rates(spread_penalty=Locality((1.5,))), tactics=tactics, wait_for_locality=True)
    found.core.placer = Spread()
    found.state.beliefs.costs = MoveCosts(launch_seconds=5.0, checkpoint_seconds=3.0, restore_seconds=2.0)
    for _ in range(4):
        found.obey(found.submit(gpus=2, steps=LONG))
    found.obey(found.submit(at_s=60.0, gpus=4, steps=LONG))
    for _ in range(behind):
        found.obey(found.submit(gpus=2, steps=LONG))
    nodes = {job: int(found.state.jobs.desired[job][0]) // 4 for job in range(4)}
    leaves = [0, next(job for job in range(1, 4) if nodes[job] != nodes[0])]
    assert 4 not in found.state.jobs.desired, "the gang waits, and so do those behind it"
    return found, found.tell(*(Exited(job, 1, found.now_s, Outcome.FINISHED, LONG) for job in leaves))


@pytest.mark.parametrize("behind", [0, 1, 2])
def test_jobs_behind_a_gang_do_not_take_what_moves_would_give_it(behind: int) -> None:
    found, commands = two_leave(behind, Tactics((Defragment(),)))
    (suspend,) = of_type(commands, Suspend)
    assert len(set((found.state.jobs.desired[4] // 4).tolist())) == 1, "the gang has a node"
    assert suspend.job in found.state.jobs.desired, "the job that moved aside runs on the other one"
    assert not {5, 6} & found.state.jobs.desired.keys()
    assert found.state.jobs.table.moved_s[found.state.jobs.row[suspend.job]] == found.now_s
    found.obey(commands)
    assert 4 in found.state.jobs.attempts


def test_without_moves_they_take_it() -> None:
    found, commands = two_leave(2, Tactics())
    assert not of_type(commands, Suspend)
    assert {5, 6} <= found.state.jobs.desired.keys() and 4 not in found.state.jobs.desired
