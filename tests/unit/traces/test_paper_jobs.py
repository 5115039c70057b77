"""Jobs in the shape of papers' workloads: what is fixed, what is drawn, and how they are spelled."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import TraceError
from rota.profiles.catalogue import Catalogue
from rota.traces.shaping import dealt
from rota.traces.sia_jobs import sia_jobs
from rota.traces.synthetic import named, open_trace, reseeded
from rota.traces.tiresias_jobs import MODELS, NARROW, SIZES, SKEWED, tiresias_jobs
from rota.traces.trace import Trace

SEEDS = st.integers(0, 10**18)


def run_seconds(trace: Trace) -> np.ndarray:
    """Of every job on V100s in one node, by the catalogue."""
    catalogue = Catalogue()
    specs = [arrival.spec for arrival in trace.arrivals]
    return np.array([spec.steps / (catalogue.rate(spec.profile, "V100", spec.gpus) or (0.0, 0.0))[0] for spec in specs])


def gpus(trace: Trace) -> np.ndarray:
    return np.array([arrival.spec.gpus for arrival in trace.arrivals])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.integers(0, 500))
def test_dealing_gives_each_its_part(weights: list[float], count: int) -> None:
    places = dealt(weights, count)
    assert len(places) == count
    for place, weight in enumerate(weights):
        assert abs((places == place).sum() - count * weight / sum(weights)) < 1


@settings(max_examples=15, deadline=None)
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


@settings(max_examples=15, deadline=None)
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


@pytest.mark.parametrize("name", ["sia", "tiresias"])
def test_the_seed_decides_and_the_name_says_all(name: str) -> None:
    one, same, other = (open_trace(f"{name}:jobs=30,seed={seed}") for seed in (4, 4, 5))
    assert one.arrivals == same.arrivals != other.arrivals
    assert reseeded(f"{name}:jobs=30,seed=4", 1) == f"{name}:jobs=30,seed=5"
    whole = {"sia": sia_jobs, "tiresias": tiresias_jobs}[name](30, 4)
    assert named(whole.name).arrivals == whole.arrivals == one.arrivals
    assert len(named(name)) == {"sia": 160, "tiresias": 480}[name]
    assert len(named(f"{name}:jobs=1")) == 1


def test_settings_of_their_own() -> None:
    assert gpus(sia_jobs(160, 1, largest=8)).max() == 8
    assert sia_jobs(20, 1, hours=0).arrivals[-1].submitted_s == 0.0
    assert {arrival.submitted_s for arrival in tiresias_jobs(20, 1, seconds_between=0).arrivals} == {0.0}


@pytest.mark.parametrize(
    "text", ["sia:jobs=0", "sia:gpus=4", "sia:hours=-1", "tiresias:spread_penalty=0.5", "tiresias:jobs=many"]
)
def test_what_they_do_not_take(text: str) -> None:
    with pytest.raises(TraceError) as caught:
        named(text)
    assert caught.value.field and caught.value.hint and "like" in caught.value.hint
