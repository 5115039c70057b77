"""Waiting for what real processes do, on a machine of any speed."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

LONG_SECONDS = 300.0
"""How long anything may take on a busy machine before a test gives up."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.002, 0.1


def until(holds: Callable[[], object], what: str = "what was waited for", patience: float = LONG_SECONDS) -> None:
    """Look less and less often: a look may ask a scheduler, and that takes CPU from what is waited for."""
    deadline, pause = time.monotonic() + patience, FIRST_PAUSE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {patience:.0f} s"
        time.sleep(pause)
        pause = min(1.3 * pause, LONGEST_PAUSE_SECONDS)


def alive(pid: int) -> bool:
    """A zombie is not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    return False
