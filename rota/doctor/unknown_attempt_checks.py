"""What schedulers and supervisors left behind: jobs that run without a scheduler, and folders of those that were killed."""

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
    """Attempts on disk that are not looked after."""
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
        asleep = f", {len(parked)} of them asleep" if parked else ""
        found = f"jobs {_jobs(alive)} run with a supervisor and without a scheduler{asleep}; they end with their leases"
        yield fail("leftovers", found, f"{up} takes them over; to end them: {up}, then rota cancel JOB")
    elif alive:
        yield ok("leftovers", f"{len(alive)} supervisors, and a scheduler that looks after them")
    if dead and not served:
        found = f"files of jobs {_jobs(dead)} are left, whose supervisors are gone: {dead[0]}"
        yield warn("leftovers", found, f"{up} clears up, and starts those jobs again that have not ended")
    if not alive and (served or not dead):
        yield ok("leftovers", "none")


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
