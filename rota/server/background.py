"""Schedulers without a terminal: start one in the background, or stop the one of a home."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rota.errors import InputError, NotYours, OptionError, RotaError
from rota.folders import make_folder, open_file
from rota.server.standby import STANDBY
from rota.wire.client import connect
from rota.wire.home import ADDRESS_FILE, scheduler_runs, user_of

LOG_FILE = "up.log"
"""File with the output of a scheduler in the background."""
LOG_BYTES = 4_000_000
"""Size from which the log is renamed when a scheduler starts, in bytes."""
FIRST, LAST = "ready ", "try: "
"""Beginnings of the first and the last line that a scheduler prints when it has started."""
LOOK_SECONDS = 0.05
HOLDING = ("starting", "running", "resizing", "suspending", "stopping")
"""Phases of jobs that have processes."""
READY_SECONDS, STOP_SECONDS = 120.0, 60.0


def start_in_background(home: Path, arguments: Sequence[str]) -> str:
    """Start `rota` with these arguments in a session of its own, with its output in a file in the home. Return its first lines
    when it is ready or a standby."""
    try:
        make_folder(home, instead="--home with a folder of yours")
        _set_aside(home / LOG_FILE)
        log = open_file(home / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.set_blocking(log, True)
    except NotYours:
        raise
    except OSError as problem:
        raise OptionError(
            f"cannot be used: {problem.strerror}.", field="--home", value=str(home), hint="another --home"
        ) from None
    with os.fdopen(log, "ab") as file:
        before = file.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "rota", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        said = (home / LOG_FILE).read_bytes()[before:].decode(errors="replace")
        if process.poll() is not None:
            problem_text, _, hint = said.strip().partition("\nTry: ")
            kind = InputError if process.returncode == 2 else RotaError  # as if this process had failed
            raise kind(problem_text or "The scheduler exited at once.", hint=hint or f"look into {home / LOG_FILE}")
        ready = re.search(rf"^{FIRST}.*\n", said, re.MULTILINE) and re.search(rf"^{LAST}.*\n", said, re.MULTILINE)
        if (ready and (home / ADDRESS_FILE).exists()) or re.search(rf"^{STANDBY}.*\n", said, re.MULTILINE):
            process.returncode = 0  # the process keeps running, and Python must not warn about that
            return said
        time.sleep(LOOK_SECONDS)
    raise RotaError("The scheduler is not ready yet.", hint=f"look into {home / LOG_FILE}")


def address_of(home: Path, said: str) -> dict[str, Any]:
    """Return the address of a scheduler that was started in the background, from its first lines. A standby has no address
    yet."""
    if not re.search(rf"^{FIRST}", said, re.MULTILINE):
        return {"url": None, "pid": None, "standby": True}
    plain = json.loads((home / ADDRESS_FILE).read_text(encoding="utf-8"))
    return {"url": plain["url"], "pid": plain["pid"], "standby": False}


def _set_aside(log: Path) -> None:
    """Rename a long log. It replaces the log that was renamed before."""
    with contextlib.suppress(FileNotFoundError):
        if log.lstat().st_size > LOG_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))


class Stopped(NamedTuple):
    """A scheduler that was stopped."""

    pid: int
    jobs: int
    """Number of jobs that keep running without the scheduler."""
    lease_left_seconds: float | None
    """How long these jobs may keep running, in seconds; None if there are none."""


def stop(home: Path) -> Stopped:
    """Stop the scheduler of a home, and wait until its process has ended."""
    found = connect(home).status()
    holding = sum(count for phase, count in found.jobs.items() if phase in HOLDING)
    try:
        os.kill(found.daemon_pid, signal.SIGTERM)
    except PermissionError:
        whose = user_of(Path(f"/proc/{found.daemon_pid}").stat().st_uid)
        text = f"The scheduler of {home} is process {found.daemon_pid} of {whose}, which you may not stop."
        raise RotaError(text, hint=f"ask {whose} to run rota down") from None
    except ProcessLookupError:
        pass
    until = time.monotonic() + STOP_SECONDS
    while scheduler_runs(home) and not _another_leads(home, found.daemon_pid):
        if time.monotonic() > until:
            raise RotaError(f"Process {found.daemon_pid} has not ended yet.", hint="rota status, in a moment")
        time.sleep(LOOK_SECONDS)
    return Stopped(found.daemon_pid, holding, found.lease_left_seconds)


def _another_leads(home: Path, pid: int) -> bool:
    """Return whether a standby has taken over already."""
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads((home / ADDRESS_FILE).read_text(encoding="utf-8"))["pid"] != pid)
    return False
