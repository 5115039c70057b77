"""The control group of another user's job, which holds all its processes, however they hide, and ends all of them at once.

A process can leave its parents and its session, and start others faster than they can be found one by one, but only root can take
it out of its control group. The group is below that of the supervisor and has no limits of its own, so limits of the scheduler's
service keep their effect. It needs version 2 of control groups, beside version 1 or alone. Where root can't make one, the other
signs of `processes.py` have to do.
"""

import contextlib
import os
from functools import cache
from pathlib import Path

_PREFIX = "rota-"
_PROCESSES, _KILL = "cgroup.procs", "cgroup.kill"


def make_group(attempt_id: str) -> Path | None:
    """Make the group of an attempt; None if this machine has none for us. `attempt_id`: unique to the attempt."""
    place = _own_place(attempt_id)
    if place is None or not attempt_id or "/" in attempt_id:
        return None
    try:
        place.mkdir(mode=0o755, exist_ok=True)
    except OSError:
        return None
    return place


def enter_group(group: Path) -> None:
    """Move this process into a group."""
    (group / _PROCESSES).write_text("0")


def group_members(attempt_id: str) -> set[int]:
    """Return the processes in the group of an attempt; none if it has no group."""
    found: set[int] = set()
    if (group := find_group(attempt_id)) is not None:
        with contextlib.suppress(OSError, ValueError):
            found.update(map(int, (group / _PROCESSES).read_text().split()))
    return found


def kill_group(attempt_id: str) -> None:
    """Kill all processes in the group of an attempt at once, if it has a group and the kernel is 5.14 or newer."""
    if (group := find_group(attempt_id)) is not None:
        with contextlib.suppress(OSError):
            (group / _KILL).write_text("1")


def remove_group(attempt_id: str) -> None:
    """Remove the group of an attempt, unless it has processes."""
    if (group := find_group(attempt_id)) is not None:
        with contextlib.suppress(OSError):
            group.rmdir()


def find_group(attempt_id: str) -> Path | None:
    """Return the group of an attempt; None if there is none. Another agent may look for it than the one that made it."""
    own = _own_place(attempt_id)
    if own is None or not attempt_id:
        return None
    if own.exists():
        return own
    root = _mount()
    for folder, names, _ in os.walk(root[0] if root else ""):
        if own.name in names:
            return Path(folder, own.name)
    return None


def _own_place(attempt_id: str) -> Path | None:
    """Return where a group below that of this process is."""
    root = _mount()
    if root is None:
        return None
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("0::"):
            below = os.path.relpath(line.removeprefix("0::"), root[1])
            return None if below.startswith("..") else Path(root[0], below, _PREFIX + attempt_id)
    return None


@cache
def _mount() -> tuple[str, str] | None:
    """Return where the groups of version 2 are mounted, and which group that is; None if they are not."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            before, _, after = line.partition(" - ")
            if after.startswith("cgroup2 "):
                return before.split()[4], before.split()[3]
    return None
