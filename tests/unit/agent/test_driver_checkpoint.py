"""Parking with the driver's checkpoint, with real processes and a driver of our own, which stops a process and resumes it."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.agent import datagrams, parking
from rota.agent.disk import REPORT_SOCKET
from rota.agent.driver_checkpoint import CHECKPOINTED, DriverCheckpoint, DriverError, obey, probe
from rota.agent.job_folder import JobFolder
from rota.agent.parking import ASLEEP, AWAKE, PARKING, WAKING, Parking
from rota.park.facts import driver_problem
from tests.stranger import STRANGER, root_only

DRIVER = """
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>
/* A process is checkpointed if there is a file of its number. */
static char *file(int pid) { static char name[512]; snprintf(name, 512, "%s/%d", getenv("CHECKPOINTS"), pid); return name; }
int cuInit(unsigned flags) { return 0; }
int cuGetErrorName(int code, const char **text) { *text = "CUDA_ERROR_OF_OURS"; return 0; }
int cuCheckpointProcessGetState(int pid, int *state) { *state = access(file(pid), F_OK) ? 0 : 2; return 0; }
int cuCheckpointProcessLock(int pid, unsigned *args) { return args[0] == 20000 && !kill(pid, 0) ? 0 : 800; }
int cuCheckpointProcessCheckpoint(int pid, void *args) {
    if (getenv("REFUSE")) return 801;
    FILE *made = fopen(file(pid), "w"); fclose(made);
    return kill(pid, SIGSTOP);
}
int cuCheckpointProcessRestore(int pid, void *args) { if (getenv("BREAK")) return 999; unlink(file(pid)); return 0; }
int cuCheckpointProcessUnlock(int pid, void *args) { return kill(pid, SIGCONT); }
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the driver is. Programs that are started from now on load it as that of NVIDIA."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("CHECKPOINTS", str(tmp_path))
    return library


@pytest.fixture
def job() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-S", "-c", "import time\nwhile True: time.sleep(0.01)"]) as process:
        yield process
        process.kill()


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.005)


class Desk:
    """Hears for a `Parking` as its supervisor does."""

    def __init__(self, folder: Path, *living: int) -> None:
        folder.mkdir()
        self.box = datagrams.listen(folder, REPORT_SOCKET)
        self.living = set(living)
        self.parking = Parking(JobFolder(folder.parent), lambda: self.living, 5.0, by_driver=True)

    def look(self) -> str:
        for text in datagrams.receive(self.box, 10):
            self.parking.hear(json.loads(text))
        self.parking.look()
        return self.parking.phase

    def close(self) -> None:
        self.parking.close()
        self.box.close()


@pytest.fixture
def desk(tmp_path: Path, driver: Path, job: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path / "job", job.pid)
    monkeypatch.setattr(
        parking, "open_files", lambda pid: {"/dev/null", "/dev/nvidia0" if pid in made.living else "/dev/nvidiactl"}
    )
    yield made
    made.close()


def test_a_process_is_parked_and_woken_again_and_again(desk: Desk, job: "subprocess.Popen[bytes]") -> None:
    for _ in range(3):
        desk.parking.begin()
        assert desk.parking.phase == PARKING
        until(lambda: desk.look() == ASLEEP, "it sleeps")
        until(lambda: stopped(job.pid), "it is stopped")
        assert not desk.parking.problem and not desk.parking.is_helper(job.pid)
        desk.parking.wake()
        assert desk.parking.phase == WAKING
        until(lambda: desk.look() == AWAKE, "it is awake")
        until(lambda: not stopped(job.pid), "it runs")
        assert job.poll() is None


def test_one_that_the_driver_refuses_goes_on(desk: Desk, job: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSE", "1")
    desk.parking.begin()
    until(lambda: desk.look() == AWAKE, "it goes on")
    assert desk.parking.problem == "cuCheckpointProcessCheckpoint says CUDA_ERROR_OF_OURS (801)"
    until(lambda: not stopped(job.pid), "it runs")
    assert job.poll() is None


def test_one_that_cannot_be_woken_is_ended(desk: Desk, job: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for its GPU for ever."""
    monkeypatch.setenv("BREAK", "1")
    desk.parking.begin()
    until(lambda: desk.look() == ASLEEP, "it sleeps")
    desk.parking.wake()
    until(lambda: desk.look() == AWAKE, "nothing is waited for")
    assert job.wait(60) == -signal.SIGKILL


def test_the_program_may_be_killed_while_the_job_sleeps(desk: Desk, job: "subprocess.Popen[bytes]") -> None:
    desk.parking.begin()
    until(lambda: desk.look() == ASLEEP, "it sleeps")
    program = desk.parking.program
    assert program is not None and program.pid is not None
    os.kill(program.pid, signal.SIGKILL)
    until(lambda: not program.lives, "the program is gone")
    desk.parking.wake()
    until(lambda: desk.look() == AWAKE, "it is awake")
    until(lambda: not stopped(job.pid), "it runs")


@pytest.mark.parametrize("many", [0, 2])
def test_only_a_job_with_one_process_on_the_gpu(desk: Desk, many: int) -> None:
    desk.living = set(range(1, many + 1))
    desk.parking.begin()
    assert desk.parking.phase == AWAKE and f"{many} of its processes use a GPU" in desk.parking.problem


def test_what_the_driver_is_asked(tmp_path: Path, driver: Path, job: "subprocess.Popen[bytes]") -> None:
    made = DriverCheckpoint(ctypes.CDLL(str(driver)))
    assert made.state(job.pid) == 0
    made.wake(job.pid)  # it runs already
    made.park(job.pid)
    assert made.state(job.pid) == CHECKPOINTED
    made.wake(job.pid)
    assert made.state(job.pid) == 0
    job.kill()
    job.wait()
    with pytest.raises(DriverError, match="cuCheckpointProcessLock says CUDA_ERROR_OF_OURS"):
        made.park(job.pid)
    box = datagrams.listen(tmp_path, REPORT_SOCKET)
    for line in ("park", "park x", "sleep 7", f"park {job.pid}\n"):
        obey(made, tmp_path, line)
    (answer,) = [json.loads(text) for text in datagrams.receive(box, 10)]
    box.close()
    assert (answer["op"], answer["pid"]) == ("unparkable", job.pid)


@root_only
def test_for_a_job_of_another_user_the_driver_is_called_as_that_user(public: Path, job: "subprocess.Popen[bytes]") -> None:
    """So it changes no process of anyone else, whatever number it is given."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("there is no C compiler")
    public.chmod(0o777)
    (public / "driver.c").write_text(DRIVER)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", public / "libcuda.so.1", public / "driver.c"], check=True)
    box = datagrams.listen(public, REPORT_SOCKET)
    os.chown(public / REPORT_SOCKET, STRANGER, STRANGER)
    env = {**os.environ, "LD_LIBRARY_PATH": str(public), "CHECKPOINTS": str(public)}
    words = [sys.executable, "-m", "rota.agent.driver_checkpoint", str(public), str(STRANGER)]
    with (
        subprocess.Popen(["sleep", "1000"], user=STRANGER, group=STRANGER, extra_groups=[]) as theirs,
        subprocess.Popen(words, stdin=subprocess.PIPE, env=env) as program,
    ):
        assert program.stdin is not None
        program.stdin.write(f"park {theirs.pid}\npark {job.pid}\nwake {theirs.pid}\n".encode())
        program.stdin.close()
        program.wait()
        replies = [json.loads(text) for text in datagrams.receive(box, 10)]
        theirs.kill()
    box.close()
    assert [(reply["op"], reply["pid"]) for reply in replies] == [
        ("parked", theirs.pid),
        ("unparkable", job.pid),
        ("resumed", theirs.pid),
    ]
    assert not stopped(job.pid)


class Old:
    """A library without these calls."""

    def cuInit(self, *_: Any) -> int:
        return 0


def test_an_old_driver_and_none() -> None:
    with pytest.raises(DriverError, match="older than 570"):
        DriverCheckpoint(Old())
    if not Path("/dev/nvidiactl").exists():
        assert "libcuda.so.1 cannot be loaded" in probe()
        driver_problem.cache_clear()
        assert "libcuda.so.1 cannot be loaded" in driver_problem()
