"""The unique ID of a home."""

import contextlib
import os
import secrets
from pathlib import Path

from rota.agent.disk import sync_folder, write_atomic
from rota.folders import read_file

HOME_ID = "home-id"


def home_id(home: Path) -> str:
    """Return an ID that no other home has. It is made at the first call. Jobs of two homes may share a working folder and a
    number, and must not find each other's checkpoints. If several processes make it at once, one of them wins."""
    path = home / HOME_ID
    if not path.exists():
        made = f".{HOME_ID}.{secrets.token_hex(4)}"
        write_atomic(home, made, secrets.token_hex(4).encode(), durable=True)
        with contextlib.suppress(FileExistsError):
            os.link(home / made, path)
        (home / made).unlink()
        sync_folder(home)
    return read_file(path).decode("ascii").strip()
