"""A scheduler in the background: `rota up --detach`, `rota down`, and a unit of systemd that could start it."""

import configparser
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import rota
from rota.server.background import LOG_BYTES
from tests.live.harness import until


def run(*words: str, home: Path) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "ROTA_HOME": str(home)}
    return subprocess.run([sys.executable, "-m", "rota", *words], capture_output=True, text=True, env=env)


def test_up_in_the_background_and_down(tmp_path: Path) -> None:
    home = tmp_path / "home"
    waits = time.monotonic()
    started = run("up", "--detach", "--pretend", "2xV100", "--policy", "fifo", "--listen", "127.0.0.1:0", home=home)
    try:
        assert started.returncode == 0 and started.stdout.startswith("ready http://127.0.0.1:"), started.stderr
        client = rota.connect(home)
        assert "fifo, placer packed" in run("status", home=home).stdout
        again = run("up", "--detach", "--listen", "127.0.0.1:0", home=home)
        assert again.returncode == 1 and again.stderr.startswith(f"A scheduler is already running in {home}."), again.stderr
        job = client.submit(["sleep", "300"], name="long")
        until(lambda: job.phase == "running", "it runs")
        stopped = run("down", home=home)
        said = re.fullmatch(
            r"Stopped the scheduler, process \d+; 1 job keeps running without it for (1d|23h\d*m?)\. "
            r"Jobs that have not ended by then get SIGTERM, save and stop. They start again after the next rota up\.\n",
            stopped.stdout,
        )
        assert stopped.returncode == 0 and said, stopped
        order = json.loads((home / "run" / "1" / "1" / "launch.json").read_text())
        assert order["lease_seconds"] > 86_000 - (time.monotonic() - waits), "a day, by its supervisor's own order"
        assert run("down", home=home).returncode == 3
        again = run("up", "--detach", "--listen", "127.0.0.1:0", home=home)
        assert again.returncode == 0 and "2 pretend GPUs: 2xV100" in again.stdout, "the cluster that it had"
        assert rota.connect(home).job("long").phase == "running"
        address = json.loads((home / "daemon.json").read_text())
        told = json.loads(run("down", "-o", "json", home=home).stdout)
        assert (told["pid"], told["jobs"]) == (address["pid"], 1) and 0 < told["lease_left_seconds"] <= 86_400
        other = run("up", "--detach", "--pretend", "2xV100 + 2xK80", "--listen", "127.0.0.1:0", "-o", "json", home=home)
        address = json.loads((home / "daemon.json").read_text())
        assert json.loads(other.stdout) == {
            "home": str(home),
            "url": address["url"],
            "pid": address["pid"],
            "standby": False,
        }, other.stderr
        assert run("down", home=home).returncode == 0
        other = run("up", "--detach", "--pretend", "2xV100 + 1xK80", "--listen", "127.0.0.1:0", home=home)
        assert "the cluster has changed: n2 (2xK80) left" in other.stdout, other.stdout
        rota.connect(home).cancel("long")
        until(lambda: rota.connect(home).job("long").ended, "it is cancelled")
    finally:
        assert run("down", home=home).returncode == 0


def test_a_long_log_is_set_aside_at_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for text in ("the first\n", "the second\n"):
        (home / "up.log").write_text(text * (LOG_BYTES // len(text) + 1))
        started = run("up", "--detach", "--pretend", "1xV100", "--listen", "127.0.0.1:0", home=home)
        assert started.returncode == 0 and started.stdout.startswith("ready "), started.stderr
        assert run("down", home=home).returncode == 0
        assert (home / "up.log").read_text().startswith("ready ") and (home / "up.log.1").read_text().startswith(text)


def test_a_mistake_is_told_where_it_was_typed(tmp_path: Path) -> None:
    found = run("up", "--detach", "--policy", "tiresas", home=tmp_path / "home")
    assert found.returncode == 2 and "No policy 'tiresas'. Closest: tiresias" in found.stderr and "Try: " in found.stderr


def test_a_unit_for_systemd(tmp_path: Path) -> None:
    unit, home = tmp_path / "units" / "rota.service", tmp_path / "a home"
    found = run("up", "--pretend", "1xV100", "--systemd", str(unit), home=home)
    assert found.returncode == 2 and f"the folder {unit.parent} does not exist." in found.stderr and not unit.parent.exists()
    assert f"Try: mkdir -p {unit.parent}" in found.stderr
    unit.parent.mkdir()
    found = run("up", "--pretend", "2xV100 + 2xK80", "--systemd", str(unit), "--policy", "fifo", home=home)
    assert found.returncode == 0 and "systemctl --user enable --now rota.service" in found.stdout, found.stderr
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(unit)
    service = parsed["Service"]
    assert service["KillMode"] == "process", "jobs outlive their scheduler"
    assert service["LimitNOFILE"] == "65536:524288" and service["TasksMax"] == "infinity"
    assert service["OOMPolicy"] == "continue", "a job that runs out of memory does not stop the scheduler"
    assert service["ExecStart"] == f'{sys.executable} -m rota up --pretend "2xV100 + 2xK80" --policy fifo --home "{home}"'
    assert service["WorkingDirectory"] == str(Path.cwd()) and not home.exists(), "nothing is started"
