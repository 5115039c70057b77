"""Room on disk that is kept for the journal, and given up when everything else is full.

Logs stop first (`rota/agent/log.py`). When the disk still fills up, no new work is taken and nothing is started. What runs goes
on, and the journal is written into the reserve. When there is room again, the reserve is made again and everything goes on.
"""

import contextlib
import os
from pathlib import Path

from rota.agent.log import too_little_room

RESERVE_BYTES, RESERVE_PART = 16 << 20, 0.03
"""How much is kept: this, or this part of the disk if that is less."""
FULL_BYTES, FULL_PART = 64 << 20, 0.05
"""With less room than this beside the reserve, no new work is taken."""


class DiskReserve:
    """A file in the home that takes room and holds nothing."""

    def __init__(self, home: Path) -> None:
        self._home, self._path = home, home / "reserve"
        self.full = self.short()
        """No new work is taken."""
        if self.full:
            self.release()
        else:
            self._keep()

    def short(self) -> bool:
        with contextlib.suppress(OSError):
            return too_little_room(self._home, FULL_BYTES, FULL_PART)
        return False

    def release(self) -> bool:
        """Give the room to the journal; False: there was none left to give."""
        self.full = True
        with contextlib.suppress(OSError):
            self._path.unlink()
            return True
        return False

    def look(self) -> bool:
        """Whether the disk has become full, or has room again, since the last look."""
        if self.short():
            changed = not self.full
            self.release()
            return changed
        if not self.full or not self._keep():
            return False
        if self.short():  # what is free is not enough for both
            self.release()
            return False
        self.full = False
        return True

    def _keep(self) -> bool:
        """Take the room, unless it is taken already."""
        disk = os.statvfs(self._home)
        size = int(min(RESERVE_BYTES, RESERVE_PART * disk.f_blocks * disk.f_frsize))
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, max(size, 1))
            finally:
                os.close(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                self._path.unlink()
            return False
        return True
