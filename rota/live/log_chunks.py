"""Chunks of a job's output for clients: complete characters, and a line where output has been dropped."""

from typing import Protocol

from rota.agent.log import MARKER, LogPiece
from rota.wire.rows import LogChunk

MAX_BYTES = 1 << 20


class LogReader(Protocol):
    """A reader of the logs of jobs."""

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece: ...

    def log_end(self, job: int) -> int: ...


def log_chunk(logs: LogReader, job: int, offset: int, limit: int, tail: int | None, ended: bool) -> LogChunk:
    """Return a chunk. `tail` is a number of last lines, as far as one chunk can have them. `ended` means that the job has ended,
    so no more output will come."""
    limit = max(min(limit, MAX_BYTES), 0)
    if tail is not None:
        offset, limit = _last_lines(logs, job, tail), MAX_BYTES
    start, data = logs.read_log(job, max(offset, 0), limit)
    last = ended and len(data) < limit
    whole = data if last else data[: whole_characters(data)]
    dropped = f"{MARKER} {start - offset:,} bytes of earlier output were dropped ---\n" if start > offset >= 0 else ""
    return LogChunk(text=dropped + whole.decode("utf-8", errors="replace"), next_offset=start + len(whole), ended=last)


def _last_lines(logs: LogReader, job: int, lines: int) -> int:
    """Return the offset of the last lines. A line without an end counts as one."""
    end = logs.log_end(job)
    start, data = logs.read_log(job, max(end - MAX_BYTES, 0), MAX_BYTES)
    place = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        place = data.rfind(b"\n", 0, place)
        if place < 0:
            return start
    return start + (place + 1 if lines else len(data))


def whole_characters(data: bytes) -> int:
    """Return the number of bytes without a last character that may be incomplete. The next chunk has the rest of it."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # the first byte of a character
            needs = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return len(data) - back if needs > back else len(data)
    return len(data)
