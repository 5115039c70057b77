"""The daemon's clock: wall time that never goes back and never jumps while jobs run.

Leases are the reason. They are written down in this time, and supervisors keep them on the clock that counts from boot. If this
one ran ahead of that, the scheduler would take leases for over that are not, and start other jobs on GPUs that are in use.
"""

import time
from typing import NamedTuple

from rota.agent.processes import boot_id, boot_s


class ClockOrigin(NamedTuple):
    """Where a clock stands: what it said when the machine was booted."""

    boot: str
    """Changes with every boot."""
    unix_s: float


class Clock:
    """Seconds since 1970. Set from the wall clock, then carried by the clock that counts from boot; never before what was
    recorded."""

    def __init__(self, not_before_s: float = 0.0, origin: ClockOrigin | None = None, *, nodes_can_leave: bool = False) -> None:
        """`origin`: where an earlier clock stood; this one goes on from it if the machine was not booted since. Otherwise jobs of
        other machines may live (`nodes_can_leave`): it goes on from what was recorded, so that their leases end late, never
        early."""
        boot, now_s = boot_id(), boot_s()
        carried_s = origin.unix_s if origin is not None and origin.boot == boot else time.time() - now_s
        if nodes_can_leave and origin is not None and origin.boot != boot:
            carried_s = not_before_s - now_s
        self.origin = ClockOrigin(boot, max(carried_s, not_before_s - now_s))

    def __call__(self) -> float:
        return self.origin.unix_s + boot_s()
