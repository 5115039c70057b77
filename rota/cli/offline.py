"""Read-only commands use the scheduler, or its files if the scheduler is not running."""

import sys
from typing import TYPE_CHECKING

from rota.errors import NotRunningError
from rota.wire.client import Client, connect
from rota.wire.home import home_folder

if TYPE_CHECKING:
    from rota.live.home_on_disk import HomeOnDisk


def connect_or_read(home: str | None) -> "Client | HomeOnDisk":
    """Connect to the scheduler, or read its home from disk. Raise the error of `connect` if the home has no journal."""
    try:
        return connect(home)
    except NotRunningError as problem:
        from rota.cli import job_text
        from rota.server.read_home import read_home

        found = read_home(home_folder(home))
        if found is None:
            raise
        as_of = f", as of {job_text.clock(found.as_of)}" if found.as_of else ""
        sys.stderr.write(f"note: {problem.message} Read from disk{as_of}. Start it: {problem.hint}\n")
        return found
