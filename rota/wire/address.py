"""The address and the token of a scheduler on this machine: two small files in its home.

`daemon.json` has the address and exists while the scheduler runs; `token` stays. A user who can read the token can run commands
as the user who started the scheduler, so only that user can read it.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from rota.errors import InputError, NotRunningError, NotYours, UnreachableError
from rota.folders import check_folder, make_folder, read_file
from rota.wire.home import ADDRESS_FILE, LOCK_FILE, TOKEN_FILE, home_folder, not_running, other_owner, scheduler_runs, user_of

__all__ = [
    "ADDRESS_FILE",
    "LOCK_FILE",
    "TOKEN_FILE",
    "Address",
    "home_folder",
    "make_token",
    "read_address",
    "remove_address",
    "write_address",
]

_TOKEN_BYTES = 32
_MAX_TOKEN_BYTES = 1000


class Address(NamedTuple):
    """How clients reach a scheduler."""

    url: str
    """URL, such as `http://127.0.0.1:7070` or `unix:/path`."""
    token: str


def read_address(home: Path | str | None = None) -> Address:
    """Return the address of a running scheduler. Raise NotRunningError if it is not running. Files that a killed scheduler left
    behind stay as they are."""
    folder = home_folder(home)
    if whose := other_owner(folder):
        raise UnreachableError(f"{whose}.", hint="--home with a folder of yours")
    if (folder / LOCK_FILE).exists() and not scheduler_runs(folder):
        raise _not_running(folder, home)
    try:
        plain = json.loads(_text(folder / ADDRESS_FILE))
        token = _text(folder / TOKEN_FILE).strip()
    except FileNotFoundError:
        raise _not_running(folder, home) from None
    except NotYours:
        raise
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "damaged file"
        raise _unreachable(f"its address in {folder} cannot be read ({why})", home) from None
    url = plain.get("url") if isinstance(plain, dict) else None
    if not isinstance(url, str) or not url.startswith(("http://", "unix:")):
        raise _unreachable(f"{folder / ADDRESS_FILE} does not contain an address", home)
    if not _usable(token):
        raise _unreachable(f"{folder / TOKEN_FILE} does not contain a token", home)
    return Address(url, token)


def write_address(home: Path | str | None, url: str, pid: int, version: str) -> None:
    """Write the scheduler's address. Readers see the old file or the new one, never half of it."""
    folder = _made(home)
    text = json.dumps({"url": url, "pid": pid, "host": os.uname().nodename, "version": version}) + "\n"
    half = folder / f".{ADDRESS_FILE}.{pid}"
    half.unlink(missing_ok=True)
    _write_new(half, text)
    half.replace(folder / ADDRESS_FILE)


def remove_address(home: Path | str | None, pid: int | None = None) -> None:
    """Remove the address; with a process id, only if it is still the address of that process on this machine."""
    path = home_folder(home) / ADDRESS_FILE
    if pid is not None and _process(path) not in ((pid, os.uname().nodename), (pid, None)):
        return
    path.unlink(missing_ok=True)


def make_token(home: Path | str | None = None) -> str:
    """Return the token of this home. Make one if there is none yet."""
    import secrets  # here, because clients only read, and should start fast

    path = _made(home) / TOKEN_FILE
    try:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        _write_new(path, token + "\n")
        return token
    except FileExistsError:
        return _kept(path)


def _kept(path: Path) -> str:
    """Return an existing token if it is still secret. The file that is checked and the file that is read are the same open
    file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as problem:
        hint = "--home with a folder of yours" if isinstance(problem, PermissionError) else f"rm {path}"
        raise InputError(f"the token cannot be read: {problem.strerror}.", where=str(path), hint=hint) from None
    try:
        facts = os.fstat(handle)
        if facts.st_uid not in (os.geteuid(), 0):
            whose = user_of(facts.st_uid)
            raise InputError(f"the token belongs to {whose}.", where=str(path), hint="--home with a folder of yours")
        if not stat.S_ISREG(facts.st_mode):
            raise InputError("the token is not a plain file.", where=str(path), hint=f"rm {path}")
        if facts.st_mode & 0o077:
            raise InputError(
                f"others can use this token (mode {facts.st_mode & 0o777:03o}).",
                where=str(path),
                hint=f"rm {path}, which makes a new one, or chmod 600 {path} if no other user has read it",
            )
        token = os.read(handle, _MAX_TOKEN_BYTES).decode("utf-8", "replace").strip()
    finally:
        os.close(handle)
    if not _usable(token):
        raise InputError("the file does not contain a token.", where=str(path), hint=f"rm {path}")
    return token


def _usable(token: str) -> bool:
    return len(token) >= 16 and token.isascii() and token.isprintable() and " " not in token


def _made(home: Path | str | None) -> Path:
    folder = home_folder(home)
    try:
        make_folder(folder, instead="--home with a folder of yours")
    except NotYours:
        raise
    except OSError as problem:
        raise InputError(
            f"the home cannot be made: {problem.strerror}.", where=str(folder), hint="--home with another folder"
        ) from None
    return folder


def _write_new(path: Path, text: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise
    except OSError as problem:
        raise InputError(f"cannot be written: {problem.strerror}.", where=str(path), hint="--home with another folder") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
    except OSError as problem:
        path.unlink(missing_ok=True)
        raise InputError(
            f"cannot be written: {problem.strerror}.", where=str(path), hint="room on its disk, or --home with another folder"
        ) from None


def _text(path: Path) -> str:
    """Read a file of the home. Root may read the home of any user, whose files must belong to that user."""
    owner = path.parent.stat().st_uid
    if os.geteuid() != 0 or owner == 0:
        check_folder(path.parent)
        return read_file(path).decode()
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, encoding="utf-8") as file:
        if os.fstat(handle).st_uid != owner:
            raise NotYours("does not belong to the owner of the home.", where=str(path), hint="look at it, then remove it")
        return file.read()


def _process(path: Path) -> tuple[int | None, str | None]:
    """Return the process id and the machine of an address. Addresses of earlier versions name no machine."""
    try:
        plain: Any = json.loads(_text(path))
        return (plain.get("pid"), plain.get("host")) if isinstance(plain, dict) else (None, None)
    except (OSError, ValueError):
        return None, None


def _not_running(folder: Path, home: Path | str | None) -> NotRunningError:
    return NotRunningError(not_running(folder), hint=f"rota up{f' --home {home}' if home else ''}")


def _unreachable(why: str, home: Path | str | None) -> UnreachableError:
    which = f" --home {home}" if home else ""
    return UnreachableError(f"Cannot reach the scheduler: {why}.", hint=f"rota up{which} · rota doctor{which}")
