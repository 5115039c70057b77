"""Question: the talk with the policy. What it was asked, what it answered, the plan in force, and when to ask again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from rota.core.state.copying import copied
from rota.core.state.records import PolicyAnswer
from rota.model.units import FOREVER, Ints

T = TypeVar("T")


@dataclass(eq=False)
class SchedulingCycle:
    """The question that is open, the answer in force, and the plan that was made of it."""

    decision: int = 0
    """Decisions so far: questions to the policy, and ends of jobs that it need not be asked about; also the open ticket."""
    asked: Ints | None = None
    """Jobs the policy is being asked about; None: no question is open."""
    asked_version: int = 0
    """The version of the jobs when it was asked."""
    asked_s: float = -FOREVER
    """When it was last asked."""
    answer: PolicyAnswer | None = None
    """What it last answered; None: nothing yet."""
    fresh: bool = False
    """The answer has not been planned with yet."""
    policy_fault: str = ""
    """What was wrong with the policy's last answer."""
    not_before_s: float = -FOREVER
    """The policy failed: do not ask again before this."""
    dirty: bool = False
    """Something happened that may change the policy's answer."""
    replan: bool = False
    """Something happened that the plan in force does not know of."""
    shares_s: float = 0.0
    """Since when the accounts of time received are kept."""
    plans: int = 0
    """Plans made so far."""
    until_s: float = FOREVER
    """How long the plan in force holds if nothing happens."""
    somebody_waits: bool = False
    """The last plan left a job out."""
    overtaking: bool = False
    """It lets a job run only because that has made no step since it was started, while one that ranks before it waits."""
    fragmented: tuple[int, ...] = ()
    """Kinds of jobs that it left out because their GPUs could not be had close together."""
    all_go_on: bool = False
    """It lets all jobs run, and each goes on as it does when another ends."""
    next_round_s: float = 0.0
    """When the next round begins, where there are rounds."""
    wake_s: float = FOREVER
    """When the driver was asked to come back."""
    _drawn: tuple[object, object, Any] | None = None

    def invalidate(self) -> None:
        """Something happened: ask the policy when it may be asked, and plan anew."""
        self.dirty = self.replan = True

    def job_ended(self) -> None:
        """A job ended. Where all others go on as they do, that decides the matter: it counts as a decision, and as a plan."""
        if self.all_go_on and self.asked is None and not (self.dirty or self.replan or self.fresh):
            self.decision += 1
            self.plans += 1
        else:
            self.invalidate()

    def begin_policy_call(self, ticket: int, jobs: Ints, version: int, now_s: float) -> None:
        """The policy is asked about these jobs; what happens from now on may change its answer."""
        jobs.setflags(write=False)
        self.decision, self.asked, self.asked_version, self.asked_s = ticket, jobs, version, now_s
        self.dirty = self.replan = False

    def memoised(self, owner: object, options: object, make: Callable[[], T]) -> T:
        """What an answer works out once, as long as the options are the same."""
        if self._drawn is None or self._drawn[0] is not owner or self._drawn[1] is not options:
            self._drawn = (owner, options, make())
        found: T = self._drawn[2]
        return found

    def copy(self) -> "SchedulingCycle":
        return copied(self)
