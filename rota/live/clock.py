"""The daemon's clock: wall time that never goes back and never jumps while jobs run.

Leases are the reason. They are recorded in this time, and supervisors keep them on the clock that counts from boot. If this clock
ran ahead of that, the scheduler would consider leases expired that are not, and start other jobs on GPUs that are in use.
"""

import time
from typing import NamedTuple

from rota.agent.processes import boot_id, boot_s


class ClockOrigin(NamedTuple):
    """The origin of a clock: its time when the machine was booted."""

    boot: str
    """ID of the boot."""
    unix_s: float


class Clock:
    """Seconds since 1970. Set from the wall clock, then advanced by the clock that counts from boot. Never earlier than any
    recorded time."""

    def __init__(self, not_before_s: float = 0.0, origin: ClockOrigin | None = None, *, nodes_can_leave: bool = False) -> None:
        """Continue from `origin`, that of an earlier clock, if the machine was not rebooted since. Otherwise, if jobs may be
        running on other machines (`nodes_can_leave`), continue from the last recorded time, so that their leases end late, never
        early."""
        boot, now_s = boot_id(), boot_s()
        carried_s = origin.unix_s if origin is not None and origin.boot == boot else time.time() - now_s
        if nodes_can_leave and origin is not None and origin.boot != boot:
            carried_s = not_before_s - now_s
        self.origin = ClockOrigin(boot, max(carried_s, not_before_s - now_s))

    def __call__(self) -> float:
        return self.origin.unix_s + boot_s()
