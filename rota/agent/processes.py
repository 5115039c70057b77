"""Finding the processes of an attempt, however they hide, and ending them.

A process may leave its session (setsid), its parents (double fork), its environment (`env -i`) or its inherited files (Python's
subprocess closes them), but hardly all of these. So four signs are looked for: descent from the supervisor, which adopts orphans;
`ROTA_LIFE` in the environment it was started with; the session of the main process; the job's lock among its open files. A job of
another user has a mark open in place of the lock, and a control group where root can make one.

A number is not proof: numbers of processes and sessions are used again. A member of the session counts only if it had started
when that session was known to be ours: it was in it then, since a process enters another session only by leading it.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rota.agent.constants import ATTEMPT_ID, JOB_KEY
from rota.agent.disk import is_free
from rota.agent.job_cgroup import group_members, kill_group, remove_group

PROC = Path("/proc")
_TICK_SECONDS = 1.0 / os.sysconf("SC_CLK_TCK")
END_SECONDS = 5.0
MARK = "rota-"
"""Prefix of the name of a file in memory that the processes of another user's job have open, before the attempt's id."""
_PAUSES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


def boot_id() -> str:
    """Changes with every boot."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def boot_s() -> float:
    """Seconds since boot, those the machine slept through included: the clock of leases, and of the starts of processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    start_s: float
    """On the clock that counts from boot, rounded down to a tick."""
    state: str = "R"
    """As the kernel has it: T is stopped by a signal, D waits for a disk."""


class ProcessIdentity(NamedTuple):
    """What the processes of one attempt can be known by."""

    attempt_id: str
    since_s: float
    """Nothing of it started earlier, on the clock that counts from boot."""
    ancestor: int | None = None
    session: int | None = None
    seen_s: float = 0.0
    """When the session was last known to be its own."""
    ours: frozenset[int] = frozenset()
    """Processes that descend from the ancestor and are not the job's."""
    uid: int | None = None
    """User of the job; None if it is the user of this process."""


def _look(pid: int) -> Process | None:
    """None for what is gone, and for a zombie unless other threads of it still run."""
    try:
        with (PROC / str(pid) / "stat").open("rb") as file:
            line = file.read()
    except OSError:
        return None
    # The name in brackets may hold anything, brackets included; numbers follow the last one.
    state, parent, _, session, *rest = line[line.rindex(b")") + 2 :].split()
    if state in b"ZX" and int(rest[13]) <= 1:
        return None
    return Process(pid, int(parent), int(session), int(rest[15]) * _TICK_SECONDS, state.decode())


def parent_of(pid: int) -> int | None:
    """None: the process is gone, or hidden from us."""
    process = _look(pid)
    return process.parent if process is not None else None


def living() -> Iterator[Process]:
    """Every process but this one."""
    own = os.getpid()
    for entry in os.scandir(PROC):
        if entry.name.isdecimal() and int(entry.name) != own and (process := _look(int(entry.name))):
            yield process


def members(signs: ProcessIdentity, *, by_environment: bool = True) -> list[Process]:
    """Return the running processes of an attempt, as far as one scan of all processes shows; scan again after ending these.

    Without `by_environment` no memory of a process is read: that can hang for as long as a disk that the process waits for.
    """
    everything = [process for process in living() if process.start_s + 2 * _TICK_SECONDS >= signs.since_s]
    kin = _descendants(everything, signs.ancestor) if signs.ancestor is not None else set()
    if signs.uid is not None:
        kin |= group_members(signs.attempt_id)
    return [
        process
        for process in everything
        if process.pid not in signs.ours
        and (
            process.pid in kin
            or (process.session == signs.session and process.start_s + _TICK_SECONDS <= signs.seen_s)
            or (signs.uid is not None and _has_mark(process.pid, signs.uid, signs.attempt_id))
            or (by_environment and _carries(process.pid, signs.attempt_id))
        )
    ]


def _descendants(everything: list[Process], ancestor: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in everything:
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    ahead = [ancestor]
    while ahead:
        new = set(children.get(ahead.pop(), ())) - found
        found |= new
        ahead += new
    return found


def end_job(key: str) -> None:
    """Kill every process of a job that was started under this key (`ROTA_JOB_KEY`), whichever of its attempts it is of."""
    mark, deadline = f"{JOB_KEY}={key}".encode(), time.monotonic() + END_SECONDS
    while left := [process for process in living() if mark in _environment(process.pid)]:
        for process in left:
            kill(process)
        if time.monotonic() > deadline:
            return
        time.sleep(_PAUSES[-1])


def _carries(pid: int, attempt_id: str) -> bool:
    """Return whether it was started with this attempt id; false if we may not read that."""
    return bool(attempt_id) and f"{ATTEMPT_ID}={attempt_id}".encode() in _environment(pid)


def _has_mark(pid: int, uid: int, life: str) -> bool:
    """Return whether a process of this user has the attempt's mark open. One of another user may have been given it."""
    try:
        own = (PROC / str(pid)).stat().st_uid == uid
    except OSError:
        return False
    return own and bool(life) and f"/memfd:{MARK}{life} (deleted)" in open_files(pid)


def uid_of(pid: int) -> int | None:
    """Return the user of a process; None if it has ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    return None


def other_user(uid: int | None) -> int | None:
    """Return the user of a job if that is not the user of this process; None if it is."""
    return None if uid is None or uid == os.geteuid() else uid


def attempt_id_of(pid: int) -> str:
    """Return the attempt id that a process was started with; empty if it has none, or we may not read it."""
    prefix = f"{ATTEMPT_ID}=".encode()
    found = (each.removeprefix(prefix) for each in _environment(pid) if each.startswith(prefix))
    return next(found, b"").decode(errors="replace")


def _environment(pid: int) -> list[bytes]:
    try:
        with (PROC / str(pid) / "environ").open("rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def holders(lock: Path) -> list[Process]:
    """Who has this file open. Links are read and never followed: a file on a dead server would hang us."""
    target = str(lock.resolve())
    return [process for process in living() if target in open_files(process.pid)]


def open_files(pid: int) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(entry.readlink()))
    return found


def kill(process: Process) -> None:
    """Send SIGKILL to this process, and not to one that has got its number since."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            now = _look(process.pid)
            if now is not None and now.start_s == process.start_s:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def kill_number(pid: int) -> None:
    """Send SIGKILL to a child that was not waited for."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def end_all(
    signs: ProcessIdentity, *, seconds: float, lock: Path | None = None, between: Callable[[], None] = lambda: None
) -> str:
    """Kill until nothing is left, and with `lock`: until no process holds that either. Returns words for what did not go in time.

    Pass the lock only if no other attempt may want it: every process that has the file open is killed.
    """
    deadline = time.monotonic() + seconds
    rounds = 0
    while True:
        if signs.uid is not None:
            kill_group(signs.attempt_id)
        left = members(signs)
        held = not left and lock is not None and not is_free(lock)
        if held and lock is not None:
            left = holders(lock)
        if not left and not held:
            if signs.uid is not None:
                remove_group(signs.attempt_id)
            return ""
        for process in left:
            kill(process)
        between()
        if time.monotonic() > deadline:
            return f"processes do not die: {', '.join(str(process.pid) for process in left) or 'hidden from us'}"
        time.sleep(_PAUSES[min(rounds, len(_PAUSES) - 1)])
        rounds += 1
