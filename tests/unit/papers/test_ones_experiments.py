"""The experiments of ONES: what is run, and what is concluded from made-up figures."""

import math
from dataclasses import replace
from typing import Any

import pytest

from rota.papers import ones_experiments, ones_findings
from rota.papers.experiment import CellResult, PaperCell, conclude
from rota.papers.intervals import Interval
from rota.papers.ones_experiments import (
    COMPARED,
    MAIN,
    ON_POLLUX,
    ONES,
    OPTIMUS,
    PUBLISHED,
    QUICK,
    TIRESIAS,
    OnesScale,
    grid,
    priced,
)
from rota.papers.reproduce import PAPERS, reproduce

TINY = OnesScale(seeds=2, jobs=12, fewer=8, populations=(4,), costs=(60.0,), gaps=(60.0,), workloads=1)


def test_every_contender_sees_the_same_jobs() -> None:
    cells = grid(TINY, "")
    main = [cell for cell in cells if cell.experiment == "main"]
    assert {cell.label for cell in main} == set(MAIN) and len(main) == 2 * len(MAIN)
    assert {str(cell.study.trace) for cell in main if cell.group == "1"} == {"ones:jobs=12,seed=1,gap_seconds=30.0"}
    assert {cell.study.elastic for cell in main if cell.label == TIRESIAS} == {"none"}
    assert not any(cell.experiment == "pollux" for cell in cells), "there is no data"
    assert {cell.label for cell in grid(TINY, "folder") if cell.experiment == "pollux"} == set(ON_POLLUX)


def test_the_costs_of_a_change_add_up() -> None:
    costs = priced(15.0)
    assert costs["launch_seconds"] + costs["checkpoint_seconds"] + costs["restore_seconds"] == pytest.approx(15.0)
    assert priced(1.5)["resize_seconds"] == 0.5


def test_intervals() -> None:
    assert Interval.of([]) is None
    one = Interval.of([3.0])
    assert one is not None and one.mean == 3.0 and math.isnan(one.low) and one.format("%") == "3%"
    several = Interval.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert several is not None and several.mean == 3.0
    # Student's t for four degrees of freedom, times the standard error of 0.7071.
    assert several.high - several.mean == pytest.approx(2.78 * math.sqrt(0.5), rel=1e-3)
    assert several.format(" s").startswith("3 s (1.03 to 4.97")


def made_up(**jct: dict[str, float]) -> list[CellResult]:
    """Mean JCTs of contenders by seed."""
    cells = {(cell.label, cell.group): cell for cell in grid(TINY, "") if cell.experiment == "main"}
    found = []
    for label, by_seed in jct.items():
        name = {"ones": ONES, "tiresias": TIRESIAS, "optimus": OPTIMUS, "published": PUBLISHED}[label]
        for seed, seconds in by_seed.items():
            figures: dict[str, Any] = {"mean_jct_seconds": seconds, "utilization": 0.9, "suspensions": 3}
            found.append(CellResult(cells[name, seed], figures))
    return found


def test_claims_are_reductions_of_each_seed() -> None:
    results = made_up(
        ones={"0": 50.0, "1": 60.0}, tiresias={"0": 100.0, "1": 100.0}, optimus={"0": 60.0, "1": 75.0}, published={"0": 110.0}
    )
    claims, sections = conclude(ones_findings.EXPERIMENTS, results)
    by_name = {each.name: each for each in claims}
    tiresias, optimus = by_name[f"Mean JCT of {ONES} below {TIRESIAS}"], by_name[f"Mean JCT of {ONES} below {OPTIMUS}"]
    assert tiresias.measured == pytest.approx(45.0) and tiresias.holds is True and "2 seeds" in tiresias.note
    assert optimus.measured == pytest.approx((100 / 6 + 20.0) / 2) and optimus.holds is False
    published = by_name[f"Mean JCT of {PUBLISHED} below {TIRESIAS}"]
    assert published.measured == pytest.approx(-10.0) and published.holds is None
    assert sections[0].key == "main" and len(sections[0].rows) == 4


def test_what_did_not_end_is_said() -> None:
    cell = next(cell for cell in grid(TINY, "") if cell.experiment == "main" and cell.label == ONES)
    claims, sections = conclude(ones_findings.EXPERIMENTS, [CellResult(cell, {}, "it broke")])
    assert claims[0].measured is None and claims[0].holds is None
    assert any("it broke" in problem for problem in sections[0].problems)


def test_a_label_is_in_no_experiment_twice() -> None:
    for scale in (QUICK, ones_experiments.FULL):
        keys = [(cell.experiment, cell.label, cell.x, cell.group) for cell in grid(scale, "data")]
        assert len(keys) == len(set(keys))


@pytest.mark.slow
def test_the_smallest_reproduction_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def cells(_: Any) -> list[PaperCell]:
        return grid(replace(TINY, seeds=1), "")

    monkeypatch.setattr("rota.papers.reproduce.PAPERS", {"ones": replace(PAPERS["ones"], cells=cells)})
    found = reproduce("ones", workers=2)
    assert all(each.measured is not None for each in found.claims), found.claims
    assert "Predictions of how long jobs train" in found.html and all(label in found.html for label in COMPARED)
    assert "needs --data" in found.html or "left out" in found.html
