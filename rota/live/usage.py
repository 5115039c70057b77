"""The usage ledger: GPU-seconds, normalised work, counts of jobs and lost work, by day, user, tenant and accelerator type.

The history adds to it as things happen, and the journal adds these amounts to its table in the same transaction as the entry that
caused them. Nothing is computed from all events again, so old events may be removed.
"""

from collections.abc import Iterable
from typing import NamedTuple

from rota.live.gpu_stay import DAY_SECONDS
from rota.live.job_record import JobRecord


class UsageKey(NamedTuple):
    """What an amount is booked to."""

    day: int
    """Day in UTC, counted from 1970-01-01."""
    owner: str
    tenant: str | None
    """Path of the tenant; None if the job has none."""
    accelerator: str | None
    """Accelerator type; None for what happens to a job that has had no GPU."""


class UsageAmounts(NamedTuple):
    """Amounts that are added up."""

    submitted: int = 0
    begun: int = 0
    """Jobs that started for the first time."""
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    attempts: int = 0
    """Attempts that ended."""
    preemptions: int = 0
    """Times that the scheduler suspended or parked a job."""
    wait_seconds: float = 0.0
    """Time from submission to first start, of the jobs that have begun, in seconds."""
    jct_seconds: float = 0.0
    """Time from submission to end, of the jobs that have finished, in seconds."""
    gpu_seconds: float = 0.0
    work_seconds: float = 0.0
    """Normalised work, in seconds of a GPU of the job's best type."""
    preempted_seconds: float = 0.0
    """Work that was lost because the scheduler suspended a job, in seconds."""
    broken_seconds: float = 0.0
    """Work that was lost with attempts that failed or were lost, in seconds."""

    def plus(self, other: "UsageAmounts") -> "UsageAmounts":
        return UsageAmounts._make(mine + its for mine, its in zip(self, other, strict=True))


NOTHING = UsageAmounts()


class UsageRow(NamedTuple):
    """One row of the table."""

    key: UsageKey
    amounts: UsageAmounts


class UsageLedger:
    """Amounts that the journal has not got yet."""

    def __init__(self) -> None:
        self._amounts: dict[UsageKey, UsageAmounts] = {}

    def add(self, record: JobRecord, at_s: float, accelerator: str | None, amounts: UsageAmounts) -> None:
        """Book amounts of a job to the day of this instant."""
        self.add_on(record, day_of(at_s), accelerator, amounts)

    def add_on(self, record: JobRecord, day: int, accelerator: str | None, amounts: UsageAmounts) -> None:
        key = UsageKey(day, record.submitted.user, record.submitted.spec.tenant or None, accelerator)
        self._amounts[key] = self._amounts.get(key, NOTHING).plus(amounts)

    def take(self) -> list[UsageRow]:
        """Return the amounts since the last call."""
        found = [UsageRow(key, amounts) for key, amounts in self._amounts.items()]
        self._amounts.clear()
        return found


def day_of(at_s: float) -> int:
    """Return the day of an instant, in UTC."""
    return int(at_s // DAY_SECONDS)


def total(rows: Iterable[UsageAmounts]) -> UsageAmounts:
    found = NOTHING
    for each in rows:
        found = found.plus(each)
    return found
