"""The location of a home's journal: the file `journal.sqlite` in it, or a schema of a PostgreSQL database. Everything that opens
a journal uses this module.

The home keeps the address of the database without its password. The password comes from $ROTA_JOURNAL, $PGPASSWORD or
`~/.pgpass`, so it is not in any file of Rota, in any message or in any list of processes.
"""

import contextlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from rota.agent.disk import write_atomic
from rota.errors import JournalError, NotYours, OptionError
from rota.folders import check_file, make_folder, read_file
from rota.live.home_id import home_id
from rota.live.journal import Journal
from rota.live.journal_store import JournalStore
from rota.live.sqlite_store import SqliteStore
from rota.model.codec import Codec

SQLITE_FILE = "journal.sqlite"
PLACE_FILE = "journal.json"
VARIABLE = "ROTA_JOURNAL"
SECRET_FIELDS = ("password", "sslpassword")
_SCHEMA = re.compile(r"rota_[a-z0-9_]{1,50}")
_ANOTHER_HOME = "--home with a folder of yours"
_HINT = "--journal postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True)
class PostgresLocation:
    """A schema of a PostgreSQL database."""

    url: str
    """Address without a password."""
    schema: str

    def __str__(self) -> str:
        return f"{self.url} (schema {self.schema})"

    def password(self) -> str | None:
        """Return the password in $ROTA_JOURNAL, if it names the same database. None if libpq should look in $PGPASSWORD and
        ~/.pgpass."""
        with contextlib.suppress(ValueError):  # not an address
            url, password = without_password(os.environ.get(VARIABLE, ""))
            return password if url == self.url else None
        return None


@dataclass(frozen=True)
class SqliteLocation:
    """A file in the home."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


JournalLocation = SqliteLocation | PostgresLocation


def find_journal(home: Path, given: str | None = None) -> JournalLocation:
    """Return the location of this home's journal, which may not exist yet. `given` is the value of --journal; a new home also
    uses $ROTA_JOURNAL."""
    if given is not None and without_password(_checked(given))[1] is not None:
        raise OptionError(
            "has a password, which others can see in the list of processes.",
            field="--journal",
            hint=f"leave it out, and give it by {VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE, PGPASSWORD or ~/.pgpass",
        )
    kept, sqlite = _kept(home), SqliteLocation(home / SQLITE_FILE)
    there = kept or (sqlite if sqlite.path.exists() else None)
    if there is not None and given is None:
        return there
    url = without_password(_checked(given or os.environ.get(VARIABLE, "")))[0]
    if there is not None and there != (kept and PostgresLocation(url, kept.schema)):
        raise OptionError(
            f"the journal of {home} is {there}.", field="--journal", value=url, hint="leave it out, or another --home"
        )
    if there is not None or not url:
        return there or sqlite
    make_folder(home, instead=_ANOTHER_HOME)
    return PostgresLocation(url, f"rota_{home_id(home)}")


def save_journal_location(home: Path, place: JournalLocation) -> None:
    """Record the location, so that later commands find the journal there."""
    if isinstance(place, PostgresLocation) and _kept(home) is None:
        write_atomic(home, PLACE_FILE, json.dumps({"url": place.url, "schema": place.schema}).encode(), durable=True)


def has_journal(place: JournalLocation) -> bool:
    """Return whether a scheduler has run here."""
    if isinstance(place, SqliteLocation):
        return place.path.is_file()
    from rota.live.postgres_store import has_tables

    return has_tables(place)


def open_journal(place: JournalLocation, codec: Codec, epoch: int = 0, *, read_only: bool = False) -> Journal:
    """Open a journal. `epoch` is that of the leading process; without one, a journal in PostgreSQL can only be read. With
    `read_only`, nothing is written to a file in the home either."""
    store: JournalStore
    if isinstance(place, SqliteLocation):
        if not read_only:
            make_folder(place.path.parent, instead=_ANOTHER_HOME)
        for name in (place.path, *(Path(f"{place.path}-{part}") for part in ("wal", "shm"))):
            check_file(name)
        store = SqliteStore(place.path, read_only=read_only)
    else:
        from rota.live.postgres_store import PostgresStore

        store = PostgresStore(place, epoch)
    return Journal(store, codec)


def without_password(url: str) -> tuple[str, str | None]:
    """Return the address without its password, and the password."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    fields = parse_qsl(parts.query, keep_blank_values=True)
    secret: str | None = unquote(password) if colon else next((value for key, value in fields if key == "password"), None)
    query = urlencode([(key, value) for key, value in fields if key not in SECRET_FIELDS], quote_via=quote, safe="/,:")
    clean = f"{parts.scheme}://{name}{at}{hosts}{parts.path}" if parts.scheme else ""
    return clean + (f"?{query}" if query else ""), secret


def _checked(url: str) -> str:
    try:
        known = not url or urlsplit(url).scheme in ("postgresql", "postgres")
    except ValueError:
        known = False
    if not known:
        shown = url.partition("://")[0] + "://..." if "://" in url else "..."
        raise OptionError("is not the address of a PostgreSQL database.", field="--journal", value=shown, hint=_HINT)
    return url


def _kept(home: Path) -> PostgresLocation | None:
    path = home / PLACE_FILE
    try:
        plain: Any = json.loads(read_file(path))
        url, schema = str(plain["url"]), str(plain["schema"])
    except FileNotFoundError:
        return None
    except NotYours:
        raise
    except (OSError, ValueError, TypeError, KeyError) as problem:
        hint = f"put back a copy of {path}, or remove it and give --journal again"
        raise JournalError(f"{path}: does not contain the location of the journal ({problem}).", hint=hint) from None
    if not _SCHEMA.fullmatch(schema):
        raise JournalError(f"{path}: {schema!r} is not the name of a schema of Rota's.", hint=f"put back a copy of {path}")
    return PostgresLocation(url, schema)
