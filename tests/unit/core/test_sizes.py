"""Jobs of several sizes in the core: odd but legal cases."""

import numpy as np
import pytest

from rota.api import simulate
from rota.beliefs.make_options import grown, make_options
from rota.beliefs.rates import Rates
from rota.core.state.accounts import time_shares
from rota.model.allocation import Shares
from rota.model.cluster import Cluster
from rota.model.job import Arrival, Demand, JobSpec
from rota.model.options import Kind
from rota.traces.trace import Trace


def test_a_share_of_nothing_takes_none_from_another() -> None:
    """It was written where the last account is."""
    options = make_options([Kind("", Demand(1, (1, 2, 4, 8)))], Cluster.parse("8xV100"), Rates())
    options = options.with_share_columns(np.array([1, 2]))
    answer = Shares(option=np.arange(4), share=np.array([0.0, 0.4, 0.6, 0.0]), position=np.zeros(4, dtype=np.int64))
    assert time_shares(answer, options, np.array([0])).tolist() == [[0.0, 0.4, 0.6]]


def test_the_size_asked_for_is_usual_also_where_it_fits_only_later() -> None:
    kinds = [Kind("", Demand(8, (2, 4, 8)))]
    few, more = Cluster.parse("4xV100"), Cluster.parse("1x(4xV100) + 1x(4xV100)")
    options = grown(make_options(kinds, few, Rates()), kinds, more, Rates(), colocation=False)
    assert options.gpus[options.default_size].tolist() == [8]


def changing(tmp_path_text: str, *jobs: JobSpec, policy: str, folder: object) -> list[float]:
    path = folder / "cluster.yaml"  # type: ignore[operator]
    path.write_text(tmp_path_text)
    trace = Trace.of("jobs", "test", [Arrival(float(n), job) for n, job in enumerate(jobs)])
    return simulate(trace, cluster=path, policy=policy).record.finished_s.tolist()


DRAINED = """
nodes:
  - {name: a, accelerator: V100, gpus: 4}
  - {name: b, accelerator: SECOND, gpus: 4}
events:
  - {at: 1000s, drain: b}
"""


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srsf", "max-min-fairness"])
def test_a_job_that_must_leave_goes_on_with_another_size_or_type(policy: str, tmp_path: object) -> None:
    """Under policies that never suspend, it was stopped and never started again."""
    wide = JobSpec(gpus=8, gpu_counts=(4,), steps=10_000.0)
    assert np.isfinite(changing(DRAINED.replace("SECOND", "V100"), wide, policy=policy, folder=tmp_path)).all()
    plain = JobSpec(gpus=4, steps=10_000.0)
    assert np.isfinite(changing(DRAINED.replace("SECOND", "P100"), plain, plain, policy=policy, folder=tmp_path)).all()


@pytest.mark.parametrize("policy", ["fifo", "srsf", "max-min-fairness", "isolated"])
def test_a_small_size_is_not_hopeless_because_a_large_one_is_fast(policy: str) -> None:
    jobs = [JobSpec(gpus=1, steps=5000.0), JobSpec(gpus=1, gpu_counts=(128,), steps=1000.0)]
    trace = Trace.of("jobs", "test", [Arrival(float(n), job) for n, job in enumerate(jobs)])
    ends = simulate(trace, cluster="16x(8xV100)", policy=policy, preset="ideal").record.finished_s
    assert ends[1] <= 1100.0, "it runs on what is free"
