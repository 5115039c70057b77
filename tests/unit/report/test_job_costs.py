"""The costs of the jobs add up to the cost of the run."""

import numpy as np
import pytest

import rota
from rota.model.cluster import Cluster, Node
from rota.model.job import Arrival, JobSpec
from rota.report.job_costs import job_costs
from tests.unit.report.made import result_of


@pytest.mark.parametrize("policy", ["fifo", "tiresias"])
def test_all_jobs_together_cost_what_the_run_cost(policy: str) -> None:
    result = rota.simulate("demo", policy=policy, cluster="8xV100 + 8xP100 + 8xK80")
    costs = job_costs(result)
    assert costs is not None and (costs > 0).all()
    assert costs.sum() == pytest.approx(result.summary.cost_dollars)


def test_two_that_share_pay_half_each_and_a_part_costs_its_part() -> None:
    cluster = Cluster.of([Node("a", "V100", 2)], "a.yaml", dollars_per_hour={"V100": 3.6})
    arrivals = [Arrival(0.0, JobSpec(gpus=1)), Arrival(0.0, JobSpec(gpus=1)), Arrival(0.0, JobSpec(gpus=0.25))]
    result = result_of(arrivals, cluster, [(0, [0], 0, 1000), (1, [0], 0, 400), (2, [1], 0, 1000)])
    result.record.gpu_intervals.share(0, 1, np.array([0]), 0.0, 400.0)
    costs = job_costs(result)
    assert costs is not None
    assert costs.tolist() == pytest.approx([1.0 - 0.2, 0.4 - 0.2, 0.25])


def test_without_a_price_there_is_no_cost_unless_the_type_was_never_used() -> None:
    cluster = Cluster.of([Node("a", "V100", 1), Node("b", "NoSuchType", 1)], "a.yaml")
    arrivals = [Arrival(0.0, JobSpec())]
    assert job_costs(result_of(arrivals, cluster, [(0, [1], 0, 60)])) is None
    assert job_costs(result_of(arrivals, cluster, [(0, [0], 0, 60)])) is not None
    assert job_costs(result_of(arrivals, cluster, [])) is not None
