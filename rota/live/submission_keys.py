"""Idempotency keys of submissions: which job a client submitted with which key.

A client that got no response does not know whether its job was accepted. It sends the same submission again with the same key,
and gets the existing job. The key is part of the record of the job, so it is as durable as the job, and a standby knows it too.
"""

from dataclasses import replace

from rota.errors import ConflictError
from rota.wire.submitted import SubmittedJob


class SubmissionKeys:
    """The keys of one home. Each user has separate keys."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], tuple[int, SubmittedJob]] = {}

    def add(self, number: int, job: SubmittedJob) -> None:
        if job.idempotency_key:
            self._jobs.setdefault((job.user, job.idempotency_key), (number, job))

    def find(self, job: SubmittedJob) -> int | None:
        """Return the number of the job that was submitted with this key; None if there is none, or no key. Raise ConflictError if
        another job was submitted with it."""
        number, before = self._jobs.get((job.user, job.idempotency_key), (0, job))
        if number == 0 or not job.idempotency_key:
            return None
        if replace(job, name=job.name or f"job-{number}") != before:
            raise ConflictError(
                f"another job was submitted with this key: {number} {before.name}.",
                field="idempotency_key",
                value=job.idempotency_key,
                hint=f"another key, or the same job again; rota show {number}",
            )
        return number
