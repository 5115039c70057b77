"""What can be said of a home from outside, without its scheduler: whose it is, whether its scheduler runs, and how many of its
jobs do. Nothing is written there."""

import contextlib
import fcntl
import os
import pwd
from pathlib import Path

ADDRESS_FILE = "daemon.json"
TOKEN_FILE = "token"
LOCK_FILE = "daemon.lock"
"""Held by the scheduler for as long as it lives."""
RUN = "run"
"""The folder with a folder for each job, in which there is one for each of its attempts."""
SUPERVISOR_LOCK = "supervisor.lock"
"""In the folder of an attempt: held by its supervisor for as long as that lives."""
_PRIVATE = (ADDRESS_FILE, TOKEN_FILE, LOCK_FILE, "journal.sqlite", "journal.json")


def home_folder(home: Path | str | None = None) -> Path:
    """The folder with a scheduler's state: the one that was named, else $ROTA_HOME, else ~/.rota."""
    return Path(home or os.environ.get("ROTA_HOME") or "~/.rota").expanduser().absolute()


def other_owner(folder: Path) -> str:
    """`/srv/rota belongs to ana and is not readable for you`, if that is why a home cannot be used; empty: it is not.

    A home that cannot be read is not a broken one, so what is asked for stops here, and no check of its files follows."""
    if os.geteuid() == 0:
        return ""
    for above in (*reversed(folder.parents), folder):
        try:
            facts = above.stat()
        except OSError:
            return ""  # it is not there yet
        needed = os.R_OK | os.X_OK if above == folder else os.X_OK
        if facts.st_uid != os.geteuid() and not os.access(above, needed):
            there = "" if above == folder else f"{folder}: "
            return f"{there}{above} belongs to {user_of(facts.st_uid)} and is not readable for you"
    for name in _PRIVATE:
        with contextlib.suppress(OSError):
            facts = (folder / name).stat()
            if facts.st_uid != os.geteuid() and not os.access(folder / name, os.R_OK):
                return f"{folder / name} belongs to {user_of(facts.st_uid)} and is not readable for you"
    return ""


def user_of(number: int) -> str:
    """The name of a user of this machine. In a container the number may have none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def scheduler_runs(folder: Path) -> bool:
    """Whether a scheduler holds the lock of this home."""
    try:
        return is_held(folder / LOCK_FILE)
    except OSError:
        return False


def jobs_alive(folder: Path) -> int:
    """How many jobs of this home have a supervisor on this machine, whether their scheduler runs or not."""
    found = set()
    for lock in (folder / RUN).glob(f"[0-9]*/[0-9]*/{SUPERVISOR_LOCK}"):
        with contextlib.suppress(OSError):
            if is_held(lock):
                found.add(lock.parent.parent.name)
    return len(found)


def not_running(folder: Path) -> str:
    """That the scheduler of a home is not running, in words."""
    if not (folder / LOCK_FILE).exists():
        return f"No scheduler has been started in {folder}."
    jobs = jobs_alive(folder)
    still = f"; {jobs} of its jobs {'is' if jobs == 1 else 'are'}" if jobs else ""
    return f"The scheduler of {folder} is not running{still}."


def is_held(path: Path) -> bool:
    """It is taken for an instant if it is free; a process that tries for it at the same time tries again."""
    while True:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), path.stat()):  # else another has made the file again
                return False
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
