"""The lead of a home: one process at a time runs its scheduler. Others exit with an error, or are standbys.

With a journal in SQLite, the lock of a file in the home decides. With one in PostgreSQL, an election decides, and the lock only
shows clients that a scheduler is running.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from rota.errors import NotYours, OptionError, RotaError
from rota.folders import make_folder, open_file
from rota.live.election import Election, Leader
from rota.live.journal_place import JournalLocation, PostgresLocation, save_journal_location
from rota.live.journal_store import JournalUnavailable
from rota.wire.address import LOCK_FILE

LOCK_TRIES, LOCK_PAUSE_SECONDS = 5, 0.05
"""Number of tries to take the lock, and the pause between them, in seconds. A client holds the lock for an instant when it
cleans up after a killed scheduler."""
TRY_SECONDS = 0.5
"""Interval between two tries of a standby to become leader, in seconds."""
STANDBY = "standby: "
"""Beginning of the line that a waiting standby prints."""


class Lead(NamedTuple):
    """The lead of this process."""

    epoch: int = 0
    """Epoch of the leader; 0 with SQLite, where a file lock decides."""
    problem: Callable[[], str] = lambda: ""
    """Function that returns why this process may no longer be leader, or an empty text. Any thread may call it."""


@contextmanager
def leadership(
    home: Path,
    place: JournalLocation,
    *,
    standby: bool,
    say: Callable[[str], None],
    on_lost: Callable[[BaseException], None],
) -> Iterator[Lead]:
    """Be leader while the context is open. With `standby`, wait for the lead; otherwise raise RotaError if another process has
    it."""
    if not isinstance(place, PostgresLocation):
        if standby:
            raise OptionError(
                "needs a journal that other machines can write too.",
                field="--standby",
                hint="--journal postgresql://USER@HOST/DATABASE",
            )
        with only_one(home):
            yield Lead()
        return
    with closing(Election(place)) as election:
        if standby:
            _wait(election, say)
        elif not election.try_to_lead():
            leader = election.leader()
            raise RotaError(
                f"A scheduler already leads in {home}: {leader or 'one that has just begun'}.",
                hint="rota jobs there; or --standby here, which takes over when it is gone",
            )
        save_journal_location(home, place)
        election.start_heartbeat(on_lost)
        with _sign(home):
            yield Lead(election.epoch, election.problem)


def _wait(election: Election, say: Callable[[str], None]) -> None:
    """Wait until this process is leader. Print who is leader when that changes."""
    printed: Leader | str | None = ""
    while True:
        try:
            if election.try_to_lead():
                return
            found: Leader | str | None = election.leader()
        except JournalUnavailable as problem:
            found = problem.message
        if found != printed:
            printed = found
            leads = f"{found} leads; this process takes over when it is gone" if isinstance(found, Leader) else found
            say(STANDBY + (leads or "a scheduler leads; this process takes over when it is gone"))
        time.sleep(TRY_SECONDS)


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the lock of the home while the context is open. The system releases it however the process ends."""
    with _opened(home) as file:
        if not _locked(file):
            raise RotaError(f"A scheduler is already running in {home}.", hint="rota jobs, or another --home")
        yield


@contextmanager
def _sign(home: Path) -> Iterator[None]:
    """Hold the file's lock, which clients check. If a frozen former leader still holds it, replace the file."""
    file = _opened(home)
    try:
        if not _locked(file):
            file.close()
            with suppress(FileNotFoundError):
                (home / LOCK_FILE).unlink()
            file = _opened(home)
            _locked(file)
        yield
    finally:
        file.close()


def _opened(home: Path) -> IO[Any]:
    try:
        make_folder(home, instead="--home with a folder of yours")
        return os.fdopen(open_file(home / LOCK_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w")
    except NotYours:
        raise
    except OSError as problem:
        raise OptionError(
            f"cannot be used: {problem.strerror or problem}.", field="--home", value=str(home), hint="another --home"
        ) from None


def _locked(file: IO[Any]) -> bool:
    for left in reversed(range(LOCK_TRIES)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if left:
                time.sleep(LOCK_PAUSE_SECONDS)
    return False
