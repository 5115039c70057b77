"""Defaults of commands from a configuration file, and `rota config`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rota.wire import config_file
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, which does not exist yet."""
    file = tmp_path / "config/rota/config.yaml"
    file.parent.mkdir(parents=True)
    monkeypatch.delenv("ROTA_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(config_file, "SYSTEM_FILE", tmp_path / "system.yaml")
    return file


def test_a_flag_wins_over_the_spec_and_the_spec_over_the_file(served: Served, rota: Rota, mine: Path) -> None:
    mine.write_text("submit: {gpus: 2, weight: 3, tenant: vision, accelerator: 'A100, V100', env: [A=1, B=1], park: false}\n")
    assert rota("submit", "--", "train")[0] == 0
    spec = served.daemon.sent[1][0]
    assert (spec.gpus, spec.weight, spec.tenant, spec.park) == (2, 3, "vision", False)
    assert spec.accelerators == ["A100", "V100"] and spec.env == {"A": "1", "B": "1"}
    Path("job.yaml").write_text("run: x\ngpus: 4\nweight: 1\naccelerators: [K80]\nenv: {B: two}\n")
    assert rota("submit", "job.yaml", "--weight", "5", "--park")[0] == 0
    spec = served.daemon.sent[2][0]
    assert (spec.gpus, spec.weight, spec.tenant, spec.park) == (4, 5, "vision", True)
    assert spec.accelerators == ["K80"] and spec.env == {"A": "1", "B": "two"}


def test_the_file_of_the_user_wins_flag_by_flag(served: Served, rota: Rota, mine: Path) -> None:
    config_file.SYSTEM_FILE.write_text("submit: {gpus: 1, weight: 2}\njobs: {output: json}\n")
    mine.write_text("submit: {gpus: 4}\n")
    assert rota("submit", "--", "x")[0] == 0
    assert (served.daemon.sent[1][0].gpus, served.daemon.sent[1][0].weight) == (4, 2)
    assert [row["id"] for row in json.loads(rota("jobs")[1])] == [1]
    assert rota("jobs", "-o", "table")[1].lstrip().startswith("ID")


def test_defaults_of_commands_below_a_command(rota: Rota, mine: Path) -> None:
    mine.write_text("policy: {list: {output: json}}\nsim:\n  cluster: 8xV100\n  round_seconds: 60\n")
    assert "fifo" in {each["name"] for each in json.loads(rota("policy", "list")[1])}
    assert rota("policy", "list", "--output", "csv")[1].startswith("name,")
    found = json.loads(rota("sim", "--trace", "synthetic:jobs=3,seed=1", "--drop-oversized", "-o", "json")[1])
    assert found["params"]["cluster"] == "8xV100" and found["params"]["round_seconds"] == 60


WRONG = [
    ("sumbit: {gpus: 1}", "sumbit", "is not a setting or command. Closest: submit."),
    ("submit: {gpu: 1}", "submit.gpu", "is not a flag of rota submit. Closest: gpus."),
    ("policy: {lst: {output: json}}", "policy.lst", "is not a command of rota policy. Closest: list."),
    ("submit: {gpus: '1'}", "submit.gpus: '1'", "is not a number."),
    ("submit: {steps: 1.5}", "submit.steps: '1.5'", "not a whole number."),
    ("submit: {name: 10:20}", "submit.name: '620'", "is not text."),
    ("submit: {gpus: }", "submit.gpus", "has no value."),
    ("submit: {gpu-memory: 1 GiB, gpu_memory: 2 GiB}", "submit.gpu_memory", "is already given on line 2."),
    ("submit: {key: once}", "submit.key", "is for one call, not a default."),
    ("submit: [gpus]", "submit", "is not a mapping."),
    ("jobs: {home: /srv/rota}", "jobs.home: '/srv/rota'", "is a setting of all commands."),
    ("up: {detach: true}", "up.detach", "is for one call, not a default."),
    ("jobs: {watch: 3}", "jobs.watch: '3'", "is neither true nor false."),
    ("jobs: {output: yaml}", "jobs.output: 'yaml'", "not an output."),
    ("sim: {round_seconds: fast}", "sim.round_seconds: 'fast'", "is not a number."),
    ("sim: {help: true}", "sim.help", "is not a flag of rota sim."),
]


@pytest.mark.parametrize(("text", "field", "problem"), WRONG, ids=[each[0] for each in WRONG])
def test_a_mistake_is_an_error_of_its_command_and_of_the_check(
    rota: Rota, mine: Path, text: str, field: str, problem: str
) -> None:
    mine.write_text(f"# a comment\n{text}\n")
    told = rota("config", "check")
    first, hint = told[2].splitlines()
    assert told[0] == 2 and told[1] == "" and hint.startswith("Try: ")
    assert first.startswith(f"{mine}:2  {field} — ") or f"{mine}:2  {field}" in first
    assert problem in first
    command = text.split(":")[0]
    assert rota(command if command != "sumbit" else "jobs", *(["list"] if command == "policy" else [])) == told


def test_other_commands_and_help_run_whatever_a_section_has(served: Served, rota: Rota, mine: Path) -> None:
    mine.write_text("submit: {gpu: 1}\n")
    assert rota("jobs")[0] == 0 and rota("help", "submit")[0] == 0 and rota("submit", "--help")[0] == 0
    assert rota("--version")[0] == 0 and rota("submit", "--", "x", "--help")[0] == 2
    assert served.daemon.rows == {}


def test_config_shows_what_is_in_force_and_where_it_comes_from(rota: Rota, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_HOME", raising=False)
    assert json.loads(rota("config", "-o", "json")[1])["settings"] == [
        {"setting": "home", "value": "~/.rota", "source": "default", "line": None}
    ]
    mine.write_text("home: /srv/mine\nsubmit:\n  gpus: 2\n  env: [A=1]\n")
    config_file.SYSTEM_FILE.write_text("home: /srv/rota\nsubmit: {gpus: 1, weight: 2}\npolicy: {list: {output: json}}\n")
    found = json.loads(rota("config", "-o", "json")[1])
    system = str(config_file.SYSTEM_FILE)
    assert [(each["path"], each["read"]) for each in found["files"]] == [(str(mine), True), (system, True)]
    assert found["settings"] == [
        {"setting": "home", "value": "/srv/mine", "source": str(mine), "line": 1},
        {"setting": "policy.list.output", "value": "json", "source": system, "line": 3},
        {"setting": "submit.env", "value": ["A=1"], "source": str(mine), "line": 4},
        {"setting": "submit.gpus", "value": "2", "source": str(mine), "line": 3},
        {"setting": "submit.weight", "value": "2", "source": system, "line": 2},
    ]
    monkeypatch.setenv("ROTA_HOME", "/elsewhere")
    code, out, _ = rota("config")
    assert code == 0 and "$ROTA_HOME" in out and "/elsewhere" in out and "submit.gpus" in out
    assert rota("config", "check") == (0, f"{mine}  ok\n{system}  ok\n", "")
    assert rota("config", "-o", "csv")[1].startswith("setting,value,source,line\n")
    code, _, err = rota("config", "chekc")
    assert code == 2 and "'chekc'" in err


@pytest.mark.slow
def test_without_a_file_no_yaml_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def loaded() -> set[str]:
        words = [sys.executable, "-X", "importtime", "-m", "rota", "cancel", "1", "--home", str(tmp_path / "none")]
        lines = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True).stderr.splitlines()
        return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines if line.startswith("import time:")}

    without = loaded()
    (tmp_path / "rota").mkdir()
    (tmp_path / "rota/config.yaml").write_text("cancel: {output: json}\n")
    assert "rota" in without and "yaml" in loaded() - without
