"""Scores of GPUs: names, bins, and what is learned from step times."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.variability import HALF_LIFE_S, Levels, Variability, plain_name
from rota.errors import OptionError
from tests.examples import examples

HOUR = 3600.0


def scored(scores: Sequence[float], spread: float = 0.0, **more: object) -> Variability:
    return Variability(("A",), np.array([scores]), np.full((1, len(scores)), spread), **more)  # type: ignore[arg-type]


def repeated(known: Variability, gpus: Sequence[int], slowdown: float, times: int, start_s: float = 0.0) -> Variability:
    for each in range(times):
        known = known.learned("A", gpus, slowdown, start_s + each * HOUR)
    return known


@pytest.mark.parametrize(
    ("profile", "plain"),
    [
        ("resnet50", "resnet50"),
        ("ResNet-50 (batch size 64)", "resnet50"),
        ("pal/resnet50", "resnet50"),
        ("ResNet50/bs32", "resnet50"),
        ("resnet-50/global256", "resnet50"),
        ("Point Net", "pointnet"),
        ("resnet50-amp", "resnet50amp"),
        ("", ""),
    ],
)
def test_plain_names(profile: str, plain: str) -> None:
    assert plain_name(profile) == plain


def test_rows_of_profiles() -> None:
    known = Variability(("A", "B", "C"), np.ones((3, 2)), np.zeros((3, 2)), {"resnet50": "C", "GPT-2": "B", "gpt2/bs8": "A"})
    assert [known.row(each) for each in ("resnet50", "ResNet-50 (batch size 16)", "gpt2", "GPT-2", "gpt2/bs8", "vgg", "")] == [
        *(2, 2, 1, 1, 0, 0, 0)
    ]


def test_a_gang_is_as_slow_as_its_slowest() -> None:
    known = scored([0.9, 1.0, 2.5])
    assert known.slowdown("x", [0, 1]) == 1.0 and known.slowdown("x", np.array([2, 0])) == 2.5 and known.slowdown("x", []) == 1.0
    assert Variability.alike(4, ("A", "B")).slowdown("x", range(4)) == 1.0
    assert known.gpus == 3


def test_outliers() -> None:
    known = Variability(("A", "B"), np.array([[1.0, 2.0, 1.2], [3.0, 1.0, 1.0]]), np.zeros((2, 3)))
    assert known.outliers(1.5) == [(0, "B", 3.0), (1, "A", 2.0)]
    assert known.outliers(3.0) == []


def test_bins_as_pal_has_them() -> None:
    scores = [1.0] * 10 + [1.1] * 9 + [3.0]
    (bins,) = scored(scores).bins()
    assert bins.tolist() == pytest.approx([1 / 1.1] * 10 + [1.0] * 9 + [3 / 1.1])
    (alike,) = scored([1.3] * 4).bins()
    assert alike.tolist() == [1.0] * 4
    assert scored([1.3]).bins("silhouette").tolist() == [[1.0]]
    with pytest.raises(OptionError):
        scored([1.0]).bins("three")  # type: ignore[arg-type]


def test_bins_by_silhouette() -> None:
    scores = [0.8, 0.81, 1.0, 1.01, 1.2, 1.21, 1.4, 1.41]
    assert len(set(scored(scores).bins("pal")[0])) == 2
    assert len(set(scored(scores).bins("silhouette")[0])) == 4


def test_values_cannot_be_written_to() -> None:
    known = scored([1.0, 2.0])
    for array in (known.scores, known.uncertainty, known.bins()):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 5.0


def test_one_odd_run_makes_no_slow_gpu() -> None:
    known = scored([1.0, 1.0])
    once = known.learned("A", [0], 2.8, HOUR)
    assert once.scores[0, 0] == 1.0 and known.recent == {}
    assert repeated(known, [0], 2.8, 2).scores[0, 0] == 1.0
    assert repeated(known, [0], 2.8, 3).scores.tolist() == [[2.8, 1.0]]
    long_after = repeated(known, [0], 2.8, 9).learned("A", [0], 1.0, 100 * HALF_LIFE_S)
    assert long_after.scores[0, 0] == 2.8, "nor does it make it fast again"


def test_the_old_loses_weight() -> None:
    slow = repeated(scored([1.0]), [0], 2.0, 8)
    soon = repeated(slow, [0], 1.0, 3, start_s=10 * HOUR)
    later = repeated(slow, [0], 1.0, 3, start_s=8 * HALF_LIFE_S)
    assert soon.scores[0, 0] == 2.0 and later.scores[0, 0] == 1.0


def test_the_spread_shrinks() -> None:
    known, seen = scored([1.0]), []
    for each in range(9):
        known = known.learned("A", [0], 1.02, each * HOUR)
        seen.append(known.uncertainty[0, 0])
    assert all(a > b for a, b in itertools.pairwise(seen)) and 0 < seen[-1] < 0.02
    sure = scored([1.0], spread=0.01).learned("A", [0], 1.0, 0.0)
    assert 0 < sure.uncertainty[0, 0] < 0.01
    wrong = repeated(scored([1.0], spread=0.001), [0], 2.0, 3)
    assert wrong.uncertainty[0, 0] > 0.02, "what was believed at first does not make another score certain"


def test_a_fast_gang_clears_its_members() -> None:
    known = repeated(scored([1.0, 2.0, 3.0, 1.4]), [0, 1, 2], 1.5, 4)
    assert known.scores.tolist() == [[1.0, 1.5, 1.5, 1.4]]


def test_a_slow_gang_blames_whom_it_must() -> None:
    known = repeated(scored([1.0, 2.0, 1.0], spread=0.05), [0, 1, 2], 2.2, 4)
    assert known.scores.tolist() == [[1.0, 2.2, 1.0]], "the one that was slow already"
    unsure = Variability(("A",), np.ones((1, 3)), np.array([[0.01, 0.01, 0.2]]))
    assert repeated(unsure, [0, 1, 2], 1.5, 4).scores.tolist() == [[1.0, 1.0, 1.5]], "the one nobody is sure about"


def test_a_gang_that_stays_together_cannot_tell() -> None:
    known = repeated(scored([1.0] * 5), [0, 1], 2.0, 50)
    assert known.scores.tolist() == [[1.0] * 5]
    assert (known.uncertainty[0, :2] > 0.5).all()
    known = repeated(known, [1, 2, 3], 2.0, 3, start_s=50 * HOUR)
    assert known.scores.tolist() == [[1.0, 2.0, 1.0, 1.0, 1.0]], "another gang does"


def test_the_slow_gpu_is_found_among_gangs() -> None:
    draw = np.random.Generator(np.random.Philox(key=5))
    true = 1 + 0.03 * draw.normal(size=64)
    true[17] = 2.8
    known = scored([1.0] * 64)
    for each in range(400):
        gang = draw.choice(64, int(draw.choice([1, 2, 4, 8])), replace=False)
        noise = (1 + 0.01 * draw.normal()) * (2.0 if draw.random() < 0.01 else 1.0)
        known = known.learned("A", gang, float(true[gang].max() * noise), each * 600.0)
    assert [gpu for gpu, _, _ in known.outliers(1.3)] == [17]
    assert np.abs(known.scores[0] - true).mean() < 0.03


def test_by_class_or_profile() -> None:
    known = Variability(("A", "B"), np.ones((2, 1)), np.zeros((2, 1)), {"bert": "B"})
    for name, row in (("B", 1), ("BERT (batch size 8)", 1), ("A", 0), ("other", 0)):
        assert {key[0] for key in known.learned(name, [0], 1.5, 0.0).recent} == {row}
    assert known.learned("A", [], 1.5, 0.0) is known


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"classes": ()}, "classes"),
        ({"classes": ("A", "A")}, "classes"),
        ({"scores": np.ones(3)}, "scores"),
        ({"scores": np.array([[0.0]])}, "scores"),
        ({"scores": np.array([[math.nan]])}, "scores"),
        ({"uncertainty": np.array([[-1.0]])}, "uncertainty"),
        ({"uncertainty": np.ones((1, 2))}, "uncertainty"),
        ({"class_of": {"x": "B"}}, "class_of"),
    ],
)
def test_what_is_no_variability(change: dict[str, object], named: str) -> None:
    with pytest.raises(OptionError) as caught:
        Variability(**{"classes": ("A",), "scores": np.ones((1, 1)), "uncertainty": np.zeros((1, 1)), **change})  # type: ignore[arg-type]
    assert caught.value.field == named


@pytest.mark.parametrize("slowdown", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_measurement(slowdown: float) -> None:
    with pytest.raises(OptionError):
        scored([1.0]).learned("A", [0], slowdown, 0.0)
    with pytest.raises(OptionError):
        scored([1.0]).learned("A", [1], 1.0, 0.0)


scores = st.floats(0.1, 20)
GPUS = 6
measurements = st.lists(
    st.tuples(st.lists(st.integers(0, GPUS - 1), min_size=1, max_size=GPUS, unique=True), scores, st.floats(0, 1e8)), max_size=25
)


@examples(150)
@given(st.lists(scores, min_size=GPUS, max_size=GPUS), st.sampled_from([0.0, 0.02, 0.3]), measurements)
def test_learning_always(first: list[float], spread: float, told: list[tuple[list[int], float, float]]) -> None:
    known = again = scored(first, spread)
    for gpus, slowdown, now_s in told:
        before, known = known, known.learned("A", gpus, slowdown, now_s)
        again = again.learned("A", gpus, slowdown, now_s)
        assert (known.scores > 0).all() and np.isfinite(known.uncertainty).all() and (known.uncertainty >= 0).all()
        if slowdown >= before.slowdown("A", gpus):
            assert (known.scores >= before.scores).all(), "slower than believed: nobody looks faster"
        if slowdown <= before.scores[0, gpus].min():
            assert (known.scores <= before.scores).all(), "faster than believed: nobody looks slower"
        low, high = np.minimum(before.scores, slowdown), np.maximum(before.scores, slowdown)
        assert ((low <= known.scores) & (known.scores <= high)).all(), "towards it, never away"
        others = [gpu for gpu in range(GPUS) if gpu not in gpus]
        assert np.array_equal(known.scores[:, others], before.scores[:, others])
        assert all(len(kept) <= 10 for kept in known.recent.values())
    assert np.array_equal(known.scores, again.scores) and known.recent == again.recent


@examples(80)
@given(st.lists(scores, min_size=1, max_size=40), st.sampled_from(["pal", "silhouette"]))
@pytest.mark.slow
def test_bins_keep_the_order(values: list[float], levels: Levels) -> None:
    (bins,) = scored(values).bins(levels)
    order = np.argsort(values, kind="stable")
    assert (np.diff(bins[order]) >= 0).all() and (bins > 0).all()
    assert np.array_equal(bins, scored(values).bins(levels)[0])
