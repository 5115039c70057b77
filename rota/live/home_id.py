"""The name of a home, which no other home has."""

import contextlib
import os
import secrets
from pathlib import Path

from rota.agent.disk import sync_folder, write_atomic
from rota.folders import read_file

HOME_ID = "home-id"


def home_id(home: Path) -> str:
    """A name that no other home has, made when it is first asked for. Jobs of two homes may share a working folder and a number,
    and must not find each other's checkpoints. Of several processes that make it at once, one does."""
    path = home / HOME_ID
    if not path.exists():
        made = f".{HOME_ID}.{secrets.token_hex(4)}"
        write_atomic(home, made, secrets.token_hex(4).encode(), durable=True)
        with contextlib.suppress(FileExistsError):
            os.link(home / made, path)
        (home / made).unlink()
        sync_folder(home)
    return read_file(path).decode("ascii").strip()
