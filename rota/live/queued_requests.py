"""Items that wait for the next turn of the scheduler's loop: requests of clients, and events."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from rota.core.state.state import State
from rota.errors import RotaError
from rota.live.home_setup import HomeSetup
from rota.live.policy_client import PolicyClient
from rota.model.dependency import When
from rota.model.events import External
from rota.model.job import JobSpec
from rota.wire.actor import Actor
from rota.wire.job_request import JobRequest
from rota.wire.spec import Spec
from rota.wire.submission import Submission


class Requested(NamedTuple):
    """What a request means for one job."""

    job: int
    """Number of the job that the request names."""
    was: str
    """Phase before the request."""
    changes: bool
    """Whether the request changes anything for the job."""
    result: int
    """Number of the job after the request: another one if an ended job was submitted again."""


@dataclass(frozen=True)
class NewJob:
    sent: Submission
    wanted: JobSpec
    park_method: str
    park_reason: str
    done: "Future[int]"
    after: "tuple[Awaited, ...]" = ()
    """Jobs that must end before it starts."""


@dataclass(frozen=True)
class NewArray:
    """The tasks of a new array, which are accepted in one turn or not at all."""

    tasks: Sequence[NewJob]
    done: "Future[int]"


@dataclass(frozen=True)
class KnownJobAgain:
    """A job or an array that was submitted before under the same key."""

    job: int
    done: "Future[int]"


NewItem = NewJob | NewArray | KnownJobAgain
"""A submission that waits for the next turn."""


class Awaited(NamedTuple):
    """Another job that must end before a new one starts."""

    job: int | None
    """Number of the job; None if it gets one in the same turn."""
    item: NewItem | None
    """The job, if it belongs to the same request; None otherwise."""
    when: When
    jobs: int = 1
    """Number of jobs that it stands for: more than 1 for an array of the same request."""


@dataclass(frozen=True)
class SetPolicy:
    setup: HomeSetup
    client: PolicyClient
    done: "Future[int]"


@dataclass(frozen=True)
class ChangeMachines:
    """A request of an operator about nodes."""

    events: Callable[[State, float], Sequence[External]]
    """Returns its events at a time. Raises what is wrong with the request."""
    done: "Future[int]"

    def to_events(self, state: State, now_s: float, answered: "list[tuple[Future[int], int]]") -> Sequence[External]:
        """Return the events; if the request is refused, none."""
        try:
            found = self.events(state, now_s)
        except RotaError as problem:
            self.done.set_exception(problem)
            return ()
        answered.append((self.done, 0))
        return found


@dataclass(frozen=True)
class Together:
    """Submissions for one turn, and so one transaction."""

    items: Sequence[NewItem]


@dataclass(frozen=True)
class AboutJobs:
    """A request about submitted jobs."""

    wanted: JobRequest
    by: Actor | None
    """Who sent it; None for the program itself."""
    again: Mapping[int, NewJob]
    """Ended jobs that are to be submitted again, by number."""
    done: "Future[list[Requested]]"


@dataclass(frozen=True)
class ChangeJob:
    """Fields of a job's spec that are to change."""

    job: int
    spec: Spec
    """Spec with the new values of these fields."""
    changed: frozenset[str]
    by: str | None
    """Name of the user who asked; None for the program itself."""
    done: "Future[int]"


Item = External | Together | NewItem | AboutJobs | ChangeJob | SetPolicy | ChangeMachines | None
"""Item of the queue; None if the driver has news."""


def set_results(answered: "Sequence[tuple[Future[Any], Any]]") -> None:
    """Answer requests with their results."""
    for future, result in answered:
        future.set_result(result)
