"""Whole set-ups drawn by number, as `python -m tests.fuzz` does by the thousand; and proof that its checks would notice."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.core import reconcile
from rota.core.plan import fill as mechanism
from rota.core.plan import planner as planning
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.packed import Packed
from tests.examples import rotated, scaled
from tests.fuzz.checks import Wrong, check_setup
from tests.fuzz.setup import make_setup

BATCHES, CASES = scaled(12), 30


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_setup_keeps_every_promise(batch: int, tmp_path: Path) -> None:
    covered = Counter[str]()
    for number in range(CASES):
        covered.update(check_setup(rotated(1_000_000 + batch * CASES + number), tmp_path))
    assert covered["jobs"] > 2 * CASES and covered["again"] > 0 and covered["neutral"] > 0


def fails(numbers: range, folder: Path) -> str:
    """What the first set-up that breaks says."""
    for number in numbers:
        try:
            check_setup(number, folder)
        except Wrong as story:
            return str(story)
    return ""


def generous_placer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hands a GPU out again."""
    original = Packed.place

    def place(self: Any, view: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        placed = original(self, view, requests)
        if len(placed) > 1 and len(placed[0]) == len(placed[1]) and requests[0].pool == requests[1].pool:
            placed[1] = placed[0]
        return placed

    monkeypatch.setattr(Packed, "place", place)


def forgetful_placer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves a GPU of a gang out."""
    original = Packed.place
    monkeypatch.setattr(Packed, "place", lambda *given: [g[:-1] if len(g) > 2 else g for g in original(*given)])


def overbooking_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grants more than there is: placers then find too few GPUs, and each says so in its own way."""
    original = mechanism.grant
    monkeypatch.setattr(planning, "grant", lambda candidates, table, capacity: original(candidates, table, capacity + 1))


def unfair_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never grants a job that is alone in the queue."""
    original = mechanism.grant

    def grant(candidates: Any, table: Any, capacity: Any) -> Any:
        grants = original(candidates, table, capacity)
        last = len(table.rows) - 1
        if len(table.rows) > 1 or last < 0 or grants.partner is not None:
            return grants
        grants.option[last] = -1
        grants.position = grants.position[grants.position != last]
        return grants

    monkeypatch.setattr(planning, "grant", grant)


def hasty_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches before the GPUs are free."""
    original = reconcile._launches
    monkeypatch.setattr(
        reconcile,
        "_launches",
        lambda state, settings, starts, taken, given: original(state, settings, starts, taken & False, given),
    )


def idle_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never wakes a job that sleeps."""
    monkeypatch.setattr(reconcile, "_for_parked", lambda *_: None)


@pytest.mark.parametrize(
    ("mutate", "story"),
    [
        (generous_placer, "promised twice|held by jobs|more of GPU"),
        (forgetful_placer, "gang is not whole|asked for"),
        (overbooking_mechanism, "AssertionError|ValueError|IndexError"),
        pytest.param(unfair_mechanism, "SimulationStalled", marks=pytest.mark.nightly),
        (hasty_reconcile, "held by jobs|more of GPU|overlap|holds GPUs|strangers|is held|promised"),
        pytest.param(idle_reconcile, "SimulationStalled", marks=pytest.mark.nightly),
    ],
)
def test_a_broken_part_is_noticed(
    mutate: Callable[[pytest.MonkeyPatch], None], story: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mutate(monkeypatch)
    said = fails(range(1_000_000, 1_000_000 + 200), tmp_path)
    assert said, "nothing was noticed"
    assert any(word in said for word in story.split("|")), said


def test_a_number_is_a_setup(tmp_path: Path) -> None:
    first, second = make_setup(7, tmp_path), make_setup(7, tmp_path)
    assert first.trace == second.trace and first.cluster == second.cluster
    assert np.array_equal(list(first.keywords["rates"].table.values()), list(second.keywords["rates"].table.values()))
