"""Who may use a scheduler: its owner, the users of its file, and with `all_users` every Unix user of the machine.

A user is known by the token of a request, or by the Unix user at the other end of a Unix socket, which the kernel reports.
"""

import hmac
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rota.errors import ForbiddenError, InputError, OptionError
from rota.server.users_file import UsersFile
from rota.wire.actor import Actor, Role
from rota.wire.home import user_of

MIN_TOKEN_CHARS = 16


class JobOwner(NamedTuple):
    """To whom a submission belongs."""

    name: str
    uid: int | None
    """Unix user as whom the job runs; None for the scheduler's own user."""


class Identities:
    """Finds the actor of a request."""

    def __init__(
        self,
        token: str,
        home: Path | None = None,
        *,
        all_users: bool = False,
        on_problem: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`token`: the token of the owner. `home`: the home with the users' file; None if only the owner is known."""
        if len(token) < MIN_TOKEN_CHARS:
            raise OptionError(
                f"is shorter than {MIN_TOKEN_CHARS} characters.", field="token", hint="rota.wire.address.make_token"
            )
        self._token = token.encode()
        self._file = None if home is None else UsersFile(home, on_problem)
        self.all_users = all_users
        self._own_uid = os.geteuid()
        self.owner = Actor(user_of(self._own_uid), Role.OPERATOR, None, may_name_others=True)

    def by_token(self, token: bytes) -> Actor | None:
        """Return the actor with this token; None if there is none."""
        if hmac.compare_digest(token, self._token):
            return self.owner
        user = None if self._file is None else self._file.by_token(token.decode("utf-8", "surrogateescape"))
        if user is None:
            return None
        uid = _uid_of(user.name) if self.all_users else None
        return Actor(user.name, user.role, uid, user.role is Role.OPERATOR, may_run_as_scheduler=not self.all_users)

    def by_uid(self, uid: int) -> Actor | None:
        """Return the actor of a Unix user at the other end of a socket; None if this scheduler does not serve them."""
        if uid in (self._own_uid, 0):
            if uid == self._own_uid:
                return self.owner
            return Actor(user_of(uid), Role.OPERATOR, None, may_name_others=True, may_run_as_scheduler=not self.all_users)
        if not self.all_users:
            return None
        name = user_of(uid)
        role = Role.USER if self._file is None else self._file.role_of(name)
        return Actor(name, role, uid, may_name_others=role is Role.OPERATOR, may_run_as_scheduler=False)

    def job_owner(self, actor: Actor, named: str | None) -> JobOwner:
        """Return to whom a job belongs that an actor submits in the name of a user. Raise ForbiddenError if they may not."""
        actor.check_user()
        name = actor.name if named is None else named
        if name != actor.name and not actor.may_name_others:
            raise ForbiddenError(f"You are {actor.name}, not {name}.", hint="leave the user out")
        if not self.all_users:
            return JobOwner(name, None)
        if name == self.owner.name:
            if actor.name != self.owner.name:
                raise ForbiddenError(f"Only {name} may submit jobs that run as {name}.", hint="leave the user out")
            return JobOwner(name, None)
        if name == actor.name and actor.uid is not None:
            return JobOwner(name, actor.uid)
        uid = _uid_of(name)
        if uid is None:
            problem = "is not a Unix user of the scheduler's machine, and a job has to run as one."
            raise InputError(problem, field="user", value=name, hint=f"useradd {name}, or another user")
        if uid == 0 and actor.name != self.owner.name:
            raise ForbiddenError(f"Only {self.owner.name} may submit jobs that run as root.", hint="leave the user out")
        return JobOwner(name, uid)


def _uid_of(name: str) -> int | None:
    """Return the number of a Unix user. It is looked up each time, since users come and go while a scheduler runs."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None
