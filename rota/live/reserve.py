"""Disk space reserved for the journal, and released when the disk is full.

Logs stop first (`rota/agent/log.py`). If the disk still fills up, no new work is accepted and nothing is started. Running jobs
continue, and the journal is written into the reserved space. When there is space again, it is reserved again and everything
continues.
"""

import contextlib
import os
from pathlib import Path

from rota.agent.log import too_little_room

RESERVE_BYTES, RESERVE_PART = 16 << 20, 0.03
"""Reserved space: this many bytes, or this fraction of the disk if that is less."""
FULL_BYTES, FULL_PART = 64 << 20, 0.05
"""Free space besides the reserve below which no new work is accepted: bytes, or a fraction of the disk."""


class DiskReserve:
    """A file in the home that occupies space and has no contents."""

    def __init__(self, home: Path) -> None:
        self._home, self._path = home, home / "reserve"
        self.full = self.short()
        """Whether the disk is full, so that no new work is accepted."""
        if self.full:
            self.release()
        else:
            self._keep()

    def short(self) -> bool:
        with contextlib.suppress(OSError):
            return too_little_room(self._home, FULL_BYTES, FULL_PART)
        return False

    def release(self) -> bool:
        """Release the space for the journal. Return False if there was none left."""
        self.full = True
        with contextlib.suppress(OSError):
            self._path.unlink()
            return True
        return False

    def look(self) -> bool:
        """Return whether the disk has become full, or has space again, since the last look."""
        if self.short():
            changed = not self.full
            self.release()
            return changed
        if not self.full or not self._keep():
            return False
        if self.short():  # the free space is not enough for both
            self.release()
            return False
        self.full = False
        return True

    def _keep(self) -> bool:
        """Reserve the space, unless it is already reserved."""
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
