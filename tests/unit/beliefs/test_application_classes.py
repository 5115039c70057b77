"""Application classes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.application_classes import classify
from rota.errors import OptionError
from tests.examples import examples

THREE = {
    "gemm": (92.0, 20.0),
    "resnet50": (85.0, 30.0),
    "vgg19": (88.0, 25.0),
    "bert": (50.0, 50.0),
    "gpt2": (53.0, 47.0),
    "dcgan": (48.0, 52.0),
    "pagerank": (5.0, 90.0),
    "spmv": (8.0, 88.0),
    "stream": (2.0, 93.0),
}


def test_the_most_compute_bound_is_a() -> None:
    found = classify(THREE)
    assert found.classes == ("A", "B", "C") and found.quality > 0.8
    assert found.names == {
        **dict.fromkeys(("gemm", "resnet50", "vgg19"), "A"),
        **dict.fromkeys(("bert", "gpt2", "dcgan"), "B"),
        **dict.fromkeys(("pagerank", "spmv", "stream"), "C"),
    }
    assert found.centres[0].tolist() == pytest.approx([265 / 3, 25])


def test_a_new_profile_joins_the_nearest() -> None:
    found = classify(THREE)
    assert [found.nearest(each) for each in ((100.0, 0.0), (45.0, 60.0), (0.0, 100.0))] == ["A", "B", "C"]
    assert all(found.nearest(features) == found.names[profile] for profile, features in THREE.items())
    with pytest.raises(OptionError):
        found.nearest((math.nan, 1.0))


def test_the_order_of_the_list_does_not_matter() -> None:
    found, turned = classify(THREE), classify(dict(reversed(THREE.items())))
    assert found.names == turned.names and np.array_equal(found.centres, turned.centres)


def test_few_profiles() -> None:
    assert classify({"one": (1.0, 2.0)}).names == {"one": "A"}
    assert set(classify({"a": (1.0, 2.0), "b": (1.0, 2.0), "c": (1.0, 2.0)}).names.values()) == {"A"}
    assert set(classify({"a": (90.0, 2.0), "b": (1.0, 2.0)}).names.values()) == {"A"}, "two are too few to compare"
    for given_, most in (({}, 3), (THREE, 0), (THREE, 27)):
        with pytest.raises(OptionError):
            classify(given_, most)


percent = st.floats(0, 100)


@pytest.mark.slow
@examples(40)
@given(st.dictionaries(st.text(min_size=1, max_size=4), st.tuples(percent, percent), min_size=1, max_size=15))
def test_classes_always(features: dict[str, tuple[float, float]]) -> None:
    found = classify(features)
    assert set(found.names) == set(features) and set(found.names.values()) == set(found.classes)
    compute = found.centres[:, 0]
    assert (np.diff(compute) <= 1e-9).all(), "the busiest compute pipes first"
