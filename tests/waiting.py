"""Waiting for what real processes do, on a machine of any speed."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

LONG_SECONDS = 120.0
"""No test waits for so long, unless something is broken."""


def until(holds: Callable[[], object], what: str = "what was waited for") -> None:
    deadline = time.monotonic() + LONG_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """A zombie is not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    return False
