"""Records of all jobs by number. In memory are those of unfinished jobs, and of the latest ended ones. The others are read from
the journal when they are wanted.

Of every ended job there is an outline (`ended_jobs.py`), so that most questions need no record. A record leaves memory only after
the journal has it.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rota.errors import JournalError
from rota.live.ended_jobs import EndedJob, EndedJobs, JobOutline
from rota.live.job_record import JobRecord

KEPT_RECORDS = 500
"""Number of ended jobs whose records stay in memory."""

ReadRecords = Callable[[Sequence[int]], Mapping[int, JobRecord]]
"""Reads records from the journal, by number. Any thread may call it."""
T = TypeVar("T")


class NotInMemory(Exception):
    """These records have to be read from the journal, which is not done under a lock."""

    def __init__(self, jobs: Sequence[int]) -> None:
        super().__init__(jobs)
        self.jobs = jobs


class _Lent(threading.local):
    """What a thread has read from the journal for the request that it serves; None outside of requests."""

    records: dict[int, JobRecord] | None = None


class JobRecords(Mapping[int, JobRecord]):
    """The records of one scheduler. One thread writes."""

    def __init__(self, read: ReadRecords | None = None, kept: int = KEPT_RECORDS) -> None:
        """`read`: None if there is no journal, so that all records stay in memory. `kept`: the number of ended jobs whose records
        stay."""
        self._read = read
        self.kept_most = kept
        """Maximum number of ended jobs whose records stay."""
        self.open: dict[int, JobRecord] = {}
        """Records of unfinished jobs, and of ended ones that the journal may not have yet."""
        self.ended = EndedJobs()
        """All ended jobs that are not in `open`."""
        self._kept: dict[int, JobRecord] = {}
        """Records of the latest of these, the oldest first."""
        self._lent = _Lent()

    @property
    def can_read(self) -> bool:
        """Whether records can be read from a journal."""
        return self._read is not None

    def __len__(self) -> int:
        return len(self.open) + len(self.ended)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted([*self.open, *self.ended]))

    def __contains__(self, job: object) -> bool:
        return job in self.open or job in self.ended

    def __getitem__(self, job: int) -> JobRecord:
        found = self._in_memory(job)
        return found if found is not None else self.many([job])[0]

    def many(self, jobs: Iterable[int]) -> list[JobRecord]:
        """Return these records, in this order. Raise KeyError for an unknown job, and NotInMemory within a request."""
        jobs = list(jobs)
        found = {job: self._in_memory(job) for job in jobs}
        missing = [job for job, record in found.items() if record is None]
        if missing:
            unknown = [job for job in missing if job not in self.ended]
            if unknown:
                raise KeyError(unknown[0])
            if self._lent.records is not None:
                raise NotInMemory(missing)
            found.update(self.read(missing))
        return [record for job in jobs if (record := found[job]) is not None]

    def read(self, jobs: Sequence[int]) -> dict[int, JobRecord]:
        """Read records from the journal. Raise JournalError if it does not have one."""
        assert self._read is not None
        found = dict(self._read(jobs))
        gone = [job for job in jobs if job not in found and job in self.ended]
        if gone:
            raise JournalError(f"the journal has no record of job {gone[0]}.", hint="rota doctor")
        return found

    def outline(self, job: int) -> JobOutline:
        """Return what is in memory of a job. Raise KeyError if it is unknown."""
        found = self._in_memory(job)
        return found if found is not None else self.ended.outline(job)

    def outlines(self, jobs: Sequence[int]) -> list[JobOutline]:
        known = {job: record for job in jobs if (record := self._in_memory(job)) is not None}
        others = iter(self.ended.outlines([job for job in jobs if job not in known]))
        return [known[job] if job in known else next(others) for job in jobs]

    def has_ended(self, job: int) -> bool:
        """Return whether a known job has ended."""
        found = self.open.get(job)
        return found is None or found.ended

    def _in_memory(self, job: int) -> JobRecord | None:
        found = self.open.get(job) or self._kept.get(job)
        if found is None and self._lent.records is not None and job in self.ended:
            found = self._lent.records.get(job)
        return found

    @contextmanager
    def lending(self, records: dict[int, JobRecord]) -> Iterator[None]:
        """Serve a request of this thread, with records that it has read from the journal."""
        self._lent.records = records
        try:
            yield
        finally:
            self._lent.records = None

    # Writing -----------------------------------------------------------------------------------------------------

    def add(self, record: JobRecord) -> None:
        self.open[record.id] = record

    def add_ended(self, job: EndedJob) -> None:
        """Take in an ended job whose record is in the journal."""
        self.ended.add(job)

    def writable(self, job: int) -> JobRecord:
        """Return a record that is about to change, and keep it in memory until it is settled again."""
        found = self.open.get(job)
        if found is None:
            found = self.open[job] = self[job]
            self._kept.pop(job, None)
            self.ended.remove([job])
        return found

    def settle(self, jobs: Iterable[int]) -> list[JobRecord]:
        """Take the records of ended jobs that the journal has out of memory, except the latest. Return them."""
        if self._read is None:
            return []
        found = [record for job in jobs if (record := self.open.get(job)) is not None and record.ended]
        for record in found:
            self.ended.add(EndedJob.of(record))
            self._kept[record.id] = record
            del self.open[record.id]
        while len(self._kept) > self.kept_most:
            del self._kept[next(iter(self._kept))]
        return found

    def remove(self, jobs: Collection[int]) -> None:
        """Forget jobs."""
        for job in jobs:
            self.open.pop(job, None)
            self._kept.pop(job, None)
        self.ended.remove([job for job in jobs if job in self.ended])


class LockedReads:
    """Answers requests under the lock of the scheduler. Records that are not in memory are read from the journal without the
    lock, so a slow disk or server delays that request alone; then it is answered again from the beginning."""

    def __init__(self, lock: threading.Lock, records: JobRecords) -> None:
        self._lock, self._records = lock, records

    def __call__(self, answer: Callable[[], T], read: dict[int, JobRecord] | None = None) -> T:
        """Return the answer of a function that changes nothing. `read`: where records that were read are kept for later calls of
        the same request."""
        read = {} if read is None else read
        while True:
            try:
                with self._lock, self._records.lending(read):
                    return answer()
            except NotInMemory as missing:
                read.update(self._records.read(missing.jobs))
