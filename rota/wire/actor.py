"""Who makes a request, and what they may do."""

from dataclasses import dataclass
from enum import StrEnum

from rota.errors import ForbiddenError


class Role(StrEnum):
    """What a user may do. Each role includes the ones before it."""

    VIEWER = "viewer"
    """Reads jobs, nodes and results."""
    USER = "user"
    """Submits jobs and changes their own."""
    OPERATOR = "operator"
    """Changes all jobs, the policy and the nodes, and reads all logs."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A user who makes requests."""

    name: str
    role: Role
    uid: int | None = None
    """Unix user as whom jobs of this actor run; None if they run as the scheduler's own user."""
    may_name_others: bool = False
    """Whether submissions may name another user as the job's owner."""
    may_run_as_scheduler: bool = True
    """Whether their requests may start jobs that run as the scheduler's own user."""
    names_hidden: bool = False
    """Whether the names of other users' jobs are hidden from users without the role of operator."""

    @property
    def is_operator(self) -> bool:
        return self.role is Role.OPERATOR

    @property
    def names_of(self) -> str | None:
        """User whose jobs the actor may find by name; None for those of all users."""
        return self.name if self.names_hidden and not self.is_operator else None

    def owns(self, user: str) -> bool:
        """Return whether a job of this user is the actor's own, or an operator asks."""
        return self.is_operator or (self.role is Role.USER and user == self.name)

    def check_owns(self, user: str, job: str) -> None:
        """Raise ForbiddenError unless the actor may change a job of this user."""
        if not self.owns(user):
            if self.role is Role.VIEWER:
                raise self._refusal("You may read, but change nothing")
            raise ForbiddenError(f"{job} belongs to {user}; you are {self.name}.", hint=f"ask {user} or an operator")

    def check_operator(self) -> None:
        """Raise ForbiddenError unless the actor is an operator."""
        if not self.is_operator:
            raise self._refusal("Only an operator may do this")

    def check_user(self) -> None:
        """Raise ForbiddenError unless the actor may submit jobs."""
        if self.role is Role.VIEWER:
            raise self._refusal("You may read, but change nothing")

    def _refusal(self, text: str) -> ForbiddenError:
        needed = Role.USER if self.role is Role.VIEWER else Role.OPERATOR
        hint = f"an operator can change your role: rota user add {self.name} --role {needed}"
        return ForbiddenError(f"{text}; you are {self.name}, {_with_article(self.role)}.", hint=hint)


def _with_article(role: Role) -> str:
    return f"an {role}" if role is Role.OPERATOR else f"a {role}"
