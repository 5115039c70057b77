"""Units of systemd: what they contain, and what systemd itself says about them."""

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rota.errors import NotYours
from rota.server import systemd_unit
from rota.server.systemd_unit import DROPPED, system_unit, user_unit
from tests.stranger import STRANGER, root_only

FLAGS = ("up", "--pretend", "2xV100 + 2xK80", "--policy", "fifo", "--tactics", 'a "b" $c 100%')


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in systemd_unit.CONFIG_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def parsed(text: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    return found


def test_a_unit_of_the_system(tmp_path: Path) -> None:
    unit = parsed(system_unit(tmp_path / "a home", FLAGS, tmp_path / "from $here"))
    service = unit["Service"]
    assert service["KillMode"] == "process", "jobs outlive their scheduler"
    assert service["Restart"] == "on-failure" and service["RestartPreventExitStatus"] == "2"
    assert service["LimitNOFILE"] == "65536:524288" and service["TasksMax"] == service["LimitMEMLOCK"] == "infinity"
    assert service["OOMPolicy"] == "continue"
    command = f'{sys.executable} -m rota up --pretend "2xV100 + 2xK80" --policy fifo --tactics "a \\"b\\" $$c 100%%"'
    assert service["ExecStart"] == command and service["WorkingDirectory"] == f"{tmp_path}/from $here"
    assert unit["Unit"]["RequiresMountsFor"] == f'"{tmp_path}/a home" "{tmp_path}/from $here"'
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    assert service["CapabilityBoundingSet"] == "~" + " ".join(DROPPED)
    # Each of these would take files, devices or rights away from jobs: GPUs, sudo, mounts, cgroups.
    harmful = {"PrivateTmp", "PrivateDevices", "ProtectHome", "ProtectSystem", "ProtectClock", "NoNewPrivileges"}
    assert not harmful & set(service) and "CAP_SYS_MODULE" not in DROPPED


def test_a_unit_of_a_user_has_no_settings_of_the_system(tmp_path: Path) -> None:
    service = parsed(user_unit(tmp_path, FLAGS, tmp_path))["Service"]
    assert not {"User", "CapabilityBoundingSet", "LimitMEMLOCK"} & set(service)


def test_it_finds_the_configuration_file_of_the_process_that_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Environment" not in system_unit(tmp_path, FLAGS, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_CONFIG", "my $file.yaml")
    for write in (user_unit, system_unit):
        assert f'Environment="ROTA_CONFIG={tmp_path}/my $file.yaml"' in write(tmp_path, FLAGS, tmp_path)


def test_it_runs_as_the_user_that_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert parsed(system_unit(tmp_path, FLAGS, tmp_path))["Service"]["User"] == "nobody"
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert parsed(system_unit(tmp_path, FLAGS, tmp_path))["Service"]["User"] == "4000000"


@root_only
def test_root_does_not_run_a_program_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "User=root" in system_unit(tmp_path, FLAGS, tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    os.chown(tmp_path / "bin", STRANGER, STRANGER)
    with pytest.raises(NotYours, match="belongs to user nobody") as problem:
        system_unit(tmp_path, FLAGS, tmp_path)
    assert "/opt/rota" in problem.value.hint
    user_unit(tmp_path, FLAGS, tmp_path)


def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    for kind, write in (("--system", system_unit), ("--user", user_unit)):
        unit = tmp_path / "rota.service"
        unit.write_text(write(tmp_path / "a $home", FLAGS, tmp_path))
        done = subprocess.run([program, kind, "verify", str(unit)], env=env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), kind
        unit.write_text(unit.read_text().replace("KillMode=process", "KillMode=nothing"))
        done = subprocess.run([program, kind, "verify", str(unit)], env=env, capture_output=True, text=True)
        assert "kill mode" in done.stderr, "a fault is found"
