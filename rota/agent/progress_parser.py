"""Progress read off a job's output: a pattern on complete lines, by a reader that no output and no pattern can hold up.

The supervisor that reads also keeps the lease, so output is read as it comes and never from the log, whose disk may hang, and
every look is bounded: in bytes, in lines, in length of a line, and in time.
The last one matters most: `(a+)+$` on a short line takes longer than any training. Python's matcher heeds signals, so an alarm
ends it. The alarm counts the CPU time of this process: on a busy machine a good pattern may wait for as long as a bad one runs.
"""

import re
import signal
from types import FrameType
from typing import Any

from rota.agent.attempt_files import steps

LOOK_BYTES = 1 << 20
"""Maximum output between two looks, in bytes. If there is more, only its end is parsed."""
LINE_BYTES = 65_536
LINE_CHARACTERS = 2_000
LOOK_LINES = 200
LOOK_SECONDS = 0.25
"""CPU time a look may match for, before the pattern is given up."""

# A progress bar draws itself again after a carriage return.
_ENDS = re.compile(rb"[\r\n]+")


class _TooSlow(Exception):
    pass


class ProgressParser:
    """Follows the output of a job. `step` and `total` are the last ones seen."""

    def __init__(self, pattern: str) -> None:
        self.step: float | None = None
        self.total: float | None = None
        self.problem = ""
        self._pattern: re.Pattern[str] | None = None
        try:
            self._pattern = re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            self._give_up(f"the progress pattern cannot be used: {error}")
        else:
            if self._pattern.groups not in {1, 2}:
                self._give_up(f"the progress pattern needs one or two groups (step, total) and has {self._pattern.groups}")
        self._fresh = bytearray()
        """Output since the last look."""
        self._begun = b""
        """A line whose end has not come."""
        self._inside = False
        """What comes next is the rest of a line that was cut, or begun where we did not look."""
        self._armed = False

    def add(self, data: bytes) -> None:
        """Take output that has come, for the next look."""
        if self._pattern is None:
            return
        self._fresh += data
        if len(self._fresh) > LOOK_BYTES:
            del self._fresh[:-LOOK_BYTES]
            self._begun, self._inside = b"", True

    @property
    def wanted(self) -> bool:
        """Whether there is any use in looking."""
        return self._pattern is not None

    def look(self, *, final: bool = False) -> bool:
        """Whether step or total changed. `final`: nothing more is coming, so the last line is complete too."""
        if self._pattern is None:
            return False
        lines = self._new_lines()
        if final and self._begun:
            lines.append(self._begun)
            self._begun = b""
        before = self.step, self.total
        self._match([line[:LINE_BYTES].decode(errors="replace")[:LINE_CHARACTERS] for line in lines[-LOOK_LINES:]])
        return before != (self.step, self.total)

    def _new_lines(self) -> list[bytes]:
        data = bytes(self._fresh)
        self._fresh.clear()
        *lines, begun = _ENDS.split(self._begun + data)
        if lines and self._inside:
            del lines[0]
            self._inside = False
        if self._inside:
            begun = b""
        elif len(begun) > LINE_BYTES:
            lines.append(begun)
            begun, self._inside = b"", True
        self._begun = begun
        return lines

    def _match(self, lines: list[str]) -> None:
        """The last line that says something counts."""
        if self._pattern is None or not lines:
            return
        before = signal.signal(signal.SIGVTALRM, self._alarm)
        try:
            try:
                self._armed = True
                signal.setitimer(signal.ITIMER_VIRTUAL, LOOK_SECONDS)
                for line in reversed(lines):
                    if (found := self._pattern.search(line)) and self._take(found):
                        break
            finally:
                self._armed = False
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except _TooSlow:
            self._give_up(f"the progress pattern took more than {LOOK_SECONDS} s of CPU time and is no longer looked for")
        finally:
            signal.signal(signal.SIGVTALRM, before)

    def _alarm(self, number: int, frame: FrameType | None) -> None:
        # An alarm that is late, after the match, must not strike elsewhere.
        if self._armed:
            raise _TooSlow

    def _take(self, found: re.Match[str]) -> bool:
        step = number(found.group(1))
        if step is None:
            return False
        self.step = step
        if found.re.groups == 2 and (total := number(found.group(2))) is not None:
            self.total = total
        return True

    def _give_up(self, problem: str) -> None:
        self._pattern = None
        self.problem = problem


def number(text: Any) -> float | None:
    """Parse 1234, 1,234, 1_234 or 1234.5; None if the text is not a number of steps."""
    try:
        return steps(float(str(text).replace(",", "")))
    except ValueError:
        return None
