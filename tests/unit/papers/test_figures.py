"""Figures of cells: measurements besides the summary, and the figures that a cell can have."""

from dataclasses import replace
from pathlib import Path

import pytest

from rota.api import simulate
from rota.beliefs.rates import SAME_SPEED, Rates
from rota.compose.study import Study
from rota.model.job import Arrival, JobSpec
from rota.papers import measure
from rota.papers.experiment import PaperCell
from rota.papers.figures import own_figures
from rota.papers.pal_scores import write_runs
from rota.traces.trace import Trace


def test_queueing_and_useful_work() -> None:
    jobs = [Arrival(0.0, JobSpec(name=f"job-{n}", gpus=1, steps=100.0, deadline_seconds=150.0)) for n in range(3)]
    result = simulate(Trace("three", "made", tuple(jobs)), policy="fifo", cluster="1xV100", preset="ideal")
    found = own_figures(result, SAME_SPEED)
    assert found["median_queueing_seconds"] == pytest.approx(100) and found["p95_queueing_seconds"] == pytest.approx(190)
    assert found["useful_share"] == pytest.approx(1.0) and found["late_share"] == pytest.approx(2 / 3)
    slow = simulate(Trace("three", "made", tuple(jobs)), policy="fifo", cluster="2xV100", preset="ideal", launch_seconds=100.0)
    assert own_figures(slow, SAME_SPEED)["useful_share"] == pytest.approx(300 / (2 * 400))


def test_throughput_is_measured_while_jobs_arrive() -> None:
    """One GPU; a job of 100 s every 50 s: it is always busy, and half of the work is done after the last arrival."""
    jobs = [Arrival(50.0 * n, JobSpec(name=f"job-{n}", gpus=1, steps=100.0)) for n in range(9)]
    alone = own_figures(simulate(Trace("nine", "made", tuple(jobs)), policy="fifo", cluster="1xV100", preset="ideal"), SAME_SPEED)
    assert alone["throughput"] == pytest.approx(1.0) and alone["work_per_gpu_second"] == pytest.approx(1.0)
    assert "searches" not in alone
    slow = simulate(Trace("nine", "made", tuple(jobs)), policy="fifo", cluster="1xV100", preset="ideal", launch_seconds=25.0)
    found = own_figures(slow, SAME_SPEED)
    assert found["throughput"] == pytest.approx(0.8) and found["work_per_gpu_second"] == pytest.approx(0.8)


def test_two_that_share_a_gpu_take_it_once() -> None:
    jobs = [Arrival(100.0 * n, JobSpec(name=f"job-{n}", gpus=1, steps=1000.0, profile="p")) for n in range(2)]
    rates = Rates({("p", "V100", 1): 1.0}, pairs={("p", "p", "V100", 1): (0.8, 0.8)})
    trace = Trace("two", "made", tuple(jobs))
    both = simulate(trace, policy="fifo", cluster="1xV100", preset="ideal", rates=rates, tactics="pack")
    alone = simulate(trace, policy="fifo", cluster="1xV100", preset="ideal", rates=rates)
    assert own_figures(alone, rates)["work_per_gpu_second"] == pytest.approx(1.0)
    assert 1.2 < own_figures(both, rates)["work_per_gpu_second"] <= 1.6


def test_searches_are_over_when_all_have_been_looked_at() -> None:
    steps = {"sweep-1/1": 150.0, "sweep-1/2": 300.0, "sweep-1/3": 300.0, "other": 100.0}
    jobs = [Arrival(10.0, JobSpec(name=name, gpus=1, steps=each)) for name, each in steps.items()]
    result = simulate(Trace("sweep", "made", tuple(jobs)), policy="fifo", cluster="1xV100", preset="ideal")
    found = own_figures(result, SAME_SPEED)
    assert found["searches"] == {"sweep-1": pytest.approx(550.0)} and found["search_look_seconds"] == pytest.approx(550.0)
    assert found["search_best_seconds"] == pytest.approx((450 + 750) / 2)


def figures(cell: PaperCell) -> dict[str, float]:
    return measure.run(cell.study, cell.settings(), lambda *_: None)


@pytest.mark.slow
def test_jobs_that_come_a_round_later_meet_the_same_rounds(tmp_path: Path) -> None:
    study = Study(
        "sia:jobs=12,seed=3,largest=8,hours=0.5",
        placer="pal",
        cluster="4x(4xV100)",
        preset="blox",
        variability=str(write_runs(tmp_path)),
        seed=42,
    )
    cell = PaperCell(experiment="s", label="pal", x=0, study=study)
    now, later, between = (figures(replace(cell, shift_s=seconds))["mean_jct_seconds"] for seconds in (0.0, 360.0, 170.0))
    assert now == pytest.approx(later) and now != pytest.approx(between)
    by_median = figures(replace(cell, study=replace(study, variability_medians=True)))["mean_jct_seconds"]
    paid = figures(replace(cell, study=replace(study, launch_seconds=300.0)))["mean_jct_seconds"]
    assert by_median > 0 and paid > now
