"""PAL's experiments, as small as they get: what is run, what is concluded, and what is said when something is missing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.model.cluster import Cluster
from rota.papers import pal_experiments
from rota.papers.experiment import CellResult, PaperCell, ReproduceRequest, conclude
from rota.papers.pal_findings import EXPERIMENTS, gain, ratios
from rota.papers.pal_scores import write_runs
from rota.papers.reproduce import PAPERS, reproduce
from rota.profiles.variability_files import read_variability

TINY = pal_experiments.PalScale(
    workloads=1,
    policies={
        "fifo": (pal_experiments.PAL, pal_experiments.PM_FIRST, pal_experiments.PACKED),
        "las": (pal_experiments.PAL, pal_experiments.PACKED),
    },
    penalties=(1.0, 3.0),
    seeds=(0,),
    machine_seeds=(42,),
    shifts=(0, 180),
    priced=(pal_experiments.PAL_STAYS, pal_experiments.PACKED),
)
WORKLOADS = {"one": "sia:jobs=8,seed=0,largest=8", "two": "sia:jobs=8,seed=1,largest=8"}


def made(cell: PaperCell) -> CellResult:
    """Figures by which PAL saves half of everything, and PM-First a quarter."""
    part = {pal_experiments.PAL: 0.5, pal_experiments.PM_FIRST: 0.75}.get(cell.label, 1.0)
    figures: dict[str, Any] = {
        "mean_jct_seconds": 1000.0 * part,
        "makespan_seconds": 9000.0 * part,
        "utilization": 0.8,
        "useful_share": 0.4 / part,
        "migrations": 3,
    }
    return CellResult(cell, figures)


def test_the_grids_are_complete_and_apart(tmp_path: Path) -> None:
    counts = []
    for quick in (True, False):
        cells = pal_experiments.cells(ReproduceRequest(inputs=tmp_path, quick=quick))
        assert {cell.experiment for cell in cells} == {"placements", "locality", "seeds", "medians", "moves", "shifts"}
        assert len({(c.experiment, c.label, c.group, c.x) for c in cells}) == len(cells)
        assert {cell.group for cell in cells} == {f"sia:jobs=160,seed={seed}" for seed in range(3)}
        assert all(cell.study.preset == "blox" and cell.study.placer == cell.label for cell in cells)
        counts.append(len(cells))
    assert counts[0] < counts[1]


def test_the_papers_own_data_is_used_as_far_as_it_is_there(tmp_path: Path) -> None:
    data, scratch = tmp_path / "data", tmp_path / "scratch"
    for file in (
        "traces/workload-2.csv",
        "traces/workload-1.csv",
        "traces/other.csv",
        *pal_experiments.MACHINES["Frontera"].values(),
    ):
        (data / file).parent.mkdir(parents=True, exist_ok=True)
        (data / file).write_text("uuid,perf\na,1\n")
    scratch.mkdir()
    cells = pal_experiments.cells(ReproduceRequest(inputs=scratch, data=data, quick=True))
    assert {(cell.group, cell.study.format) for cell in cells} == {("workload-1", "pal"), ("workload-2", "pal")}
    machines = {cell.study.variability for cell in cells if cell.experiment == "machine Frontera"}
    assert machines == {str(scratch / "Frontera.json")} and not any("Lonestar6" in cell.experiment for cell in cells)
    assert read_variability(scratch / "Frontera.json", Cluster.parse("1x(2xV100)")).classes == ("A", "B", "C", "D")


def test_made_up_runs_have_odd_ones_and_no_slow_gpu(tmp_path: Path) -> None:
    cluster = Cluster.parse("64x(4xV100)")
    folder = write_runs(tmp_path)
    drawn, medians = read_variability(folder, cluster, 1), read_variability(folder, cluster, 1, False)
    a, b, _, d = drawn.scores
    assert drawn.classes == ("A", "B", "C", "D") and 0.001 < (a > 1.5).mean() < 0.04 and a.max() < 4
    assert medians.scores.max() < 1.2, "a run is odd, not a GPU"
    assert np.std(medians.scores[0]) > np.std(medians.scores[1]) > np.std(medians.scores[3]) and max(b.max(), d.max()) < 1.1
    again = write_runs(tmp_path / "again") if (tmp_path / "again").mkdir() is None else folder
    assert (again / "resnet.csv").read_bytes() == (folder / "resnet.csv").read_bytes()


def test_what_is_concluded() -> None:
    results = [made(cell) for cell in pal_experiments.grid(TINY, WORKLOADS, {pal_experiments.SIM: "here", "Frontera": "there"})]
    claims, sections = conclude(EXPERIMENTS, results)
    by_name = {each.name: each for each in claims}
    assert by_name["Mean JCT, PAL"].measured == pytest.approx(50) and by_name["Mean JCT, PAL"].holds
    assert by_name["Mean JCT, PM-First"].measured == pytest.approx(25) and by_name["Mean JCT, PM-First"].holds is False
    assert by_name["Makespan, PAL"].measured == pytest.approx(50)
    assert by_name["PAL ahead of PM-First, penalty 3.0"].measured == pytest.approx(25)
    assert by_name["Utilisation, PAL"].holds is None and by_name["Utilisation, PAL"].measured == pytest.approx(0)
    assert "+100%" in by_name["Utilisation, PAL"].note
    assert [section.key for section in sections] == [
        "placements",
        "utilization",
        "locality",
        "seeds",
        "machines",
        "moves",
        "shifts",
    ]
    assert all(section.rows and not section.problems for section in sections)
    json.dumps([each.to_dict() for each in claims])


def test_gains_are_over_what_both_have() -> None:
    cell = pal_experiments.grid(TINY, WORKLOADS, {pal_experiments.SIM: "here"})[0]
    one = CellResult(replace(cell, label=pal_experiments.PAL, group="one"), {"mean_jct_seconds": 50.0})
    two = CellResult(replace(cell, label=pal_experiments.PAL, group="two"), {"mean_jct_seconds": 10.0})
    base = CellResult(replace(cell, label=pal_experiments.PACKED, group="one"), {"mean_jct_seconds": 100.0})
    assert ratios([one, two, base], cell.experiment, pal_experiments.PAL) == {"one": 0.5}
    assert gain({"one": 0.5, "two": 0.125}) == pytest.approx(75)
    assert gain({}) is None


def test_what_failed_is_said_and_not_judged() -> None:
    broken = [CellResult(cell, {}, "it broke") for cell in pal_experiments.grid(TINY, WORKLOADS, {pal_experiments.SIM: "here"})]
    claims, sections = conclude(EXPERIMENTS, broken)
    assert all(each.holds is None and each.measured is None and each.note for each in claims)
    assert all(not section.plots for section in sections)
    assert all(section.problems for section in sections if section.key != "utilization")


@pytest.mark.slow
def test_the_smallest_reproduction_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def cells(request: ReproduceRequest) -> list[PaperCell]:
        return pal_experiments.grid(TINY, WORKLOADS, {pal_experiments.MADE_UP: str(write_runs(request.inputs))})

    monkeypatch.setattr("rota.papers.reproduce.PAPERS", {"pal": replace(PAPERS["pal"], cells=cells)})
    found = reproduce("pal", workers=2)
    assert all(each.measured is not None for each in found.claims), found.claims
    assert "made up" in found.html and "is neither" not in found.html
