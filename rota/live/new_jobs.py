"""New jobs of one turn: their numbers, their records and their events."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from rota.errors import RotaError
from rota.live.dependencies import dependencies_of
from rota.live.history import JobHistory
from rota.live.job_record import JobRecord
from rota.live.queued_requests import KnownJobAgain, NewArray, NewItem, NewJob, Together
from rota.model.array_limit import ArrayLimit
from rota.model.dependency import Dependency
from rota.model.events import Submitted
from rota.model.tenants import Tenants
from rota.wire.submission import Submission, naming


class NewJobs:
    """The jobs that are submitted in one turn."""

    def __init__(
        self, history: JobHistory, last: int, now_s: float, lock: threading.Lock, tenants: Tenants | None = None
    ) -> None:
        """`last`: number of the latest job so far. `lock`: what readers of the history hold. `tenants`: those that limit jobs."""
        self._history, self._last, self.now_s, self._lock, self._tenants = history, last, now_s, lock, tenants
        self.events: list[Submitted] = []
        self.numbers: dict[int, int] = {}
        """Number of each job and array of this turn, by the id of its item."""

    def take(self, request: NewItem | Together, answered: "list[tuple[Future[Any], Any]]") -> None:
        """Accept a request: all of its submissions, or none if they exceed a limit of their tenants, or if the key of one has
        another job."""
        items = request.items if isinstance(request, Together) else [request]
        try:
            if isinstance(request, Together):
                self._check_keys(items)
            self.check_limits(items, several=isinstance(request, Together))
        except RotaError as problem:
            for item in items:
                item.done.set_exception(problem)
            return
        for item in items:
            self._take(item, answered)

    def _check_keys(self, items: Sequence[NewItem]) -> None:
        """Raise ConflictError if another job was submitted with the key of one of these meanwhile."""
        for index, item in enumerate(items):
            if not isinstance(item, KnownJobAgain):
                with naming(index):
                    self._history.known_number(_first(item).sent)

    def check_limits(self, items: Sequence[NewItem], *, several: bool = False) -> None:
        """Raise ConflictError if these jobs, and all tasks of arrays, exceed a limit of their tenants."""
        if self._tenants is None:
            return
        with self._lock:
            self._history.unfinished.check(self._tenants, self._sizes(items), several=several)

    def _sizes(self, items: Sequence[NewItem]) -> Iterator[tuple[Submission, int] | None]:
        """Yield the submission of each item and its number of jobs; None for one whose key already has a job."""
        keys = set[tuple[str, str]]()
        for item in items:
            if isinstance(item, KnownJobAgain):
                yield None
                continue
            sent = _first(item).sent
            if sent.idempotency_key is not None:
                key = (sent.user, sent.idempotency_key)
                if key in keys or self._history.keys.knows(sent):
                    yield None
                    continue
                keys.add(key)
            yield sent, len(item.tasks) if isinstance(item, NewArray) else 1

    def _take(self, item: NewItem, answered: "list[tuple[Future[Any], Any]]") -> None:
        """Accept a submission. One whose key already has a job gets that job; two with one key may come in the same turn."""
        number = item.job if isinstance(item, KnownJobAgain) else None
        if not isinstance(item, KnownJobAgain):
            try:
                number = self._history.known_number(_first(item).sent)
            except RotaError as problem:
                item.done.set_exception(problem)
                return
            if number is None:
                with self._lock:
                    number = self.add(item)
        assert number is not None
        self.numbers[id(item)] = number
        answered.append((item.done, number))

    def add(self, item: NewJob | NewArray) -> int:
        """Give a job the next number, or an array and its tasks the next ones, and return the first."""
        first = _first(item)
        after = dependencies_of(first, self.numbers, self._history)
        if isinstance(item, NewJob):
            return self._add(item, item.sent, after)
        self._last = array = self._last + 1
        for each in item.tasks:
            assert each.sent.task is not None
            self._add(each, replace(each.sent, task=replace(each.sent.task, array=array)), after)
        return array

    def _add(self, item: NewJob, sent: Submission, after: Sequence[Dependency]) -> int:
        self._last = job = self._last + 1
        wanted, task = item.wanted, sent.task
        if after:
            wanted = replace(wanted, after=tuple(after))
        if task is not None and task.array is not None and task.at_once is not None:
            wanted = replace(wanted, array=ArrayLimit(task.array, task.at_once))
        self.events.append(Submitted(job, wanted, self.now_s))
        waits = [{"job": each.job, "when": str(each.when)} for each in after]
        record = JobRecord(job, sent, self.now_s, last_change="submitted", after=waits)
        record.park_method, record.park_reason = item.park_method, item.park_reason
        self._history.add(record)
        return job


def _first(item: NewJob | NewArray) -> NewJob:
    return item.tasks[0] if isinstance(item, NewArray) else item
