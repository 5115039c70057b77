"""Limits of a user's processes from `limits.conf` and `limits.d/*.conf`, as `pam_limits` reads them.

A line for the user counts more than one for a group, and that more than one for all (`*`); of two alike, the later counts. No
limit is raised above the hard limit that the scheduler has. A line that cannot be read is left out, and named. A file counts only
if root alone can change it.
"""

import os
import resource
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rota.agent.job_user import JobUser

LIMITS_FILE = "ROTA_USER_LIMITS"
"""Environment variable of the scheduler, never of a job: another path of `limits.conf`, with the folder `limits.d` beside it. If
it is empty, no limits are read."""
DEFAULT_FILE = "/etc/security/limits.conf"
MAX_BYTES = 1 << 20
"""Largest file that is read."""

_KIB = 1024
_ITEMS: Mapping[str, tuple[int, int]] = {
    "as": (resource.RLIMIT_AS, _KIB),
    "core": (resource.RLIMIT_CORE, _KIB),
    "cpu": (resource.RLIMIT_CPU, 60),
    "data": (resource.RLIMIT_DATA, _KIB),
    "fsize": (resource.RLIMIT_FSIZE, _KIB),
    "locks": (10, 1),
    "memlock": (resource.RLIMIT_MEMLOCK, _KIB),
    "msgqueue": (resource.RLIMIT_MSGQUEUE, 1),
    "nice": (resource.RLIMIT_NICE, 1),
    "nofile": (resource.RLIMIT_NOFILE, 1),
    "nproc": (resource.RLIMIT_NPROC, 1),
    "rss": (resource.RLIMIT_RSS, _KIB),
    "rtprio": (resource.RLIMIT_RTPRIO, 1),
    "sigpending": (resource.RLIMIT_SIGPENDING, 1),
    "stack": (resource.RLIMIT_STACK, _KIB),
}
"""Item -> number of the limit, and how many of its units one unit of the file is."""
_OF_LOGINS = frozenset({"chroot", "maxlogins", "maxsyslogins", "nonewprivs", "priority"})
"""Items that are not limits of processes."""
_UNLIMITED = frozenset({"-1", "unlimited", "infinity"})
_NO_LIMIT = resource.RLIM_INFINITY
_NICES = range(-20, 20)
_OF_ALL, _OF_GROUP, _OF_USER = 1, 2, 3
"""How much the domain of a line counts; 0 if the line is about other users."""
LATE = frozenset({resource.RLIMIT_AS, resource.RLIMIT_DATA})
"""Limits that the new process sets last, because it may have more memory than they allow until it runs the command."""


class UserLimits(NamedTuple):
    """Limits of one user."""

    limits: Mapping[int, tuple[int, int]]
    """Number of a limit -> its soft and hard value."""
    problem: str | None = None
    """What could not be read; None if all was read."""

    def apply(self, *, late: bool) -> None:
        """Set the limits of this process: the late ones, or all others."""
        for number, values in self.limits.items():
            if (number in LATE) is late:
                resource.setrlimit(number, values)


class _Line(NamedTuple):
    """One line of a file."""

    domain: str
    kind: str
    """`soft`, `hard` or `-`."""
    item: str | None
    """None if the line exempts its domain from all limits."""
    value: int


def read_limits(user: JobUser, file: str | None = None) -> UserLimits:
    """Return the limits of a user. `file`: path of `limits.conf`; None for that of the scheduler's environment."""
    place = os.environ.get(LIMITS_FILE, DEFAULT_FILE) if file is None else file
    soft: dict[str, tuple[int, int]] = {}
    hard: dict[str, tuple[int, int]] = {}
    broken: list[str] = []
    for path in _files(place):
        for line in _lines(path, broken):
            rank = _rank(line.domain, user)
            if rank and line.item is None:
                return UserLimits({}, _problem(broken))
            if line.item is None or line.item in _OF_LOGINS:
                continue
            for kind, found in (("soft", soft), ("hard", hard)):
                if line.kind in (kind, "-") and rank and rank >= found.get(line.item, (0, 0))[0]:
                    found[line.item] = (rank, line.value)
    limits = {_ITEMS[item][0]: _values(item, soft, hard) for item in {**soft, **hard}}
    return UserLimits(limits, _problem(broken))


def _values(item: str, soft: Mapping[str, tuple[int, int]], hard: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the soft and the hard value of an item. What no line gives stays."""
    had_soft, had_hard = resource.getrlimit(_ITEMS[item][0])
    if item == "core":
        had_soft = 0  # core files are off
    most = _less(hard[item][1] if item in hard else had_hard, had_hard)
    return _less(soft[item][1] if item in soft else had_soft, most), most


def _less(one: int, other: int) -> int:
    if _NO_LIMIT in (one, other):
        return other if one == _NO_LIMIT else one
    return min(one, other)


def _rank(domain: str, user: JobUser) -> int:
    """Return how much a line for this domain counts for a user; 0 if it does not."""
    if domain == "*":
        return _OF_ALL
    if domain == user.name:
        return _OF_USER
    if domain.startswith("@"):
        return _OF_GROUP if any(gid in user.groups for gid in _groups(domain[1:], user)) else 0
    return _OF_USER if (ids := _range(domain)) is not None and user.uid in ids else 0


def _groups(name: str, user: JobUser) -> tuple[int, ...]:
    """Return the groups that a domain names: by name, by number, or by a range of numbers, which is about the user's first group
    alone."""
    if (ids := _range(name)) is not None:
        return tuple(gid for gid in (user.groups if name.startswith(":") else (user.gid,)) if gid in ids)
    import grp

    try:
        return (grp.getgrnam(name).gr_gid,)
    except KeyError:
        return ()


def _range(text: str) -> range | None:
    """Return the numbers that `1000:`, `:2000` or `1000:2000` names; None for any other text. `:2000` is that number alone, as
    `pam_limits` has it."""
    low, colon, high = text.partition(":")
    if (
        not colon
        or not (low or high)
        or not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in (low, high) if part)
    ):
        return None
    first = int(low or high)
    return range(first, (int(high) if high else (1 << 32) - 1) + 1)


def _files(place: str) -> Iterator[Path]:
    """Yield the files in the order in which they count."""
    if not place:
        return
    yield Path(place)
    try:
        yield from sorted(path for path in (Path(place).parent / "limits.d").iterdir() if path.suffix == ".conf")
    except OSError:
        return


def _lines(path: Path, broken: list[str]) -> Iterator[_Line]:
    """Yield the lines of a file, and add what cannot be read to `broken`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            text = _text(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return
    except OSError as error:
        broken.append(f"{path}: {error.strerror or error}")
        return
    for number, whole in enumerate(text.splitlines(), 1):
        if words := whole.partition("#")[0].split():
            line = _line(words)
            if line is None:
                broken.append(f"line {number} of {path}")
            else:
                yield line


def _text(descriptor: int) -> str:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a file")
    if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError("others than root can change it")
    if found.st_size > MAX_BYTES:
        raise OSError(f"it is larger than {MAX_BYTES:,} bytes")
    with open(descriptor, "rb", closefd=False) as stream:
        return stream.read(MAX_BYTES).decode(errors="replace")


def _line(words: list[str]) -> _Line | None:
    """Return a line; None if it is broken."""
    if len(words) == 2 and words[1] == "-":
        return _Line(words[0], "-", None, 0)
    if len(words) != 4:
        return None
    domain, kind, item, value = words[0], *(word.lower() for word in words[1:])
    if kind not in ("soft", "hard", "-"):
        return None
    if item in _OF_LOGINS:
        return _Line(domain, kind, item, 0)
    number = _number(item, value) if item in _ITEMS else None
    return None if number is None else _Line(domain, kind, item, number)


def _number(item: str, value: str) -> int | None:
    """Return the value of a limit in the units of the kernel; None if the text is none."""
    digits = value.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 20
    if item == "nice":
        return 20 - int(value) if is_number and int(value) in _NICES else None
    if value in _UNLIMITED:
        return _NO_LIMIT
    if not is_number or digits != value:
        return None
    number = int(value) * _ITEMS[item][1]
    return number if number < 1 << 63 else _NO_LIMIT


def _problem(broken: list[str]) -> str | None:
    if not broken:
        return None
    more = f" and {len(broken) - 1:,} more" if len(broken) > 1 else ""
    return f"limits of the user that cannot be read are left out: {broken[0]}{more}"
