"""Check the scheduler of a home: whether it runs, answers, has this version, and has the right time."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rota import __version__
from rota.doctor.diagnosis import Diagnosis, fail, ok, warn
from rota.errors import RotaError, UnreachableError
from rota.wire.client import Client
from rota.wire.home import ADDRESS_FILE, LOCK_FILE, TOKEN_FILE, scheduler_runs
from rota.wire.rows import NodeRow, StatusRow

ANSWER_SECONDS = 10.0
SKEW_SECONDS = 5.0
PORT = 7070
"""Default port of `rota up`."""


@dataclass
class FoundScheduler:
    """Facts from the scheduler for later checks."""

    nodes: list[NodeRow] | None = None
    """Nodes of the scheduler; None if it does not answer."""


def check_scheduler(home: Path, found: FoundScheduler) -> Iterator[Diagnosis]:
    address, up = _address(home), f"rota up --home {home}"
    if not scheduler_runs(home):
        if address:
            was = f"its process {address.get('pid')} is gone, and it has left {home / ADDRESS_FILE} behind"
            yield fail("scheduler", f"the scheduler of this home was killed: {was}", f"{up}; accepted jobs are not lost")
        else:
            yield warn("scheduler", "no scheduler runs in this home", up)
        yield _port()
        return
    if not address:
        step = f"end it (its process has {home / LOCK_FILE} open: fuser {home / LOCK_FILE}), then {up}"
        yield fail("scheduler", f"a scheduler runs, and {home / ADDRESS_FILE} does not contain its address", step)
        return
    url, pid = str(address.get("url", "")), address.get("pid")
    again = f"kill {pid}, then {up}; jobs keep running"
    try:
        token = (home / TOKEN_FILE).read_text(encoding="utf-8").strip()
        client = Client(url, token, home=str(home), answer_seconds=ANSWER_SECONDS)
        status = client.status()
    except UnreachableError as problem:
        yield fail("scheduler", f"its process is {pid}, but: {problem.message}", again)
        return
    except (RotaError, OSError, ValueError) as problem:
        message = problem.message if isinstance(problem, RotaError) else str(problem)
        yield fail("scheduler", f"its process is {pid}, but it does not answer: {message}", again)
        return
    yield ok("scheduler", f"answers at {url}, process {status.daemon_pid}, policy {status.policy}, cluster {status.cluster}")
    yield _version(status, home)
    yield _clock(status, up)
    yield from _attention(status)
    with contextlib.suppress(RotaError, KeyError):  # an older version does not have them
        found.nodes = client.nodes()


def _address(home: Path) -> dict[str, Any] | None:
    """Return the contents of the address file; an empty mapping if it cannot be read; None if there is no file."""
    try:
        plain = json.loads((home / ADDRESS_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return plain if isinstance(plain, dict) else {}


def _port() -> Diagnosis:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", PORT))
        except OSError as problem:
            found = f"port {PORT} cannot be used for a scheduler ({(problem.strerror or str(problem)).lower()})"
            return warn("port", found, "rota up --listen 127.0.0.1:0, which uses any free port")
    return ok("port", f"{PORT}, where rota up listens, is free")


def _version(status: StatusRow, home: Path) -> Diagnosis:
    if status.version != __version__:
        found = f"the scheduler is version {status.version}, and this is {__version__}"
        return warn("version", found, f"rota down --home {home}, then rota up --home {home}; jobs keep running")
    return ok("version", __version__)


def _clock(status: StatusRow, up: str) -> Diagnosis:
    ahead = datetime.fromisoformat(status.now).timestamp() - time.time()
    if abs(ahead) <= SKEW_SECONDS:
        return ok("clock", f"the scheduler's clock is right to {max(abs(ahead), 0.1):.1f} s")
    found = f"the scheduler's clock is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} the machine's"
    if ahead > 0:
        step = "set the machine's clock (date, chronyc tracking); if that is right, the journal was written while it was wrong: "
        return fail("clock", found, f"{step}another --home, or wait until that time")
    return fail("clock", found, f"set the machine's clock (date, chronyc tracking), then rota down and {up}")


def _attention(status: StatusRow) -> Iterator[Diagnosis]:
    if status.policy_error:
        yield fail("policy", f"{status.policy}: {status.policy_error}", "rota policy check, or rota policy set NAME")
    for line in status.slow_gpus:
        yield warn("slow GPUs", line, "look at its clock and temperature: rota nodes -o wide")
