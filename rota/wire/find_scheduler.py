"""Which scheduler a command talks to: that of a home, of an address, or the one that all users of this machine share."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rota.errors import InputError, NotRunningError, OptionError
from rota.folders import open_file
from rota.wire.address import read_address
from rota.wire.config_file import client_setting
from rota.wire.home import home_folder

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Hosts to which a token may be sent unencrypted."""
SHARED_SOCKET = "/run/rota/rota.sock"
"""Socket of a scheduler that serves all users of this machine."""
ADDRESS, TOKEN_FILE, CA_FILE = "ROTA_ADDRESS", "ROTA_TOKEN_FILE", "ROTA_CA_FILE"
"""Environment variables: addresses of schedulers with commas between them, the file with this user's token, and the file with
the certificates of the authority that signed the scheduler's."""
_MAX_TOKEN_BYTES = 1000


class SchedulerAddress(NamedTuple):
    """How to reach a scheduler."""

    urls: tuple[str, ...]
    """Addresses; the first that answers is used, since another scheduler may be leader."""
    token: str | None
    """Token of this user; None if the scheduler knows users by their Unix socket."""
    home: str | None = None
    """Home in which the address and the token were found; None if they were given."""
    ca_file: str | None = None


def find_scheduler(home: Path | str | None = None) -> SchedulerAddress:
    """Return the scheduler of a named home, else of $ROTA_ADDRESS, else of $ROTA_HOME, else of the configuration file, else of
    ~/.rota, else the shared one of this machine. Raise NotRunningError if there is none."""
    if home is None and os.environ.get(ADDRESS):
        return _given(ADDRESS, os.environ[ADDRESS].split(","))
    if home is None and not os.environ.get("ROTA_HOME") and (addresses := client_setting("address")):
        return _given("address", addresses)
    try:
        url, token = read_address(home)
    except NotRunningError:
        if home is None and not os.environ.get("ROTA_HOME") and Path(SHARED_SOCKET).is_socket():
            return SchedulerAddress((f"unix:{SHARED_SOCKET}",), None)
        raise
    return SchedulerAddress((url,), token, str(home_folder(home)))


def _given(source: str, addresses: Sequence[str]) -> SchedulerAddress:
    """Return the scheduler at one of these addresses. `source`: the variable or the setting that names them."""
    urls = tuple(each.strip() for each in addresses if each.strip())
    for url in urls:
        if not url.startswith(("http://", "https://", "unix:")):
            raise OptionError("is not the address of a scheduler.", field=source, value=url, hint="https://gpu1.example:7070")
        if url.startswith("http://") and urlsplit(url).hostname not in LOOPBACK:
            problem = "would send your token unencrypted to another machine."
            raise OptionError(problem, field=source, value=url, hint=f"https:{url.removeprefix('http:')}")
    path = os.environ.get(TOKEN_FILE) or client_setting("token_file")
    ca_file = os.environ.get(CA_FILE) or client_setting("ca_file")
    return SchedulerAddress(urls, _token_in(Path(path).expanduser()) if path else None, None, ca_file)


def _token_in(path: Path) -> str:
    """Read a token. Raise InputError unless only this user can read the file."""
    try:
        handle = open_file(path)
    except FileNotFoundError:
        raise InputError(
            "there is no such file.", field=TOKEN_FILE, value=str(path), hint="rota user add NAME makes a token"
        ) from None
    with os.fdopen(handle, "rb") as file:
        if os.fstat(handle).st_mode & 0o077:
            raise InputError("can be read by other users.", field=TOKEN_FILE, value=str(path), hint=f"chmod 600 {path}")
        token = file.read(_MAX_TOKEN_BYTES).decode("utf-8", "replace").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError("does not contain a token.", field=TOKEN_FILE, value=str(path), hint="rota user add NAME makes a token")
    return token
