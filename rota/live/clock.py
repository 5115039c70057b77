"""The daemon's clock: wall time that never goes back and never jumps while jobs run.

Leases are the reason. They are written down in this time, and supervisors keep them on the clock that counts from boot. If this
one ran ahead of that, the scheduler would take leases for over that are not, and start other jobs on GPUs that are in use.
"""

import time

from rota.agent.processes import boot_s


class Clock:
    """Seconds since 1970. Set from the wall clock, then carried by the clock that counts from boot; never before what was
    recorded."""

    def __init__(self, not_before_s: float = 0.0, origin_s: float | None = None) -> None:
        """`origin_s`: that of an earlier clock, which this one goes on from, in the same boot of the machine."""
        now_s = boot_s()
        self.origin_s = max(time.time() - now_s if origin_s is None else origin_s, not_before_s - now_s)
        """What it said when the machine was booted."""

    def __call__(self) -> float:
        return self.origin_s + boot_s()
