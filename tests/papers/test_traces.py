"""The published traces, as they come: what their papers and their READMEs say is in them."""

from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from rota.traces.read import read_trace

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="needs the folder shared/data with the published traces, beside the repository"
)


def test_philly() -> None:
    trace = read_trace(DATA / "philly" / "philly_82k_jobs.csv")
    specs = [arrival.spec for arrival in trace.arrivals]
    assert trace.format == "philly"
    assert len(trace) == 82_247
    assert trace.skipped == ()
    assert sum(spec.gpus * spec.steps for spec in specs) / 3600.0 == pytest.approx(978_000, rel=1e-3)
    assert (min(spec.gpus for spec in specs), max(spec.gpus for spec in specs)) == (1, 128)
    assert len({spec.tenant for spec in specs}) == 15
    assert sum(spec.steps < 60 for spec in specs) == 7_654


def test_philly_spans_the_autumn_of_2017() -> None:
    trace = read_trace(DATA / "philly" / "philly_82k_jobs.csv")
    span = datetime(2017, 12, 22, 8, 2, 11) - datetime(2017, 9, 4, 10, 30, 41)
    assert trace.arrivals[0].submitted_s == 0.0
    assert trace.arrivals[-1].submitted_s == span.total_seconds()


def test_philly_of_one_virtual_cluster_starts_at_zero() -> None:
    whole = read_trace(DATA / "philly" / "philly_82k_jobs.csv")
    tenant, jobs = Counter(arrival.spec.tenant for arrival in whole.arrivals).most_common()[-1]
    part = read_trace(DATA / "philly" / "philly_82k_jobs.csv", where=[("cluster", tenant)])
    assert len(part) == jobs
    assert part.arrivals[0].submitted_s == 0.0
    ours = [arrival for arrival in whole.arrivals if arrival.spec.tenant == tenant]
    assert [arrival.spec for arrival in part.arrivals] == [arrival.spec for arrival in ours], "the same order"
    assert part.arrivals[-1].submitted_s == ours[-1].submitted_s - ours[0].submitted_s


def test_tiresias() -> None:
    trace = read_trace(DATA / "tiresias" / "60_job.csv")
    assert trace.format == "tiresias"
    assert len(trace) == 60
    first = trace.arrivals[0]
    assert (first.submitted_s, first.spec.name, first.spec.gpus, first.spec.steps) == (0.0, "vgg19-0", 1, 164.0)
