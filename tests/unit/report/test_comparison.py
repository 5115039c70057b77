"""Several runs compared: intervals, pairing, and the output for users and programs."""

import json
import math
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota.errors import OptionError
from rota.report.comparison import Comparison, interval
from rota.report.result import durations

CLUSTER = "4xV100 + 4xK80"
JOBS = "synthetic:jobs=40,seed=3,gpus=8,largest=4,longest_seconds=20000"


@pytest.fixture(scope="module")
def seeded() -> Comparison:
    return rota.compare(["fifo", "srsf"], trace=JOBS, cluster=CLUSTER, seeds=4)


def test_seeds_generate_other_jobs_and_pair_them(seeded: Comparison) -> None:
    fifo, srsf = seeded.lines
    assert [result.params["seed"] for result in fifo.results] == [0, 1, 2, 3]
    assert len({result.summary.mean_jct_seconds for result in fifo.results}) == 4, "other jobs each time"
    for ours, theirs in zip(fifo.results, srsf.results, strict=True):
        assert ours.record.submitted_s.tolist() == theirs.record.submitted_s.tolist(), "the same jobs for both"
    assert fifo.paired is None and srsf.paired is not None and srsf.paired.against == "fifo"
    ratios = [
        (ours.summary.mean_jct_seconds or 0) / (theirs.summary.mean_jct_seconds or 1)
        for ours, theirs in zip(srsf.results, fifo.results, strict=True)
    ]
    assert srsf.paired.ratio == pytest.approx(statistics.geometric_mean(ratios))
    low, high = srsf.paired.interval or (0, 0)
    assert low < srsf.paired.ratio < high


def test_the_first_seed_is_the_trace_as_it_is(seeded: Comparison) -> None:
    alone = rota.simulate(JOBS, policy="fifo", cluster=CLUSTER)
    assert alone.summary.mean_jct_seconds == seeded[0].summary.mean_jct_seconds


def test_json_has_one_object_per_policy(seeded: Comparison) -> None:
    value = json.loads(json.dumps(seeded.to_dict()))
    assert [each["params"]["policy"] for each in value] == ["fifo", "srsf"]
    means = [summary["mean_jct_seconds"] for summary in value[0]["seeds"]]
    assert value[0]["summary"]["mean_jct_seconds"] == pytest.approx(statistics.mean(means))
    low, high = value[0]["intervals"]["mean_jct_seconds"]
    assert low < statistics.mean(means) < high
    assert "decision_seconds" not in value[0]["intervals"], "how long it took is no property of a policy"
    assert "paired" not in value[0] and value[1]["paired"]["against"] == "fifo"


def test_it_is_a_sequence_of_all_runs(seeded: Comparison) -> None:
    assert len(seeded) == 8 and seeded.seeds == 4
    assert [result.params["policy"] for result in seeded] == ["fifo"] * 4 + ["srsf"] * 4
    assert len(seeded[2:5]) == 3
    assert seeded.best is seeded.line("srsf")


def test_it_prints_itself_with_bound_load_and_intervals(seeded: Comparison) -> None:
    text = str(seeded)
    assert text.splitlines()[0].split()[0] == "POLICY"
    for word in ("±", "JCT vs fifo", "offered load", "no schedule beats mean JCT", "4 seeds, 95% intervals"):
        assert word in text
    assert "<table>" in seeded._repr_html_() and "<svg" in seeded._repr_html_()


def test_one_seed_has_no_interval() -> None:
    found = rota.compare(["fifo", "srsf"], trace=JOBS, cluster=CLUSTER)
    assert found.lines[1].intervals == {} and "±" not in str(found)
    assert found.lines[1].paired is not None and found.lines[1].paired.interval is None


def test_a_file_stays_the_same_under_every_seed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,gpus,duration\n0,1,60\n5,4,120\n9,2,40\n")
    found = rota.compare(["fifo"], trace=path, cluster=CLUSTER, seeds=3)
    assert len({result.summary.mean_jct_seconds for result in found}) == 1
    assert found.lines[0].alike and found.lines[0].half_width("mean_jct_seconds") is None


def test_placers_multiply_policies_that_name_none() -> None:
    found = rota.compare(["fifo", "srsf+random"], trace=JOBS, cluster="2x(4xV100)", placers=["packed", "spread"])
    assert [line.label for line in found.lines] == ["fifo+packed", "fifo+spread", "srsf+random"]
    assert [result.params["placer"] for result in found] == ["packed", "spread", "random"]


def test_the_same_policy_twice_keeps_both() -> None:
    found = rota.compare(["fifo", "fifo"], trace=JOBS, cluster=CLUSTER)
    assert [line.label for line in found.lines] == ["fifo", "fifo #2"]


@pytest.mark.slow
def test_pandas_has_a_row_per_run_and_per_job(seeded: Comparison) -> None:
    pandas = pytest.importorskip("pandas")
    frame = seeded.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 8
    assert frame["policy"].tolist() == ["fifo"] * 4 + ["srsf"] * 4
    jobs = seeded[0].to_pandas()
    assert len(jobs) == 40
    assert jobs["jct_seconds"].mean() == pytest.approx(seeded[0].summary.mean_jct_seconds)


@pytest.mark.parametrize("policies", ["fifo", []])
def test_policies_are_a_list(policies: list[str]) -> None:
    with pytest.raises(OptionError, match="list of policies"):
        rota.compare(policies)


def test_no_seeds_are_refused() -> None:
    with pytest.raises(OptionError, match="from 1 to 10,000"):
        rota.compare(["fifo"], seeds=0, cluster=CLUSTER)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_an_interval_surrounds_the_mean_evenly(values: list[float]) -> None:
    low, high = interval(values)
    mean = float(np.mean(values))
    assert low <= mean <= high or math.isclose(low, mean, rel_tol=1e-9, abs_tol=1e-6)
    assert mean - low == pytest.approx(high - mean, rel=1e-6, abs=1e-6)


def test_an_interval_covers_as_often_as_it_says() -> None:
    draw = np.random.Generator(np.random.Philox(key=5))
    hits = sum(low <= 0 <= high for low, high in (interval(draw.standard_normal(5).tolist()) for _ in range(2000)))
    assert 0.93 < hits / 2000 < 0.97


def test_the_pages_headline_lies_inside_its_interval(seeded: Comparison) -> None:
    found = re.search(r"([\d.]+)x better than fifo \(95% interval over 4 seeds: ([\d.]+)x to ([\d.]+)x\)", seeded.page())
    assert found is not None
    assert float(found[2]) < float(found[1]) < float(found[3])


def test_seeds_that_change_nothing_give_no_interval(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,gpus,duration\n0,4,60\n5,4,120\n9,2,40\n")
    found = rota.compare(["fifo", "srsf"], trace=path, cluster="4xV100", seeds=3)
    assert "nothing here is random" in str(found) and "±" not in str(found)
    assert found.lines[1].intervals == {} and found.lines[1].paired is not None and found.lines[1].paired.interval is None
    assert "95% interval over" not in found.page()


@pytest.mark.slow
def test_a_column_has_one_unit() -> None:
    """What a user saw: minutes, hours and days below each other in one column."""
    assert durations([36_000.0, 600.0, 60.0]) == ["600m", "10.0m", "1.00m"]
    assert durations([36_000.0, None, 0.0]) == ["10.0h", "-", "0h"]
    assert durations([7200.0, 9000.0], [60.0, None]) == ["2.00h ±0.0167h", "2.50h"]
    assert durations([], []) == [] and durations([None]) == ["-"] and durations([0.0]) == ["0s"]
    assert durations([60.0], like=[7200.0]) == ["0.0167h"]
    heads, rows = rota.compare(["fifo", "srsf", "las"], trace="demo", seeds=2).cells()
    for head in ("MEAN JCT", "MEDIAN", "P99", "QUEUE", "SPAN"):
        column = " ".join(row[heads.index(head)] for row in rows)
        assert len(set(re.findall(r"[\d.]([smhd])\b", column))) == 1, column
