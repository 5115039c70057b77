"""The daemon's clock: wall time that never goes back and never jumps while the daemon runs."""

import time


class Clock:
    """Seconds since 1970. Set once from the wall clock, then carried by the monotonic one; never before what was recorded."""

    def __init__(self, not_before_s: float = 0.0) -> None:
        self._base_s = max(time.time(), not_before_s) - time.monotonic()

    def __call__(self) -> float:
        return self._base_s + time.monotonic()
