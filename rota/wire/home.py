"""Inspect a home without its scheduler: its owner, whether its scheduler runs, and how many of its jobs run. Nothing is
written."""

import contextlib
import fcntl
import os
import pwd
from pathlib import Path

from rota.wire.config_file import client_setting

ADDRESS_FILE = "daemon.json"
TOKEN_FILE = "token"
LOCK_FILE = "daemon.lock"
"""Lock that the scheduler holds while it runs."""
RUN = "run"
"""Folder that has a folder for each job, with a folder for each of its attempts."""
SUPERVISOR_LOCK = "supervisor.lock"
"""Lock in the folder of an attempt that its supervisor holds while it runs."""
_PRIVATE = (ADDRESS_FILE, TOKEN_FILE, LOCK_FILE, "journal.sqlite", "journal.json")


def home_folder(home: Path | str | None = None) -> Path:
    """Return the folder of a scheduler's state: the named one, or $ROTA_HOME, or that of the configuration file, or ~/.rota."""
    return Path(home or os.environ.get("ROTA_HOME") or client_setting("home") or "~/.rota").expanduser().absolute()


def other_owner(folder: Path) -> str:
    """Return `/srv/rota belongs to ana and is not readable for you` if another user's home is not readable, else an empty text.

    Such a home is not broken, so its files are not checked."""
    if os.geteuid() == 0:
        return ""
    for above in (*reversed(folder.parents), folder):
        try:
            facts = above.stat()
        except OSError:
            return ""  # the home does not exist yet
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
    """Return the name of a user of this machine. In a container a user's number may have no name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def scheduler_runs(folder: Path) -> bool:
    """Return whether a scheduler holds the lock of this home."""
    try:
        return is_held(folder / LOCK_FILE)
    except OSError:
        return False


def jobs_alive(folder: Path) -> int:
    """Return how many jobs of this home have a supervisor on this machine, whether or not the scheduler runs."""
    found = set()
    for lock in (folder / RUN).glob(f"[0-9]*/[0-9]*/{SUPERVISOR_LOCK}"):
        with contextlib.suppress(OSError):
            if is_held(lock):
                found.add(lock.parent.parent.name)
    return len(found)


def not_running(folder: Path) -> str:
    """Return the sentence that the scheduler of a home is not running."""
    if not (folder / LOCK_FILE).exists():
        return f"No scheduler has been started in {folder}."
    jobs = jobs_alive(folder)
    still = f"; {jobs} of its jobs {'is' if jobs == 1 else 'are'}" if jobs else ""
    return f"The scheduler of {folder} is not running{still}."


def is_held(path: Path) -> bool:
    """Return whether a process holds this lock. A free lock is taken for an instant; a process that tries to take it at the same
    time must retry."""
    while True:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), path.stat()):  # else another process has replaced the file
                return False
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
