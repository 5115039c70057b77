"""Figures of searches and of fragmentation, on runs that are small enough to count by hand."""

from typing import Any

import pytest

from rota.api import run_study
from rota.compose.study import make_study
from rota.model.job import Arrival, JobSpec
from rota.papers.gang_figures import gang_figures, search_figures
from rota.report.result import Result
from rota.traces.search import Search
from rota.traces.trace import Trace


def ran(arrivals: list[Arrival], searches: tuple[Search, ...] = (), **fields: Any) -> Result:
    trace = Trace("made up", "", tuple(arrivals), searches=searches)
    return run_study(make_study({"trace": trace, "policy": "fifo", "preset": "ideal", **fields}))


def test_of_a_search_it_counts_when_the_best_is_done_and_when_the_others_ended() -> None:
    search = Search(("b", "a", "c"), 100.0, 1)
    jobs = [Arrival(0.0, JobSpec(name=name, steps=1000.0)) for name in ("a", "b", "c")]
    found = search_figures(ran(jobs, (search,), cluster="1xV100"), (search,))
    assert found["search_settled_seconds"] == pytest.approx(2100.0), "a ran to its end, b too, c made its 100 steps"
    assert found["search_best_seconds"] == pytest.approx(2000.0)
    assert found["search_gpu_hours"] == pytest.approx(2100.0 / 3600) and found["search_stopped_share"] == 0.5
    both = search_figures(ran(jobs, (search,), cluster="3xV100"), (search,))
    assert both["search_settled_seconds"] == pytest.approx(100.0) and both["search_best_seconds"] == pytest.approx(1000.0)
    assert both["search_gpu_hours"] == pytest.approx(1200.0 / 3600) and both["search_stopped_share"] == 1.0


def test_without_searches_there_are_no_figures_of_them() -> None:
    assert search_figures(ran([Arrival(0.0, JobSpec(steps=10.0))], cluster="1xV100"), ()) == {}


def test_of_gangs_it_counts_where_they_were_and_which_nodes_were_whole() -> None:
    """Three jobs of one GPU come first, and the last job when the gang still runs."""
    jobs = [
        *(Arrival(0.0, JobSpec(gpus=1, steps=1000.0)) for _ in range(3)),
        Arrival(1.0, JobSpec(gpus=2, steps=500.0)),
        Arrival(400.0, JobSpec(gpus=1, steps=1.0)),
    ]
    found = gang_figures(ran(jobs, cluster="3x(2xV100)", placer="spread"))
    assert found["gang_wait_seconds"] == 0.0 and found["gang_jct_seconds"] == pytest.approx(500.0)
    assert found["gang_close_share"] == 0.0, "each node has a job: the gang spans two"
    assert found["whole_nodes"] == pytest.approx(0.0) and found["half_used_nodes"] == pytest.approx(1.0)
    packed = gang_figures(ran(jobs, cluster="4x(2xV100)", placer="packed"))
    assert packed["gang_close_share"] == 1.0
    assert packed["whole_nodes"] == pytest.approx(1.0) and packed["half_used_nodes"] == pytest.approx(1.0)
    before = gang_figures(ran([*jobs[:4], Arrival(1500.0, JobSpec(steps=1.0))], cluster="4x(2xV100)", placer="packed"))
    # From 375 s to 1,500 s: the gang leaves its node at 501 s, the others theirs at 1,000 s.
    assert before["whole_nodes"] == pytest.approx((126 * 1 + 499 * 2 + 500 * 4) / 1125)


def test_jobs_of_one_gpu_have_no_such_figures() -> None:
    jobs = [Arrival(float(at), JobSpec(steps=10.0)) for at in range(3)]
    assert gang_figures(ran(jobs, cluster="2xV100")) == {}
