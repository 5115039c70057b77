"""Runs over time, against small cases by hand and larger ones by slow and plain code."""

import numpy as np
import pytest

from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.report.result import Result
from rota.report.timeline import Ranges, busy, edges, outages, queue, ranges, span
from tests.unit.report.made import large_result, result_of

FOUR = Cluster.parse("2xV100 + 2xK80")


def small() -> Result:
    """Job 0 on both V100s from 10 to 20, job 1 on a K80 from 10 to 14 and from 18 to 22, job 2 never."""
    arrivals = [Arrival(10.0, JobSpec(gpus=2, steps=10)), Arrival(10.0, JobSpec(steps=8)), Arrival(16.0, JobSpec(steps=1))]
    return result_of(arrivals, FOUR, [(0, [0, 1], 10, 20), (1, [3], 10, 14), (1, [2], 18, 22)])


def test_busy_gpus_by_pool() -> None:
    means = busy(small(), np.array([10.0, 12.0, 16.0, 20.0, 24.0]))
    assert means.tolist() == [[2, 2, 2, 0], [1, 0.5, 0.5, 0.5]]


def test_waiting_jobs() -> None:
    # Job 1 waits from 14 to 18, job 2 from 16 to the end of the run.
    assert queue(small(), np.array([10.0, 12.0, 16.0, 20.0, 22.0])).tolist() == [0, 0.5, 1.5, 1]


def test_a_run_spans_from_the_first_submission_to_the_last_end() -> None:
    assert span([small()]) == (10, 22)
    assert edges([small()], 4).tolist() == [10, 13, 16, 19, 22]
    assert span([]) == (0, 0)


def test_outages_count_while_the_run_goes_on() -> None:
    run = small()
    run.record.outages += [(0, 2, 10), (1, 9, 11), (0, 12, 13), (1, 21, 40), (0, 22, 30)]
    assert outages(run) == [(1, 9, 11), (0, 12, 13), (1, 21, 40)]


def test_a_run_of_no_length_has_bins_all_the_same() -> None:
    run = result_of([Arrival(5.0, JobSpec(steps=0))], FOUR, [(0, [0], 5, 5)])
    assert edges([run], 2).tolist() == [5, 5.5, 6]
    assert busy(run, edges([run], 2)).sum() == 0
    assert queue(run, edges([run], 2)).sum() == 0
    assert len(ranges(run, 10)) == 0


def test_a_run_in_which_nothing_ran() -> None:
    run = result_of([Arrival(5.0, JobSpec(steps=1)), Arrival(9.0, JobSpec(steps=1))], FOUR, [])
    assert queue(run, np.array([5.0, 7.0, 9.0])).tolist() == [1, 1]
    assert busy(run, np.array([5.0, 9.0])).tolist() == [[0], [0]]
    assert len(ranges(run, 0)) == 0


@pytest.mark.parametrize("count", [1, 7, 64])
def test_means_add_up_to_what_the_record_says(count: int) -> None:
    run = large_result(500, 24, policy="p", seed=3, pieces=2)
    at = edges([run], count)
    assert (busy(run, at) * np.diff(at)).sum(axis=1) == pytest.approx(run.record.pool_gpu_seconds)
    waited = (run.record.finished_s - run.record.submitted_s - run.record.occupied_seconds).sum()
    assert (queue(run, at) * np.diff(at)).sum() == pytest.approx(waited)


def test_neighbouring_gpus_are_one_rectangle() -> None:
    cluster = Cluster.parse("6xV100")
    run = result_of([Arrival(0.0, JobSpec(gpus=4, steps=5))], cluster, [(0, [5, 1, 0, 2], 1, 6)])
    assert rows(ranges(run, 10)) == [(0, 3, 1, 6, 0), (5, 1, 1, 6, 0)]
    assert (ranges(run, 10).gpus_per_row, ranges(run, 10).seconds_per_cell) == (1, 0)


def test_two_jobs_that_share_have_half_of_each_row_while_they_do() -> None:
    cluster = Cluster.parse("3xV100")
    arrivals = [Arrival(0.0, JobSpec(gpus=2, steps=5)) for _ in range(3)]
    run = result_of(arrivals, cluster, [(0, [0, 1], 0, 10), (1, [0, 1], 4, 20), (2, [0, 1], 12, 16)])
    run.record.gpu_intervals.share(0, 1, np.array([0, 1]), 4.0, 10.0)
    run.record.gpu_intervals.share(2, 1, np.array([0, 1]), 12.0, 16.0)
    found = ranges(run, 20)
    pieces = sorted(zip(found.job.tolist(), found.start_s.tolist(), found.end_s.tolist(), found.half.tolist(), strict=True))
    assert pieces == [(0, 0, 4, 0), (0, 4, 10, 1), (1, 4, 10, 2), (1, 10, 12, 0), (1, 12, 16, 1), (1, 16, 20, 0), (2, 12, 16, 2)]
    assert set(found.rows.tolist()) == {2}
    assert busy(run, np.array([0.0, 4.0, 10.0, 20.0])).tolist() == [[2, 2, 2]]
    coarse = ranges(run, 3)
    assert coarse.seconds_per_cell > 0 and not coarse.half.any()


def test_a_coarse_map_shows_who_had_most_of_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.report.timeline.FINEST", 1)
    # Two columns of 8 s. In the first job 0 has 5 s and job 1 has 3; in the second job 2 has 3 s, which is less than half.
    cluster = Cluster.parse("1xV100")
    arrivals = [Arrival(0.0, JobSpec(steps=1)) for _ in range(4)]
    run = result_of(arrivals, cluster, [(0, [0], 0, 2), (1, [0], 2, 5), (0, [0], 5, 8), (2, [0], 8, 11), (3, [0], 15.99, 16)])
    coarse = ranges(run, 2)
    assert rows(coarse) == [(0, 1, 0, 8, 0)]
    assert (coarse.gpus_per_row, coarse.seconds_per_cell) == (1, 8)


def test_cells_of_one_job_along_a_row_merge_and_rows_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.report.timeline.MAX_ROWS", 2)
    cluster = Cluster.parse("4xV100")
    arrivals = [Arrival(0.0, JobSpec(gpus=4, steps=1)), *(Arrival(0.0, JobSpec(steps=1)) for _ in range(4))]
    run = result_of(arrivals, cluster, [(0, [0, 1, 2, 3], 0, 60), *((1 + i, [i], 60, 64) for i in range(4))])
    coarse = ranges(run, 4)
    assert coarse.gpus_per_row == 2
    assert rows(coarse) == [(0, 1, 0, 60, 0), (0, 1, 60, 64, 1), (1, 1, 0, 60, 0), (1, 1, 60, 64, 3)]


@pytest.mark.parametrize("most", [1, 5, 60, 300])
@pytest.mark.slow
def test_a_coarse_map_agrees_with_a_plain_count(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.report.timeline.MAX_ROWS", 9)
    run = large_result(300, 24, policy="p", seed=3, pieces=2)
    coarse = ranges(run, most)
    assert coarse.seconds_per_cell > 0
    assert len(coarse) <= most
    start, end = span([run])
    columns = round((end - start) / coarse.seconds_per_cell)
    shown = {(int(r), start + c * coarse.seconds_per_cell): int(j) for r, c, j in cells(coarse, start)}
    for row in range(-(-24 // coarse.gpus_per_row)):
        for column in range(columns):
            low = start + column * coarse.seconds_per_cell
            held = counted(
                run, range(row * coarse.gpus_per_row, min((row + 1) * coarse.gpus_per_row, 24)), low, coarse.seconds_per_cell
            )
            size = (min((row + 1) * coarse.gpus_per_row, 24) - row * coarse.gpus_per_row) * coarse.seconds_per_cell
            job = shown.get((row, low))
            if sum(held.values()) < 0.49999 * size:
                assert job is None
            elif sum(held.values()) > 0.50001 * size:
                assert job is not None
                assert held[job] == pytest.approx(max(held.values()))


@pytest.mark.slow
def test_a_hundred_thousand_jobs_fit() -> None:
    run = large_result(100_000, 1_000, policy="p", seed=3, pieces=2)
    assert len(ranges(run, 200_000)) == 200_000
    coarse = ranges(run, 150_000)
    assert 20_000 < len(coarse) <= 150_000
    assert coarse.gpus_per_row == 2
    shown = (coarse.rows * (coarse.end_s - coarse.start_s)).sum() * coarse.gpus_per_row
    assert shown == pytest.approx(run.record.pool_gpu_seconds.sum(), rel=0.2)


def rows(found: Ranges) -> list[tuple[float, ...]]:
    columns = (found.first_row, found.rows, found.start_s, found.end_s, found.job)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def cells(found: Ranges, start_s: float) -> list[tuple[int, int, int]]:
    return [
        (row, column, job)
        for row, _, start, end, job in rows(found)
        for column in range(round((start - start_s) / found.seconds_per_cell), round((end - start_s) / found.seconds_per_cell))
    ]


def counted(run: Result, gpus: range, low: float, seconds: float) -> dict[int, float]:
    held: dict[int, float] = {}
    holds = run.record.gpu_intervals
    first = holds.first
    for i, (job, start, end) in enumerate(zip(holds.job.tolist(), holds.start_s.tolist(), holds.end_s.tolist(), strict=True)):
        shared = max(0.0, min(end, low + seconds) - max(start, low))
        here = sum(gpu in gpus for gpu in holds.gpus[first[i] : first[i + 1]].tolist()) if shared else 0
        if here:
            held[job] = held.get(job, 0.0) + shared * here
    return held
