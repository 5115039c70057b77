"""A job's log: what it writes itself, all attempts one after the other, with lines of ours between them.

The job writes into a pipe, its supervisor reads that and hands it to the process that writes the file (`log_writer.py`), so a
log has a limit that holds however much is written.
It is two files, `JOB.log` and the one before, `JOB.log.1`. When the newer is full it becomes the older, and what was older is
dropped. Positions count from the first byte that was ever written; the first line of a file that follows another says where it
begins. Output that would leave the disk with too little room is dropped, and a line says how much.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from rota.folders import make_folder

LIMIT_BYTES = 64 << 20
"""What a job's log may take, unless the operator says otherwise."""
MIN_LIMIT_BYTES = 1 << 14
LOOK_AT_DISK_BYTES = 1 << 20
"""Written between two looks at the room on the disk."""
FREE_BYTES, FREE_PART = 256 << 20, 0.1
"""Room that logs leave on the disk: this much, or this part of it if that is less."""

MARKER = "--- rota:"
"""How lines of Rota's begin."""
_MARKER = MARKER.encode()
_FORGED = re.compile(rb"(?:[\n\r\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9])" + re.escape(_MARKER[:-1]) + rb"(?=:)")
"""A line of a job that begins like one of Rota's, after whatever a terminal or a program takes for the end of a line."""
_MAX_BEGINNING_BYTES = 3 + len(_MARKER)

_CONTINUES = "--- rota: continues {} at byte {} ---\n"
_HEADER = re.compile(rb"--- rota: continues \S+ at byte (\d+) ---\n")
_MAX_HEADER_BYTES = 200


class LogPiece(NamedTuple):
    """Some output, and where it begins."""

    start: int
    data: bytes


class _Segment(NamedTuple):
    start: int
    """Position of its first byte of output."""
    header: int
    """Bytes before that."""
    size: int
    """Bytes of output."""
    descriptor: int


class Log:
    """Open for adding at the end. Every method may hang for as long as the disk does."""

    def __init__(self, path: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path = path
        self._most = max(limit_bytes, MIN_LIMIT_BYTES) // 2
        make_folder(path.parent)
        if not path.exists() and _older(path).exists():  # cut off between two renames
            self._begin(_end(_older(path)))
        self._file = os.open(path, _ADD, 0o600)
        self._dropped = self._unlooked = 0
        self._no_room = False
        self._before = b"\n"
        """The last bytes of the job's output: a line may come in several pieces."""
        self._announcement = ""
        """Line of Rota's that waits until the job begins a line."""

    def close(self) -> None:
        os.close(self._file)

    def _size(self) -> int:
        return os.fstat(self._file).st_size

    def mark(self, text: str) -> None:
        """Write a line of its own, whatever the job wrote before. On a full disk only this line is lost. The text may come from a
        spec, so its control characters become question marks."""
        text = "".join(sign if sign.isprintable() else "?" for sign in text)
        self._announcement = ""
        with contextlib.suppress(OSError):
            os.write(self._file, (b"\n" if self._in_a_line() else b"") + f"{MARKER} {text} ---\n".encode(errors="replace"))
            self._before = b"\n"

    def note(self, text: str) -> None:
        """Write a line while the job is running, but not in the middle of a line of the job."""
        with contextlib.suppress(OSError):
            if not self._in_a_line():
                self.mark(text)

    def announce(self, text: str) -> None:
        """Put a line before the next line that the job begins. It is dropped if a mark comes first."""
        self._announcement = text

    def _in_a_line(self) -> bool:
        """Whether the log ends in the middle of a line."""
        size = self._size()
        return size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def write(self, data: bytes) -> None:
        """Add output, with the announcement where a line begins in it."""
        text, begins = self._announcement, self._next_line_in(data) if self._announcement else len(data)
        if begins == len(data):
            self._add(data)
            return
        self._add(data[:begins])
        self.mark(text)
        self._add(data[begins:])

    def _next_line_in(self, data: bytes) -> int:
        """Return the offset at which the job begins a line; the length of the data if it begins none."""
        if not self._in_a_line():
            return 0
        return data.find(b"\n") + 1 or len(data)

    def _add(self, data: bytes) -> None:
        """Add output. What finds no room is dropped, and a line says so later. A line that begins like one of Rota's gets a
        backslash, so that no job can write one."""
        if self._full(len(data)):
            self._dropped += len(data)
            return
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self.mark(f"{dropped:,} bytes of output were dropped: the disk was full")
        data = self._told_apart(data)
        try:
            while data:
                room = self._most - self._size()
                if room <= 0:
                    self._rotate()
                    continue
                data = data[os.write(self._file, data[:room]) :]
        except OSError:
            self._dropped += len(data)
            self._no_room = True

    def _told_apart(self, data: bytes) -> bytes:
        text = self._before + data
        if _MARKER in text:
            text = _FORGED.sub(rb"\g<0>\\", text)
        # The colon of a forged marker is new, so the backslash before it is behind what was written earlier.
        written, self._before = len(self._before), text[-_MAX_BEGINNING_BYTES:]
        return text[written:]

    def _full(self, coming: int) -> bool:
        """Whether the disk has too little room for logs; looked at now and then."""
        self._unlooked += coming
        if self._no_room or self._unlooked >= LOOK_AT_DISK_BYTES:
            self._unlooked = 0
            with contextlib.suppress(OSError):
                self._no_room = too_little_room(self.path.parent, FREE_BYTES, FREE_PART)
        return self._no_room

    def _rotate(self) -> None:
        self._begin(_end(self.path))
        os.close(self._file)
        self._file = os.open(self.path, _ADD, 0o600)

    def _begin(self, start: int) -> None:
        """A new file that follows the one before. The first line is there before the file has its name."""
        new = self.path.with_name(self.path.name + ".new")
        with open(new, "wb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600)) as file:
            file.write(_CONTINUES.format(_older(self.path).name, start).encode())
        with contextlib.suppress(FileNotFoundError):
            self.path.replace(_older(self.path))
        new.replace(self.path)


_ADD = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def too_little_room(folder: Path, most_bytes: int, part: float) -> bool:
    """Whether the disk of a folder has less room than this much, or than this part of it if that is less."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize < min(most_bytes, part * disk.f_blocks * disk.f_frsize)


def read_log(path: Path, offset: int, limit: int) -> LogPiece:
    """Output from a position on; from where it begins, if that is later."""
    found = _segments(path)
    try:
        start, data = max(offset, found[0].start if found else offset), b""
        for each in found:
            place = start + len(data) - each.start
            if 0 <= place < each.size and len(data) < limit:
                data += os.pread(each.descriptor, min(limit - len(data), each.size - place), each.header + place)
        return LogPiece(start, data)
    finally:
        for each in found:
            os.close(each.descriptor)


def log_end(path: Path) -> int:
    """The position behind the last byte."""
    found = _segments(path)
    for each in found:
        os.close(each.descriptor)
    return found[-1].start + found[-1].size if found else 0


def _segments(path: Path) -> list[_Segment]:
    """The files that there are, the oldest first. The newer is opened first: if it becomes the older then, it is found twice."""
    found: dict[int, _Segment] = {}
    for name in (path, _older(path)):
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            header = _HEADER.match(os.pread(descriptor, _MAX_HEADER_BYTES, 0))
            start, length = (int(header[1]), header.end()) if header else (0, 0)
            if start in found:
                os.close(descriptor)
            else:
                found[start] = _Segment(start, length, os.fstat(descriptor).st_size - length, descriptor)
    return [found[start] for start in sorted(found)]


def _older(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def _end(path: Path) -> int:
    """The position behind the last byte of one file."""
    with path.open("rb") as file:
        header = _HEADER.match(file.read(_MAX_HEADER_BYTES))
        start, length = (int(header[1]), header.end()) if header else (0, 0)
        return start + os.fstat(file.fileno()).st_size - length
