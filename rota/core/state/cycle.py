"""The scheduling cycle: the open policy call, the answer in force, the plan that was made from it, and when to call again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from rota.core.state.copying import copied
from rota.core.state.records import PolicyAnswer
from rota.model.units import FOREVER, Ints

T = TypeVar("T")


@dataclass(eq=False)
class SchedulingCycle:
    """The open policy call, the answer in force, and the plan that was made from it."""

    decision: int = 0
    """Decisions so far: policy calls, and ends of jobs that needed none. Also the ticket of the open call."""
    call_jobs: Ints | None = None
    """Jobs of the open policy call; None if no call is open."""
    call_version: int = 0
    """Version of the jobs at the last call."""
    called_s: float = -FOREVER
    """Time of the last call."""
    answer: PolicyAnswer | None = None
    """Last answer of the policy; None before the first."""
    has_new_answer: bool = False
    """Whether no plan was made from the answer yet."""
    policy_fault: str | None = None
    """Fault of the policy's last answer; None if it has none."""
    retry_policy_s: float = -FOREVER
    """Earliest time of the next call after a failure."""
    needs_policy: bool = False
    """Whether something happened that may change the policy's answer."""
    needs_plan: bool = False
    """Whether something happened that the plan in force does not consider."""
    shares_s: float = 0.0
    """Time since which the accounts of time received are kept."""
    plans: int = 0
    """Plans made so far."""
    until_s: float = FOREVER
    """Time until which the plan in force holds if nothing happens."""
    has_waiting_jobs: bool = False
    """Whether a job waits by the plan in force."""
    protects_unstarted: bool = False
    """Whether a job runs by the plan only because it is protected, while one that ranks before it waits."""
    fragmented: tuple[int, ...] = ()
    """Kinds of jobs that wait because free GPUs are not close together."""
    stable_until_change: bool = False
    """Whether all jobs run by the plan, and continue as they are when another ends."""
    next_round_s: float = 0.0
    """Start of the next round, if there are rounds."""
    timer_s: float = FOREVER
    """Time for which the driver was asked to wake the scheduler."""
    _drawn: tuple[object, object, Any] | None = None

    def invalidate(self) -> None:
        """Call the policy when that is allowed, and make a new plan."""
        self.needs_policy = self.needs_plan = True

    def job_ended(self) -> None:
        """Note that a job ended. If all others continue as they are, that counts as a decision and as a plan."""
        if (
            self.stable_until_change
            and self.call_jobs is None
            and not (self.needs_policy or self.needs_plan or self.has_new_answer)
        ):
            self.decision += 1
            self.plans += 1
        else:
            self.invalidate()

    def begin_policy_call(self, ticket: int, jobs: Ints, version: int, now_s: float) -> None:
        """Open a policy call about these jobs. What happens from now on may change its answer."""
        jobs.setflags(write=False)
        self.decision, self.call_jobs, self.call_version, self.called_s = ticket, jobs, version, now_s
        self.needs_policy = self.needs_plan = False

    def memoised(self, owner: object, options: object, make: Callable[[], T]) -> T:
        """Return what `make` makes of an answer, made once while the options stay the same."""
        if self._drawn is None or self._drawn[0] is not owner or self._drawn[1] is not options:
            self._drawn = (owner, options, make())
        found: T = self._drawn[2]
        return found

    def copy(self) -> "SchedulingCycle":
        return copied(self)
