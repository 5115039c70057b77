"""A command loads only what it uses: large libraries wait until they are needed."""

import subprocess
import sys
from pathlib import Path

import pytest

SOLVERS = {"scipy", "highspy", "clarabel"}


def modules_of(*words: str, folder: Path) -> set[str]:
    """Run a command, and return the packages that it imported."""
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "rota", *words], cwd=folder, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.slow
def test_a_mistake_is_told_before_a_solver_is_loaded(tmp_path: Path) -> None:
    found = modules_of("sim", "--trace", "no-such-file.csv", folder=tmp_path)
    assert "rota" in found and not found & SOLVERS


@pytest.mark.slow
def test_help_and_the_version_load_no_numbers(tmp_path: Path) -> None:
    for words in (("--help",), ("--version",), ("jobs", "--help")):
        found = modules_of(*words, folder=tmp_path)
        assert "rota" in found and not found & {*SOLVERS, "numpy"}, words
