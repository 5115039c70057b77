"""Check for unknown attempts: jobs that run without a scheduler, and folders of killed supervisors."""

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

from rota.agent.attempt_files import read_status
from rota.agent.constants import ENDED, PARKED
from rota.agent.disk import CONTROL, RUN, SUPERVISOR_LOCK, try_lock, unlock
from rota.doctor.diagnosis import Diagnosis, fail, ok, warn
from rota.wire.home import scheduler_runs


def check_unknown_attempts(home: Path) -> Iterator[Diagnosis]:
    """Check for attempts on disk without a scheduler or a supervisor."""
    if not (home / RUN).is_dir():
        return
    served, up = scheduler_runs(home), f"rota up --home {home}"
    alive, dead, parked = [], [], []
    for folder in sorted((home / RUN).glob("[0-9]*/[0-9]*")):
        status = read_status(folder)
        if _has_supervisor(folder):
            alive.append(folder)
            if status is not None and status.state == PARKED:
                parked.append(folder)
        elif status is None or status.state != ENDED or _is_socket(folder / CONTROL):
            dead.append(folder)
    if alive and not served:
        resting = f", {len(parked)} of them parked" if parked else ""
        found = f"jobs {_jobs(alive)} run with a supervisor and without a scheduler{resting}; they end when their leases expire"
        yield fail("unknown attempts", found, f"{up} takes them over; to end them: {up}, then rota cancel JOB")
    elif alive:
        yield ok("unknown attempts", f"none; the scheduler of {len(alive)} supervisors runs")
    if dead and not served:
        found = f"jobs {_jobs(dead)} have files, but their supervisors are gone: {dead[0]}"
        yield warn("unknown attempts", found, f"{up} cleans up, and starts unfinished jobs again")
    if not alive and (served or not dead):
        yield ok("unknown attempts", "none")


def _has_supervisor(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        lock = try_lock(folder / SUPERVISOR_LOCK, create=False)
        if lock is None:
            return True
        unlock(lock)
    return False


def _is_socket(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISSOCK(path.lstat().st_mode)
    return False


def _jobs(folders: list[Path]) -> str:
    numbers = sorted({int(folder.parent.name) for folder in folders})
    return ", ".join(map(str, numbers[:5])) + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")
