"""A node's report of its versions, and its name."""

import json
from pathlib import Path

import pytest

from rota.experiments.versions import versions
from rota.ray.probe import node_name, node_versions, usable


def test_a_node_tells_what_its_worker_processes_calculate_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(node_versions()) == versions()
    (tmp_path / "rota").mkdir()
    (tmp_path / "rota" / "__init__.py").write_text("__version__ = '0.0'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "rota.experiments" in json.loads(node_versions())["error"], "there is no such module in that one"


def test_only_nodes_with_a_cpu_are_used() -> None:
    base = {"Alive": True, "NodeManagerHostname": "host", "NodeManagerAddress": "10.0.0.1"}
    nodes = [
        {**base, "NodeID": "a", "Resources": {"CPU": 4.0}, "Labels": {"rota/node": "n1"}},
        {**base, "NodeID": "b", "Resources": {}, "Labels": {}},
        {**base, "NodeID": "c", "Resources": {"CPU": 4.0}, "Labels": {}, "Alive": False},
        {**base, "NodeID": "d", "Resources": {"CPU": 1.0}},
    ]
    assert {number: node_name(node) for number, node in usable(nodes).items()} == {"a": "n1 (10.0.0.1)", "d": "host (10.0.0.1)"}
