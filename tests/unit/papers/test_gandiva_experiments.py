"""Gandiva's experiments, as small as they get: what is run, what is concluded, and what is said about gaps."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.rates import Rates
from rota.papers import gandiva_experiments, gandiva_findings
from rota.papers.experiment import CellResult, PaperCell, ReproduceRequest, conclude
from rota.papers.gandiva_experiments import FIFO, GANDIVA, LOAD, MOVES, STAYS, TIRESIAS, TURNS, WAITS, WAITS_MOVES
from rota.papers.gandiva_rates import UTILISATION, disturbed, made_up_rates, measured_rates, share, write_rates
from rota.papers.reproduce import PAPERS, reproduce
from rota.profiles.measured_rates import read_measured
from rota.traces.gandiva_jobs import GIB
from tests.shared import SHARED, needs_shared

TINY = gandiva_experiments.GandivaScale(
    seeds=2,
    jobs=30,
    loads=(0.8, LOAD),
    factors=(0.6,),
    ways=("link", "storage"),
    fragments=(0.8,),
    searches=(LOAD,),
    few=(4,),
    few_jobs=30,
    tiresias_jobs=12,
)
EXPERIMENTS = {"load", "interference", "switching", "locality", "fragmentation", "search", "search alone", "tiresias"}


def made(cell: PaperCell) -> CellResult:
    """Figures by which packing does a quarter more under load and nothing otherwise, and FIFO lets everybody wait six times as
    long, twice that with the second seed."""
    loaded = cell.experiment == "load" and cell.x >= LOAD
    more = 1.25 if cell.label == GANDIVA and loaded else 1.0
    slow = (6.0 if cell.label == FIFO else 1.0) * (2.0 if cell.label == FIFO and cell.group == "1" else 1.0)
    figures: dict[str, Any] = {
        "throughput": 0.9 * more,
        "work_per_gpu_second": 0.98 if cell.label == TURNS else 1.0,
        "mean_feedback_seconds": 20.0 * slow,
        "p95_feedback_seconds": 60.0 * slow,
        "search_look_seconds": 30.0 * slow,
        "search_best_seconds": 900.0,
        "searches": {"sweep-1": 30.0 * slow, "sweep-2": 3.0 * slow**2},
        "mean_jct_seconds": 2100.0 if cell.label == TURNS and cell.experiment == "tiresias" else 1000.0,
        "makespan_seconds": 9000.0,
        "suspensions": 7,
        "migrations": 3,
        "search_settled_seconds": 100.0 * slow,
        "search_gpu_hours": 40.0 if cell.label == FIFO else 30.0,
        "search_stopped_share": 0.5,
        "gang_close_share": 0.8,
        "gang_wait_seconds": 5.0,
        "gang_jct_seconds": 900.0 if cell.label in (GANDIVA, MOVES, WAITS_MOVES) else 1000.0,
        "whole_nodes": 5.0,
        "half_used_nodes": 4.0,
    }
    return CellResult(cell, figures)


def grid(folder: Path) -> list[PaperCell]:
    return gandiva_experiments.grid(TINY, made_up_rates(), folder)


def test_the_grids_are_complete_and_apart(tmp_path: Path) -> None:
    counts = []
    for quick in (True, False):
        cells = gandiva_experiments.cells(ReproduceRequest(inputs=tmp_path, quick=quick))
        assert {cell.experiment for cell in cells} == EXPERIMENTS
        assert len({(cell.experiment, cell.label, cell.x, cell.group) for cell in cells}) == len(cells)
        assert {cell.label for cell in cells} == {FIFO, TURNS, GANDIVA, MOVES, STAYS, WAITS, WAITS_MOVES, TIRESIAS}
        counts.append(len(cells))
        for cell in cells:
            json.dumps(cell.study.plain())
            assert (cell.study.tactics == "none") == (cell.label in (TURNS, WAITS))
            assert cell.gangs == (cell.experiment == "fragmentation")
            assert ("feedback_steps" in str(cell.study.trace)) == cell.experiment.startswith("search")
            assert cell.experiment == "tiresias" or str(cell.study.profile) in str(cell.study.trace), "drawn by what they run at"
    assert counts[0] < counts[1]
    full = gandiva_experiments.cells(ReproduceRequest(inputs=tmp_path))
    assert {cell.group for cell in full} == set("01234") and LOAD in {cell.x for cell in full if cell.experiment == "load"}


def test_what_is_concluded(tmp_path: Path) -> None:
    claims, sections = conclude(gandiva_findings.EXPERIMENTS, [made(cell) for cell in grid(tmp_path)])
    by_name = {each.name: each for each in claims}
    colocation = by_name["Throughput from packing, load 1.2"]
    assert colocation.measured == pytest.approx(25) and colocation.holds and colocation.unit == "%"
    feedback = by_name["Mean time to the first 100 steps, against FIFO"]
    assert feedback.measured == pytest.approx(9) and "from 6x to 12x" in feedback.note
    search = by_name["Search: a first look at every job of a sweep, against FIFO"]
    assert search.measured == pytest.approx(9) and "144x at most" in search.note and "best job ends 1x" in search.note
    lost = by_name["Lost to switching"]
    assert lost.measured == pytest.approx(2) and lost.holds, "less is better, and as much is fine"
    assert by_name["Mean JCT of Gandiva without packing over Tiresias"].measured == pytest.approx(2.1)
    assert [section.key for section in sections] == [
        "throughput",
        "feedback",
        "search",
        "stopping",
        "interference",
        "switching",
        "locality",
        "fragmentation",
        "tiresias",
    ]
    assert all(section.rows and not section.problems for section in sections)
    found = {section.key: section for section in sections}
    settled = by_name["Search with early stopping: until only the best are left, 4 GPUs"]
    assert settled.measured == pytest.approx(9) and "1.33x (1.33 to 1.33) fewer GPU-hours" in settled.note
    assert by_name["The same: until the best job is trained, 4 GPUs"].holds is False
    where, contender, *told = found["stopping"].rows[-1]
    assert (where, contender, told[0], told[1]) == ("4 GPUs", GANDIVA, "100 s (100 to 100)", "9x (6 to 12)")
    assert told[2:] == ["900 s (900 to 900)", "1x (1 to 1)", "30 (30 to 30)", "25% (25 to 25)", "50% (50 to 50)"]
    assert [row[1] for row in found["fragmentation"].rows] == list(gandiva_experiments.BY_FRAGMENTS)
    assert "Gandiva without moves at load 0.8: moves make the mean JCT of gangs 10% (10 to 10) shorter." in (
        found["fragmentation"].found
    )
    assert found["throughput"].found == ["Packing gains less than 1% at load 0.8."]
    assert found["interference"].rows == [["0.6", "0% (0 to 0)"], ["1", "25% (25 to 25)"]]
    assert [row[:2] for row in found["switching"].rows] == [
        ["link", TURNS],
        ["link", GANDIVA],
        ["storage", TURNS],
        ["storage", GANDIVA],
    ]
    json.dumps([each.to_dict() for each in claims])


def test_what_failed_is_said_and_not_judged(tmp_path: Path) -> None:
    broken = [CellResult(cell, {}, "it broke") for cell in grid(tmp_path)]
    claims, sections = conclude(gandiva_findings.EXPERIMENTS, broken)
    assert all(each.holds is None and each.measured is None and each.note for each in claims)
    assert all(not section.plots and not section.rows for section in sections)
    assert all(section.problems for section in sections if section.key not in ("feedback", "search"))


def test_a_seed_that_one_failed_at_counts_for_no_comparison(tmp_path: Path) -> None:
    results = [made(cell) for cell in grid(tmp_path)]
    broken = [replace(o, figures={}, error="it broke") if (o.cell.label, o.cell.group) == (FIFO, "1") else o for o in results]
    claims, _ = conclude(gandiva_findings.EXPERIMENTS, broken)
    feedback = next(each for each in claims if each.name.startswith("Mean time"))
    assert feedback.measured == pytest.approx(6)


@given(st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_made_up_pairs_are_slower_than_alone_and_the_busier_the_slower(first: float, second: float) -> None:
    part = share(first, second)
    assert 0 < part <= 1 and part == share(second, first)
    assert share(min(first + 0.1, 1.0), second) <= part
    assert share(1.0, 1.0) < 0.5 < share(0.3, 0.3), "two that want all of a GPU lose, two that leave it idle gain"


def test_made_up_rates_know_every_model_and_come_back_from_a_file(tmp_path: Path) -> None:
    rates = made_up_rates()
    assert set(UTILISATION) == set(GIB) == {profile for profile, _, gpus in rates.table if gpus == 1}
    assert ("LM (batch size 20)", "A3C", "V100", 1) in rates.pairs and ("A3C", "V100", 4) not in rates.table
    again = read_measured(write_rates(rates, tmp_path / "rates.csv"))
    assert again.table == pytest.approx(rates.table) and again.across_nodes == pytest.approx(rates.across_nodes)
    for (first, second, kind, gpus), both in rates.pairs.items():
        assert again.colocated_rates(first, second, kind, gpus) == pytest.approx(both)


def test_pairs_that_disturb_each_other_more() -> None:
    rates = Rates({("a", "V100", 1): 4.0, ("b", "V100", 1): 2.0}, pairs={("a", "b", "V100", 1): (3.0, 1.0)})
    assert disturbed(rates, 0.5).pairs == {("a", "b", "V100", 1): (1.5, 0.5)}
    assert disturbed(rates, 1.5).pairs == {("a", "b", "V100", 1): (4.0, 1.5)}, "no faster than alone"
    assert disturbed(rates, 0.5).table == rates.table


@needs_shared
def test_of_gavels_pairs_those_of_single_gpus_are_measured() -> None:
    rates = measured_rates(SHARED / "data/gavel" / gandiva_experiments.RATES)
    assert {gpus for _, _, _, gpus in rates.pairs} == {1} and {kind for _, _, kind, _ in rates.pairs} == {"V100"}
    assert set(GIB) == {profile for profile, _, gpus in rates.table if gpus == 1}
    both = rates.colocated_rates("LM (batch size 20)", "LM (batch size 20)", "V100", 1)
    assert both is not None and both[0] / rates.table["LM (batch size 20)", "V100", 1] == pytest.approx(0.65, abs=0.01)


@pytest.mark.slow
def test_the_smallest_reproduction_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(PAPERS["gandiva"], cells=lambda request: gandiva_experiments.grid(TINY, made_up_rates(), request.inputs))
    monkeypatch.setattr("rota.papers.reproduce.PAPERS", {"gandiva": small})
    found = reproduce("gandiva", workers=2)
    assert all(each.measured is not None for each in found.claims), found.claims
    assert "--data FOLDER" in found.html and "guesses" in found.html
