"""What the jobs of one server may have at once, and how many GPU-hours the jobs of programs may use. The scheduler's own limits
are for users; these are for programs.

GPU-hours are counted from the scheduler's rows. Each submission of a server has a key that begins with `KEY_PREFIX`, and the
scheduler keeps the key with the job, so that a server that is started again counts the jobs of the one before.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from rota.errors import ForbiddenError
from rota.model.counted import counted
from rota.model.length_text import length_text
from rota.model.units import MILLI, milligpus_of
from rota.wire.rows import JobRow

KEY_PREFIX = "mcp:"
"""Beginning of the submission keys of programs, as the scheduler gets them."""
HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits of one server."""

    max_jobs: int | None = None
    """Maximum number of unfinished jobs; None for no limit."""
    max_gpus: float | None = None
    """Maximum number of GPUs that unfinished jobs request together; None for no limit."""
    max_gpu_hours: float | None = None
    """Maximum GPU-hours of all jobs that programs have submitted as this user; None for no limit."""

    @property
    def any(self) -> bool:
        return self.max_jobs is not None or self.max_gpus is not None


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """What a submission asks for."""

    gpus: float
    """GPUs that its jobs may have at once; the maximum for an elastic job."""
    jobs: int = 1
    """Number of jobs; more than 1 for an array or a sweep."""
    gpus_in_turn: float = 0.0
    """Sum of the GPUs of all its jobs."""
    max_run_seconds: float | None = None
    """Longest run time of each job, in seconds; None if there is no limit."""


@dataclass(frozen=True, slots=True)
class HeldBudget:
    """The part of a budget that one job or array has until it ends."""

    wanted: BudgetRequest
    job: int | None = None
    """Number of the job or array; None while it is not known whether the scheduler took it."""


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

    def hold(self, key: str, wanted: BudgetRequest) -> HeldBudget | None:
        """Count a job that is about to be submitted. Return what its key had before. Raise ForbiddenError if it exceeds the
        budget."""
        if not self.limits.any:
            return None
        self.check(key, wanted)
        before = self._held.get(key)
        self._held[key] = HeldBudget(wanted, before.job if before else None)
        return before

    def check(self, key: str, wanted: BudgetRequest) -> None:
        """Raise ForbiddenError if a submission with this key would exceed what the server may have at once."""
        others = [each for name, each in self._held.items() if name != key]
        jobs_left, gpus_left = self._left(others)
        if jobs_left is not None and jobs_left < wanted.jobs:
            most = counted(self.limits.max_jobs or 0, "unfinished job")
            has = sum(each.wanted.jobs for each in others)
            requests = f" and {wanted.jobs:,} are requested" if wanted.jobs > 1 else ""
            raise ForbiddenError(
                f"This server may have {most} at once and has {has:,}; {jobs_left:,} are left{requests}. Nothing was submitted.",
                hint="wait for a job that it submitted, or cancel one",
            )
        if gpus_left is not None and milligpus_of(wanted.gpus) > milligpus_of(gpus_left):
            raise ForbiddenError(
                f"This server may have {counted(self.limits.max_gpus or 0, 'GPU')} at once; {gpus_left:g} are left and the job "
                f"requests {wanted.gpus:g}. Nothing was submitted.",
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

    def check_hours(self, rows: Iterable[JobRow], key: str, wanted: BudgetRequest) -> None:
        """Raise ForbiddenError if a submission would exceed the GPU-hours. `rows`: those of the user's jobs, as the scheduler has
        them. A key that one of them has adds no job."""
        most, rows = self.limits.max_gpu_hours, list(rows)
        if most is None or any(row.key == key for row in rows):
            return
        left = max(most * HOUR_SECONDS - gpu_seconds(rows), 0.0)
        may_use = 0.0 if wanted.max_run_seconds is None else wanted.gpus_in_turn * wanted.max_run_seconds
        if left > 0 and may_use <= left:
            return
        what = ""
        if left > 0 and wanted.max_run_seconds is not None:
            gpus = counted(wanted.gpus_in_turn, "GPU")
            what = f" and the job may use {may_use / HOUR_SECONDS:.4g}: {gpus} for {length_text(wanted.max_run_seconds)}"
        raise ForbiddenError(
            f"This server may use {counted(most, 'GPU-hour')}; {left / HOUR_SECONDS:.4g} are left{what}. Nothing was submitted.",
            hint="a shorter max_run_time, or fewer GPUs" if left > 0 else "ask the operator for more GPU-hours",
        )

    def row(self, rows: Iterable[JobRow]) -> dict[str, Any]:
        """Return the limits and what is left of them; None for no limit. `rows`: those of the user's jobs."""
        jobs_left, gpus_left = self._left(list(self._held.values()))
        limits = self.limits
        hours = limits.max_gpu_hours
        return {
            "max_jobs": limits.max_jobs,
            "jobs_left": jobs_left,
            "max_gpus": limits.max_gpus,
            "gpus_left": gpus_left,
            "max_gpu_hours": hours,
            "gpu_hours_left": None if hours is None else max(hours - gpu_seconds(rows) / HOUR_SECONDS, 0.0),
        }

    def _left(self, held: list[HeldBudget]) -> tuple[int | None, float | None]:
        used, jobs = sum(milligpus_of(each.wanted.gpus) for each in held), sum(each.wanted.jobs for each in held)
        jobs_left = None if self.limits.max_jobs is None else max(self.limits.max_jobs - jobs, 0)
        gpus_left = None if self.limits.max_gpus is None else max(milligpus_of(self.limits.max_gpus) - used, 0) / MILLI
        return jobs_left, gpus_left


def gpu_seconds(rows: Iterable[JobRow]) -> float:
    """Return the GPU-seconds that jobs of programs count for: what they have used, and for an unfinished job with a longest run
    time at least what it may use. All tasks of an array count as the one that has its key."""
    rows = list(rows)
    keys = {row.array_id: row.key for row in rows if row.array_id is not None and row.key is not None}
    total = 0.0
    for row in rows:
        key = row.key if row.array_id is None else keys.get(row.array_id)
        if key is not None and key.startswith(KEY_PREFIX):
            total += _counted_seconds(row)
    return total


def _counted_seconds(row: JobRow) -> float:
    if row.ended or row.max_run_seconds is None:
        return row.gpu_seconds
    gpus = row.gpus if row.most_gpus is None else row.most_gpus  # an elastic job may have fewer now, and get more
    return max(row.gpu_seconds, gpus * row.max_run_seconds)
