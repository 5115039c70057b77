"""Gavel's generator without Gavel's files: the draws, the conversion of load to arrivals, and the names."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.rates import Rates
from rota.errors import InputError, TraceError
from rota.profiles.catalogue import Catalogue
from rota.traces.gavel_jobs import MODELS, draw, gavel_jobs
from rota.traces.synthetic import named, open_trace, reseeded
from rota.traces.trace import Trace
from tests.examples import examples


def run_seconds(trace: Trace) -> list[float]:
    """Of every job on V100s of its own, by the catalogue."""
    catalogue = Catalogue()
    specs = [arrival.spec for arrival in trace.arrivals]
    return [spec.steps / (catalogue.rate(spec.profile, "V100", spec.gpus) or (0.0, 0.0))[0] for spec in specs]


def offered_load(trace: Trace, gpus: int) -> float:
    work = sum(arrival.spec.gpus * seconds for arrival, seconds in zip(trace.arrivals, run_seconds(trace), strict=True))
    return work / (gpus * trace.arrivals[-1].submitted_s)


@examples(30)
@given(st.integers(2, 200), st.integers(0, 10**18), st.floats(0.05, 5), st.integers(1, 512), st.booleans())
def test_the_load_is_met(jobs: int, seed: int, load: float, gpus: int, multi: bool) -> None:
    trace = gavel_jobs(jobs, seed, load=load, gpus=gpus, multi=multi)
    assert len(trace) == jobs and trace.arrivals[0].submitted_s == 0.0
    assert offered_load(trace, gpus) == pytest.approx(load, rel=1e-9)


def test_the_load_only_chooses_the_mean_time_between_arrivals() -> None:
    light, heavy = gavel_jobs(80, 3, load=0.4), gavel_jobs(80, 3, load=0.8)
    assert [arrival.spec for arrival in light.arrivals] == [arrival.spec for arrival in heavy.arrivals]
    apart = gavel_jobs(80, 3, mean_gap_seconds=1000)
    ratio = light.arrivals[-1].submitted_s / apart.arrivals[-1].submitted_s
    for one, other in zip(light.arrivals, apart.arrivals, strict=True):
        assert one.submitted_s == pytest.approx(ratio * other.submitted_s, rel=1e-9)


def test_jobs_look_as_published() -> None:
    jobs = draw(40_000, 5, multi=True, priorities=True, slo=True)
    sizes = Counter(job.gpus for job in jobs)
    for gpus, share in {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}.items():
        assert sizes[gpus] / len(jobs) == pytest.approx(share, abs=0.01)
    assert sum(job.seconds for job in jobs) / len(jobs) == pytest.approx(60_400, rel=0.02)
    assert all(60 * 10**1.5 <= job.seconds <= 60 * 10**4 for job in jobs)
    assert sum(job.weight == 5.0 for job in jobs) / len(jobs) == pytest.approx(0.2, abs=0.01)
    limits = Counter(job.slo for job in jobs)
    assert limits[1.2] / len(jobs) == pytest.approx(0.33, abs=0.01) and set(limits) == {1.2, 2.0, 10.0}
    assert len(MODELS) == 26 and {job.profile for job in jobs} == set(MODELS)
    assert not {job.profile.partition(" ")[0] for job in jobs if job.gpus > 1} & {"Recommendation", "A3C", "CycleGAN"}


def test_what_has_a_stream_of_its_own_changes_no_job() -> None:
    plain = draw(200, 1, multi=True, priorities=False, slo=False)
    assert [replace(job, slo=None) for job in draw(200, 1, multi=True, priorities=False, slo=True)] == plain
    assert draw(50, 1, multi=True, priorities=False, slo=False) == plain[:50], "more jobs: the same, and more"
    assert draw(200, 2, multi=True, priorities=False, slo=False) != plain


def test_all_at_once_and_all_alike() -> None:
    trace = gavel_jobs(20, 1, mean_gap_seconds=0, duration=600)
    assert {arrival.submitted_s for arrival in trace.arrivals} == {0.0}
    assert run_seconds(trace) == pytest.approx([600.0] * 20)
    assert gavel_jobs(1, 0).arrivals[0].submitted_s == 0.0, "a single job has no span"


def test_deadlines_and_tenants() -> None:
    trace = gavel_jobs(6, 1, slo=True, tenants=3)
    drawn = draw(6, 1, multi=False, priorities=False, slo=True)
    assert [arrival.spec.deadline_seconds for arrival in trace.arrivals] == [job.seconds * (job.slo or 0) for job in drawn]
    assert [arrival.spec.tenant for arrival in trace.arrivals] == ["tenant-1", "tenant-2", "tenant-3"] * 2
    assert {arrival.spec.tenant for arrival in gavel_jobs(3).arrivals} == {None}


def test_the_name_makes_it_again() -> None:
    text = "gavel:jobs=30,load=0.9,multi=true,seed=4,slo=true"
    trace = open_trace(text)
    assert (trace.name, trace.format) == (text, "gavel")
    assert trace.arrivals == gavel_jobs(30, 4, load=0.9, multi=True, slo=True).arrivals
    assert named(gavel_jobs(5, 2, multi=True, mean_gap_seconds=60).name).arrivals == (
        gavel_jobs(5, 2, multi=True, mean_gap_seconds=60).arrivals
    )
    assert named("gavel").arrivals == gavel_jobs().arrivals


def test_another_seed_by_name() -> None:
    assert reseeded("gavel:jobs=30,multi=true", 2) == "gavel:jobs=30,multi=true,seed=2"
    assert reseeded("gavel:jobs=30,seed=4", 2) == "gavel:jobs=30,seed=6"
    assert reseeded("synthetic:jobs=30,seed=4", 0) == "synthetic:jobs=30,seed=4"


def test_a_profile_that_cannot_run_them(tmp_path: Path) -> None:
    rates = Rates({(model, "V100", 1): 0.0 for model in MODELS})
    with pytest.raises(InputError, match="does not run on 1 V100s") as caught:
        gavel_jobs(1, rates=rates)
    assert caught.value.hint
    with pytest.raises(InputError, match="no such file"):
        named(f"gavel:jobs=3,profile={tmp_path}/none.json")


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        ("gavel:jobs=0", "jobs", "from 1 to"),
        ("gavel:multi=yes", "multi", "true or false"),
        ("gavel:load=0", "load", "number from"),
        ("gavel:load=0.5,mean_gap_seconds=9", "mean_gap_seconds", "cannot be combined"),
        ("gavel:multy=true", "option", "Closest: multi."),
        ("gavel:duration=0", "duration", "number from"),
        ("gavel:profile=", "profile", "path of a table"),
        ("gavel:", "option", "KEY=VALUE"),
    ],
)
def test_settings_that_make_no_sense(text: str, field: str, problem: str) -> None:
    with pytest.raises(TraceError) as caught:
        open_trace(text)
    assert problem in caught.value.message and caught.value.field == field and caught.value.hint
