"""The experiments of Tiresias, as small as they get: what is run, what is concluded, and what is said about gaps."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota.papers import tiresias_experiments
from rota.papers.experiment import CellResult, PaperCell, ReproduceRequest, conclude
from rota.papers.reproduce import PAPERS, reproduce
from rota.papers.tiresias_experiments import CONTENDERS, GANDIVA, SKEWED, SRTF, TIRESIAS_L, YARN
from rota.papers.tiresias_findings import EXPERIMENTS, by_seed

TINY = tiresias_experiments.TiresiasScale(seeds=1, jobs=12)


def made(cell: PaperCell) -> CellResult:
    """Figures by which YARN-CS takes six times as long as the others, and twice that with the second seed."""
    slow = (6.0 if cell.label == YARN else 1.0) * (2.0 if cell.label == YARN and cell.x == 1 else 1.0)
    names = ("mean_jct", "median_jct", "p95_jct", "makespan", "mean_queueing", "median_queueing", "p95_queueing")
    figures: dict[str, Any] = {f"{name}_seconds": 100.0 * slow for name in names}
    return CellResult(cell, {**figures, "suspensions": 4})


def test_the_grids_are_complete_and_apart(tmp_path: Path) -> None:
    counts = []
    for quick in (True, False):
        cells = tiresias_experiments.cells(ReproduceRequest(inputs=tmp_path, quick=quick))
        assert {cell.experiment for cell in cells} == {"free", "placed", "resumed"}
        assert len({(cell.experiment, cell.label, cell.x) for cell in cells}) == len(cells)
        assert {cell.label for cell in cells} == set(CONTENDERS)
        counts.append(len(cells))
        for cell in cells:
            json.dumps(cell.study.plain())
            assert (cell.study.tactics == "none") == (cell.label == GANDIVA), "its authors simulate nothing but turns"
            assert (cell.study.spread_penalty is not None) == (cell.experiment != "free")
            assert (cell.study.restore_seconds is not None) == (cell.experiment == "resumed")
            assert str(cell.study.trace).endswith("spread_penalty=1.0") == (cell.experiment == "free"), (
                "both know of it, or neither"
            )
    assert counts[0] < counts[1]
    assert (
        all(tiresias_experiments.SPREAD[model] == pytest.approx(1 / 0.6) for model in SKEWED)
        and tiresias_experiments.SPREAD[""] == 1.0
    )


def test_what_is_concluded() -> None:
    claims, sections = conclude(EXPERIMENTS, [made(cell) for cell in tiresias_experiments.grid(replace(TINY, seeds=2))])
    by_name = {each.name: each for each in claims}
    found = by_name["Mean JCT, Tiresias against YARN-CS"]
    assert found.measured == pytest.approx(9.0) and found.holds and "from 6x to 12x" in found.note
    assert by_name["Mean JCT, Tiresias against perfect knowledge (SRTF)"].holds, "as good is better than published"
    assert by_name["Mean queueing, Tiresias against YARN-CS"].paper == pytest.approx(8146 / 963, abs=0.01)
    assert "not verified" in by_name["Mean queueing, Tiresias against YARN-CS"].note
    gandiva = by_name["Mean JCT, Tiresias against Gandiva"]
    assert gandiva.measured == pytest.approx(1.0) and gandiva.holds is False and "2.2x" in gandiva.note
    assert [section.key for section in sections] == ["testbed", "authors", "queueing", "placement"]
    assert all(section.rows and not section.problems for section in sections)
    assert len(sections[2].rows) == 4 and "1,005 s" in sections[2].rows[2]


def test_a_seed_that_somebody_failed_at_counts_for_nobody() -> None:
    results = [made(cell) for cell in tiresias_experiments.grid(replace(TINY, seeds=2))]
    broken = [replace(o, figures={}, error="it broke") if (o.cell.label, o.cell.x) == (SRTF, 1) else o for o in results]
    found = by_seed(broken, "free")
    assert found[YARN] == [600.0] and found[TIRESIAS_L] == [100.0]
    assert conclude(EXPERIMENTS, broken)[1][1].problems == [f"{SRTF}, seed 1: it broke"]


def test_what_failed_is_said_and_not_judged() -> None:
    broken = [CellResult(cell, {}, "it broke") for cell in tiresias_experiments.grid(TINY)]
    claims, sections = conclude(EXPERIMENTS, broken)
    assert all(each.holds is None and each.measured is None and each.note for each in claims)
    assert all(not section.plots and not section.rows for section in sections)
    assert all(section.problems for section in sections if section.key != "queueing")


@pytest.mark.slow
def test_the_smallest_reproduction_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(PAPERS["tiresias"], cells=lambda request: tiresias_experiments.grid(TINY))
    monkeypatch.setattr("rota.papers.reproduce.PAPERS", {"tiresias": small})
    found = reproduce("tiresias", workers=2)
    jct = next(each for each in found.claims if each.name == "Mean JCT, Tiresias against YARN-CS")
    assert jct.measured is not None and jct.measured >= 1, found.claims
    assert "--data" not in found.html
