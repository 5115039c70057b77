"""The figures of small runs, computed by hand."""

import json
import math

import pytest

from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.report.metrics import Summary, jobs_table, summarise
from rota.sim.physics import Physics
from rota.sim.record import Record

CLUSTER = Cluster.parse("2xV100")
ARRIVALS = [Arrival(0.0, JobSpec(name="wide", gpus=2, steps=10)), Arrival(0.0, JobSpec(gpus=1, steps=4))]


def fifo() -> Record:
    """The first job has both GPUs from 0 to 10 s, the second has one from 10 to 14 s."""
    record = Record.empty(ARRIVALS, CLUSTER)
    record.first_run_s[:] = 0, 10
    record.finished_s[:] = 10, 14
    record.feedback_s[:] = 2, 14
    record.occupied_seconds[:] = 10, 4
    record.occupied_gpu_seconds[:] = 20, 4
    record.pool_gpu_seconds[:] = 24
    record.suspensions[:] = 0, 3
    record.migrations[:] = 0, 2
    record.lost_gpu_seconds[:] = 0.5, 1.5
    return record


def summary(record: Record, arrivals: list[Arrival] = ARRIVALS, window: tuple[int, int] | None = None) -> Summary:
    return summarise(
        record,
        arrivals,
        CLUSTER,
        Physics(),
        window=window,
        rounds=None,
        decisions=3,
        decision_seconds=0.25,
        simulated_in_seconds=None,
        peak_memory_mb=64.0,
    )


def test_a_whole_run() -> None:
    found = summary(fifo()).to_dict()
    assert found == {
        "jobs": 2,
        "finished": 2,
        "mean_jct_seconds": 12,
        "median_jct_seconds": 12,
        "p95_jct_seconds": pytest.approx(13.8),
        "p99_jct_seconds": pytest.approx(13.96),
        "geomean_jct_seconds": pytest.approx(math.sqrt(140)),
        "makespan_seconds": 14,
        "mean_queueing_seconds": 5,
        "mean_first_run_seconds": 5,
        "mean_feedback_seconds": 8,
        "p95_feedback_seconds": pytest.approx(13.4),
        "utilization": pytest.approx(24 / 28),
        "offered_load": None,  # all at once
        "mean_jct_bound_seconds": pytest.approx(7.5),  # mean busy times 1 and 7, run times 4 and 10
        "makespan_bound_seconds": pytest.approx(12),
        "gap_to_jct_bound": pytest.approx(0.6),
        # The first shares with one other and gets half the time it needs; the second shares with 12/7 jobs on average, and one
        # GPU is less than its part.
        "finish_time_fairness_p95": pytest.approx(0.5 + 0.95 * (3.5 - 0.5)),
        "suspensions": 3,
        "migrations": 2,
        "resizes": 0,
        "lost_gpu_seconds": 2.0,
        "cost_dollars": pytest.approx(24 / 3600 * 3.06),  # 24 GPU-seconds of V100s
        "slo_violations": None,
        "plans": None,
        "decisions": 3,
        "decision_seconds": 0.25,
        "simulated_in_seconds": None,
        "peak_memory_mb": 64.0,
    }
    json.dumps(found, allow_nan=False)


def test_a_window_is_about_its_own_jobs() -> None:
    found = summary(fifo(), window=(1, 2))
    assert (found.jobs, found.finished, found.mean_jct_seconds, found.mean_queueing_seconds) == (1, 1, 14, 10)
    assert (found.mean_jct_bound_seconds, found.makespan_bound_seconds) == (4, 4)
    assert (found.suspensions, found.migrations, found.lost_gpu_seconds) == (3, 2, 1.5)
    assert found.utilization == pytest.approx(24 / 28)  # of the cluster, by everybody
    assert found.finish_time_fairness_p95 == pytest.approx(3.5)  # the other job was there all the same


def test_a_window_may_reach_beyond_the_end() -> None:
    assert summary(fifo(), window=(0, 5000)) == summary(fifo())


@pytest.mark.parametrize("window", [(1, 1), (2, 1), (-1, 2), (2, 3)])
def test_a_window_without_jobs_is_refused(window: tuple[int, int]) -> None:
    with pytest.raises(OptionError, match="window"):
        summary(fifo(), window=window)


def test_only_finished_jobs_are_averaged_and_bounded() -> None:
    record = fifo()
    record.finished_s[1] = math.nan
    found = summary(record)
    assert (found.jobs, found.finished, found.mean_jct_seconds, found.mean_jct_bound_seconds) == (2, 1, 10, 10)
    assert found.gap_to_jct_bound == 0
    assert found.finish_time_fairness_p95 == pytest.approx(0.5)  # the unfinished one was there all the time
    json.dumps(found.to_dict(), allow_nan=False)


def test_nothing_finished() -> None:
    found = summary(Record.empty(ARRIVALS, CLUSTER)).to_dict()
    assert (found["jobs"], found["finished"], found["suspensions"]) == (2, 0, 0)
    for name in ("mean_jct_seconds", "makespan_seconds", "utilization", "mean_jct_bound_seconds", "finish_time_fairness_p95"):
        assert found[name] is None


def test_no_jobs_at_all() -> None:
    found = summary(Record.empty([], CLUSTER), [])
    assert (found.jobs, found.finished, found.mean_jct_seconds, found.offered_load) == (0, 0, None, None)


def test_jobs_without_work() -> None:
    arrivals = [Arrival(0.0, JobSpec(steps=0)), Arrival(0.0, JobSpec(steps=5))]
    record = Record.empty(arrivals, CLUSTER)
    record.first_run_s[:] = 0, 0
    record.finished_s[:] = 0, 5
    found = summary(record, arrivals)
    assert found.geomean_jct_seconds == 0
    assert found.finish_time_fairness_p95 == pytest.approx(1.0)


def test_offered_load_and_fairness_over_time() -> None:
    # Three jobs of one GPU for 10 s each, submitted 5 s apart, never waiting.
    arrivals = [Arrival(5.0 * i, JobSpec(steps=10)) for i in range(3)]
    record = Record.empty(arrivals, CLUSTER)
    record.first_run_s[:] = 0, 5, 10
    record.finished_s[:] = 10, 15, 20
    record.occupied_seconds[:] = 10
    found = summary(record, arrivals)
    assert found.offered_load == pytest.approx(1.0), "30 s of work in 2 x 10 s, but never more than two at a time"
    assert found.finish_time_fairness_p95 == pytest.approx(1.0)  # two GPUs for at most two jobs
    assert found.gap_to_jct_bound == pytest.approx(0.0)


def test_json_has_no_infinity() -> None:
    found = summarise(
        fifo(),
        ARRIVALS,
        CLUSTER,
        Physics(),
        rounds=None,
        decisions=3,
        decision_seconds=math.nan,
        simulated_in_seconds=math.inf,
        peak_memory_mb=None,
    ).to_dict()
    assert (found["decision_seconds"], found["simulated_in_seconds"]) == (None, None)


def test_one_row_per_job() -> None:
    record = fifo()
    record.finished_s[1] = record.first_run_s[1] = math.nan
    rows = jobs_table(record, ARRIVALS, CLUSTER)
    assert rows[0] == {
        "id": 0,
        "name": "wide",
        "user": "",
        "tenant": None,
        "profile": None,
        "gpus": 2,
        "ran_on": "",
        "submitted_s": 0,
        "started_s": 0,
        "finished_s": 10,
        "jct_seconds": 10,
        "run_seconds": 10,
        "suspensions": 0,
        "migrations": 0,
        "resizes": 0,
        "lost_gpu_seconds": 0.5,
    }
    assert (rows[1]["started_s"], rows[1]["finished_s"], rows[1]["jct_seconds"], rows[1]["suspensions"]) == (None, None, None, 3)
    json.dumps(rows, allow_nan=False)
