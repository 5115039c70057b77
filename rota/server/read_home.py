"""Open a home whose scheduler is not running, to read it."""

from contextlib import closing
from pathlib import Path

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.live.home_on_disk import HomeOnDisk
from rota.live.journal_place import PLACE_FILE, SQLITE_FILE, find_journal, has_journal, open_journal


def read_home(home: Path) -> HomeOnDisk | None:
    """Return the home as it is on disk; None if no scheduler has run in it."""
    if not any((home / name).exists() for name in (SQLITE_FILE, PLACE_FILE)) or not has_journal(place := find_journal(home)):
        return None
    with closing(open_journal(place, JOURNAL_CODEC, read_only=True)) as journal:
        return HomeOnDisk(home, journal, make_scheduler, JOURNAL_CODEC) if journal.configuration() is not None else None
