"""The published tables of rates, as they come, and how far the catalogue is from them."""

import csv
import json
import math
import statistics
from pathlib import Path

import pytest

from rota.profiles.catalogue import SPREAD, Catalogue
from rota.profiles.error import EVERY, ModelErrorReport, compare
from rota.profiles.gavel_rates import read_rates
from tests.shared import SHARED

DATA = SHARED / "data"
GAVEL = DATA / "gavel"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the reference data folder is not beside the checkout")

H200 = {
    "resnet50/bs16": 63.96,
    "resnet50/bs64": 30.48,
    "resnet50/bs256": 8.59,
    "resnet50-amp/bs16": 48.62,
    "resnet50-amp/bs64": 33.99,
    "resnet50-amp/bs256": 9.49,
    "bert/bs12": 30.74,
    "bert-cola/bs32": 40.55,
    "bert-cola/bs128": 13.60,
    "gpt2-imdb/bs32": 48.19,
    "gpt2-imdb/bs128": 26.89,
    "vit-large/bs8": 22.44,
    "vit-large/bs32": 18.27,
}
"""Steps per second that we measured on one H200: PyTorch 2.11, the layers of each model, made-up input, four seconds each."""


@needs_data
def test_gavels_table_is_as_its_paper_has_it() -> None:
    raw = json.loads((GAVEL / "simulation_throughputs.json").read_text())
    rates = read_rates(GAVEL / "simulation_throughputs.json")
    assert {kind: len(jobs) for kind, jobs in raw.items()} == {
        "k80": 83,
        "p100": 83,
        "v100": 83,
        "k80_unconsolidated": 77,
        "p100_unconsolidated": 83,
        "v100_unconsolidated": 83,
    }
    assert len(rates.table) == 3 * 83
    assert len(rates.across_nodes) == 2 * (83 - 26) + (77 - 26), "all but the 26 of one GPU"
    assert len(rates.pairs) == 3 * (26**2 + 3 * 19**2), "equal GPU counts only, both orders"
    never = {key for key, rate in rates.table.items() if rate == 0}
    assert never == {("ResNet-50 (batch size 128)", "K80", gpus) for gpus in (2, 4, 8)}
    # Pascal before Volta, and a host that is too slow for its V100: the table is odd here and there.
    assert rates.rate("ResNet-18 (batch size 16)", "P100", 1)[0] > rates.rate("ResNet-18 (batch size 16)", "V100", 1)[0]
    assert (
        rates.rate("Recommendation (batch size 512)", "K80", 1)[0] > rates.rate("Recommendation (batch size 512)", "V100", 1)[0]
    )


@needs_data
def test_pairs_agree_with_the_normalised_list() -> None:
    rates = read_rates(GAVEL / "simulation_throughputs.json")
    with (GAVEL / "packing_normalized.csv").open() as lines:
        listed = list(csv.DictReader(lines))
    assert len(listed) == 1053
    for row in listed:
        first, second, kind, gpus = row["job_a"], row["job_b"], row["gpu"].upper(), int(row["scale"])
        shared = rates.colocated_rates(first, second, kind, gpus)
        turned = rates.colocated_rates(second, first, kind, gpus)
        assert shared is not None and turned == (shared[1], shared[0])
        alone = [rates.rate(profile, kind, gpus)[0] for profile in (first, second)]
        assert shared[0] / alone[0] == pytest.approx(float(row["norm_thr_a"]), abs=6e-4)
        assert shared[1] / alone[1] == pytest.approx(float(row["norm_thr_b"]), abs=6e-4)


@needs_data
@pytest.mark.parametrize("path", [GAVEL / "physical_cluster_throughputs.json", DATA / "shockwave" / "tacc_throughputs.json"])
def test_its_relatives_can_be_read(path: Path) -> None:
    rates = read_rates(path)
    assert (len(rates.table), len(rates.across_nodes)) == (3 * 83, 165)


@pytest.fixture(scope="module")
def report() -> ModelErrorReport:
    return compare([GAVEL / "simulation_throughputs.json", DATA / "elasticflow", DATA / "pollux_profiles"])


@needs_data
def test_the_catalogue_is_as_near_as_the_docs_say(report: ModelErrorReport) -> None:
    assert report.unknown == 0, "every published model is in it"
    totals = {line.source: line for line in report.lines if line.model == EVERY}
    assert set(totals) == {"simulation", "simulation apart", "elasticflow", "pollux", EVERY}
    assert totals[EVERY].cells > 6000 and totals[EVERY].refused <= 1
    for source, typical, p90 in (
        ("simulation", 1.35, 2.1),
        ("simulation apart", 1.3, 1.7),
        ("elasticflow", 1.3, 1.7),
        ("pollux", 1.25, 1.5),
        (EVERY, 1.25, 1.5),
    ):
        line = totals[source]
        assert line.typical_factor is not None and line.typical_factor <= typical, source
        assert line.p90_factor is not None and line.p90_factor <= p90, source


@needs_data
def test_no_model_is_far_off_and_the_spread_says_how_far(report: ModelErrorReport) -> None:
    factors = [line.typical_factor for line in report.lines if line.model != EVERY and line.typical_factor is not None]
    assert len(factors) == 52
    assert max(factors) <= 2.1
    assert statistics.median(factors) - 1 == pytest.approx(SPREAD, abs=0.05)


@needs_data
def test_a_table_that_nothing_was_fitted_to() -> None:
    lines = compare([DATA / "shockwave" / "tacc_throughputs.json"], {"V100": "RTX5000"}).lines
    found = {line.model: line.typical_factor for line in lines if (line.source, line.accelerator) == ("tacc", "RTX5000")}
    assert found["resnet18"] <= 1.3 and found["lm"] <= 1.35 and found["resnet50"] <= 1.5 and found["transformer"] <= 1.9
    assert found["recommendation"] > 3, "bound by the host, and these are better hosts"


def test_an_h200() -> None:
    off = []
    for profile, measured in H200.items():
        found = Catalogue().rate(profile, "H200", 1)
        assert found is not None
        off.append(abs(math.log2(measured / found[0])))
    assert 2 ** statistics.median(off) <= 1.35 and 2 ** max(off) <= 1.7
