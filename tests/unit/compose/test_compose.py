"""Names with options, plug-ins, presets, user files."""

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from rota.compose.option_syntax import ParsedName
from rota.compose.parse_tactics import make_tactics
from rota.compose.presets import PRESETS, preset
from rota.compose.registry import POLICY_REGISTRY, make_placer, make_policy, split_pair
from rota.errors import OptionError, UnknownNameError
from rota.placers.packed import Packed
from rota.policies.gittins import Gittins
from rota.policies.tiresias import Tiresias


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("fifo", "fifo", {}),
        ("tiresias:thresholds=3250/7200,promote=8", "tiresias", {"thresholds": "3250/7200", "promote": "8"}),
        ("./mine.py:Mine:alpha=2", "./mine.py:Mine", {"alpha": "2"}),
        ("./mine.py", "./mine.py", {}),
    ],
)
def test_spelling(text: str, name: str, options: dict[str, str]) -> None:
    spelled = ParsedName.parse(text, "policy")
    assert (spelled.name, dict(spelled.options)) == (name, options)


def test_options_take_the_type_their_field_declares(tmp_path: Path) -> None:
    assert make_policy("tiresias:thresholds=3200,promote=8,service=seconds") == Tiresias((3200.0,), 8.0, "seconds")
    assert make_placer("packed:sticky=false") == Packed(sticky=False)
    history = tmp_path / "history.csv"
    history.write_text("duration\n10\n20.5\n")
    assert make_policy(f"gittins:history={history}") == Gittins(history=(10.0, 20.5))


def test_a_pair_is_policy_and_placer() -> None:
    assert split_pair("tiresias:promote=8+spread:sticky=false") == ("tiresias:promote=8", "spread:sticky=false")
    assert split_pair("fifo") == ("fifo", None)


def test_objects_pass_through() -> None:
    policy = Tiresias()
    assert make_policy(policy) is policy


def test_a_plug_in_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("from-a-plugin", "rota.policies.srsf:Srsf", "rota.policies")
    broken = importlib.metadata.EntryPoint("broken", "rota.policies.nowhere:Nothing", "rota.policies")

    def entry_points(group: str) -> list[Any]:
        return [point, broken] if group == "rota.policies" else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert "from-a-plugin" in POLICY_REGISTRY.names()
    assert type(make_policy("from-a-plugin")).__name__ == "Srsf"
    with pytest.raises(OptionError, match="cannot be loaded"):
        make_policy("broken")


def test_a_file_with_one_policy_needs_no_class_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def allocate(self, view): ...\n")
    assert type(make_policy(str(tmp_path / "mine.py"))).__name__ == "Mine"


def test_a_class_without_allocate_is_no_policy(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    pass\n")
    with pytest.raises(OptionError, match="no method allocate"):
        make_policy(f"{tmp_path}/mine.py:Mine")


def test_presets_set_only_what_exists() -> None:
    from rota.core.decision_timing import DecisionTiming
    from rota.core.settings import Settings
    from rota.sim.physics import Physics

    for chosen in PRESETS.values():
        assert set(chosen.physics) <= set(Physics.__dataclass_fields__)
        assert set(chosen.settings) <= set(Settings.__dataclass_fields__)
        assert isinstance(Settings(**chosen.settings).decide, DecisionTiming)
    with pytest.raises(UnknownNameError, match="Closest: ideal"):
        preset("ideel")


@pytest.mark.parametrize(
    ("before", "today"),
    [
        ("max-min-fairness:aware=false,packing=true", "max-min-fairness:type_aware=false,colocation=true"),
        ("ones:batch=asked", "ones:batch=requested"),
        ("gandiva:most_lost=0.1", "gandiva:max_switch_fraction=0.1"),
    ],
)
def test_old_names_of_options_are_read(before: str, today: str) -> None:
    assert make_policy(before) == make_policy(today)


def test_old_names_of_options_of_tactics_are_read() -> None:
    before = make_tactics("pack:least_gain=0.1,grow:least_gain=1.2,defragment:most_gangs=2,migrate:most_moves=3")
    assert before == make_tactics("pack:min_gain=0.1,grow:min_speedup=1.2,defragment:max_gangs=2,migrate:max_moves=3")
