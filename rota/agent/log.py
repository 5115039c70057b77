"""A job's log: what it writes itself, all incarnations one after the other, with lines of ours between them."""

import contextlib
import os
from pathlib import Path


class Log:
    """Open for adding at the end, which is also how the job gets it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def mark(self, text: str) -> None:
        """A line of its own, whatever the job left there. A full disk costs us the line and no more."""
        with contextlib.suppress(OSError):
            size = self.size()
            begun = size > 0 and os.pread(self.descriptor, 1, size - 1) != b"\n"
            os.write(self.descriptor, (b"\n" if begun else b"") + f"--- rota: {text} ---\n".encode(errors="replace"))
