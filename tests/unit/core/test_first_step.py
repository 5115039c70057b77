"""A job is not suspended before it has made a step: its start would be wasted."""

import numpy as np
import pytest

from rota.api import simulate
from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.core.scheduler import Scheduler
from rota.model.cluster import Cluster
from rota.model.commands import CallPolicy, Launch, Suspend
from rota.model.events import Allocated, Progressed, Started, Submitted, TimerFired
from rota.model.job import Arrival, JobSpec
from rota.placers.packed import Packed
from rota.policies.srsf import Srsf
from rota.sim.record import Record
from rota.traces.trace import Trace


def step(core: Scheduler, now_s: float, *events: object) -> list[object]:
    """One step, and the policy's answer if it is asked."""
    commands: list[object] = list(core.step(now_s, list(events)))  # type: ignore[arg-type]
    for asked in [command for command in commands if isinstance(command, CallPolicy)]:
        commands += core.step(now_s, [Allocated(asked.ticket, Srsf().allocate(asked.view), now_s)])
    return commands


def starting(rate: float = 1.0) -> tuple[Scheduler, Launch]:
    """A long job that was launched at 0 s on the only GPU, and is not up yet."""
    core = Scheduler(Cluster.parse("1xV100"), Packed(), rates=Rates(speeds={"V100": rate}), costs=MoveCosts(launch_seconds=5.0))
    (launch,) = [c for c in step(core, 0.0, Submitted(0, JobSpec(steps=1000.0), 0.0)) if isinstance(c, Launch)]
    return core, launch


def suspended(commands: list[object]) -> bool:
    return any(isinstance(command, Suspend) for command in commands)


def test_it_makes_a_step_before_a_better_job_has_its_turn() -> None:
    core, launch = starting()
    assert not suspended(step(core, 1.0, Submitted(1, JobSpec(steps=10.0), 1.0)))
    assert not suspended(step(core, 5.0, Started(0, launch.attempt, launch.sequence, 5.0, from_step=0.0)))
    assert core.state.cycle.timer_s == pytest.approx(6.0), "it looks again when a step is made"
    assert not suspended(step(core, 5.5, TimerFired(5.5)))
    assert suspended(step(core, 6.0, TimerFired(6.0)))


def test_one_that_has_made_steps_is_suspended_at_once() -> None:
    core, launch = starting()
    step(core, 5.0, Started(0, launch.attempt, launch.sequence, 5.0, from_step=0.0))
    assert suspended(step(core, 20.0, Submitted(1, JobSpec(steps=10.0), 20.0)))


def test_one_that_has_told_a_step_is_suspended_at_once() -> None:
    """Live, it is faster than we believe: its first step is what shows that it has started."""
    core, launch = starting()
    number = np.array([launch.attempt])
    told = Progressed(np.array([0]), number, np.array([1.0]), np.array([0.0]), 5.0)
    step(core, 5.0, Started(0, launch.attempt, launch.sequence, 5.0), told)
    assert suspended(step(core, 5.1, Submitted(1, JobSpec(steps=10.0), 5.1)))


def test_one_that_does_not_get_going_is_not_waited_for_for_ever() -> None:
    core, launch = starting(rate=1e-4)
    step(core, 5.0, Started(0, launch.attempt, launch.sequence, 5.0, from_step=0.0))
    assert not suspended(step(core, 20.0, Submitted(1, JobSpec(steps=1e-3), 20.0)))
    wake_s = core.state.cycle.timer_s
    assert wake_s == pytest.approx(55.0), "ten times what starting took"
    assert suspended(step(core, wake_s, TimerFired(wake_s)))


def test_where_starting_costs_nothing_nothing_is_protected() -> None:
    core = Scheduler(Cluster.parse("1xV100"), Packed())
    (launch,) = [c for c in step(core, 0.0, Submitted(0, JobSpec(steps=1000.0), 0.0)) if isinstance(c, Launch)]
    step(core, 0.0, Started(0, launch.attempt, launch.sequence, 0.0, from_step=0.0))
    assert suspended(step(core, 0.1, Submitted(1, JobSpec(steps=10.0), 0.1)))


def lives(record: Record) -> list[float]:
    """How long jobs had their GPUs each time, but for the last time."""
    holds, found = record.gpu_intervals, []
    for job in range(len(record.finished_s)):
        mine = np.flatnonzero(holds.job == job)
        found += (holds.end_s[mine] - holds.start_s[mine]).tolist()[:-1]
    return found


@pytest.mark.parametrize("policy", ["gittins:thresholds=30,promote=1", "las:quantum_seconds=1", "srsf", "tiresias:thresholds=5"])
@pytest.mark.parametrize("launch_seconds", [2.0, 20.0])
def test_every_start_is_worth_something(policy: str, launch_seconds: float) -> None:
    """Short thresholds made jobs spend all their slices starting."""
    jobs = [Arrival(float(n), JobSpec(gpus=1 + n % 2, steps=40.0 + 30 * n)) for n in range(5)]
    found = simulate(Trace.of("jobs", "test", jobs), policy=policy, cluster="2xV100", launch_seconds=launch_seconds)
    assert np.isfinite(found.record.finished_s).all()
    shortest = min(lives(found.record), default=np.inf)
    assert shortest >= launch_seconds + 1.0 - 1e-6, "it was up for a step at least"
