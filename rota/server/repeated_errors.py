"""Log repeated errors: the first in full, the others as a count once a minute.

A stranger can cause some errors at any rate, and the log must not fill the disk.
"""

import asyncio
import errno
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

LOGGERS = ("uvicorn.error", "asyncio")
COUNTS_SECONDS = 60.0
MAX_KINDS = 200
"""Maximum number of different kinds of errors. Further kinds count as one."""
MAX_LINE_CHARS = 200

_Key = tuple[Any, ...]
_NO_FILES = (errno.EMFILE, errno.ENFILE)


class _Seen(NamedTuple):
    since_s: float
    """Time when the error was last logged."""
    again: int
    """Number of repetitions since then."""
    line: str
    level: int


class RepeatedErrors(logging.Filter):
    """A filter that passes the first record of each kind. Records with the same text from the same line of code are one kind."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[_Key, _Seen] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, key = time.monotonic(), _key(record)
        if key not in self._seen and len(self._seen) >= MAX_KINDS:
            key = ()
        found = self._seen.get(key)
        if found is None:
            self._seen[key] = _Seen(now, 0, _line(record), record.levelno)
            return True
        self._seen[key] = found._replace(again=found.again + 1)
        return False

    def log_counts(self, seconds: float = COUNTS_SECONDS) -> None:
        """Log how often each error was repeated, if it was last logged this long ago, in seconds. An error that was not repeated
        is forgotten, so that the next one is logged in full."""
        now = time.monotonic()
        for key, found in list(self._seen.items()):
            if now - found.since_s < seconds:
                continue
            if found.again:
                logging.getLogger("rota").log(found.level, "again times=%d %s", found.again, found.line)
                self._seen[key] = found._replace(since_s=now, again=0)
            else:
                del self._seen[key]


@contextmanager
def counted_errors() -> Iterator[RepeatedErrors]:
    """Make the server and the event loop log repeated errors once, while the context is open."""
    counted = RepeatedErrors()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(counted)
    try:
        yield counted
    finally:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(counted)
        counted.log_counts(0.0)


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that the event loop cannot raise anywhere. Running out of files is one line without a traceback."""
    problem = context.get("exception")
    if isinstance(problem, OSError) and problem.errno in _NO_FILES and "socket" in context:
        logging.getLogger("asyncio").error(
            "connection not accepted: %s. Try: a higher limit of open files (ulimit -n, or LimitNOFILE= in a unit)",
            problem.strerror,
        )
        return
    loop.default_exception_handler(context)


def _key(record: logging.LogRecord) -> _Key:
    problem = record.exc_info[1] if record.exc_info else None
    where = None
    if problem is not None and (trace := problem.__traceback__) is not None:
        while trace.tb_next is not None:
            trace = trace.tb_next
        where = trace.tb_frame.f_code.co_filename, trace.tb_lineno
    return record.name, record.levelno, str(record.msg).partition("\n")[0], type(problem), getattr(problem, "errno", None), where


def _line(record: logging.LogRecord) -> str:
    problem = record.exc_info[1] if record.exc_info else None
    said = record.getMessage().strip().partition("\n")[0]
    return (f"{said} ({type(problem).__name__}: {problem})" if problem is not None else said)[:MAX_LINE_CHARS]
