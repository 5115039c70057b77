"""Check the home: its folder, token, disk and journal, and the folders of its jobs."""

import contextlib
import json
import os
import sqlite3
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from rota.agent.log import too_little_room
from rota.compose.live_scheduler import JOURNAL_CODEC, read_setup
from rota.core.snapshot import READABLE as READABLE_SNAPSHOTS
from rota.doctor.diagnosis import Diagnosis, fail, ok, warn
from rota.doctor.postgres_checks import Rows, check_postgres, unfinished_jobs
from rota.errors import JournalError, NotYours, RotaError
from rota.folders import check_folder
from rota.live.identity import find_original
from rota.live.journal_entries import EntryReader
from rota.live.journal_packs import count_entries
from rota.live.journal_place import PostgresLocation, find_journal
from rota.live.journal_store import READABLE, SCHEMA
from rota.live.reserve import FULL_BYTES, FULL_PART
from rota.live.sqlite_store import connect_to_read
from rota.model.counted import counted
from rota.wire.home import TOKEN_FILE, user_of
from rota.wire.submission import URL_MARK, Submission, decode_submission

SCARCE_BYTES = 2 << 30
"""Free space below which the doctor warns, in bytes."""
MAX_FAULTS_SHOWN = 5
UNREADABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
"""Error codes of SQLite for a file that it cannot read now. The file may be undamaged."""


# The folder.


def check_home(home: Path) -> Iterator[Diagnosis]:
    if not home.exists():
        above = next(folder for folder in home.parents if folder.exists())
        if os.access(above, os.W_OK):
            yield warn("home", f"{home} does not exist yet", f"rota up --home {home} makes it")
        else:
            yield fail("home", f"{home} does not exist, and {above} cannot be written to", "--home with another folder")
        return
    if not home.is_dir():
        yield fail("home", f"{home} is not a folder", "--home with another folder")
        return
    yield _folder(home)
    yield from _copy(home)
    yield _disk(home)
    yield _token(home / TOKEN_FILE)


def _folder(home: Path) -> Diagnosis:
    facts = home.stat()
    if facts.st_uid != os.geteuid() and os.geteuid() != 0:
        return fail("home", f"{home} belongs to {user_of(facts.st_uid)}", "--home with a folder of yours")
    try:
        check_folder(home, instead="--home with a folder of yours")
    except NotYours as problem:
        return fail("home", problem.message.rstrip("."), problem.hint)
    trial = home / f".doctor-{os.getpid()}"
    try:
        trial.touch(mode=0o600, exist_ok=False)
        trial.unlink()
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        step = f"chmod u+rwx {home}; a disk that is mounted read-only: mount it for writing; or --home with another folder"
        return fail("home", f"{home} cannot be written to ({why})", step)
    mode = stat.S_IMODE(facts.st_mode)
    if mode & 0o077:
        found = f"other users can read {home} (mode {mode:03o}), which has logs and specs of jobs"
        return warn("home", found, f"chmod 700 {home}")
    return ok("home", f"{home} is a folder of yours and can be written to")


def _copy(home: Path) -> Iterator[Diagnosis]:
    """Check whether `rota up` would refuse the home as a copy of another one."""
    try:
        original = find_original(home)
    except (OSError, RotaError):
        return  # other checks report the faults of its files
    if original is not None:
        found = f"{home} is a copy of {original.where}: rota up refuses to start"
        yield warn("copy", found, f"rota up --adopt --home {home}, if the original is gone; else rota up --new-identity")


def _disk(home: Path) -> Diagnosis:
    disk = os.statvfs(home)
    free = disk.f_bavail * disk.f_frsize
    space = f"{free / 2**30:,.1f} GiB of {disk.f_blocks * disk.f_frsize / 2**30:,.0f} GiB are free on the disk of {home}"
    if too_little_room(home, FULL_BYTES, FULL_PART):
        return fail("disk", f"{space}: no job is accepted or started", f"free some space on it; logs are in {home / 'logs'}")
    if free < SCARCE_BYTES:
        return warn("disk", space, f"free some space on it; logs are in {home / 'logs'}")
    return ok("disk", space)


def _token(path: Path) -> Diagnosis:
    try:
        facts, text = path.lstat(), path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return warn("token", f"{path} does not exist yet", "rota up makes it")
    except (OSError, ValueError) as problem:
        why = (getattr(problem, "strerror", None) or "it is not text").lower()
        step = f"chmod 600 {path}" if isinstance(problem, PermissionError) else f"rm {path}: the next rota up makes a new one"
        return fail("token", f"{path} cannot be read ({why})", step)
    if not stat.S_ISREG(facts.st_mode):
        return fail("token", f"{path} is not a plain file", f"rm {path}; the next rota up makes a new one")
    mode = stat.S_IMODE(facts.st_mode)
    if mode & 0o077:
        found = f"other users can read the token in {path} (mode {mode:03o}) and run commands as you"
        return fail("token", found, f"rm {path} and rota up again, which makes a new one")
    if len(text) < 16:
        return fail("token", f"{path} does not contain a token", f"rm {path} and rota up again, which makes a new one")
    return ok("token", f"only you can read {path}")


# The journal.


def check_journal(home: Path) -> Iterator[Diagnosis]:
    if not home.is_dir():
        return
    try:
        place = find_journal(home)
    except RotaError as problem:
        yield fail("journal", problem.message, problem.hint)
        return
    if isinstance(place, PostgresLocation):
        yield from check_postgres(place, check_entries)
        return
    path = place.path
    if not path.exists():
        yield ok("journal", "none yet: no scheduler has run in this home")
        return
    another = f"restore a backup of {path}; without one, move it away or use another --home, which loses its jobs"
    try:
        with contextlib.closing(connect_to_read(path)) as db:
            yield _file(db, path, another)
    except sqlite3.OperationalError as problem:
        if problem.sqlite_errorcode & 0xFF not in UNREADABLE:
            yield fail("journal", f"{path} is damaged: {problem}", another)
            return
        step = f"ls -l {home}: its files must be readable for you, on a disk without faults"
        yield fail("journal", f"{path} cannot be read now: {problem}", step)
    except (sqlite3.DatabaseError, ValueError, TypeError, KeyError, zlib.error, OSError) as problem:
        yield fail("journal", f"{path} is damaged: {problem}", another)


def _file(db: sqlite3.Connection, path: Path, another: str) -> Diagnosis:
    faults = [row[0] for row in db.execute("PRAGMA quick_check(3)")]
    if faults != ["ok"]:
        return fail("journal", f"{path} is damaged: {'; '.join(faults)}", another)
    if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return ok("journal", f"{path} is empty")
    return check_entries(lambda statement, values: db.execute(statement, values).fetchall(), str(path), another)


def check_entries(rows: Rows, path: str, another: str) -> Diagnosis:
    """Check the entries of a journal in any database. `another` is the next step if it is damaged."""
    older = "use the Rota that wrote it, or another --home"
    schema = next(iter(rows("SELECT value FROM meta WHERE key = 'schema'", ())), None)
    if schema is None or schema[0] not in map(str, range(READABLE[0], SCHEMA + 1)):
        found = "none" if schema is None else schema[0]
        return fail("journal", f"{path} has schema {found}, and this Rota reads {READABLE[0]} to {SCHEMA}", older)
    entries, last = count_entries(rows)
    if entries != last:
        return fail("journal", f"{path} has {entries:,} entries and the last is number {last:,}: some are missing", another)
    after = 0
    for number, packed in rows("SELECT number, state FROM snapshots ORDER BY number DESC LIMIT 1", ()):
        after, snapshot = number, json.loads(zlib.decompress(packed))
        if snapshot.get("version") not in READABLE_SNAPSHOTS:
            versions = f"{READABLE_SNAPSHOTS[0]} to {READABLE_SNAPSHOTS[-1]}"
            found = f"{path} has a snapshot of version {snapshot.get('version')}, and this Rota reads {versions}"
            return fail("journal", found, older)
    for (text,) in rows("SELECT value FROM configurations ORDER BY number DESC LIMIT 1", ()):
        try:
            read_setup(json.loads(text))
        except RotaError as problem:
            return fail("journal", f"{path}: {problem.message}", problem.hint or older)
    number = after
    try:
        for entry in EntryReader(rows, JOURNAL_CODEC).entries(after):
            number = entry.number
    except (ValueError, TypeError, KeyError, JournalError) as problem:
        return fail("journal", f"{path}: entry {number + 1} cannot be read ({problem})", older)
    ((jobs,),) = rows("SELECT count(*) FROM jobs", ())
    return ok("journal", f"{path} is complete: {counted(entries, 'entry', 'entries')}, {counted(jobs, 'job')}")


# Jobs that are in it.


def check_jobs(home: Path) -> Iterator[Diagnosis]:
    """Check whether the folders of unfinished jobs exist."""
    try:
        place = find_journal(home)
        if isinstance(place, PostgresLocation):
            stored = unfinished_jobs(place)
        elif place.path.exists():
            with contextlib.closing(connect_to_read(place.path)) as db:
                rows = db.execute("SELECT id, spec FROM jobs WHERE ended = 0 ORDER BY id").fetchall()
                stored = [(number, json.loads(spec)) for number, spec in rows]
        else:
            return
        jobs = [(number, decode_submission(plain)) for number, plain in stored]
    except (RotaError, sqlite3.DatabaseError, ValueError):
        return  # reported by other checks
    faults = [fault for number, sent in jobs if (fault := _job(number, sent))]
    yield from faults[:MAX_FAULTS_SHOWN]
    if len(faults) > MAX_FAULTS_SHOWN:
        yield warn(
            "jobs", f"{len(faults) - MAX_FAULTS_SHOWN:,} more jobs lack a folder", "fix the jobs above, then rota doctor again"
        )
    if not faults:
        yield ok("jobs", f"{len(jobs):,} unfinished, and their folders exist" if jobs else "none unfinished")


def _job(number: int, sent: Submission) -> Diagnosis | None:
    name = f"job {number} ({sent.spec.name or 'without a name'})"
    folder, checkpoints = sent.folder, sent.checkpoint_dir
    if not Path(folder).is_dir():
        return fail("jobs", f"{name}: its working folder {folder} does not exist", f"mkdir -p {folder}, or rota cancel {number}")
    if URL_MARK in checkpoints:
        return None  # access to an object store is the job's concern
    if not Path(checkpoints).is_dir():
        found = f"{name}: its checkpoint folder {checkpoints} does not exist; if its script does not make it, it cannot save"
        return warn("jobs", found, f"mkdir -p {checkpoints}")
    if not os.access(checkpoints, os.W_OK):
        found = f"{name}: its checkpoint folder {checkpoints} cannot be written to"
        return fail("jobs", found, f"chmod u+w {checkpoints}, or rota cancel {number}")
    return None
