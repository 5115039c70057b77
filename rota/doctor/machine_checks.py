"""Check Python, packages and the limits of a process."""

import platform
import resource
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from re import match

from rota import __version__
from rota.agent import cgroups
from rota.doctor.diagnosis import Diagnosis, fail, ok, warn

OLDEST_PYTHON = (3, 11)
ENOUGH_FILES = 4096
"""Number of open files that is enough. The scheduler has a few for each client; PyTorch's data loaders have many."""
DISTRIBUTION = "rota-scheduler"


def check_packages() -> Iterator[Diagnosis]:
    python = f"Python {platform.python_version()} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        yield fail("Python", f"{python} is older than {oldest}", f"install Rota with Python {oldest} or newer")
    else:
        yield ok("Python", python)
    try:
        needed = [each for each in requires(DISTRIBUTION) or [] if "extra ==" not in each]
    except PackageNotFoundError:
        found = f"rota {__version__} runs from its source, so its requirements are unknown"
        yield warn("packages", found, f"pip install {DISTRIBUTION}, or pip install -e . in its folder")
        return
    missing, versions = [], []
    for name in (each.group() for need in needed if (each := match(r"[\w.-]+", need))):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        yield fail("packages", f"{', '.join(missing)} not installed", f"pip install {' '.join(missing)}")
    else:
        yield ok("packages", f"rota {__version__}, {', '.join(versions)}")


def check_limits() -> Iterator[Diagnosis]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < ENOUGH_FILES:
        most = ENOUGH_FILES if hard < 0 else min(hard, ENOUGH_FILES)
        step = f"ulimit -n {most}, before rota up" if most > soft else "LimitNOFILE= in its systemd unit, or the administrator"
        yield warn("open files", f"a process may have {soft:,} files open; jobs with many data loaders need more", step)
    else:
        yield ok("open files", "no limit" if soft < 0 else f"a process may have {soft:,} files open")
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    locked = f"a process may lock {soft / 2**20:,.0f} MiB" if soft >= 2**20 else f"a process may lock {soft // 1024:,} KiB"
    if soft < 0:
        yield ok("locked memory", "no limit")
    elif any(Path("/sys/class/infiniband").glob("*")):
        step = "ulimit -l unlimited, before rota up; or LimitMEMLOCK=infinity in its systemd unit"
        yield warn("locked memory", f"{locked}; NCCL over InfiniBand needs more", step)
    else:
        yield ok("locked memory", f"{locked}; only InfiniBand would need more")


def check_cgroups() -> Iterator[Diagnosis]:
    why = cgroups.problem()
    if why:
        step = "start the scheduler as root, or as a systemd unit with Delegate=yes, if jobs need limits"
        yield warn("CPUs and memory", f"jobs cannot be kept to their CPUs and host memory: {why}", step)
    else:
        yield ok("CPUs and memory", "jobs share CPUs in proportion to their GPUs, and are kept to the limits of their specs")
