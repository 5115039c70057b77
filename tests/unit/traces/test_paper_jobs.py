"""Jobs in the shape of papers' workloads: what is fixed, what is drawn, and their names."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import TraceError
from rota.model.job import JobSpec
from rota.profiles.catalogue import Catalogue
from rota.traces.gandiva_jobs import GIB, MEMBERS, ONE_GPU, STOPPED, STOPPED_STEPS, gandiva_jobs, sweep_of
from rota.traces.gandiva_jobs import SIZES as GANDIVA_SIZES
from rota.traces.shaping import dealt
from rota.traces.sia_jobs import sia_jobs
from rota.traces.synthetic import named, open_trace, reseeded
from rota.traces.tiresias_jobs import MODELS, NARROW, SIZES, SKEWED, tiresias_jobs
from rota.traces.trace import Trace
from rota.traces.write_trace import write_trace
from tests.examples import examples

SEEDS = st.integers(0, 10**18)


def run_seconds(trace: Trace) -> np.ndarray:
    """Of every job on V100s in one node, by the catalogue."""
    catalogue = Catalogue()
    specs = [arrival.spec for arrival in trace.arrivals]
    return np.array([spec.steps / (catalogue.rate(spec.profile, "V100", spec.gpus) or (0.0, 0.0))[0] for spec in specs])


def gpus(trace: Trace) -> np.ndarray:
    return np.array([arrival.spec.gpus for arrival in trace.arrivals])


@examples(60)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.integers(0, 500))
def test_dealing_gives_each_its_part(weights: list[float], count: int) -> None:
    places = dealt(weights, count)
    assert len(places) == count
    for place, weight in enumerate(weights):
        assert abs((places == place).sum() - count * weight / sum(weights)) < 1


@examples(15)
@given(SEEDS)
def test_sia_looks_like_what_pal_was_evaluated_on(seed: int) -> None:
    trace = sia_jobs(seed=seed)
    sizes, seconds = gpus(trace), run_seconds(trace)
    assert len(trace) == 160 and 0 <= trace.arrivals[0].submitted_s <= trace.arrivals[-1].submitted_s <= 5 * 3600
    assert 0.35 <= (sizes == 1).mean() <= 0.47 and 0.05 <= ((sizes > 1) & (sizes <= 4)).mean() <= 0.09
    assert sizes.max() == 48 and {arrival.spec.profile for arrival in trace.arrivals} == {
        f"pal/{model}" for model in ("bert", "dcgan", "gpt2", "pointnet", "resnet50", "vgg19")
    }
    assert seconds.min() >= 15 and seconds.max() <= 300_001
    assert np.median(seconds) < 700, "most are short"
    work = sizes * seconds
    assert np.sort(work)[-20:].sum() > 0.75 * work.sum(), "a few are most of the work"


def test_the_work_is_like_that_of_the_published_workloads() -> None:
    offered = [float(gpus(trace) @ run_seconds(trace)) / 18_000 for trace in (sia_jobs(seed=seed) for seed in range(30))]
    assert 250 < np.median(offered) < 500, (
        "GPUs that would be busy for five hours; 292, 372 and 1,117 in the first three published"
    )


@examples(15)
@given(SEEDS)
def test_tiresias_looks_like_the_testbed(seed: int) -> None:
    trace = tiresias_jobs(seed=seed)
    sizes, seconds = gpus(trace), run_seconds(trace)
    assert Counter(sizes.tolist()) == SIZES
    assert seconds.min() >= 119.9 and seconds.max() <= 7200.1
    short, narrow = seconds < 800, sizes <= NARROW
    bins = [(short & narrow).mean(), (~short & narrow).mean(), (short & ~narrow).mean(), (~short & ~narrow).mean()]
    assert bins == pytest.approx([0.637, 0.125, 0.163, 0.075], abs=0.005)
    assert {arrival.spec.profile for arrival in trace.arrivals} <= set(MODELS)


@pytest.mark.slow
def test_means_are_the_published_ones() -> None:
    traces = [tiresias_jobs(seed=seed) for seed in range(40)]
    service = [float((gpus(trace) * run_seconds(trace)).mean()) for trace in traces]
    between = [trace.arrivals[-1].submitted_s / (len(trace) - 1) for trace in traces]
    assert np.mean(service) == pytest.approx(3200, rel=0.1)
    assert np.mean(between) == pytest.approx(30, rel=0.03)
    assert np.median([np.median(run_seconds(trace)) for trace in traces]) == pytest.approx(250, rel=0.15)


def test_where_spreading_costs_wide_jobs_cannot_but_pay() -> None:
    plain, paid = tiresias_jobs(200, 3), tiresias_jobs(200, 3, spread_penalty=2.0)
    for before, after in zip(plain.arrivals, paid.arrivals, strict=True):
        pays = before.spec.gpus > NARROW and before.spec.profile in SKEWED
        assert after.spec.steps == pytest.approx(before.spec.steps / (2 if pays else 1))
        assert after.submitted_s == before.submitted_s


@examples(15)
@given(SEEDS, st.floats(0.0, 1.0))
def test_gandiva_has_philly_like_jobs_and_sweeps(seed: int, sweeps: float) -> None:
    trace = gandiva_jobs(300, seed, sweeps=sweeps)
    specs = [arrival.spec for arrival in trace.arrivals]
    assert len(specs) == 300 and len({spec.name for spec in specs}) == 300
    assert {spec.gpus for spec in specs} <= set(GANDIVA_SIZES)
    assert all(spec.gpu_gib == GIB[spec.profile] and spec.user for spec in specs)
    assert all(spec.gpus == 1 for spec in specs if spec.profile.partition(" ")[0] in ONE_GPU)
    members: dict[str, list[int]] = {}
    for job, spec in enumerate(specs):
        if sweep_of(spec.name):
            members.setdefault(sweep_of(spec.name), []).append(job)
    assert bool(members) == (sweeps > 0) or 0 < sweeps < 0.2, "few sweeps may be none"
    assert sweeps < 1 or sum(map(len, members.values())) == 300
    for jobs in members.values():
        arrivals = [trace.arrivals[job] for job in jobs]
        assert len({(a.submitted_s, a.spec.profile, a.spec.user) for a in arrivals}) == 1, "one model, one user, at once"
        assert all(a.spec.gpus == 1 for a in arrivals)
        last = jobs[-1] == 299  # it may be cut off there
        assert (1 if last else MEMBERS[0]) <= len(jobs) <= MEMBERS[1]
        longest = max(a.spec.steps for a in arrivals)
        few = [a.spec.steps for a in arrivals if a.spec.steps < longest]
        assert len(few) <= int(STOPPED * len(jobs)) and all(STOPPED_STEPS[0] <= steps <= STOPPED_STEPS[1] for steps in few)


@pytest.mark.parametrize("load", [0.6, 1.5])
def test_the_load_of_gandivas_jobs_is_met_exactly(load: float) -> None:
    trace = gandiva_jobs(400, 3, load=load, gpus=100)
    catalogue = Catalogue()
    specs = [arrival.spec for arrival in trace.arrivals]
    wide = [spec.gpus > 4 for spec in specs]
    rates = [catalogue.rate(spec.profile, "V100", spec.gpus, int(far)) for spec, far in zip(specs, wide, strict=True)]
    work = sum(spec.gpus * spec.steps / (rate or (0.0, 0.0))[0] for spec, rate in zip(specs, rates, strict=True))
    assert work / (100 * trace.arrivals[-1].submitted_s) == pytest.approx(load)
    short = gandiva_jobs(400, 3, longest_seconds=60.0)
    assert run_seconds(short)[gpus(short) <= 4].max() <= 60.0001


@examples(15)
@given(SEEDS, st.sampled_from([150, 500]))
def test_with_feedback_searches_stop_the_losers_and_nothing_else_changes(seed: int, steps: int) -> None:
    """The same jobs come in the same order; those of a sweep all have as many steps, and the load counts what has to be run."""
    plain, found = gandiva_jobs(200, seed), gandiva_jobs(200, seed, feedback_steps=steps)
    assert not plain.searches and [a.spec.name for a in plain.arrivals] == [a.spec.name for a in found.arrivals]
    spec_of = {a.spec.name: a.spec for a in found.arrivals}
    before = {a.spec.name: a.spec for a in plain.arrivals}
    searched = {name for search in found.searches for name in search.jobs}
    assert searched == {name for name in spec_of if sweep_of(name)}
    assert all(spec_of[name] == before[name] for name in spec_of.keys() - searched)
    work = sum(s.gpus * s.steps / rate(s) for name, s in spec_of.items() if name not in searched)
    for search in found.searches:
        specs = [spec_of[name] for name in search.jobs]
        assert search.steps == steps and len({sweep_of(name) for name in search.jobs}) == 1
        assert len(specs) - search.keep == int(STOPPED * len(specs))
        (all_steps,) = {spec.steps for spec in specs}
        assert all_steps >= 2 * steps
        longest = max(before[name].steps for name in search.jobs)
        assert all(before[name].steps == longest for name in search.jobs[: search.keep]), "the best are those that went on"
        work += sum((all_steps if at < search.keep else steps) / rate(spec) for at, spec in enumerate(specs))
    end_s = found.arrivals[-1].submitted_s
    assert not end_s or work / (180 * end_s) == pytest.approx(1.0)


def rate(spec: JobSpec) -> float:
    known = Catalogue().rate(spec.profile, "V100", spec.width, int(spec.gpus > 4))
    assert known is not None
    return known[0]


def test_a_file_cannot_hold_searches(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="searches") as caught:
        write_trace(gandiva_jobs(60, 1, sweeps=1.0, feedback_steps=300), tmp_path / "jobs.csv")
    assert caught.value.hint == "leave feedback_steps out" and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["sia", "tiresias", "gandiva"])
def test_the_seed_decides_and_the_name_says_all(name: str) -> None:
    one, same, other = (open_trace(f"{name}:jobs=30,seed={seed}") for seed in (4, 4, 5))
    assert one.arrivals == same.arrivals != other.arrivals
    assert reseeded(f"{name}:jobs=30,seed=4", 1) == f"{name}:jobs=30,seed=5"
    whole = {"sia": sia_jobs, "tiresias": tiresias_jobs, "gandiva": gandiva_jobs}[name](30, 4)
    assert named(whole.name).arrivals == whole.arrivals == one.arrivals
    assert len(named(name)) == {"sia": 160, "tiresias": 480, "gandiva": 1000}[name]
    assert len(named(f"{name}:jobs=1")) == 1


def test_settings_of_their_own() -> None:
    assert gpus(sia_jobs(160, 1, largest=8)).max() == 8
    assert sia_jobs(20, 1, hours=0).arrivals[-1].submitted_s == 0.0
    assert {arrival.submitted_s for arrival in tiresias_jobs(20, 1, mean_gap_seconds=0).arrivals} == {0.0}


@pytest.mark.parametrize(
    "text", ["sia:jobs=0", "sia:gpus=4", "sia:hours=-1", "tiresias:spread_penalty=0.5", "tiresias:jobs=many", "gandiva:sweeps=2"]
)
def test_what_they_do_not_take(text: str) -> None:
    with pytest.raises(TraceError) as caught:
        named(text)
    assert caught.value.field and caught.value.hint and "like" in caught.value.hint
