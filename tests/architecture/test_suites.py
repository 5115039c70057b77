"""Unit tests start no scheduler, properties depend on no clock, and tests come in an order that keeps all cores busy."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests.conftest import in_turns

ROOT = Path(__file__).resolve().parents[2]
STARTS = {
    "rota.live.daemon": "a scheduler",
    "rota.live.local_channel": "supervisors",
    "rota.live.driver": "agents",
    "rota.agent.machine": "supervisors",
    "tests.chaos": "what breaks real processes",
    "tests.live": "what tests of real processes start",
}
"""Modules that only tests in tests/live and tests/chaos import, and what is started by them."""


def started(source: str) -> list[str]:
    """What a test of this source can start."""
    found = []
    for node in ast.walk(ast.parse(source)):
        modules: list[str] = []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
        elif isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.Constant) and "from rota.server.serve import" in str(node.value):
            found.append("a scheduler in a process of its own")
        found += [what for module, what in STARTS.items() if any(f"{name}.".startswith(f"{module}.") for name in modules)]
    return found


def test_no_unit_test_starts_a_scheduler() -> None:
    sources = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in (ROOT / "tests/unit").rglob("*.py")}
    assert len(sources) > 200
    assert {str(path): found for path, source in sources.items() if (found := started(source))} == {}


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("from rota.live.daemon import Daemon", "a scheduler"),
        ("from rota.live import daemon", "a scheduler"),
        ("import rota.live.local_channel", "supervisors"),
        ("CODE = 'from rota.server.serve import serve'", "a scheduler in a process of its own"),
        ("def test():\n    from tests.live.harness import site", "what tests of real processes start"),
    ],
)
def test_a_start_is_noticed(source: str, what: str) -> None:
    assert what in started(source)


def test_a_property_has_no_deadline() -> None:
    used = settings.get_current_profile_name(), settings().deadline, HealthCheck.too_slow in settings().suppress_health_check
    assert used == ("rota", None, True)


class Item:
    def __init__(self, file: str, *marks: str) -> None:
        self.path, self.marks = Path(file), marks

    def iter_markers(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in self.marks]


def test_files_that_wait_and_files_that_compute_take_turns() -> None:
    tests = [
        Item("fast.py"),
        Item("sums.py"),
        Item("sums.py", "slow"),
        Item("up.py", "process"),
        Item("more.py", "slow"),
        Item("down.py", "process"),
        Item("kill.py", "process", "slow"),
    ]
    files = [test.path.stem for test in in_turns(tests)]  # type: ignore[type-var]
    assert files == ["up", "sums", "sums", "down", "more", "kill", "fast"]
