"""CPU and host memory of a job, enforced by a control group (cgroup v2) where the supervisor may make one.

All jobs share the CPUs in proportion to their GPUs (`cpu.weight`), so that the data loaders of one job cannot starve the others.
A spec may set a limit of CPUs (`cpu.max`) and of memory (`memory.max`). The group is made in the nearest group above the
supervisor's own that is writable and has the controllers. The supervisor enters the job's group, starts the job there, and goes
back, so that no process of the job was ever outside.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rota.agent.constants import ATTEMPT_ID, CPU_WEIGHT, CPUS, MEMORY_GIB

PARENT = "rota-jobs"
"""Group that has a group for each job. It has no processes of its own, as cgroup v2 requires."""
PROCS, CONTROLLERS, SUBTREE = "cgroup.procs", "cgroup.controllers", "cgroup.subtree_control"
PERIOD_US = 100_000
MIN_WEIGHT, MAX_WEIGHT = 1, 10_000
TRIES = 3


class CgroupLimits(NamedTuple):
    """What a job may use on one node."""

    weight: int
    """Share of the CPUs, relative to other jobs."""
    cpus: float | None
    memory_gib: float | None

    @classmethod
    def of(cls, env: Mapping[str, str]) -> "CgroupLimits":
        """Return the limits that the scheduler wrote into the environment of a job."""
        weight = min(max(round(_number(env.get(CPU_WEIGHT)) or 100), MIN_WEIGHT), MAX_WEIGHT)
        return cls(weight, _number(env.get(CPUS)), _number(env.get(MEMORY_GIB)))

    @property
    def requested(self) -> bool:
        """Whether the spec sets a limit."""
        return self.cpus is not None or self.memory_gib is not None

    @property
    def controllers(self) -> tuple[str, ...]:
        return ("cpu", "memory") if self.memory_gib is not None else ("cpu",)

    def files(self) -> dict[str, str]:
        """Return the contents of the group's files."""
        found = {"cpu.weight": str(self.weight)}
        if self.cpus is not None:
            found["cpu.max"] = f"{max(round(self.cpus * PERIOD_US), 1000)} {PERIOD_US}"
        if self.memory_gib is not None:
            found |= {"memory.max": str(round(self.memory_gib * 2**30)), "memory.oom.group": "1"}
        return found


@contextlib.contextmanager
def limited(env: Mapping[str, str]) -> Iterator[str | None]:
    """Start processes in the group of a job. The value is why its limits are not enforced; None if they are, or it has none."""
    limits, own = CgroupLimits.of(env), None
    try:
        own = own_group()
        base = find_parent(own, limits.controllers)
        group = _enter(base, env.get(ATTEMPT_ID) or f"pid-{os.getpid()}", limits)
    except (OSError, ValueError) as error:
        yield f"its CPUs and memory are not limited: {_why(error)}" if limits.requested else None
        return
    try:
        yield None
    finally:
        assert own is not None
        try:
            (own / PROCS).write_text("0")
        except OSError:  # the supervisor stays with its job, whose limits count for both
            pass
        else:
            with contextlib.suppress(OSError):  # if the job was not started
                group.rmdir()


def problem(controllers: tuple[str, ...] = ("cpu", "memory")) -> str:
    """Return why jobs of this process cannot be limited; empty if they can."""
    try:
        find_parent(own_group(), controllers)
    except (OSError, ValueError) as error:
        return _why(error)
    return ""


def own_group(proc: Path = Path("/proc/self")) -> Path | None:
    """Return the folder of this process's group; None if the machine has no cgroup v2."""
    mount = None
    for line in (proc / "mounts").read_text().splitlines():
        words = line.split()
        if len(words) > 2 and words[2] == "cgroup2":
            mount = Path(words[1])
    for line in (proc / "cgroup").read_text().splitlines():
        if mount is not None and line.startswith("0::"):
            return mount / line.removeprefix("0::").lstrip("/")
    return None


def find_parent(own: Path | None, controllers: tuple[str, ...]) -> Path:
    """Return the group in which groups of jobs can be made, and make it if there is none."""
    if own is None:
        raise ValueError("the machine has no cgroup v2")
    found = "no group above the scheduler has the controllers"
    for each in (own, *own.parents):
        if not (each / CONTROLLERS).exists():
            break
        if not set(controllers) <= set((each / CONTROLLERS).read_text().split()):
            continue
        parent = each / PARENT
        try:
            parent.mkdir(exist_ok=True)
            for group in (each, parent):
                if not set(controllers) <= set((group / SUBTREE).read_text().split()):
                    (group / SUBTREE).write_text(" ".join(f"+{name}" for name in controllers))
            return parent
        except OSError as error:  # not writable, or it has processes of its own
            found = f"{each}: {error.strerror}"
            with contextlib.suppress(OSError):
                parent.rmdir()
    raise ValueError(found)


def _enter(base: Path, name: str, limits: CgroupLimits) -> Path:
    """Make the group of a job, and move this process there. Remove groups of jobs that have ended: one with processes stays."""
    group = base / name.replace("/", "-")
    for other in base.iterdir():
        if other.is_dir() and other != group:
            with contextlib.suppress(OSError):
                other.rmdir()
    for left in range(TRIES - 1, -1, -1):  # another supervisor may remove it while it is still empty
        try:
            group.mkdir(exist_ok=True)
            for file, text in limits.files().items():
                (group / file).write_text(text)
            (group / PROCS).write_text("0")
            return group
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError("unreachable")


def _number(text: str | None) -> float | None:
    """Return a positive number; None for any other text, which a job may have in its environment."""
    try:
        found = float(text or 0)
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return str(error)
