"""Grow: idle GPUs are lent to jobs that accept them, and given back before another job waits for them."""

from typing import Any

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.compose.prepare import prepare_study
from rota.compose.study import make_study
from rota.model.job import Arrival, JobSpec
from rota.sim.engine import Engine
from rota.tactics.grow import Grow, Growable
from rota.traces.trace import Trace
from tests.checked import checked


def engine(*jobs: Arrival, **fields: Any) -> Engine:
    """A run in which the state is checked at every step."""
    given = {"policy": "gandiva", "preset": "ideal", "cluster": "4xV100", **fields}
    made = prepare_study(make_study({"trace": Trace("made up", "", jobs), **given})).engine(None)
    return checked(made)


def elastic(steps: float, gpus: int = 2, at_s: float = 0.0) -> Arrival:
    return Arrival(at_s, JobSpec(gpus=gpus, gpu_counts=(2, 4), can_resize=True, can_park=True, steps=steps))


def test_a_job_grows_into_gpus_that_were_idle_for_a_while() -> None:
    record = engine(elastic(1000.0)).run()
    assert record.resizes[0] == 1
    assert record.finished_s[0] == pytest.approx(300.0 + 700.0 / 2), "twice as fast from 300 s on"


def test_one_that_cannot_change_while_it_runs_stays_as_it_is() -> None:
    spec = JobSpec(gpus=2, gpu_counts=(2, 4), steps=1000.0)
    assert engine(Arrival(0.0, spec)).run().finished_s[0] == pytest.approx(1000.0)


def test_a_newcomer_finds_its_gpus_free() -> None:
    """A job that has grown shrinks to what it asked for before the newcomer is placed, and no job is suspended."""
    newcomer = Arrival(400.0, JobSpec(gpus=2, steps=100.0, can_park=True))
    record = engine(elastic(2000.0), newcomer).run()
    assert record.finished_s[1] == pytest.approx(500.0)
    assert not record.suspensions.any() and record.resizes[0] == 3, "it grew, shrank, and grew again"


def test_no_job_grows_while_another_waits() -> None:
    jobs = [elastic(1000.0), *(Arrival(0.0, JobSpec(gpus=2, steps=1000.0, can_park=True)) for _ in range(3))]
    record = engine(*jobs, tactics="grow").run()
    assert np.isfinite(record.finished_s).all() and record.resizes[0] <= 1


def test_the_size_that_gains_most_for_each_gpu_comes_first() -> None:
    sizes = [
        Growable(0, 10, 4, 1.5, True),
        Growable(1, 11, 2, 1.8, True),
        Growable(2, 12, 1, 1.01, True),
        Growable(3, 13, 1, 2.0, False),
    ]
    assert Grow().choose(sizes, 6) == {1: 11, 0: 10}
    assert Grow().choose(sizes, 5) == {1: 11}


def test_a_job_that_shares_its_gpus_does_not_grow() -> None:
    rates = Rates(
        table={("a", "V100", n): float(n) for n in (1, 2, 3)}, pairs={("a", "a", "V100", n): (0.8 * n, 0.8 * n) for n in (2, 3)}
    )
    first = JobSpec(profile="a", gpus=2, gpu_counts=(2, 3), can_resize=True, can_park=True, steps=2000.0)
    second = JobSpec(profile="a", gpus=2, can_park=True, steps=2000.0)
    run = engine(Arrival(0.0, first), Arrival(100.0, second), cluster="1x(3xV100)", rates=rates)
    assert np.isfinite(run.run().finished_s).all()
    assert run.scheduler.state.beliefs.trials_begun


def test_a_job_that_was_still_starting_when_gpus_came_free_grows_later() -> None:
    """Its start takes longer than GPUs have to be idle; the other leaves meanwhile, and after that nothing happens by itself."""
    other = Arrival(0.0, JobSpec(gpus=2, steps=20.0, can_park=True))
    grows = Arrival(40.0, JobSpec(gpus=4, gpu_counts=(2, 4), can_resize=True, can_park=True, steps=1000.0))
    record = engine(other, grows, policy="fifo", tactics="grow:idle_seconds=5", launch_seconds=30.0).run()
    assert record.resizes[1] == 1 and record.finished_s[1] < 1200.0
