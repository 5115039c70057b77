"""Gavel's experiments, as small as they get, and what is said when something is missing."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota.api import simulate
from rota.beliefs.rates import Rates
from rota.compose.study import Study
from rota.errors import InputError
from rota.experiments.store import CellStore
from rota.papers import gavel_experiments
from rota.papers.experiment import CellResult, PaperCell, ReproduceRequest, conclude, run_experiments
from rota.papers.figures import tenant_shares
from rota.papers.gavel_findings import EXPERIMENTS
from rota.papers.reproduce import PAPERS, reproduce
from rota.profiles.catalogue import Catalogue
from rota.traces.gavel_jobs import gavel_jobs

TINY = gavel_experiments.GavelScale(
    hours=6,
    seeds=1,
    single=(2,),
    packed=(2,),
    multi=(2,),
    static=(8,),
    priced=(2,),
    priced_jobs=8,
    solved=(6,),
)


def made(cell: PaperCell) -> CellResult:
    """Figures that make every baseline three times as bad as the others, except where one job comes per hour."""
    first = cell.study.policy in (
        gavel_experiments.LAS_BLIND,
        gavel_experiments.FTF_BLIND,
        gavel_experiments.FIFO_BLIND,
        gavel_experiments.THROUGHPUT,
    )
    figures: dict[str, Any] = {
        "mean_jct_seconds": 3600.0 * cell.x * (3 if first and cell.x > 1 else 1),
        "makespan_seconds": 36_000.0 * (3 if first else 1),
        "cost_dollars": 100.0 * (3 if first else 1),
        "late_share": 0.1,
        "solve_seconds": 0.01 * cell.x,
        "hours": [0.5, 1.5],
        "tenants": {"tenant-1": [0.4, None], "tenant-2": [0.6, 1.0]},
    }
    return CellResult(cell, figures)


def test_the_grids_are_complete_and_apart(tmp_path: Path) -> None:
    counts = []
    for quick in (True, False):
        cells = gavel_experiments.cells(ReproduceRequest(inputs=tmp_path, quick=quick))
        assert {cell.experiment for cell in cells} == {"single", "multi", "makespan", "cost", "tenants", "solve"}
        assert len({(c.experiment, c.label, c.x, c.study.seed) for c in cells}) == len(cells)
        for cell in cells:
            json.dumps(cell.study.plain())
            jobs = int(str(cell.study.trace).partition("jobs=")[2].partition(",")[0])
            window = cell.study.window
            assert window is None or 0 < window[0] < window[1] < jobs, "neither end counts"
        counts.append(len(cells))
    assert counts[0] < counts[1]
    assert all(
        cell.study.profile == str(tmp_path / gavel_experiments.PROFILE)
        for cell in gavel_experiments.cells(ReproduceRequest(inputs=tmp_path, data=tmp_path))
    )


def test_what_is_concluded() -> None:
    claims, sections = conclude(
        EXPERIMENTS, [made(cell) for cell in gavel_experiments.grid(replace(TINY, single=(1, 2, 4)), None)]
    )
    by_name = {each.name: each for each in claims}
    assert by_name["Mean JCT, single-GPU jobs"].measured == pytest.approx(3.0)
    assert by_name["Mean JCT, single-GPU jobs"].paper == 3.5 and by_name["Mean JCT, single-GPU jobs"].holds
    assert by_name["Makespan"].measured == pytest.approx(3.0)
    assert by_name["Cost"].holds
    assert by_name["More load sustained, single-GPU jobs"].measured == pytest.approx(2 / 1.2), (
        "twice the lightest: at 2, and at 1.2"
    )
    assert [section.key for section in sections] == ["single", "multi", "makespan", "cost", "tenants", "solve"]
    assert all(section.plots and not section.problems for section in sections)


def test_what_failed_is_said_and_not_judged() -> None:
    broken: Sequence[CellResult] = [CellResult(cell, {}, "it broke") for cell in gavel_experiments.grid(TINY, None)]
    claims, sections = conclude(EXPERIMENTS, broken)
    assert all(each.holds is None and each.measured is None and each.note for each in claims)
    assert all(section.problems and not section.plots for section in sections)


@pytest.mark.slow
def test_cells_run_in_processes_and_a_broken_one_breaks_no_other(tmp_path: Path) -> None:
    study = Study("gavel:jobs=4,duration=60,slo=true", cluster="4xV100", preset="gavel")
    cell = PaperCell(experiment="s", label="fifo", x=1, study=study)
    broken = replace(cell, study=replace(study, policy="no-such"))
    seen: list[tuple[int, int]] = []
    cells = [cell, broken, replace(cell, weights={"a": 1.0}, effort=9)]
    found, reused = run_experiments(cells, CellStore(tmp_path), workers=2, watch=lambda *at: seen.append(at))
    assert [bool(each.error) for each in found] == [False, True, False] and "no-such" in found[1].error
    assert found[0].figures["finished"] == 4 and 0 <= found[0].figures["late_share"] <= 1
    assert sorted(found[2].figures["tenants"]) == [""]
    assert seen[-1] == (3, 3) and reused == 0
    again, reused = run_experiments([*cells[::2], replace(cell, x=2)], CellStore(tmp_path), workers=2)
    assert reused == 2 and [each.figures for each in again] == [found[0].figures, found[2].figures, found[0].figures]


def test_shares_of_tenants_count_work_not_time() -> None:
    trace = gavel_jobs(2, mean_gap_seconds=0, duration=3600, tenants=2)
    known = Rates(model=Catalogue())
    result = simulate(trace, policy="fifo", cluster="1xV100 + 1xK80", preset="ideal")
    found = tenant_shares(result, known)
    assert sorted(found["tenants"]) == ["tenant-1", "tenant-2"]
    for first, second in zip(*found["tenants"].values(), strict=True):
        assert first is None or first + second == pytest.approx(1.0)


@pytest.mark.slow
def test_the_smallest_reproduction_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(PAPERS["gavel"], cells=lambda request: gavel_experiments.grid(TINY, None))
    monkeypatch.setattr("rota.papers.reproduce.PAPERS", {"gavel": small})
    found = reproduce("gavel", workers=2)
    assert all(each.measured is not None for each in found.claims if "sustained" not in each.name), found.claims
    assert "built-in catalogue" in found.html and "it was not" not in found.html.lower()
    whole = found.to_dict("page.html")
    assert set(whole) == {"claims", "page", "seconds"} and whole["page"] == "page.html"
    assert all(set(each) == {"name", "paper", "measured", "unit", "holds", "note"} for each in whole["claims"])
    assert "CLAIM" in str(found) and "published claims" in str(found)


def test_papers_and_folders_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="reads no data"):
        reproduce("tiresias", data=tmp_path)
    with pytest.raises(InputError, match="Closest: gavel"):
        reproduce("gavle")
    with pytest.raises(InputError, match="simulation_throughputs"):
        reproduce("gavel", data=tmp_path)
    with pytest.raises(InputError, match="profiles"):
        reproduce("pal", data=tmp_path / "nowhere")
    (tmp_path / "profiles.json").write_text("{}")
    with pytest.raises(InputError, match="workload"):
        reproduce("pal", data=tmp_path)
