"""Who may run the scheduler of a home: one process at a time. Others end with an error, or stand by.

With a journal in SQLite the lock of a file in the home decides. With one in PostgreSQL an election does, and that lock is only a
sign for clients that a scheduler is there.
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
from rota.live.journal_place import JournalLocation, PostgresLocation, keep_place
from rota.live.journal_store import JournalUnavailable
from rota.wire.address import LOCK_FILE

LOCK_TRIES, LOCK_PAUSE_SECONDS = 5, 0.05
"""A client holds the lock for an instant when it clears up behind a scheduler that was killed."""
TRY_SECONDS = 0.5
"""So often a standby tries to lead."""
STANDBY = "standby: "
"""How the line begins that says that this process waits."""


class Lead(NamedTuple):
    """That this process leads."""

    epoch: int = 0
    """0 with SQLite, where the lock of a file decides."""
    problem: Callable[[], str] = lambda: ""
    """Why that is not sure; empty: it is. Any thread."""


@contextmanager
def leading(
    home: Path,
    place: JournalLocation,
    *,
    standby: bool,
    say: Callable[[str], None],
    on_lost: Callable[[BaseException], None],
) -> Iterator[Lead]:
    """Inside, this process leads. `standby`: wait until it can."""
    if not isinstance(place, PostgresLocation):
        if standby:
            raise OptionError(
                "needs a journal that another machine can write too.",
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
        keep_place(home, place)
        election.start_heartbeat(on_lost)
        with _sign(home):
            yield Lead(election.epoch, election.problem)


def _wait(election: Election, say: Callable[[str], None]) -> None:
    """Until it leads. What stands in the way is told when it changes."""
    told: Leader | str | None = ""
    while True:
        try:
            if election.try_to_lead():
                return
            found: Leader | str | None = election.leader()
        except JournalUnavailable as problem:
            found = problem.message
        if found != told:
            told = found
            leads = f"{found} leads; this process takes over when it is gone" if isinstance(found, Leader) else found
            say(STANDBY + (leads or "a scheduler leads; this process takes over when it is gone"))
        time.sleep(TRY_SECONDS)


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """The lock goes with the process, however it ends."""
    with _opened(home) as file:
        if not _locked(file):
            raise RotaError(f"A scheduler is already running in {home}.", hint="rota jobs, or another --home")
        yield


@contextmanager
def _sign(home: Path) -> Iterator[None]:
    """The file's lock, for clients. A former leader that stands still may hold it: then it is made anew."""
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
