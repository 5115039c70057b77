"""Jobs that request a fraction of a GPU: they fill GPUs, and a fraction is never more than what is left."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import prepare, simulate
from rota.core import reconcile
from rota.core.explain import explain
from rota.core.scheduler import Scheduler
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.events import Submitted
from rota.model.job import Arrival, JobSpec
from rota.model.reasons import Reason
from rota.placers.packed import Packed
from rota.policies.las import Las
from rota.report.bounds import bounds
from rota.sim.physics import Physics
from rota.traces.trace import Trace
from tests.examples import examples
from tests.fuzz.checks import Watched
from tests.unit.core.helpers import Bench


def at_once(*gpus: float, steps: float = 100.0) -> Trace:
    return Trace.of("parts", "test", [Arrival(0.0, JobSpec(gpus=each, steps=steps)) for each in gpus])


def run(trace: Trace, **options: Any) -> Any:
    engine = prepare(trace, preset="ideal", **options).engine(core=Watched)
    return engine.run()


def fewest_gpus(parts: list[int]) -> int:
    """By trying every way to put parts together."""
    best = len(parts)
    for assignment in itertools.product(range(len(parts)), repeat=len(parts)):
        loads = [0] * len(parts)
        for part, gpu in zip(parts, assignment, strict=True):
            loads[gpu] += part
        if max(loads) <= 1000:
            best = min(best, sum(load > 0 for load in loads))
    return best


@pytest.mark.parametrize("placer", ["packed", "spread", "random", "pal", "packed:sticky=false"])
@given(halves=st.integers(0, 5), wholes=st.integers(0, 2))
@examples(12)
@pytest.mark.slow
def test_halves_fill_gpus(placer: str, halves: int, wholes: int) -> None:
    """As few GPUs as any schedule needs, so that all run at once on just so many."""
    if not halves + wholes:
        return
    least = fewest_gpus([500] * halves + [1000] * wholes)
    record = run(at_once(*[0.5] * halves, *[1.0] * wholes), cluster=f"{least}xV100", placer=placer, policy="fifo")
    assert record.finished_s.tolist() == [100.0] * (halves + wholes)


def test_parts_of_every_size_share_a_gpu() -> None:
    record = run(at_once(0.5, 0.25, 0.125, 0.125), cluster="1xV100")
    assert record.finished_s.tolist() == [100.0] * 4
    assert record.occupied_gpu_seconds.tolist() == [50.0, 25.0, 12.5, 12.5]
    assert record.pool_gpu_seconds.tolist() == [100.0]


def test_a_part_waits_where_there_is_no_room_and_says_so() -> None:
    bench = Bench("1xV100", Las(quantum_seconds=1000.0))
    bench.obey(bench.submit(gpus=0.7))
    bench.obey(bench.submit(gpus=0.5))
    assert bench.state.nodes.planned.room(0) == 300
    assert explain(bench.state, 1)[0].code is Reason.NO_FREE_GPUS
    assert "needs 0.5 GPUs" in explain(bench.state, 1)[0].sentence
    bench.obey(bench.submit(gpus=0.3))
    assert sorted(bench.state.nodes.observed.gpu_fractions[0]) == [(0, 700), (2, 300)]


def test_a_whole_gpu_is_not_made_of_two_halves() -> None:
    """Two jobs have half a GPU each, on two GPUs, when those beside them have left: a third job waits for a whole one."""
    jobs = [(0.0, 0.5, 300.0), (0.0, 0.5, 10.0), (0.0, 0.5, 300.0), (0.0, 0.5, 10.0), (50.0, 1, 20.0)]
    trace = Trace.of("parts", "test", [Arrival(at_s, JobSpec(gpus=gpus, steps=steps)) for at_s, gpus, steps in jobs])
    record = run(trace, cluster="2xV100", policy="fifo")
    assert record.finished_s.tolist() == [300.0, 10.0, 300.0, 10.0, 320.0]


@pytest.mark.parametrize("policy", ["fifo", "fifo:backfill=true"])
def test_who_may_overtake(policy: str) -> None:
    """The second waits for half a GPU, which comes free after 300 s. The third ends before that; the last does not."""
    jobs = [(0.7, 300.0), (0.5, 100.0), (0.3, 50.0), (0.3, 400.0)]
    trace = Trace.of("parts", "test", [Arrival(float(at), JobSpec(gpus=g, steps=s)) for at, (g, s) in enumerate(jobs)])
    record = run(trace, cluster="1xV100", policy=policy)
    assert record.first_run_s[1] == 300.0, "the head is not delayed"
    assert (record.first_run_s[2] < 300.0) == ("backfill" in policy)
    assert record.first_run_s[3] >= 300.0


def test_bounds_and_utilization_count_parts() -> None:
    trace = at_once(0.5, 0.5, 0.5, 0.5)
    found = bounds(trace.arrivals, Cluster.parse("1xV100"), Physics())
    assert found.makespan_seconds == pytest.approx(200.0)
    summary = simulate(trace, cluster="1xV100", preset="ideal").summary
    assert summary.makespan_seconds == pytest.approx(200.0) and summary.utilization == pytest.approx(1.0)


@pytest.mark.parametrize("gpus", [0, -1, 1.5, 0.00005, float("nan"), float("inf")])
def test_what_is_no_number_of_gpus_is_refused(gpus: float) -> None:
    with pytest.raises(OptionError, match="whole number from 1, or thousandths of one GPU"):
        JobSpec(gpus=gpus)


def test_whole_numbers_stay_whole() -> None:
    assert JobSpec(gpus=2.0).gpus == 2 and isinstance(JobSpec(gpus=2.0).gpus, int)
    assert (JobSpec(gpus=0.3).milli_per_gpu, JobSpec(gpus=0.3).width, JobSpec(gpus=3).milli_per_gpu, JobSpec(gpus=3).width) == (
        300,
        1,
        1000,
        3,
    )
    assert np.isclose(JobSpec(gpus=0.29).milli_per_gpu, 290)


def test_what_a_pair_leaves_of_a_gpu_is_not_for_parts() -> None:
    """A quarter of a GPU was launched beside a job that held half of it for a partner that was not there any more."""
    core = Scheduler(Cluster.parse("2xV100"), Packed())
    for job, gpus in enumerate((1, 0.25, 0.25)):
        core.fold(0.0, [Submitted(job, JobSpec(gpus=gpus), 0.0)])
    observed, taken = core.state.nodes.observed, np.array([True, True])
    observed.take(0, np.array([0]), 500)
    observed.take(2, np.array([1]), 250)
    assert not reconcile._has_room(core.state, 1, np.array([0]), -1, taken, reconcile.PassGrants())
    assert reconcile._has_room(core.state, 1, np.array([1]), -1, taken, reconcile.PassGrants())
