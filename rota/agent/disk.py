"""The files of an attempt: their places, how they are written whole, and how they are locked.

    `run/notify`                               socket of the daemon
    `run/<job>/job.lock`                       held by the supervisor and every process of the job that inherited it
    `run/<job>/<attempt>/launch.json`          the order, written before the supervisor is started
    `run/<job>/<attempt>/supervisor.lock`      held by the supervisor while it is running
    `run/<job>/<attempt>/lost`                 tombstone: the attempt must never start
    `run/<job>/<attempt>/status.json`          the status, written by the supervisor, or by the agent once the supervisor is dead
    `run/<job>/<attempt>/ctl`                  socket of the supervisor
    `run/<job>/<attempt>/supervisor.err`       errors of the supervisor itself
    `run/<job>/<attempt>/job/`                 folder that the job may write to, and finds as ROTA_RUN_DIR
    `run/<job>/<attempt>/job/tell`             socket of the supervisor for reports of the job
    `run/<job>/<attempt>/job/park-<pid>`       socket of a process of the job that is parked, or about to be
    `run/<job>/<attempt>/job/size.json`        size that the job was last granted by a resize

The folder `job/` of another user's job is below /var/lib/rota-jobs instead (`others_job_folder.py`).

Locks are `flock`: they belong to an open file, are inherited with it, and the kernel drops them with its last copy.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path

RUN = "run"
LOGS = "logs"
NOTIFY = "notify"
JOB_LOCK = "job.lock"
LAUNCH = "launch.json"
SUPERVISOR_LOCK = "supervisor.lock"
TOMBSTONE = "lost"
STATUS = "status.json"
CONTROL = "ctl"
COMPLAINTS = "supervisor.err"
JOB_FOLDER = "job"
REPORT_SOCKET = "tell"
SIZE = "size.json"

LOCK_TRIES, LOCK_PAUSE_SECONDS = 6, 0.05


def attempt_folder(home: Path, job: int, attempt: int) -> Path:
    return home / RUN / str(job) / str(attempt)


def write_atomic(folder: Path, name: str, text: bytes, *, durable: bool) -> None:
    """A reader sees the old file or the new one, never a half; `durable`: after a power cut too."""
    new = folder / f"{name}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(new, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(descriptor)
        new.replace(folder / name)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    if durable:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Names too survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_lock(path: Path, *, create: bool = True) -> int | None:
    """An open file that holds the lock, or None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def lock_soon(path: Path) -> int | None:
    """Take a lock as `try_lock` does, with a few tries, because an agent holds it for an instant to check whether it is free."""
    for _ in range(LOCK_TRIES):
        if (lock := try_lock(path)) is not None:
            return lock
        time.sleep(LOCK_PAUSE_SECONDS)
    return None


def unlock(descriptor: int) -> None:
    """Closing alone would not do: a process that another thread forked meanwhile may have a copy of the open file."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def is_free(path: Path) -> bool:
    """Whether the lock is free. It is taken for an instant, so a process that tries for it at the same time must try again."""
    try:
        descriptor = try_lock(path, create=False)
    except FileNotFoundError:
        return True
    if descriptor is None:
        return False
    unlock(descriptor)
    return True


def remove_attempt(folder: Path) -> bool:
    """Remove the folder, and that of the job if it was the last; False if its lock is still held.

    The lock is held until the end, the order goes first and the tombstone late: a supervisor that comes up in between is
    either kept out by the lock or finds no order, and never finds an order without its tombstone.
    """
    try:
        lock = try_lock(folder / SUPERVISOR_LOCK)
    except (FileNotFoundError, NotADirectoryError):
        return True
    if lock is None:
        return False
    try:
        names = {entry.name for entry in folder.iterdir()}
        last = [TOMBSTONE, STATUS, SUPERVISOR_LOCK]
        for name in [LAUNCH, *sorted(names - {LAUNCH, *last}), *last]:
            if name == JOB_FOLDER:
                _remove_tree(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    finally:
        unlock(lock)
    remove_job_if_empty(folder.parent)
    return True


def _remove_tree(folder: Path) -> None:
    """Whatever a job left in its folder. Links are removed and not followed."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            _remove_tree(entry)
        else:
            entry.unlink(missing_ok=True)
    folder.rmdir()


def remove_job_if_empty(folder: Path) -> None:
    """Remove the folder of a job without attempts, unless the job's lock is held: the next attempt must find it held."""
    if [entry.name for entry in folder.iterdir() if entry.name != JOB_LOCK] or not is_free(folder / JOB_LOCK):
        return
    (folder / JOB_LOCK).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
