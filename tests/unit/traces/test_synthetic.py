"""Generated traces: seeded, at exactly the requested load, and found by name."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rota.errors import InputError, TraceError, UnknownNameError
from rota.model.accelerators import ACCELERATORS
from rota.model.job import Arrival
from rota.profiles.catalogue import Catalogue
from rota.traces.shaping import MODELS, USERS_PER_TENANT
from rota.traces.synthetic import BUILT_IN, named, open_trace, synthetic
from rota.traces.trace import Trace
from tests.examples import examples


def offered_load(trace: Trace, gpus: int) -> float:
    work = sum(arrival.spec.gpus * arrival.spec.steps for arrival in trace.arrivals)
    return work / (gpus * (trace.arrivals[-1].submitted_s - trace.arrivals[0].submitted_s))


@examples(50)
@given(st.integers(2, 300), st.integers(0, 10**18), st.floats(0.05, 5), st.integers(1, 512), st.integers(1, 32))
def test_the_load_is_met_and_no_job_is_too_large(jobs: int, seed: int, load: float, gpus: int, largest: int) -> None:
    trace = synthetic(jobs, seed, load=load, gpus=gpus, largest=largest)
    assert len(trace) == jobs
    assert trace.arrivals[0].submitted_s == 0.0
    assert offered_load(trace, gpus) == pytest.approx(load, rel=1e-12)
    assert all(1 <= arrival.spec.gpus <= min(largest, gpus) for arrival in trace.arrivals)
    assert all(1 <= arrival.spec.steps <= 4 * 86_400 for arrival in trace.arrivals)


def test_the_seed_decides() -> None:
    assert synthetic(50, 3).arrivals == synthetic(50, 3).arrivals
    assert synthetic(50, 3).arrivals != synthetic(50, 4).arrivals


def test_the_load_changes_only_when_jobs_arrive() -> None:
    light, heavy = synthetic(50, 3, load=0.5), synthetic(50, 3, load=1.0)
    assert [arrival.spec for arrival in light.arrivals] == [arrival.spec for arrival in heavy.arrivals]
    assert light.arrivals[-1].submitted_s == pytest.approx(2 * heavy.arrivals[-1].submitted_s)


def test_jobs_look_like_those_of_philly() -> None:
    trace = synthetic(20_000, 1, gpus=256, largest=16)
    sizes = Counter(arrival.spec.gpus for arrival in trace.arrivals)
    for gpus, share in {1: 0.70, 2: 0.10, 4: 0.13, 8: 0.05, 16: 0.02}.items():
        assert sizes[gpus] / len(trace) == pytest.approx(share, abs=0.012)
    lengths = sorted(arrival.spec.steps for arrival in trace.arrivals)
    assert median(lengths) == pytest.approx(900, rel=0.1)
    assert lengths[-1] == 4 * 86_400, "the tail reaches the cap"
    assert sum(lengths[-2000:]) > 0.5 * sum(lengths), "a tenth of the jobs is most of the work"


def test_tenants_change_nothing_else() -> None:
    plain, owned = synthetic(500, 3), synthetic(500, 3, tenants=5)
    for one, other in zip(plain.arrivals, owned.arrivals, strict=True):
        assert one == Arrival(other.submitted_s, replace(other.spec, tenant="", user=""))
    assert owned.arrivals == synthetic(500, 3, tenants=5).arrivals
    assert [a.spec.tenant for a in owned.arrivals] != [a.spec.tenant for a in synthetic(500, 4, tenants=5).arrivals]


@pytest.mark.slow
def test_tenants_are_unequal_and_have_users() -> None:
    specs = [arrival.spec for arrival in synthetic(20_000, 1, tenants=4).arrivals]
    jobs = Counter(spec.tenant for spec in specs)
    assert set(jobs) == {"tenant-1", "tenant-2", "tenant-3", "tenant-4"}
    for k in (2, 3, 4):
        assert jobs[f"tenant-{k}"] / jobs["tenant-1"] == pytest.approx(1 / k, rel=0.1)
    users = {(spec.tenant, spec.user) for spec in specs}
    assert len(users) == len({user for _, user in users}) == 4 * USERS_PER_TENANT, "a user belongs to one tenant"
    assert len({spec.tenant for spec in (a.spec for a in synthetic(50, tenants=1).arrivals)}) == 1


@examples(50)
@given(st.integers(2, 300), st.integers(0, 10**18), st.floats(0.05, 5), st.integers(1, 512), st.floats(0, 1))
def test_a_rhythm_keeps_the_load_and_the_jobs(jobs: int, seed: int, load: float, gpus: int, rhythm: float) -> None:
    even, moved = synthetic(jobs, seed, load=load, gpus=gpus), synthetic(jobs, seed, load=load, gpus=gpus, rhythm=rhythm)
    assert offered_load(moved, gpus) == pytest.approx(load, rel=1e-12)
    assert [arrival.spec for arrival in moved.arrivals] == [arrival.spec for arrival in even.arrivals]
    assert (moved.arrivals[0], moved.arrivals[-1]) == (even.arrivals[0], even.arrivals[-1])


def test_a_rhythm_is_that_of_days() -> None:
    trace = synthetic(20_000, 1, load=0.5, gpus=64, rhythm=0.8)
    days = trace.arrivals[-1].submitted_s / 86_400
    assert days > 20
    by_hour = Counter(int(arrival.submitted_s % 86_400 // 3600) for arrival in trace.arrivals)
    for hour in range(24):
        pace = 1 - 0.8 * math.cos(2 * math.pi * (hour + 0.5) / 24)
        assert by_hour[hour] / (len(trace) / 24) == pytest.approx(pace, abs=0.15)


def test_a_trace_shorter_than_a_day_has_its_morning() -> None:
    trace = synthetic(200, 1, load=1, gpus=60, rhythm=1)
    assert 3600 < trace.arrivals[-1].submitted_s < 43_200
    assert median(arrival.submitted_s for arrival in trace.arrivals) > 0.6 * trace.arrivals[-1].submitted_s, "it picks up"


def test_what_is_not_asked_for_is_not_in_the_name() -> None:
    assert "tenants" not in synthetic(5).name and "rhythm" not in synthetic(5).name
    full = synthetic(5, tenants=2, rhythm=0.5)
    assert named(full.name).arrivals == full.arrivals


def test_names_count_from_one() -> None:
    assert [arrival.spec.name for arrival in synthetic(3).arrivals] == ["job-1", "job-2", "job-3"]


def test_a_single_job_arrives_at_once() -> None:
    (arrival,) = synthetic(1).arrivals
    assert arrival.submitted_s == 0.0


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"jobs": 0}, "jobs"),
        ({"jobs": 10**7}, "jobs"),
        ({"seed": -1}, "seed"),
        ({"load": 0.0}, "load"),
        ({"load": float("nan")}, "load"),
        ({"gpus": 0}, "gpus"),
        ({"largest": 0}, "largest"),
        ({"median_seconds": 0.0}, "median_seconds"),
        ({"longest_seconds": float("inf")}, "longest_seconds"),
        ({"tenants": -1}, "tenants"),
        ({"rhythm": -0.1}, "rhythm"),
        ({"rhythm": 1.1}, "rhythm"),
        ({"rhythm": float("nan")}, "rhythm"),
    ],
)
def test_settings_out_of_range(settings: dict[str, float], field: str) -> None:
    with pytest.raises(TraceError, match="must be a") as caught:
        synthetic(**settings)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert caught.value.hint


def test_named_synthetic() -> None:
    trace = named("synthetic:jobs=50,seed=1,load=0.8")
    assert trace.arrivals == synthetic(50, 1, load=0.8).arrivals
    assert (trace.name, trace.format) == ("synthetic:jobs=50,seed=1,load=0.8", "synthetic")
    assert named("synthetic").arrivals == synthetic().arrivals
    assert named(synthetic(5, 2).name).arrivals == synthetic(5, 2).arrivals, "the name of a trace makes it again"


def test_the_demo_is_fixed() -> None:
    demo = named("demo")
    assert demo.name == "demo"
    assert demo.arrivals == synthetic(200, 7, load=0.65, gpus=24, longest_seconds=21600.0, tenants=4, models=12).arrivals
    plain = synthetic(200, 7, load=0.65, gpus=24, longest_seconds=21600.0)
    assert offered_load(plain, 24) == pytest.approx(0.65, rel=1e-12)
    assert [(arrival.spec.gpus, arrival.spec.steps) for arrival in plain.arrivals[:2]] == [(4, 90.0), (1, 963.0)]


def test_models_keep_the_run_time_on_the_reference_gpu() -> None:
    plain, trained = synthetic(300, 3), synthetic(300, 3, models=12)
    catalogue = Catalogue()
    assert {arrival.spec.profile for arrival in trained.arrivals} == set(MODELS)
    for before, after in zip(plain.arrivals, trained.arrivals, strict=True):
        rate, _ = catalogue.rate(after.spec.profile, "V100", after.spec.gpus) or (0.0, 0.0)
        assert after.submitted_s == before.submitted_s and after.spec.gpus == before.spec.gpus
        assert after.spec.steps >= 1 and after.spec.steps / rate == pytest.approx(before.spec.steps, abs=1 / rate)


def test_every_model_runs_on_every_type_at_every_size() -> None:
    catalogue = Catalogue()
    for model in MODELS:
        for accelerator in (name for name, card in ACCELERATORS.items() if card.memory_gib >= 12):
            assert all((catalogue.rate(model, accelerator, gpus) or (0, 0))[0] > 0 for gpus in (1, 2, 4, 8, 16)), model


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_names_have_jobs(name: str) -> None:
    assert len(named(name)) > 0


@pytest.mark.parametrize(
    ("text", "field", "value", "problem"),
    [
        ("dmeo", "trace", "dmeo", "Closest: demo."),
        ("nothing", "trace", "nothing", "or a path."),
        ("demo:jobs=5", "trace", "demo:jobs=5", "Closest: demo."),
        ("synthetic:", "option", "", "KEY=VALUE"),
        ("synthetic:jobs", "option", "jobs", "KEY=VALUE"),
        ("synthetic:=5", "option", "=5", "KEY=VALUE"),
        ("synthetic:jobs=5,", "option", "", "KEY=VALUE"),
        ("synthetic:job=5", "option", "job", "Closest: jobs."),
        ("synthetic:jobs=5,jobs=6", "jobs", "jobs=6", "set twice"),
        ("synthetic:jobs=many", "jobs", "many", "whole number"),
        ("synthetic:jobs=1.5", "jobs", "1.5", "whole number"),
        ("synthetic:jobs=-5", "jobs", "-5", "whole number"),
        ("synthetic:jobs=0", "jobs", 0, "from 1 to 1,000,000"),
        ("synthetic:jobs=", "jobs", "", "whole number"),
        ("synthetic:load=nan", "load", "nan", "number from"),
        ("synthetic:tenants=2.5", "tenants", "2.5", "whole number"),
        ("synthetic:rhythm=2", "rhythm", 2, "number from 0 to 1"),
        ("synthetic:rythm=1", "option", "rythm", "Closest: rhythm."),
        ("synthetic:load=1e999", "load", float("inf"), "number from"),
        ("synthetic:load=.", "load", ".", "number from"),
        ("synthetic:seed=99999999999999999999", "seed", "99999999999999999999", "whole number"),
    ],
)
def test_names_that_mean_nothing(text: str, field: str, value: object, problem: str) -> None:
    for function in (named, open_trace):
        with pytest.raises(TraceError) as caught:
            function(text)
        assert problem in caught.value.message
        assert (caught.value.field, caught.value.value) == (field, value)
        assert caught.value.hint


def test_open_takes_a_path_or_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(open_trace("demo")) == 200
    (tmp_path / "demo").mkdir()
    assert len(open_trace("demo")) == 200, "a folder cannot be a trace"
    (tmp_path / "demo").rmdir()
    (tmp_path / "demo").write_text("submit_time,gpus,duration\n0,1,5\n0,2,5\n")
    assert len(open_trace("demo")) == 2
    assert len(open_trace(tmp_path / "demo", format="rota", where=[("gpus", "2")])) == 1


@pytest.mark.parametrize("path", ["nowhere.csv", "./nowhere", "folder/nowhere", Path("nowhere")])
def test_what_looks_like_a_path_is_missing_as_a_file(path: Path | str) -> None:
    with pytest.raises(TraceError, match="no such file"):
        open_trace(path)


def test_a_folder_that_is_no_built_in_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    with pytest.raises(TraceError, match="is a folder"):
        open_trace("jobs")


def test_a_generated_trace_has_no_format_and_no_columns() -> None:
    with pytest.raises(TraceError, match="generated, not read") as caught:
        open_trace("demo", format="philly")
    assert caught.value.hint
    with pytest.raises(TraceError, match="no columns to filter by") as caught:
        open_trace("demo", where=[("gpus", "1")])
    assert caught.value.hint
    with pytest.raises(UnknownNameError):
        open_trace("demo", format="phily")


@examples(200)
@given(st.text() | st.from_regex(r"synthetic:[a-z]{0,8}=?[0-9.e-]{0,5}(,jobs=[0-9]{0,2})?", fullmatch=True))
def test_any_text_opens_or_is_an_input_error(text: str) -> None:
    assume(text != "-")  # standard input
    try:
        open_trace(text)
    except InputError as error:
        assert error.hint
