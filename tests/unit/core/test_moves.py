"""Tactics that move running jobs: nodes for gangs that wait, and better GPUs for a job."""

from typing import Any

import pytest

from rota.api import simulate
from rota.beliefs.locality import Locality
from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.compose.parse_tactics import make_tactics
from rota.core.explain import explain
from rota.core.plan import planner as planning
from rota.core.plan.tactic import Tactics
from rota.errors import UnknownNameError
from rota.model.commands import Launch, Suspend
from rota.model.events import Exited, Outcome
from rota.model.job import Arrival, JobSpec
from rota.model.reasons import Reason
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.tactics.defragment import Defragment
from rota.tactics.migrate import Migrate
from rota.traces.trace import Trace
from tests.unit.core.helpers import Bench, of_type

BOTH = Tactics((Defragment(), Migrate()))
LONG = 100_000.0
CHEAP = {"launch_seconds": 0.5, "checkpoint_seconds": 0.5, "restore_seconds": 0.5}
"""A move costs what it does in Gandiva's paper: 1.5 s."""


def bench(cluster: str = "2x(4xV100)", tactics: Tactics = BOTH, penalty: float = 1.5, **settings: Any) -> Bench:
    found = Bench(cluster, Fifo(backfill=False), Rates(spread_penalty=Locality((penalty,))), tactics=tactics, **settings)
    found.core.placer = Spread()
    found.state.beliefs.costs = MoveCosts(launch_seconds=5.0, checkpoint_seconds=3.0, restore_seconds=2.0)
    return found


def ends(found: Bench, job: int) -> list[Any]:
    return found.tell(Exited(job, found.state.jobs.attempts[job].number, found.now_s, Outcome.FINISHED, LONG))


def scattered(**settings: Any) -> Bench:
    """Two nodes of four, one GPU taken on each, both jobs well under way, and a gang of four comes."""
    found = bench(wait_for_locality=True, **settings)
    for _ in range(2):
        found.obey(found.submit(gpus=1, steps=LONG))
    return found


def test_a_job_moves_aside_and_the_gang_gets_the_node() -> None:
    found = scattered()
    commands = found.submit(at_s=60.0, gpus=4, steps=LONG)
    (suspend,) = of_type(commands, Suspend)
    (node,) = set((found.state.jobs.desired[2] // 4).tolist())
    assert node == found.state.jobs.attempts[suspend.job].gpus.item() // 4 != found.state.jobs.desired[suspend.job].item() // 4
    assert not of_type(commands, Launch), "the gang waits until the job has left"
    launches = of_type(found.obey(commands), Launch)
    assert sorted(launch.job for launch in launches) == sorted([suspend.job, 2])
    assert found.state.jobs.table.moved_s[found.state.jobs.row[suspend.job]] == 60.0


def test_the_gang_says_whom_it_waits_for() -> None:
    found = scattered()
    found.submit(at_s=60.0, gpus=4, steps=LONG)
    (why, *_) = explain(found.state, 2)
    assert why.code is Reason.WAITING_FOR_SUSPEND


def test_no_other_job_gets_the_nodes_meanwhile() -> None:
    found = scattered()
    commands = found.submit(at_s=60.0, gpus=4, steps=LONG)
    later = found.submit(gpus=1, steps=LONG)
    gang = set(found.state.jobs.desired[2].tolist())
    assert gang.isdisjoint(found.state.jobs.desired[3].tolist())
    found.obey(commands + later)
    assert set(found.state.jobs.attempts[2].gpus.tolist()) == gang


def test_a_job_without_a_step_is_not_moved_and_is_looked_at_again() -> None:
    found = scattered()
    found.submit(at_s=0.5, gpus=4, steps=LONG)
    assert 2 not in found.state.jobs.desired
    assert found.state.cycle.until_s <= 61.0
    found.obey(found.tell(at_s=61.0))
    assert 2 in found.state.jobs.desired


def test_a_move_that_costs_more_than_it_gains_is_not_made() -> None:
    """The gang would find a place in a second: a job is about to end."""
    found = bench(wait_for_locality=True)
    found.obey(found.submit(gpus=1, steps=61.0))
    found.obey(found.submit(gpus=1, steps=LONG))
    found.submit(at_s=60.0, gpus=4, steps=LONG)
    assert 2 not in found.state.jobs.desired
    found.now_s = 61.0
    found.obey(ends(found, 0))
    assert 2 in found.state.jobs.desired and not found.state.jobs.table.suspensions.any()


def test_a_gang_that_would_be_scattered_gets_a_node_instead() -> None:
    found = bench()
    for _ in range(2):
        found.obey(found.submit(gpus=1, steps=LONG))
    found.obey(found.submit(at_s=60.0, gpus=4, steps=LONG))
    assert len(set((found.state.jobs.desired[2] // 4).tolist())) == 1


def test_where_scattering_costs_nothing_no_job_moves() -> None:
    found = bench(penalty=1.0)
    for _ in range(2):
        found.obey(found.submit(gpus=1, steps=LONG))
    commands = found.obey(found.submit(at_s=60.0, gpus=4, steps=LONG))
    assert not of_type(commands, Suspend)


def split(**settings: Any) -> Bench:
    """A job of four GPUs on two nodes, two on each, beside two others."""
    found = bench(**settings)
    for _ in range(2):
        found.obey(found.submit(gpus=2, steps=LONG))
    found.obey(found.submit(gpus=4, steps=LONG))
    assert len(set((found.state.jobs.desired[2] // 4).tolist())) == 2
    return found


def test_a_split_job_comes_together_when_a_node_is_free() -> None:
    found = split()
    found.now_s = 60.0
    found.obey(ends(found, 0))
    assert len(set((found.state.jobs.desired[2] // 4).tolist())) == 1
    assert len(set((found.state.jobs.attempts[2].gpus // 4).tolist())) == 1


def test_a_job_that_was_moved_rests() -> None:
    """It was split again since, and may come together only ten minutes after it was last moved."""
    found = split()
    found.state.jobs.table.own("moved_s")[found.state.jobs.row[2]] = 50.0
    found.now_s = 60.0
    found.obey(ends(found, 0))
    assert len(set((found.state.jobs.desired[2] // 4).tolist())) == 2
    assert found.state.cycle.until_s == 650.0
    found.obey(found.tell(at_s=650.0))
    assert len(set((found.state.jobs.desired[2] // 4).tolist())) == 1


def test_a_placer_that_decides_anew_is_left_alone() -> None:
    found = split()
    found.core.placer = Spread(sticky=False)
    found.now_s = 60.0
    moved = found.state.jobs.table.moved_s.copy()
    found.obey(ends(found, 0))
    assert (found.state.jobs.table.moved_s == moved).all()


def of_jobs(*arrivals: tuple[float, JobSpec]) -> Trace:
    return Trace("made up", "", tuple(Arrival(*each) for each in arrivals))


def fragmented() -> Trace:
    """Eight nodes get one to three jobs of one GPU each, and then a gang comes that needs a whole node."""
    small = [(0.0, JobSpec(gpus=1, steps=20_000.0 + 100 * number)) for number in range(18)]
    return of_jobs(*small, (700.0, JobSpec(gpus=8, steps=1000.0)))


def test_on_a_fragmented_cluster_the_gang_starts() -> None:
    """64 GPUs, 46 of them free, and no node is. The gang starts as soon as the two jobs of one node have been saved."""
    keywords: dict[str, Any] = {"cluster": "8x(8xV100)", "policy": "fifo", "placer": "spread", "wait_for_locality": True} | CHEAP
    without = simulate(fragmented(), **keywords).record
    assert without.first_run_s[-1] > 20_000.0
    found = simulate(fragmented(), tactics="defragment", **keywords)
    saved_and_started = 0.5 + 0.5
    assert found.record.first_run_s[-1] == 700.0 + saved_and_started
    assert found.record.migrations.sum() == 2


def next_to_a_freed_server() -> Trace:
    return of_jobs(
        (0.0, JobSpec(gpus=2, steps=1000.0)), (0.0, JobSpec(gpus=2, steps=900.0)), (1.0, JobSpec(gpus=4, steps=5000.0))
    )


def test_oracle_4_a_split_job_next_to_a_freed_server_migrates_once() -> None:
    keywords: dict[str, Any] = {
        "cluster": "2x(4xV100)",
        "policy": "fifo",
        "placer": "spread",
        "spread_penalty": 1.5,
    } | CHEAP
    without = simulate(next_to_a_freed_server(), **keywords).record
    found = simulate(next_to_a_freed_server(), tactics="migrate", **keywords).record
    assert without.migrations.tolist() == [0, 0, 0] and found.migrations.tolist() == [0, 0, 1]
    first, second = [number for number, job in enumerate(found.gpu_intervals.job.tolist()) if job == 2]
    freed_s = found.finished_s[1]
    assert freed_s <= found.gpu_intervals.end_s[first] <= freed_s + 60.0, "within one loop"
    assert found.gpu_intervals.end_s[second] == found.finished_s[2], "and it never migrates back"
    # 1.5 s lost, and every step after that takes two thirds of the time.
    slow_seconds = freed_s - 1.5
    expected_s = freed_s + 1.5 + (5000.0 - slow_seconds / 1.5)
    assert found.finished_s[2] == pytest.approx(expected_s, abs=1.0)


def test_oracle_5_each_plan_leaves_fewer_nodes_half_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves aside end: each plan that makes some leaves fewer nodes that are neither empty nor full, the gang counted."""
    seen: list[tuple[int, int]] = []
    original = planning.move

    def watched(draft: Any, changed: Any) -> Any:
        found = original(draft, changed)
        if found.jobs:
            state = draft.state
            after = state.nodes.planned.copy()
            for change in found.changes:
                if change.job in state.jobs.desired:
                    after.release(change.job, state.jobs.desired[change.job])
            for change in found.changes:
                after.take(change.job, change.gpus)
            seen.append((half_used(state.nodes.planned), half_used(after)))
        return found

    monkeypatch.setattr(planning, "move", watched)
    jobs = [(0.0, JobSpec(gpus=1, steps=50_000.0)) for _ in range(16)]
    gangs = [(700.0 * number, JobSpec(gpus=8, steps=50_000.0)) for number in range(1, 7)]
    record = simulate(
        of_jobs(*jobs, *gangs),
        cluster="8x(8xV100)",
        policy="fifo",
        placer="spread",
        wait_for_locality=True,
        tactics="defragment",
    ).record
    assert seen and all(after < before for before, after in seen)
    assert (record.first_run_s[16:] < 20_000.0).all(), "16 jobs fit on two nodes, six gangs on the others"


def half_used(occupancy: Any) -> int:
    used = (~occupancy.free).reshape(-1, 8).sum(axis=1)
    return int(((used > 0) & (used < 8)).sum())


def test_a_job_goes_where_it_is_faster_when_that_is_free() -> None:
    jobs = of_jobs((0.0, JobSpec(gpus=2, steps=1000.0)), (1.0, JobSpec(gpus=2, steps=8000.0)))
    keywords: dict[str, Any] = {"cluster": "1x(2xV100) + 1x(2xK80)", "policy": "fifo"}
    without, found = (simulate(jobs, tactics=names, **keywords).record for names in ("", "migrate"))
    assert found.migrations.tolist() == [0, 1]
    assert found.finished_s[1] < without.finished_s[1] / 2


def test_what_a_waiting_job_could_use_is_left_to_it() -> None:
    """The V100s are free, but for one more GPU a job waits that needs three of them."""
    jobs = of_jobs(
        (0.0, JobSpec(gpus=2, steps=1000.0)),
        (0.0, JobSpec(gpus=1, steps=90_000.0)),
        (1.0, JobSpec(gpus=2, steps=80_000.0)),
        (2.0, JobSpec(gpus=3, steps=100.0)),
    )
    keywords: dict[str, Any] = {"cluster": "1x(3xV100) + 1x(2xK80)", "policy": "fifo"}
    found = simulate(jobs, tactics="migrate", **keywords).record
    first = found.gpu_intervals.job.tolist().index(2)
    assert found.gpu_intervals.end_s[first] >= found.finished_s[3] > 90_000.0


@pytest.mark.parametrize("policy", ["las", "srsf", "max-min-fairness", "tiresias", "fifo"])
def test_no_policy_moves_a_job_back(policy: str) -> None:
    keywords: dict[str, Any] = {"cluster": "2x(4xV100)", "placer": "spread", "spread_penalty": 1.5, "policy": policy}
    found = simulate(next_to_a_freed_server(), tactics="defragment,migrate", **keywords).record
    assert found.migrations.tolist() == [0, 0, 1]


def test_tactics_by_name() -> None:
    assert make_tactics("defragment, migrate") == BOTH and not make_tactics("").moving
    with pytest.raises(UnknownNameError, match="defragment"):
        make_tactics("defrag")
