"""Items that wait for the next turn of the scheduler's loop: requests of clients, and events."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from rota.live.home_setup import HomeSetup
from rota.live.policy_client import PolicyClient
from rota.model.events import External
from rota.model.job import JobSpec
from rota.wire.submission import Submission


@dataclass(frozen=True)
class NewJob:
    sent: Submission
    wanted: JobSpec
    park_method: str
    park_reason: str
    done: "Future[int]"


@dataclass(frozen=True)
class KnownJobAgain:
    """A job that was submitted before under the same key."""

    job: int
    done: "Future[int]"


@dataclass(frozen=True)
class Cancel:
    job: int
    by: str | None
    """Name of the user who requested it; None if it was the program itself."""
    done: "Future[int]"


@dataclass(frozen=True)
class SetPolicy:
    setup: HomeSetup
    client: PolicyClient
    done: "Future[int]"


@dataclass(frozen=True)
class Together:
    """Requests for one turn, and so one transaction."""

    items: Sequence[NewJob | KnownJobAgain | Cancel]


Item = External | Together | NewJob | KnownJobAgain | Cancel | SetPolicy | None
"""Item of the queue; None if the driver has news."""


def one_by_one(items: Sequence[Item]) -> Iterator[External | NewJob | KnownJobAgain | Cancel | SetPolicy | None]:
    for item in items:
        if isinstance(item, Together):
            yield from item.items
        else:
            yield item


def set_results(answered: "Sequence[tuple[Future[int], int]]") -> None:
    """Answer requests with the numbers of their jobs."""
    for future, job in answered:
        future.set_result(job)
