"""PAL's measurements of GPUs, as published, and the scores and bins that its code makes of them."""

import csv

import numpy as np
import pytest

from rota.beliefs.variability import Variability
from rota.model.cluster import Cluster
from rota.profiles.variability_files import read_variability
from tests.shared import SHARED

DATA = SHARED / "data" / "pal_variability"
SCORES = SHARED / "expected" / "pal" / "pm_scores_64gpu_seed42.csv"
CLUSTER = Cluster.parse("16x(4xV100)")

pytestmark = pytest.mark.skipif(
    not (DATA.is_dir() and SCORES.is_file()), reason="the reference data folder is not beside the checkout"
)


@pytest.fixture(scope="module")
def sampled() -> Variability:
    return read_variability(DATA, CLUSTER, 42)


def expected(prefix: str) -> np.ndarray:
    with SCORES.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [int(row["gpu_id"]) for row in rows] == list(range(64))
    return np.array([[float(row[f"{prefix}_class{name}"]) for row in rows] for name in "ABCD"])


def test_the_scores_of_seed_42(sampled: Variability) -> None:
    assert sampled.classes == ("A", "B", "C", "D") and not sampled.uncertainty.any()
    assert np.array_equal(sampled.scores, expected("pm"))
    assert sampled.outliers(1.2) == [(35, "A", pytest.approx(2.83, abs=0.01))]


def test_its_bins(sampled: Variability) -> None:
    bins = sampled.bins()
    assert bins == pytest.approx(expected("bin"), rel=1e-12)
    counted = [dict(zip(*(each.tolist() for each in np.unique(row.round(3), return_counts=True)), strict=True)) for row in bins]
    assert counted[0] == {0.913: 51, 1.0: 12, 2.595: 1}
    assert [set(row) for row in counted[1:]] == [{0.985, 1.015}, {0.988, 1.012}, {0.985, 1.015}]


def test_the_table_says_the_same(sampled: Variability) -> None:
    table = read_variability(SCORES, CLUSTER)
    assert table.classes == sampled.classes and np.array_equal(table.scores, sampled.scores)
    assert table.class_of == sampled.class_of
    assert [table.classes[table.row(each)] for each in ("pal/resnet50", "GPT2", "pal/vgg19", "PointNet", "unheard-of")] == list(
        "ABCDA"
    )


def test_no_gpu_is_slow_by_its_median(sampled: Variability) -> None:
    every = read_variability(DATA, None, 0, sampled=False)
    assert every.gpus == 336 and every.scores[0].max() == pytest.approx(1.12, abs=0.01)
    assert (every.uncertainty > 0).all() and np.median(every.uncertainty[0]) < 0.03
    assert np.array_equal(every.scores[1], every.scores[2]), "two classes on one file have the same GPUs"
    for seed in range(8):
        medians = read_variability(DATA, CLUSTER, seed, sampled=False)
        assert medians.scores.max() < 1.15 and not medians.outliers(1.15)
    drawn = [read_variability(DATA, CLUSTER, seed).scores[0].max() > 2 for seed in range(8)]
    assert drawn == [False, True, True, False, True, True, False, True], "a row of one bad run, or none"


def test_lonestar_has_slow_gpus() -> None:
    found = read_variability(DATA / "ls6" / "resnet-ls6-agg.csv", sampled=False)
    assert found.gpus == 219 and len(found.outliers(2.0)) == 6
    assert not found.uncertainty.any(), "one run each"


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*-agg.csv")), ids=lambda path: path.stem)
def test_every_file_can_be_read(path: object) -> None:
    for way in (True, False):
        found = read_variability(str(path), CLUSTER, sampled=way)
        assert found.scores.shape == (1, 64) and found.scores.min() > 0.5


def test_the_testbed() -> None:
    found = read_variability(DATA / "32gpu-variability.csv")
    assert found.scores.shape == (4, 32) and found.scores.max() < 1.2
