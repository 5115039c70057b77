"""Arrays: which jobs are tasks of which array, how clients name them, and the row of an array.

An array has a number of its own, before those of its tasks. If a task is submitted again, the new job takes its place.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from rota.live.ended_jobs import JobOutline
from rota.live.instants import iso
from rota.live.job_record import JobRecord
from rota.model.units import Ints
from rota.wire.rows import ENDED, HOLDING, ArrayRow, JobRow
from rota.wire.task_array import ArrayTask

_ORDER = (
    *("running", "starting", "resizing", "suspending", "stopping", "unreachable", "queued", "parked", "checkpointed"),
    *("failed", "cancelled", "finished"),
)
"""Phases, the one first that an array has if one of its tasks has it."""


class ArrayJobs:
    """The jobs of one array, in columns: an array of many tasks may have ended long ago."""

    def __init__(self, task: ArrayTask) -> None:
        self.name, self.title = task.name, task.title
        self._indices, self._jobs = array("q"), array("q")
        """Indices in rising order, and the job of each."""

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[int]:
        """Yield the jobs by index."""
        return iter(self._jobs)

    def column(self) -> Ints:
        return np.array(self._jobs, np.int64)

    def put(self, index: int, job: int) -> None:
        at = bisect_left(self._indices, index)
        if at < len(self) and self._indices[at] == index:
            self._jobs[at] = job
        else:
            self._indices.insert(at, index)
            self._jobs.insert(at, job)

    def get(self, index: int) -> int | None:
        at = bisect_left(self._indices, index)
        return self._jobs[at] if at < len(self) and self._indices[at] == index else None

    def forget(self, jobs: Collection[int]) -> None:
        kept = [(index, job) for index, job in zip(self._indices, self._jobs, strict=True) if job not in jobs]
        self._indices, self._jobs = array("q", (index for index, _ in kept)), array("q", (job for _, job in kept))


class Arrays:
    """The arrays of one scheduler."""

    def __init__(self) -> None:
        self._jobs: dict[int, ArrayJobs] = {}
        """Jobs of each array, by its number."""
        self._named: dict[str, list[int]] = {}
        """Name of arrays, with and without their indices -> their numbers."""

    def __contains__(self, number: int) -> bool:
        return number in self._jobs

    def add(self, job: int, task: ArrayTask | None) -> None:
        """Take in a job. Jobs that are no tasks are left out."""
        if task is None or task.array is None:
            return
        if task.array not in self._jobs:
            found = self._jobs[task.array] = ArrayJobs(task)
            for name in (found.name, found.title):
                self._named.setdefault(name, []).append(task.array)
        self._jobs[task.array].put(task.index, job)

    def forget(self, removed: Mapping[int, set[int]]) -> None:
        """Forget jobs that were removed. `removed`: the jobs of each array."""
        for number, jobs in removed.items():
            if (found := self._jobs.get(number)) is None:
                continue
            found.forget(jobs)
            if not found:
                del self._jobs[number]
                for name in (found.name, found.title):
                    self._named[name].remove(number)
                    if not self._named[name]:
                        del self._named[name]

    def jobs(self, number: int) -> list[int]:
        """Return the jobs of an array, by index."""
        return list(self._jobs[number])

    def columns(self, numbers: Iterable[int]) -> list[Ints]:
        """Return the jobs of each of these arrays, by index."""
        return [self._jobs[number].column() for number in numbers]

    def title(self, number: int) -> str:
        """Return the name of an array with its indices."""
        return self._jobs[number].title

    def find(self, key: str) -> list[int]:
        """Return the numbers of the arrays that a number or a name means, the oldest first."""
        if key.isascii() and key.isdigit():
            return [int(key)] if int(key) in self._jobs else []
        return [number for number in self._named.get(key, ()) if number in self._jobs]

    def task(self, key: str) -> int | None:
        """Return the job that a text such as `412_7` means; None if it means none."""
        number, mark, index = key.partition("_")
        if not (mark and number.isascii() and number.isdigit() and index.isascii() and index.isdigit()):
            return None
        found = self._jobs.get(int(number))
        return None if found is None else found.get(int(index))


def number_of(job: JobOutline) -> int:
    """Return the number under which a submission is known: that of the array of a task, or that of the job."""
    return job.id if job.array is None else job.array


def array_row(first: JobRecord, records: Sequence[JobOutline], phases: Sequence[str], now_s: float) -> JobRow:
    """Return the row of an array with these tasks, which are in these phases. `first`: the record of its first task."""
    task = _task(first)
    spec, counts = first.spec, Counter(phases)
    phase = array_phase(counts)
    began = [each.started_s for each in records if each.started_s is not None]
    ended = [each.ended_s for each in records if each.ended_s is not None]
    return JobRow(
        id=number_of(first),
        name=task.title,
        user=first.submitted.user,
        phase=phase,
        gpus=spec.most_gpus,
        accelerator=None,
        placement=None,
        accepted_accelerators=list(spec.accelerators),
        weight=spec.weight,
        priority=spec.priority,
        tenant=spec.tenant,
        eta_seconds=_left(records, phases, counts, now_s),
        submitted_at=iso(first.submitted_s) or "",
        started_at=iso(min(began, default=None)),
        finished_at=iso(max(ended, default=None)) if phase in ENDED else None,
        suspensions=sum(each.suspensions for each in records),
        lost_steps=sum(each.lost_steps for each in records),
        lost_seconds=sum(each.lost_seconds for each in records),
        gpu_seconds=sum(each.gpu_seconds for each in records),
        work_seconds=sum(each.work_seconds for each in records),
        profile=spec.profile,
        most_gpus=spec.most_gpus,
        command=first.submitted.command,
        array_id=number_of(first),
        array=ArrayRow(tasks=task.count, at_once=task.at_once, phases={name: counts[name] for name in _ORDER if counts[name]}),
    )


def array_phase(phases: Mapping[str, int] | Iterable[str]) -> str:
    """Return the phase of an array whose tasks are in these phases."""
    found = set(phases)
    return next(name for name in _ORDER if name in found)


def _task(record: JobRecord) -> ArrayTask:
    assert record.submitted.task is not None
    return record.submitted.task


def _left(records: Sequence[JobOutline], phases: Sequence[str], counts: Mapping[str, int], now_s: float) -> float | None:
    """Return the time until the array ends if each task runs as long as those that have finished did on average, and as many run
    at once as now; None if no task has finished or runs."""
    running = sum(counts[name] for name in HOLDING)
    pairs = list(zip(records, phases, strict=True))
    lengths = [
        each.ended_s - each.started_s
        for each, phase in pairs
        if phase == "finished" and each.ended_s is not None and each.started_s is not None
    ]
    if not lengths or not running:
        return None
    mean_s = sum(lengths) / len(lengths)
    left = 0.0
    for each, phase in pairs:
        if phase not in ENDED:
            ran = now_s - each.started_s if phase in HOLDING and each.started_s is not None else 0.0
            left += max(mean_s - ran, 0.0)
    return left / running
