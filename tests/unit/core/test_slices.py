"""Whose turn it is does not depend on who picks the GPUs."""

import numpy as np
import pytest

from rota.api import simulate
from rota.model.job import Arrival, JobSpec
from rota.traces.trace import Trace

THREE = Trace.of(
    "three",
    "test",
    [
        Arrival(0.0, JobSpec(gpus=1, steps=1000.0)),
        Arrival(200.0, JobSpec(gpus=2, steps=2000.0)),
        Arrival(400.0, JobSpec(gpus=1, steps=100.0)),
    ],
)


@pytest.mark.parametrize("placer", ["packed", "packed:sticky=false", "spread", "random:sticky=false", "pal"])
def test_a_move_does_not_begin_a_slice_anew(placer: str) -> None:
    """It did: the last job ended at 500 s where GPUs were picked anew at each decision, and at 860 s elsewhere."""
    found = simulate(THREE, policy="max-min-fairness", cluster="2xV100", placer=placer, preset="ideal")
    assert found.record.finished_s.tolist() == pytest.approx([1360.0, 3000.0, 860.0])


@pytest.mark.parametrize("policy", ["max-min-fairness:type_aware=false", "isolated", "fifo:type_aware=false"])
def test_a_job_alone_is_not_moved_from_type_to_type(policy: str) -> None:
    two = Trace.of("two", "test", [Arrival(at_s, JobSpec(steps=9000.0)) for at_s in (0.0, 200.0)])
    found = simulate(two, policy=policy, cluster="2xV100 + 2xP100 + 2xK80")
    assert not found.record.suspensions.any() and not found.record.migrations.any()


@pytest.mark.parametrize("placer", ["pal", "pal:wide=false", "pm-first", "packed", "packed:sticky=false"])
def test_the_home_of_a_parked_job_may_be_another_jobs(placer: str) -> None:
    """Two jobs were put on GPU 0: the one that slept there, and the one that had it meanwhile."""
    three = Trace.of("three", "test", [Arrival(float(at), JobSpec(steps=1000.0, can_park=at == 0)) for at in range(3)])
    record = simulate(three, policy="las", cluster="2xT4", placer=placer).record
    holds = record.gpu_intervals
    for gpu in range(2):
        mine = np.flatnonzero(holds.gpus == gpu)
        order = mine[np.argsort(holds.start_s[mine], kind="stable")]
        assert (holds.start_s[order[1:]] >= holds.end_s[order[:-1]]).all(), f"GPU {gpu} was held twice"
