"""Processes on a GPU that are not jobs of this home, with real processes."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rota.agent import other_programs
from rota.agent.constants import ATTEMPT_ID
from rota.agent.gpu_readings import GpuReading
from rota.agent.other_programs import STAYS_SECONDS, OtherPrograms
from rota.wire.client import user_name

A, B = "GPU-a", "GPU-b"
OURS = {"1.1.ours"}


@pytest.fixture(autouse=True)
def no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_programs, "reports_own_numbers", lambda: True)


@contextlib.contextmanager
def program(*words: str, **env: str) -> Iterator[int]:
    """Its number. It is ready when it has written a line, and ends with its input."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
    assert process.stdin is not None and process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


SAYS = ("sh", "-c", "echo $$; read line")
"""A program that says its number."""


def looked(processes: dict[str, Sequence[int]], home: Path) -> dict[str, str]:
    """The first look."""
    readings = {uuid: GpuReading(at_s=10.0, processes=dict.fromkeys(pids)) for uuid, pids in processes.items()}
    return dict(OtherPrograms(home).look(readings, OURS))


def test_a_program_of_nobody_we_know_is_named_with_its_user(tmp_path: Path) -> None:
    with program(*SAYS) as pid, program(*SAYS) as other:
        assert looked({A: [pid], B: []}, tmp_path) == {A: f"process {pid} (sh) of {user_name()}"}
        first = min(pid, other)
        assert looked({A: [pid, other]}, tmp_path) == {A: f"process {first} (sh) of {user_name()} and 1 more"}
    assert looked({A: [pid]}, tmp_path) == {}, "it has ended"


def test_jobs_of_this_home_and_their_children_are_not(tmp_path: Path) -> None:
    with program(*SAYS, **{ATTEMPT_ID: "1.1.ours"}) as pid:
        assert looked({A: [pid]}, tmp_path) == {}
    with program("sh", "-c", "env -i sh -c 'echo $$; read line'; true", **{ATTEMPT_ID: "1.1.ours"}) as pid:
        assert looked({A: [pid]}, tmp_path) == {}, "it has shed its environment, and its parent has not"
    with program(*SAYS, **{ATTEMPT_ID: "1.1.of-another-home"}) as pid:
        assert f"process {pid}" in looked({A: [pid]}, tmp_path)[A], "a job of another scheduler"


def test_what_a_supervisor_of_this_home_has_adopted_is_not(tmp_path: Path) -> None:
    """Its environment is gone, and its parents are; its supervisor's command names the home."""
    script = tmp_path / "rota.agent.supervisor"
    script.write_text("import subprocess, sys; subprocess.run(['env', '-i', 'sh', '-c', 'echo $$; read line'])")
    mine, another = str(tmp_path / "home" / "run" / "1" / "1"), str(tmp_path / "other" / "run" / "1" / "1")
    for folder, found in ((mine, False), (another, True)):
        words = (sys.executable, "-c", script.read_text(), "-m", "rota.agent.supervisor", folder)
        with program(*words) as pid:
            assert bool(looked({A: [pid]}, tmp_path / "home")) is found


def test_servers_of_mps_are_not(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    server = tmp_path / "nvidia-cuda-mps-server"
    shutil.copy(shell, server)
    with program(str(server), "-c", "echo $$; read line") as pid:
        assert looked({A: [pid]}, tmp_path) == {}


def test_in_a_container_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_programs, "reports_own_numbers", lambda: False)
    with program(*SAYS) as pid:
        assert looked({A: [pid]}, tmp_path) == {}


def test_one_that_appears_later_counts_when_it_stays(tmp_path: Path) -> None:
    watch = OtherPrograms(tmp_path)

    def look(at_s: float, *pids: int) -> bool:
        return A in watch.look({A: GpuReading(at_s=at_s, processes=dict.fromkeys(pids))}, OURS)

    with program(*SAYS) as pid:
        assert not look(10.0)
        assert not look(11.0, pid) and not look(11.0 + STAYS_SECONDS / 2, pid)
        assert look(11.0 + STAYS_SECONDS, pid) and look(20.0, pid)
        assert watch.look({}, OURS), "while nothing can be read, it is as it was"
        assert not look(21.0), "it is free at once"
        assert not look(22.0, pid)
        assert look(30.0, pid)


def test_numbers_of_processes_of_this_machine() -> None:
    """Whatever the answer here, it is one, and quick."""
    began = time.process_time()
    other_programs._name(os.getpid())
    assert other_programs._lives(os.getpid()) and not other_programs._lives(2**22 + 1)
    assert time.process_time() - began < 60
