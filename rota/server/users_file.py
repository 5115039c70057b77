"""The users of a scheduler: a file in its home with their roles and the hashes of their tokens.

Only the owner of the home can read and write it, with or without a running scheduler. A token is shown once, when it is made; the
file has its SHA-256, which is enough because a token is 32 random bytes.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rota.agent.disk import write_atomic
from rota.errors import InputError, NotYours, UnknownNameError
from rota.folders import make_folder, open_file, read_file
from rota.wire.actor import Role

USERS_FILE = "users.json"
_LOCK = "users.lock"
_VERSION = 1
_TOKEN_BYTES = 32
MAX_NAME_CHARS = 100
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownUser:
    """One user of the file."""

    name: str
    role: Role
    token_sha256: str | None = None
    """Hash of the user's token; None if the user has none."""
    expires_s: float | None = None
    """Unix time at which the token expires; None if it does not."""
    changed_s: float = 0.0
    """Unix time of the last change."""

    @property
    def has_token(self) -> bool:
        return self.token_sha256 is not None

    def expired(self, now_s: float) -> bool:
        return self.expires_s is not None and now_s >= self.expires_s


Users = Mapping[str, KnownUser]
"""Name -> user."""


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_users(home: Path) -> dict[str, KnownUser]:
    """Return the users of a home. Raise InputError if the file is damaged, NotYours if others can change it."""
    path = home / USERS_FILE
    try:
        text = read_file(path)
    except FileNotFoundError:
        return {}
    except NotYours:
        raise
    except OSError as problem:
        raise InputError(
            f"cannot be read: {problem.strerror or problem}.", where=str(path), hint="--home with your home"
        ) from None
    try:
        plain = json.loads(text)
        if plain["version"] != _VERSION:
            raise InputError(f"has version {plain['version']}, this Rota reads {_VERSION}.", where=str(path), hint="a newer Rota")
        users = [KnownUser(name=name, **{**each, "role": Role(each["role"])}) for name, each in plain["users"].items()]
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        hint = f"restore it from a backup, or rm {path} and make the users again"
        raise InputError(f"is damaged ({problem}).", where=str(path), hint=hint) from None
    return {user.name: user for user in users}


def set_user(home: Path, name: str, role: Role, *, token: bool, expires_days: float | None = None) -> str | None:
    """Add a user or change their role. With `token`, make a token, which replaces the last one, and return it."""
    _check_name(name)
    made = secrets.token_urlsafe(_TOKEN_BYTES) if token else None
    with _changing(home) as users:
        user = replace(users.get(name, KnownUser(name=name, role=role)), role=role, changed_s=time.time())
        if made is not None:
            expires_s = None if expires_days is None else time.time() + expires_days * _DAY_SECONDS
            user = replace(user, token_sha256=token_hash(made), expires_s=expires_s)
        users[name] = user
    return made


def revoke_token(home: Path, name: str) -> KnownUser:
    """Make a user's token useless. The role stays."""
    with _changing(home) as users:
        users[name] = replace(_known(users, name), token_sha256=None, expires_s=None, changed_s=time.time())
        return users[name]


def remove_user(home: Path, name: str) -> KnownUser:
    """Remove a user and their token."""
    with _changing(home) as users:
        user = _known(users, name)
        del users[name]
        return user


def _known(users: Users, name: str) -> KnownUser:
    if name not in users:
        raise UnknownNameError("user", name, users, hint="rota user list")
    return users[name]


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARS or name != name.strip():
        raise InputError("is not the name of a user.", field="NAME", value=name, hint="rota user add ana")


@contextlib.contextmanager
def _changing(home: Path) -> Iterator[dict[str, KnownUser]]:
    """Yield the users, and write them when the block ends. Two commands at once take turns."""
    make_folder(home, instead="--home with a folder of yours")
    lock = open_file(home / _LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        users = read_users(home)
        yield users
        plain = {"version": _VERSION, "users": {name: _plain(users[name]) for name in sorted(users)}}
        write_atomic(home, USERS_FILE, (json.dumps(plain, indent=2) + "\n").encode(), durable=True)
    finally:
        os.close(lock)


def _plain(user: KnownUser) -> dict[str, object]:
    plain = asdict(user)
    del plain["name"]
    return plain


class UsersFile:
    """The users of a home as they are now: the file is read again when it has changed."""

    def __init__(self, home: Path, on_problem: Callable[[str], None] = lambda line: None) -> None:
        self._home, self._on_problem = home, on_problem
        self._seen: tuple[int, ...] | None = None
        self._users: Users = {}
        self._by_hash: Mapping[str, KnownUser] = {}
        self._damaged = False

    def by_name(self, name: str) -> KnownUser | None:
        self._refresh()
        return self._users.get(name)

    def role_of(self, name: str) -> Role:
        """Return the role of a Unix user: `user` unless the file has another one. While the file cannot be read, Unix users may
        only read, since any of them may be a viewer."""
        known = self.by_name(name)
        return Role.VIEWER if self._damaged else Role.USER if known is None else known.role

    def by_token(self, token: str) -> KnownUser | None:
        """Return the user with this token; None if there is none, or it has expired."""
        self._refresh()
        user = self._by_hash.get(token_hash(token))
        return None if user is None or user.expired(time.time()) else user

    def _refresh(self) -> None:
        try:
            facts = (self._home / USERS_FILE).lstat()
            seen: tuple[int, ...] = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        except FileNotFoundError:
            seen = ()
        except OSError:  # the home cannot be reached: users are unknown until it can
            seen = (-1,)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._users, self._damaged = read_users(self._home), False
        except InputError as problem:
            self._users, self._damaged = {}, True
            self._on_problem(f"{problem.message} No user's token is accepted, and Unix users may only read, until it is mended.")
        self._by_hash = {user.token_sha256: user for user in self._users.values() if user.token_sha256 is not None}
