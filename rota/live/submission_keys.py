"""Idempotency keys of submissions: which job a client submitted with which key.

A client that got no response does not know whether its job was accepted. It sends the same submission again with the same key,
and gets the existing job. The key is part of the record of the job, so it is as durable as the job, and a standby knows it too.
"""

from dataclasses import replace
from typing import Any

from rota.errors import ConflictError
from rota.live.requests import shown_spec
from rota.wire.submission import Submission
from rota.wire.task_array import ArrayTask


class SubmissionKeys:
    """The keys of one home. Each user has separate keys."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], tuple[int, Submission]] = {}

    def add(self, number: int, sent: Submission) -> None:
        if sent.idempotency_key is not None:
            self._jobs.setdefault((sent.user, sent.idempotency_key), (number, sent))

    def forget(self, sent: Submission) -> None:
        """Forget the key of a submission whose job is forgotten."""
        if sent.idempotency_key is not None:
            self._jobs.pop((sent.user, sent.idempotency_key), None)

    def knows(self, sent: Submission) -> bool:
        """Return whether a job was submitted with this key, the same or another one."""
        return sent.idempotency_key is not None and (sent.user, sent.idempotency_key) in self._jobs

    def find(self, sent: Submission) -> int | None:
        """Return the number of the job that was submitted with this key; None if there is none, or no key. Raise ConflictError
        if another job was submitted with it."""
        if sent.idempotency_key is None or not self.knows(sent):
            return None
        number, before = self._jobs[sent.user, sent.idempotency_key]
        if _content(sent, number) != _content(before, number):
            raise ConflictError(
                f"another job was submitted with this key: {number} {before.spec.name or f'job-{number}'}.",
                field="idempotency_key",
                value=sent.idempotency_key,
                hint=f"another key, or the same job again; rota show {number}",
            )
        return number


def _content(sent: Submission, number: int) -> tuple[dict[str, Any], dict[str, str], ArrayTask | None]:
    """Return what has to be equal for two submissions to be the same job, however each was stored. A tenant that the membership
    gave does not count, since the membership may have changed."""
    task = None if sent.task is None else replace(sent.task, array=None)
    spec = shown_spec(sent, sent.spec.name or f"job-{number}")
    return {**spec, "tenant": None} if sent.tenant_by_membership else spec, sent.variables, task
