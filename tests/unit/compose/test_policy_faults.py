"""Mistakes of a user's own policy, as its author sees them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rota
from rota.compose.policy_faults import columns
from rota.errors import DEBUG, OptionError, PolicyError
from rota.model.view import Jobs

MINE = """import numpy
import rota


class Mine:
    def allocate(self, view):
        program = rota.Program(view)
        {body}
"""
RANKING = "return rota.Ranking.by({})"


def mine(folder: Path, body: str) -> str:
    path = folder / "mine.py"
    path.write_text(MINE.format(body=body))
    return f"{path}:Mine"


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ("(program.rate * program.rate).sum()", "a product of two variables"),
        ("program.rate @ program.rate", "a product of two variables"),
        ("(program.rate / program.time).sum()", "a variable divided by another"),
        ("(1 / program.rate).sum()", "a number divided by a variable"),
        ("(program.weight / program.rate).sum()", "a number divided by a variable"),
        ("(program.rate ** 2).sum()", "a power of a variable"),
        ("abs(program.rate).sum()", "the absolute value of a variable"),
        ("numpy.log(program.rate).sum()", "numpy.log"),
        ("program.rate.sum() if program.rate.sum() else program.time.sum()", "a question about the value of a variable"),
    ],
)
def test_an_objective_that_is_not_linear_is_told_in_a_line(tmp_path: Path, goal: str, words: str) -> None:
    with pytest.raises(OptionError) as told:
        rota.simulate("demo", policy=mine(tmp_path, f"program.maximise({goal})"), cluster="24xV100")
    assert f"{words!r} — is not linear in the shares" in told.value.message
    assert told.value.message.endswith("(mine.py:8).") and "\n" not in told.value.message


@pytest.mark.slow
def test_what_is_linear_stays_as_it_was(tmp_path: Path) -> None:
    body = "program.maximise(numpy.ones(len(program.rate)) @ (program.weight * program.rate + 1 - program.time / 2))\n"
    body += "        program.subject_to(program.gpus_used <= view.capacity, numpy.zeros(len(program.time)) <= program.time)\n"
    found = rota.simulate("demo", policy=mine(tmp_path, body + "        return program.solve().shares()"), cluster="24xV100")
    assert found.summary.finished == found.summary.jobs


@pytest.mark.parametrize(
    ("read", "where", "near"),
    [
        ("view.jobs.gpu", "view.jobs has attained_gpu_seconds, best_gpus, deadline_s,", "gpus"),
        ("view.options.rats", "view.options has alone,", "rate"),
        ("view.job.gpus", "view has ", "jobs"),
        ("program.rats.sum()", "a Program has ", "rate"),
    ],
)
def test_a_mistyped_column_lists_the_columns(tmp_path: Path, read: str, where: str, near: str) -> None:
    with pytest.raises(PolicyError) as told:
        rota.simulate("demo", policy=mine(tmp_path, RANKING.format(read)), cluster="24xV100")
    assert where in told.value.message and f"Closest: {near}." in told.value.message and "(mine.py:8)" in told.value.message


def test_the_list_has_every_column_and_nothing_private() -> None:
    names = columns(Jobs)
    assert {"gpus", "steps_left", "attained_gpu_seconds", "tenant"} <= set(names)
    assert not [name for name in names if name.startswith("_")]


def test_policy_check_lists_the_columns_once(tmp_path: Path) -> None:
    from rota.api import check

    stories = [finding.story for finding in check(mine(tmp_path, RANKING.format("view.jobs.gpu")), seeds=1)]
    assert sum("view.jobs has" in story for story in stories) == 1


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != DEBUG}
    return subprocess.run([sys.executable, "-m", "rota", *words], capture_output=True, text=True, timeout=120, env=environment)


@pytest.mark.parametrize("command", [("sim", "--policy"), ("compare", "fifo"), ("sweep", "fifo")])
@pytest.mark.slow
def test_debug_shows_the_traceback(tmp_path: Path, command: tuple[str, ...]) -> None:
    words = [*command, mine(tmp_path, "return 1 / 0"), "--trace", "synthetic:jobs=5", "--cluster", "24xV100"]
    words += ["--out", str(tmp_path / "out")] if command[0] == "sweep" else []
    plain, told = run(*words), run(*words, "--debug")
    assert plain.returncode == told.returncode == 1
    assert "Traceback" not in plain.stderr and "raised ZeroDivisionError: division by zero (mine.py:8)" in plain.stderr
    assert 'mine.py", line 8, in allocate' in told.stderr and "return 1 / 0" in told.stderr
    assert told.stderr.count("Traceback (most recent call last)") == 1
    if command[0] != "sweep":
        assert "--debug for the traceback" in plain.stderr and "--debug" not in told.stderr.splitlines()[-1]


@pytest.mark.slow
def test_debug_shows_the_line_of_an_objective_too(tmp_path: Path) -> None:
    policy = mine(tmp_path, "program.maximise((program.rate * program.rate).sum())")
    told = run("sim", "--policy", policy, "--trace", "synthetic:jobs=5", "--cluster", "24xV100", "--debug")
    assert told.returncode == 2 and 'mine.py", line 8, in allocate' in told.stderr and "typer" not in told.stderr


@pytest.mark.slow
def test_an_error_that_no_policy_caused_has_no_traceback() -> None:
    told = run("sim", "--trace", "demo", "--cluster", "24xH1000", "--debug")
    assert told.returncode == 2 and "Traceback" not in told.stderr


def test_arrays_and_variables_go_together_either_way_round() -> None:
    from rota.solver.linear import Linear

    one = Linear(np.array([0, 1]), np.array([0, 1]), np.array([2.0, 3.0]), np.array([1.0, 0.0]))
    x, by = np.array([1.0, 10.0]), np.array([2.0, 0.5])
    assert (by * one).at(x).tolist() == (one * by).at(x).tolist() == [6.0, 15.0]
    assert (by + one).at(x).tolist() == (one + by).at(x).tolist() == [5.0, 30.5]
    assert (by - one).at(x).tolist() == (-(one - by)).at(x).tolist() == [-1.0, -29.5]
    assert (by @ one).at(x).tolist() == (one @ by).at(x).tolist() == [21.0]
    assert (np.float64(2) * one).at(x).tolist() == [6.0, 60.0]
    assert (by <= one).over.at(x).tolist() == (one >= by).over.at(x).tolist() == [-1.0, -29.5]
