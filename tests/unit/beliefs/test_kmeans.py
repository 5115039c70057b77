"""K-Means and the silhouette against brute force, and their invariants."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.kmeans import best_count, kmeans, silhouette
from rota.errors import OptionError
from rota.model.units import Floats
from tests.examples import examples


def draw(key: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=key))


def inertia(points: Floats, labels: tuple[int, ...]) -> float:
    total = 0.0
    for label in set(labels):
        members = points[[each == label for each in labels]]
        total += float(((members - members.mean(axis=0)) ** 2).sum())
    return total


def least_inertia(points: Floats, k: int) -> float:
    return min(inertia(points, labels) for labels in itertools.product(range(k), repeat=len(points)))


def plain_silhouette(points: Floats, labels: list[int]) -> float:
    """As it is defined, point by point."""
    values = []
    for i, mine in enumerate(labels):
        means = {}
        for label in set(labels):
            others = [math.dist(points[i], points[j]) for j in range(len(labels)) if labels[j] == label and j != i]
            means[label] = sum(others) / len(others) if others else None
        a = means.pop(mine)
        b = min(value for value in means.values() if value is not None)
        values.append(0.0 if a is None or max(a, b) == 0 else (b - a) / max(a, b))
    return sum(values) / len(values)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_as_good_as_every_labelling(dimensions: int, k: int) -> None:
    source = draw(7)
    for _ in range(6):
        points = source.normal(size=(8, dimensions))
        found = kmeans(points, k, draw(), starts=100)
        assert found.inertia == pytest.approx(least_inertia(points, k))
        assert len(found.centres) == k and set(found.labels.tolist()) == set(range(k))


def test_well_separated() -> None:
    found = kmeans([1.0, 1.1, 5.0, 5.1, 9.0, 9.1], 3, draw())
    assert found.centres[:, 0].tolist() == pytest.approx([1.05, 5.05, 9.05])
    assert found.labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_few_distinct_points_make_fewer_clusters() -> None:
    found = kmeans([2.0, 1.0, 2.0, 2.0], 5, draw())
    assert found.centres[:, 0].tolist() == [1.0, 2.0] and found.labels.tolist() == [1, 0, 1, 1] and found.inertia == 0
    assert kmeans([[3.0, 4.0]] * 5, 2, draw()).centres.tolist() == [[3.0, 4.0]]
    close = kmeans([1.0, 1.0 + 1e-15, 1.0 + 1e-14], 3, draw())
    assert len(close.centres) == 3


@pytest.mark.parametrize(
    ("points", "k", "starts", "named"),
    [([1.0], 0, 1, "k"), ([1.0], 1, 0, "starts"), ([], 1, 1, "points"), ([math.nan], 1, 1, "points")],
)
def test_what_is_refused(points: list[float], k: int, starts: int, named: str) -> None:
    with pytest.raises(OptionError) as caught:
        kmeans(points, k, draw(), starts)
    assert caught.value.field == named
    with pytest.raises(OptionError):
        silhouette([1.0, 2.0], [0, 0])


@pytest.mark.parametrize("dimensions", [1, 2])
def test_the_silhouette_is_the_one_defined(dimensions: int) -> None:
    source = draw(3)
    for _ in range(10):
        points, labels = source.normal(size=(12, dimensions)), source.integers(0, 3, 12)
        labels[:3] = (0, 1, 2)
        assert silhouette(points, labels) == pytest.approx(plain_silhouette(points, labels.tolist()), abs=1e-12)
    assert silhouette([0.0, 0.0, 0.0], [0, 0, 1]) == 0.0


def test_the_number_of_clusters() -> None:
    source = draw(5)
    points = np.concatenate([source.normal(size=(20, 2)) * 0.1 + middle for middle in ([0, 0], [5, 0], [0, 5], [5, 5])])
    count, value = best_count(points, 10, draw())
    assert count == 4 and value > 0.9
    assert best_count([1.0, 2.0], 10, draw()) == (1, 0.0)
    assert best_count([1.0] * 9, 10, draw()) == (1, 0.0)
    assert best_count(points, 1, draw()) == (1, 0.0)


numbers = st.floats(0.01, 100, allow_nan=False)
clouds = st.one_of(
    st.lists(st.tuples(numbers), min_size=1, max_size=30), st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30)
)


@examples(80)
@given(clouds, st.integers(1, 6), st.integers(0, 99))
def test_labels_are_nearest_centres(points: list[tuple[float, ...]], k: int, key: int) -> None:
    rows = np.array(points)
    found = kmeans(rows, k, draw(key), 3)
    squares = ((rows[:, None, :] - found.centres[None]) ** 2).sum(axis=2)
    chosen = squares[np.arange(len(rows)), found.labels]
    assert (chosen <= squares.min(axis=1) + 1e-9).all()
    assert len(found.centres) <= min(k, len(set(points)))
    assert found.inertia == pytest.approx(chosen.sum(), abs=1e-6)
    again = kmeans(rows, k, draw(key), 3)
    assert np.array_equal(again.centres, found.centres) and np.array_equal(again.labels, found.labels)
