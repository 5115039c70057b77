"""What the jobs of one server may have at once. The scheduler's own limits are for users; these are for one program."""

from dataclasses import dataclass, replace
from typing import Any

from rota.errors import ForbiddenError
from rota.model.counted import counted
from rota.model.units import MILLI, milligpus_of


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits of one server."""

    max_jobs: int | None = None
    """Maximum number of unfinished jobs; None for no limit."""
    max_gpus: float | None = None
    """Maximum number of GPUs that unfinished jobs request together; None for no limit."""

    @property
    def any(self) -> bool:
        return self.max_jobs is not None or self.max_gpus is not None


@dataclass(frozen=True, slots=True)
class HeldBudget:
    """The part of a budget that one job has until it ends."""

    gpus: float
    """Requested GPUs; the maximum for an elastic job."""
    job: int | None = None
    """Number of the job; None while it is not known whether the scheduler took it."""


class Budget:
    """Counts the unfinished jobs that one server has submitted, and what they request. The caller has the lock."""

    def __init__(self, limits: BudgetLimits) -> None:
        self.limits = limits
        self._held: dict[str, HeldBudget] = {}
        """Submission key -> what that job has. The same key is the same job."""

    def jobs(self) -> list[int]:
        """Return the numbers of the jobs that count."""
        return [each.job for each in self._held.values() if each.job is not None]

    def forget(self, job: int) -> None:
        """Give back what an ended job had."""
        self._held = {key: each for key, each in self._held.items() if each.job != job}

    def hold(self, key: str, gpus: float) -> HeldBudget | None:
        """Count a job that is about to be submitted. Return what its key had before. Raise ForbiddenError if it exceeds the
        budget."""
        if not self.limits.any:
            return None
        self.check(key, gpus)
        before = self._held.get(key)
        self._held[key] = HeldBudget(gpus, before.job if before else None)
        return before

    def check(self, key: str, gpus: float) -> None:
        """Raise ForbiddenError if a job with this key and this many GPUs would exceed the budget."""
        others = [each for name, each in self._held.items() if name != key]
        jobs_left, gpus_left = self._left(others)
        if jobs_left is not None and jobs_left < 1:
            most = counted(self.limits.max_jobs or 0, "unfinished job")
            raise ForbiddenError(
                f"This server may have {most} at once and has {len(others)}; 0 are left. Nothing was submitted.",
                hint="wait for a job that it submitted, or cancel one",
            )
        if gpus_left is not None and milligpus_of(gpus) > milligpus_of(gpus_left):
            raise ForbiddenError(
                f"This server may have {counted(self.limits.max_gpus or 0, 'GPU')} at once; {gpus_left:g} are left and the job "
                f"requests {gpus:g}. Nothing was submitted.",
                hint="request fewer GPUs, wait for a job that it submitted, or cancel one",
            )

    def confirm(self, key: str, job: int) -> None:
        """Record the number of a job that the scheduler took."""
        if key in self._held:
            self._held[key] = replace(self._held[key], job=job)

    def give_back(self, key: str, before: HeldBudget | None) -> None:
        """Count again what a key had before, because its job was not taken or has ended."""
        if before is None:
            self._held.pop(key, None)
        else:
            self._held[key] = before

    def row(self) -> dict[str, Any]:
        """Return the limits and what is left of them; None for no limit."""
        jobs_left, gpus_left = self._left(list(self._held.values()))
        limits = self.limits
        return {"max_jobs": limits.max_jobs, "jobs_left": jobs_left, "max_gpus": limits.max_gpus, "gpus_left": gpus_left}

    def _left(self, held: list[HeldBudget]) -> tuple[int | None, float | None]:
        used = sum(milligpus_of(each.gpus) for each in held)
        jobs_left = None if self.limits.max_jobs is None else max(self.limits.max_jobs - len(held), 0)
        gpus_left = None if self.limits.max_gpus is None else max(milligpus_of(self.limits.max_gpus) - used, 0) / MILLI
        return jobs_left, gpus_left
