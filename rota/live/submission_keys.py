"""Idempotency keys of submissions: which job a client submitted with which key.

A client that got no response does not know whether its job was accepted. It sends the same submission again with the same key,
and gets the existing job. The key is part of the record of the job, so it is as durable as the job, and a standby knows it too.

Of a key of an ended job only the hash is in memory. The record in the journal has the key itself.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from rota.errors import ConflictError
from rota.live.job_records import JobRecords
from rota.live.requests import shown_spec
from rota.wire.submission import Submission
from rota.wire.task_array import ArrayTask

MAX_UNSORTED = 4096


class KeyHashes:
    """Jobs by the hash of their keys, in two columns."""

    def __init__(self) -> None:
        self._hashes, self._jobs = np.empty(0, np.int64), np.empty(0, np.int64)
        """The hashes in rising order, and the job of each."""
        self._latest: dict[int, list[int]] = {}
        """Jobs that are not in the columns yet."""

    def add(self, key: int, job: int) -> None:
        self._latest.setdefault(key, []).append(job)
        if len(self._latest) >= MAX_UNSORTED:
            self._sort()

    def find(self, key: int) -> list[int]:
        first, last = (int(np.searchsorted(self._hashes, key, side)) for side in ("left", "right"))
        return [*self._jobs[first:last].tolist(), *self._latest.get(key, ())]

    def forget(self, jobs: Collection[int]) -> None:
        self._sort()
        kept = ~np.isin(self._jobs, np.fromiter(jobs, np.int64))
        self._hashes, self._jobs = self._hashes[kept], self._jobs[kept]

    def _sort(self) -> None:
        hashes = np.concatenate([self._hashes, np.array([key for key, jobs in self._latest.items() for _ in jobs], np.int64)])
        jobs = np.concatenate([self._jobs, np.array([job for jobs in self._latest.values() for job in jobs], np.int64)])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._jobs = hashes[order], jobs[order]
        self._latest.clear()


class SubmissionKeys:
    """The keys of one home. Each user has separate keys."""

    def __init__(self, records: JobRecords) -> None:
        self._records = records
        self._open: dict[tuple[str, str], int] = {}
        """Unfinished jobs by user and key."""
        self._ended = KeyHashes()

    def add(self, number: int, sent: Submission) -> None:
        """Take in the key of an unfinished job."""
        if sent.idempotency_key is not None:
            self._open.setdefault((sent.user, sent.idempotency_key), number)

    def add_ended(self, number: int, user: str, key: str | None) -> None:
        """Take in the key of an ended job, whose record is in the journal."""
        if key is not None:
            self._ended.add(hash((user, key)), number)

    def settle(self, number: int, sent: Submission) -> None:
        """Keep only the hash of the key of a job that has ended."""
        key = sent.idempotency_key
        if key is not None and self._open.get((sent.user, key)) == number:
            del self._open[sent.user, key]
            self.add_ended(number, sent.user, key)

    def forget(self, jobs: Collection[int]) -> None:
        """Forget the keys of jobs that are removed."""
        self._open = {key: number for key, number in self._open.items() if number not in jobs}
        self._ended.forget(jobs)

    def fetch(self, submissions: Iterable[Submission]) -> None:
        """Read the records that `find` needs for these submissions together."""
        self._records.many(job for sent in submissions for job in self._with_hash(sent))

    def knows(self, sent: Submission) -> bool:
        """Return whether a job was submitted with this key, the same or another one."""
        return (sent.user, sent.idempotency_key) in self._open or bool(self._with_hash(sent))

    def find(self, sent: Submission) -> int | None:
        """Return the number of the job that was submitted with this key; None if there is none, or no key. Raise ConflictError
        if another job was submitted with it."""
        if sent.idempotency_key is None:
            return None
        number = self._open.get((sent.user, sent.idempotency_key))
        found = self._records.many(self._with_hash(sent) if number is None else [number])
        same = [each for each in found if (each.user, each.submitted.idempotency_key) == (sent.user, sent.idempotency_key)]
        if not same:
            return None
        number, before = same[0].id, same[0].submitted
        if _content(sent, number) != _content(before, number):
            raise ConflictError(
                f"another job was submitted with this key: {number} {before.spec.name or f'job-{number}'}.",
                field="idempotency_key",
                value=sent.idempotency_key,
                hint=f"another key, or the same job again; rota show {number}",
            )
        return number

    def _with_hash(self, sent: Submission) -> list[int]:
        return [] if sent.idempotency_key is None else self._ended.find(hash((sent.user, sent.idempotency_key)))


def _content(sent: Submission, number: int) -> tuple[dict[str, Any], dict[str, str], ArrayTask | None]:
    """Return what has to be equal for two submissions to be the same job, however each was stored. A tenant that the membership
    gave does not count, since the membership may have changed."""
    task = None if sent.task is None else replace(sent.task, array=None)
    spec = shown_spec(sent, sent.spec.name or f"job-{number}")
    return {**spec, "tenant": None} if sent.tenant_by_membership else spec, sent.variables, task
