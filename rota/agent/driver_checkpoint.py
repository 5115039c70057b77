"""The NVIDIA driver's own checkpoint of a process, for jobs into which no hook gets: `python -m rota.agent.driver_checkpoint
FOLDER`.

Any process that uses CUDA can be parked so, whatever it is written in, with no library of ours in it: further calls of CUDA are
blocked, its GPU memory goes to its host memory, and the GPU is free but for some MiB. It is slower than the preloaded allocator:
about 1.8 GB a second out and 5.5 GB a second back on an H200.

A supervisor keeps this program beside it: a job dies with its supervisor, and the driver's library must not be able to take that
down. Lines come in by standard input, `park 4711` or `wake 4711`. What became of it goes to the socket `tell` in the folder, in
the words that hooks use (`rota/park/hook`). The program ends when its input does. With `probe` in place of a folder it says why
processes can't be parked so here, and nothing if they can.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from rota.agent import datagrams
from rota.agent.constants import PARK, PARKED, RESUMED, UNPARKABLE, WAKE
from rota.agent.disk import REPORT_SOCKET
from rota.agent.job_user import become, find_user

LIBRARY = "libcuda.so.1"
NEEDED = ("cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint", "cuCheckpointProcessRestore", "cuCheckpointProcessUnlock")
LOCK_SECONDS = 20
"""Time limit for work on the GPU to end, in seconds."""
RUNNING, LOCKED, CHECKPOINTED = 0, 1, 2
"""States of a process, as the driver numbers them. Any other: it failed, and can't go on."""
GIB = 1 << 30


class DriverError(Exception):
    """The driver refused, in words."""


class LockArguments(ctypes.Structure):
    """`CUcheckpointLockArgs`; what is reserved has to be zero."""

    _fields_ = [("timeout_ms", ctypes.c_uint), ("reserved", ctypes.c_uint), ("more", ctypes.c_uint64 * 7)]


class DriverCheckpoint:
    """The calls of the driver's library. They take the number of another process."""

    def __init__(self, library: Any = None) -> None:
        """`library`: has the functions of `libcuda`; None: that one."""
        try:
            self._library = ctypes.CDLL(LIBRARY) if library is None else library
        except OSError as error:
            raise DriverError(f"{LIBRARY} cannot be loaded: {error}") from error
        missing = [name for name in NEEDED if not hasattr(self._library, name)]
        if missing:
            raise DriverError("the driver is older than 570 and has no checkpoint of processes")
        self._call("cuInit", 0)

    def state(self, pid: int) -> int:
        found = ctypes.c_int()
        self._call("cuCheckpointProcessGetState", pid, ctypes.byref(found))
        return found.value

    def park(self, pid: int) -> None:
        """If that fails, the process goes on."""
        lock = LockArguments(timeout_ms=LOCK_SECONDS * 1000)
        self._call("cuCheckpointProcessLock", pid, ctypes.byref(lock))
        try:
            self._call("cuCheckpointProcessCheckpoint", pid, None)
        except DriverError:
            with contextlib.suppress(DriverError):
                self._call("cuCheckpointProcessUnlock", pid, None)
            raise

    def wake(self, pid: int) -> None:
        """From wherever it stands: an earlier call may have been cut off."""
        state = self.state(pid)
        if state == CHECKPOINTED:
            self._call("cuCheckpointProcessRestore", pid, None)
        elif state not in (RUNNING, LOCKED):
            raise DriverError(f"the driver says that the process is in state {state}, from which none goes on")
        if state != RUNNING:
            self._call("cuCheckpointProcessUnlock", pid, None)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise DriverError(f"{name} says {self._name(code)}")

    def _name(self, code: int) -> str:
        text = ctypes.c_char_p()
        if self._library.cuGetErrorName(code, ctypes.byref(text)) or not text.value:
            return f"error {code}"
        return f"{text.value.decode(errors='replace')} ({code})"


def probe() -> str:
    """Return why the driver can't park processes here; empty if it probably can, which only a real process would show."""
    try:
        DriverCheckpoint()
    except DriverError as error:
        return str(error)
    return ""


def obey(driver: DriverCheckpoint, folder: Path, line: str) -> None:
    """One line of a supervisor's. A process that can't go on is killed, so that its supervisor finds it dead."""
    word, _, number = line.strip().partition(" ")
    if word not in (PARK, WAKE) or not number.isdecimal():
        return
    pid, began_s = int(number), time.monotonic()
    before = _resident_bytes(pid)
    message: dict[str, Any] = {"pid": pid}
    try:
        if word == PARK:
            driver.park(pid)
            message |= {"op": PARKED, "cuda": True, "gib": max(_resident_bytes(pid) - before, 0) / GIB}
        else:
            driver.wake(pid)
            message |= {"op": RESUMED}
    except DriverError as error:
        message |= {"op": UNPARKABLE, "reason": str(error)}
        if word == WAKE:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    datagrams.send(folder, REPORT_SOCKET, json.dumps({**message, "seconds": time.monotonic() - began_s}).encode())


def _resident_bytes(pid: int) -> int:
    """What a process has in the host's memory."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(folder: str, uid: str = "") -> int:
    """`uid`: user of the job, as whom the driver is called, so that no process of another user is ever changed."""
    if uid:  # what is imported or decoded from here on has to be loaded: the user may not be able to read Python's own files
        become(find_user(int(uid)))
    if folder == "probe":
        problem = probe()
        sys.stdout.write(problem)
        return 1 if problem else 0
    driver, problem = None, ""
    try:
        driver = DriverCheckpoint()
    except DriverError as error:
        problem = str(error)
    for line in sys.stdin:
        if driver is not None:
            obey(driver, Path(folder), line)
        elif (pid := line.strip().partition(" ")[2]).isdecimal():
            refusal = {"op": UNPARKABLE, "pid": int(pid), "reason": problem}
            datagrams.send(Path(folder), REPORT_SOCKET, json.dumps(refusal).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
