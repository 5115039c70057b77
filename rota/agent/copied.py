"""Attempts in a copy of a home. The attempts of the original keep running, and nothing is sent to them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from rota.agent.attempt_files import read_order, read_status, starting, unix_s, write_status
from rota.agent.constants import ATTEMPT_ID, ENDED, LOST
from rota.agent.disk import RUN, SUPERVISOR_LOCK, TOMBSTONE, try_lock, unlock, write_atomic
from rota.agent.processes import PROC, boot_id
from rota.errors import RotaError

_SUPERVISOR = b"rota.agent.supervisor"


def end_copied_attempts(home: Path, why: str) -> int:
    """End the attempts in a copied home as lost, and return their number. No process gets a signal. Raise RotaError if an attempt
    has a supervisor in this folder."""
    count = 0
    for job, attempt, folder in _attempts(home):
        lock = try_lock(folder / SUPERVISOR_LOCK)
        if lock is None:
            raise RotaError(f"{folder} has a supervisor: {home} is not a copy.", hint=f"rota up --home {home}")
        try:
            order = read_order(folder)
            last = read_status(folder, order) or starting(job, attempt, order)
            write_atomic(folder, TOMBSTONE, b"", durable=True)
            write_status(folder, last._replace(state=ENDED, outcome=LOST, problem=why, ended_s=unix_s(order, boot_id())))
        finally:
            unlock(lock)
        count += 1
    return count


def supervised_elsewhere(home: Path) -> Iterator[Path]:
    """Return the folders of supervisors that run attempts of this home in another home."""
    here = {
        order.env.get(ATTEMPT_ID, ""): folder for _, _, folder in _attempts(home) if (order := read_order(folder)) is not None
    }
    here.pop("", None)
    if not here:
        return
    for entry in PROC.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and _SUPERVISOR in (entry / "cmdline").read_bytes().split(b"\0"):
                order = read_order(entry / "cwd")
                mine = here.get(order.env.get(ATTEMPT_ID, "")) if order is not None else None
                if mine is not None and not os.path.samestat(mine.stat(), (entry / "cwd").stat()):
                    yield (entry / "cwd").readlink()


def _attempts(home: Path) -> Iterator[tuple[int, int, Path]]:
    """Return job, attempt and folder of each attempt that has not ended."""
    for folder in sorted((home / RUN).glob("[0-9]*/[0-9]*")):
        if folder.name.isdecimal() and folder.parent.name.isdecimal():
            status = read_status(folder)
            if status is None or status.state != ENDED:
                yield int(folder.parent.name), int(folder.name), folder
