"""Reproductions that are stopped or killed and continue, and simulations of papers on other machines."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota.compose.study import Study
from rota.errors import OptionError
from rota.experiments.store import CellStore
from rota.papers.experiment import PaperCell, run_experiments
from rota.papers.gandiva_rates import made_up_rates, write_rates
from rota.papers.pal_scores import write_runs
from rota.papers.reproduce import reproduce
from rota.report.comparison import WALL_CLOCK
from tests.unit.experiments.test_remote import Machines

TINY = """
import sys
from dataclasses import replace
from rota.cli.main import main
from rota.papers import reproduce, tiresias_experiments
scale = tiresias_experiments.TiresiasScale(seeds=2, jobs=60)
small = replace(reproduce.PAPERS["tiresias"], cells=lambda request: tiresias_experiments.grid(scale))
reproduce.PAPERS = {"tiresias": small}
sys.argv[0] = "rota"
main()
"""
"""The command with fewer jobs."""
CELLS = 66


def start(folder: Path, out: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", TINY, "reproduce", "tiresias", "--out", out, "--html", f"{out}.html", "-o", "json"]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where the tests run in the background
    )


def kept(folder: Path) -> int:
    return len(list(folder.glob("cells/*.json")))


def interrupted(folder: Path, number: int, group: bool) -> "subprocess.Popen[bytes]":
    """Start a run and end it half way."""
    process = start(folder, "broken")
    before = kept(folder / "broken")
    while process.poll() is None and kept(folder / "broken") <= before:
        time.sleep(0.01)
    (os.killpg if group else os.kill)(process.pid, number)
    process.wait(60)
    return process


@pytest.mark.slow
def test_stopped_and_killed_it_continues_and_ends_the_same(tmp_path: Path) -> None:
    straight = start(tmp_path, "straight")
    out, err = straight.communicate(timeout=300)
    assert straight.returncode == 0, err.decode()

    stopped = interrupted(tmp_path, signal.SIGINT, group=False)
    _, err = stopped.communicate(timeout=60)
    assert (
        stopped.returncode == 130 and f"of {CELLS} simulations are kept in broken.\nTry: the same command again" in err.decode()
    )
    for group in (True, False):
        killed = interrupted(tmp_path, signal.SIGKILL, group)
        killed.communicate(timeout=60)
        assert killed.returncode == -signal.SIGKILL, "it was really cut short"
    assert 3 <= kept(tmp_path / "broken") < CELLS

    last = start(tmp_path, "broken")
    out_again, err = last.communicate(timeout=300)
    assert last.returncode == 0, err.decode()
    assert json.loads(out_again)["claims"] == json.loads(out)["claims"]
    assert timeless(tmp_path / "straight") == timeless(tmp_path / "broken") and kept(tmp_path / "broken") == CELLS


def timeless(folder: Path) -> dict[str, dict[str, Any]]:
    """The figures of every simulation, without the time that it took."""
    skipped = {*WALL_CLOCK, "cpu_seconds"}
    cells = {path.name: json.loads(path.read_text()) for path in folder.glob("cells/*.json")}
    return {name: {key: value for key, value in cell.items() if key not in skipped} for name, cell in cells.items()}


def test_one_run_at_a_time_in_a_folder(tmp_path: Path) -> None:
    with CellStore(tmp_path).locked(), pytest.raises(OptionError, match="another sweep or reproduction"):
        reproduce("tiresias", out=tmp_path)


@pytest.mark.slow
def test_other_machines_measure_the_same_from_files_that_they_do_not_have(tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    runs, rates = write_runs(inputs), write_rates(made_up_rates(), inputs / "rates.csv")
    pal = Study(
        "sia:jobs=12,seed=3,largest=8,hours=0.5", placer="pal", cluster="4x(4xV100)", preset="blox", variability=str(runs)
    )
    gandiva = Study(f"gandiva:jobs=20,profile={rates},gpus=8", policy="gandiva", profile=str(rates), cluster="2x(4xV100)")
    cells = [
        PaperCell(experiment="pal", label="pal", x=0, study=pal, shift_s=60.0),
        PaperCell(experiment="gandiva", label="gandiva", x=0, study=gandiva, gangs=True),
        PaperCell(experiment="gandiva", label="broken", x=1, study=replace(gandiva, policy="no-such")),
    ]
    here, _ = run_experiments(cells, CellStore(tmp_path / "here"))
    moved: list[Machines] = []

    def backend() -> Machines:
        moved.append(Machines())
        return moved[0]

    there, _ = run_experiments(cells, CellStore(tmp_path / "there"), backend=backend)
    assert moved and [each.error for each in there] == [each.error for each in here]
    assert not there[0].error and not there[1].error and "no-such" in there[2].error
    assert timeless(tmp_path / "here") == timeless(tmp_path / "there") and kept(tmp_path / "there") == 2
