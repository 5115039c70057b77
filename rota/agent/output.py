"""What a job writes: its supervisor reads it from a pipe, looks for steps in it, and hands it to the process that writes the log.

None of this waits for a disk. While the log takes nothing, output stays in the job's pipe, and a job that writes more than the
pipe holds waits.
"""

import math
import os
from pathlib import Path

from rota.agent.attempt_files import LaunchOrder
from rota.agent.constants import SESSION
from rota.agent.log_writer import LogWriter
from rota.agent.processes import ProcessIdentity, boot_s
from rota.agent.progress_parser import ProgressParser

PUMP_BYTES = 1 << 18
"""The most that is read at a time, so that the supervisor can see to its other work in between."""
LAST_PUMPS = 16
"""How often, at most, output is read after the end: a pipe holds less, and what still writes is not of the job."""

LOOK_EVERY_SECONDS = 0.5
FIRST_STEP_LOOK_SECONDS, FIRST_STEP_LOOK_TIMES = 0.02, 20
"""Until its first step all output is looked at as it comes, after a pause of this at least, and of this many times what the last
look took: a job that floods its log and makes no step must not keep its supervisor busy."""


class Output:
    """`descriptor` is the end of the pipe that the job gets; `read_end` is the supervisor's."""

    def __init__(self, order: LaunchOrder, signs: ProcessIdentity) -> None:
        self.log = LogWriter(Path(order.log), order.log_bytes, signs)
        self.progress = ProgressParser(order.progress) if order.progress is not None and order.progress != SESSION else None
        self.came_s = 0.0
        """When output last came, in Unix time."""
        self.grows = True
        """Whether more may come."""
        self._look_at_s = self._may_look_s = 0.0
        self.read_end, self.descriptor = self._pipe()

    @staticmethod
    def _pipe() -> tuple[int, int]:
        read_end, descriptor = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_end, False)
        return read_end, descriptor

    def job_has_it(self) -> None:
        """Close the job's end here: without ours, the pipe ends with the job."""
        os.close(self.descriptor)
        self.grows = True

    def open_again(self) -> None:
        """Make a pipe for another process of the job: the one before has left, and all it wrote was read."""
        os.close(self.read_end)
        self.read_end, self.descriptor = self._pipe()

    @property
    def heard(self) -> list[int]:
        """The job's pipe, if more may come and there is room for it."""
        return [self.read_end] if self.grows and self.log.has_room else []

    def pump(self, now_s: float) -> bool:
        """Read what has come by now, in Unix time. False: nothing had, or it has ended."""
        try:
            data = os.read(self.read_end, PUMP_BYTES)
        except BlockingIOError:
            return False
        if data:
            self.came_s = now_s
            if self.progress is not None:
                self.progress.add(data)
            self.log.write(data)
        return bool(data)

    def drain(self, now_s: float) -> None:
        """Read all that has come by now."""
        for _ in range(LAST_PUMPS):
            if not self.pump(now_s):
                break

    # Steps.

    @property
    def is_looked_at(self) -> bool:
        return self.progress is not None and self.progress.wanted

    @property
    def look_s(self) -> float:
        """When to look for steps again, on the clock that counts from boot."""
        return self._look_at_s if self.is_looked_at else math.inf

    def look_soon(self) -> None:
        """Look for steps as soon as that does not keep the supervisor busy."""
        self._look_at_s = min(self._look_at_s, self._may_look_s)

    def look(self, *, final: bool = False) -> bool:
        """Whether step or total changed. `final`: nothing more is coming."""
        began_s = boot_s()
        found = self.progress is not None and self.progress.look(final=final)
        now_s = boot_s()
        self._look_at_s = began_s + LOOK_EVERY_SECONDS
        self._may_look_s = now_s + max(FIRST_STEP_LOOK_SECONDS, FIRST_STEP_LOOK_TIMES * (now_s - began_s))
        return found
