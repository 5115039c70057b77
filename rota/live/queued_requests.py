"""Items that wait for the next turn of the scheduler's loop: requests of clients, and events."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from rota.core.state.state import State
from rota.errors import RotaError
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
    """Requests for one turn, and so one transaction."""

    items: Sequence[NewJob | KnownJobAgain | Cancel]


Item = External | Together | NewJob | KnownJobAgain | Cancel | SetPolicy | ChangeMachines | None
"""Item of the queue; None if the driver has news."""


def one_by_one(
    items: Sequence[Item],
) -> Iterator[External | NewJob | KnownJobAgain | Cancel | SetPolicy | ChangeMachines | None]:
    for item in items:
        if isinstance(item, Together):
            yield from item.items
        else:
            yield item
