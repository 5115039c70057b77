"""New jobs of one turn: their numbers, their records and their events."""

from dataclasses import replace

from rota.live.dependencies import dependencies_of
from rota.live.history import JobHistory
from rota.live.job_record import JobRecord
from rota.live.queued_requests import NewJob
from rota.model.events import Submitted


class NewJobs:
    """The jobs that are submitted in one turn."""

    def __init__(self, history: JobHistory, last: int, now_s: float) -> None:
        """`last`: number of the latest job so far."""
        self._history, self._last, self.now_s = history, last, now_s
        self.events: list[Submitted] = []
        self.numbers: dict[int, int] = {}
        """Number of each job of this turn, by the id of its item."""

    def add(self, item: NewJob) -> int:
        """Give a job the next number, and return that."""
        after = dependencies_of(item, self.numbers, self._history.records)
        self._last = job = self._last + 1
        self.numbers[id(item)] = job
        wanted = replace(item.wanted, after=after) if after else item.wanted
        self.events.append(Submitted(job, wanted, self.now_s))
        waits = [{"job": each.job, "when": str(each.when)} for each in after]
        record = JobRecord(job, item.sent, self.now_s, last_change="submitted", after=waits)
        record.park_method, record.park_reason = item.park_method, item.park_reason
        self._history.add(record)
        return job
