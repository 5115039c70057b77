"""Memory of this machine, or of the container that this process is in, whichever is less."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

GIB = 2**30
PARKING_FRACTION = 0.8
"""Fraction of a machine's memory that parked jobs may take. The rest is for running jobs."""


def parking_gib(memory_gib: float | None, part: float = 1.0) -> float | None:
    """What parked jobs may take of this memory, or of a part of it; None: not known. In whole GiB: a new kernel may find a little
    more or less, and the node has to be the same."""
    return None if memory_gib is None else float(int(PARKING_FRACTION * memory_gib * part))


def total_gib(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> float | None:
    """All that may be used; None: not known."""
    found = [each for each in (_meminfo(proc, "MemTotal"), *_limits(proc, groups)) if each is not None]
    return min(found) / GIB if found else None


def available_gib(proc: Path = Path("/proc")) -> float | None:
    """What is free, or can be made so; None: not known."""
    found = _meminfo(proc, "MemAvailable")
    return None if found is None else found / GIB


def _meminfo(proc: Path, name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _limits(proc: Path, groups: Path) -> Iterator[int]:
    """Return the memory limits of this process's control groups, outer ones included. Jobs start in the same groups."""
    with contextlib.suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if controllers and "memory" not in controllers.split(","):
                continue
            folder, name = (groups / "memory", "memory.limit_in_bytes") if controllers else (groups, "memory.max")
            inner = folder / path.lstrip("/")
            for each in (inner, *inner.parents):
                with contextlib.suppress(OSError, ValueError):  # "max" means unlimited
                    yield int((each / name).read_text(encoding="ascii"))
                if each == folder:
                    break
