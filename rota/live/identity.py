"""Detecting whether a home is the one in which its attempts were started, or a copy of it.

A copy has all the files of its original, including its `home-id`. What is not copied is the folder itself: `home.json` records
its inode and its machine. A home that was renamed keeps both. A copy must not touch the attempts of the original, so a scheduler
starts in a copy only if the operator decides what it is: the home from now on, because the original is gone (`--adopt`), or a
separate home (`--new-identity`).
"""

import contextlib
import json
import os
import secrets
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rota.agent.copied import end_copied_attempts, supervised_elsewhere
from rota.agent.disk import is_free, write_atomic
from rota.errors import NotYours, OptionError, RotaError
from rota.folders import is_local, read_file
from rota.live.home_id import HOME_ID
from rota.live.journal_place import PLACE_FILE
from rota.wire.address import LOCK_FILE, TOKEN_FILE

HOME_FILE = "home.json"
MACHINE_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class HomeRecord(NamedTuple):
    """home.json: the folder and the machine of the home."""

    path: str
    inode: int
    machine: str
    """ID that the machine got when it was installed; empty if it has none."""
    host: str


class Original(NamedTuple):
    """The home of which another one is a copy."""

    path: str
    where: str
    """Path, and the machine if it is another one; for messages."""
    is_led: bool
    """Whether a scheduler is running there now, as far as this machine can see."""


def find_original(home: Path) -> Original | None:
    """Return the home of which this one is a copy; None if it is not a copy. Raise OSError if it cannot be read."""
    if not (home / HOME_ID).exists():
        return None
    record = _recorded(home)
    if record is not None and not _is_the_one(home, record):
        elsewhere = record.host if _is_on_another_machine(home, record) else ""
        where = f"{record.path} on {elsewhere}" if elsewhere else record.path
        return Original(record.path, where, not elsewhere and _is_led(home, Path(record.path)))
    # A home of an earlier version has no record, and a snapshot of a disk has the same record.
    for folder in supervised_elsewhere(home):
        there = folder.parents[2]
        return Original(str(there), str(there), _is_led(home, there))
    return None


def settle_identity(home: Path, *, adopt: bool, new_identity: bool, say: Callable[[str], None]) -> None:
    """Refuse to start a scheduler in a copy, unless the operator decides what the copy is. Nothing of the original is touched."""
    if adopt and new_identity:
        raise OptionError("cannot be combined with --new-identity.", field="--adopt", hint="give one of the two")
    original = find_original(home) if home.exists() else None
    if original is None:
        if new_identity:
            raise OptionError(f"{home} is not a copy of another home.", field="--new-identity", hint="leave it out")
        return
    if new_identity:
        _begin_new_identity(home, original, say)
    elif not adopt:
        which = f" --home {home}"
        raise RotaError(
            f"{home} is a copy of {original.where}. Nothing was started or changed.",
            hint=f"rota up --adopt{which}, if the original is gone for good: its jobs continue here from their checkpoints"
            f" · rota up --new-identity{which}, to keep both: nothing of the original is touched",
        )
    elif original.is_led:
        raise RotaError(
            f"A scheduler runs in {original.path}, of which {home} is a copy. Nothing was started or changed.",
            hint=f"rota down --home {original.path}, or rota up --new-identity --home {home}",
        )
    else:
        say(f"home {home} takes over from {original.where}, which must not be started again")
    record_home(home)


def _begin_new_identity(home: Path, original: Original, say: Callable[[str], None]) -> None:
    """Make a copy a separate home. If this is interrupted, the home is still a copy, and the next start does it again."""
    if (home / PLACE_FILE).exists():
        raise OptionError(
            "a journal in PostgreSQL can belong to one home only.",
            field="--new-identity",
            hint=f"another --home with another schema, or rota up --adopt --home {home}, if the original is gone",
        )
    ended = end_copied_attempts(home, f"the home is a copy of {original.where}")
    (home / TOKEN_FILE).unlink(missing_ok=True)
    write_atomic(home, HOME_ID, secrets.token_hex(4).encode(), durable=True)
    attempts = f"{ended} attempt{'' if ended == 1 else 's'} of {original.where}"
    say(f"home {home} has a new identity and forgets {attempts}; the jobs of the copy start again")


def _is_the_one(home: Path, record: HomeRecord) -> bool:
    here = home.stat()
    if here.st_ino != record.inode or _is_on_another_machine(home, record):
        return False
    with contextlib.suppress(OSError):  # the old path is free if the home was renamed
        there = Path(record.path).stat()
        is_snapshot = there.st_ino == here.st_ino and not os.path.samestat(here, there)
        return not (is_snapshot and _id_of(Path(record.path)) == _id_of(home))
    return True


def _is_on_another_machine(home: Path, record: HomeRecord) -> bool:
    """Return whether the home was recorded on another machine. On a file system that several machines may see, the same folder is
    the same home on all of them."""
    machine = _machine()
    return bool(machine and record.machine and machine != record.machine) and is_local(home)


def _is_led(home: Path, original: Path) -> bool:
    with contextlib.suppress(OSError):
        return _id_of(original) == _id_of(home) and not is_free(original / LOCK_FILE)
    return False


def _id_of(home: Path) -> bytes:
    return (home / HOME_ID).read_bytes()


def _recorded(home: Path) -> HomeRecord | None:
    try:
        return HomeRecord(**json.loads(read_file(home / HOME_FILE)))
    except NotYours:
        raise
    except (OSError, ValueError, TypeError):
        return None


def record_home(home: Path) -> None:
    """Record that this folder is the home. Called by the scheduler that leads in it."""
    record = HomeRecord(str(home), home.stat().st_ino, _machine(), socket.gethostname())
    if _recorded(home) != record:
        write_atomic(home, HOME_FILE, json.dumps(record._asdict()).encode(), durable=True)


def _machine() -> str:
    for name in MACHINE_FILES:
        with contextlib.suppress(OSError):
            if stat.S_ISREG(Path(name).stat().st_mode) and (found := Path(name).read_text(encoding="ascii").strip()):
                return found
    return ""
