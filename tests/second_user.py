"""A second Unix user for tests: runs Python as `nobody`. Only root can do that, with a Python that `nobody` may run."""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

NOBODY = 65534
_MINE = f"{sys.version_info.major}.{sys.version_info.minor}"


def as_nobody(*words: str) -> "subprocess.CompletedProcess[str]":
    """`python WORDS` of the second user. Skips the test where that is impossible."""
    return _run(everyones_python(), *words)


def everyones_python() -> str:
    """Return a Python that every user may run, with `everyones_packages`. Skips the test where there is none."""
    python = _python() if os.geteuid() == 0 else None
    if python is None:
        pytest.skip("acts as other users: needs root, and a Python that every user may run")
    return python


def everyones_packages() -> str:
    """Return the PYTHONPATH by which that Python finds Rota and what it needs."""
    return f"{Path(__file__).resolve().parent.parent}:{sysconfig.get_paths()['purelib']}"


@functools.cache
def _python() -> str | None:
    """Of this version; a Python in root's own folder does not do."""
    for path in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")):
        try:
            if path and _run(path, "-c", "import sys, numpy; print('%d.%d' % sys.version_info[:2])").stdout.strip() == _MINE:
                return path
        except PermissionError:
            continue
    return None


def _run(python: str, *words: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "HOME": "/nonexistent", "PYTHONPATH": everyones_packages()}
    return subprocess.run(
        [python, *words],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
        env=env,
    )
