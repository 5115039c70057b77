"""Dependencies of submissions: which jobs a spec means in `after`, and what is left of that when the submission is written.

Names are resolved when the job is submitted. Another job of the same request is meant by its index, or by its name, which comes
before the names of earlier jobs.
"""

from collections.abc import Mapping

from rota.errors import InputError, RotaError, SpecError
from rota.live.ended_jobs import JobOutline
from rota.live.find_record import JobFinder
from rota.live.history import JobHistory
from rota.live.job_record import JobRecord
from rota.live.job_records import JobRecords
from rota.live.queued_requests import Awaited, KnownJobAgain, NewArray, NewJob
from rota.model.dependency import Dependency
from rota.wire.job_filter import MAX_TOGETHER
from rota.wire.spec import After, Spec

MAX_WAITS = 100_000
"""Maximum number of dependencies of one job, of all tasks of an array together, and of all jobs of a request together."""
EarlierItem = NewJob | NewArray | KnownJobAgain


class KnownJobs:
    """Jobs for which the jobs of one request may wait: those of the scheduler, and earlier ones of the same request."""

    def __init__(self, history: JobHistory, names_of: str | None = None) -> None:
        """`names_of`: the user among whose jobs names are looked up; None for all users."""
        self.history, self.names_of = history, names_of
        self.finder = JobFinder(history.records, names_of, history.arrays)
        self.earlier: list[EarlierItem] = []
        self.read: dict[int, JobRecord] = {}
        """Records that were read from the journal for this request."""
        self._by_name: dict[str, list[EarlierItem]] = {}
        self._jobs = self._waits = 0
        """Number of new jobs of the request so far, tasks of arrays among them, and of their dependencies."""

    def add(self, name: str | None, item: EarlierItem) -> None:
        """Add an earlier job of the request. Raise if the new jobs of the request are too many, or wait for too many."""
        jobs = 0 if isinstance(item, KnownJobAgain) else self.size(item)
        first = item.tasks[0] if isinstance(item, NewArray) else item
        self._jobs += jobs
        self._waits += jobs * sum(each.jobs for each in first.after) if isinstance(first, NewJob) else 0
        if self._jobs > MAX_TOGETHER:
            problem = f"are more than {MAX_TOGETHER:,} with the tasks of arrays; a request has at most {MAX_TOGETHER:,}."
            raise InputError(problem, field="jobs", hint="several requests")
        if self._waits > MAX_WAITS:
            raise _too_many_waits("for the jobs of this request together", "several requests")
        self.earlier.append(item)
        if name is not None:
            self._by_name.setdefault(name, []).append(item)

    def size(self, item: EarlierItem) -> int:
        """Return the number of jobs of an item: of an array, that of its tasks."""
        if isinstance(item, KnownJobAgain):
            return len(self.history.arrays.jobs(item.job)) if item.job in self.history.arrays else 1
        return len(item.tasks) if isinstance(item, NewArray) else 1

    def earlier_named(self, name: int | str | None) -> list[EarlierItem]:
        return self._by_name.get(name, []) if isinstance(name, str) else []


def find_awaited(spec: Spec, known: KnownJobs) -> tuple[Awaited, ...]:
    """Return the jobs for which a job waits, each task of an array among them. Jobs that have ended as they must are left out.
    Raise SpecError for a job that is unknown, or that has ended in another way, and for too many jobs."""
    found, waits = list[Awaited](), 0
    for at, each in enumerate(spec.awaited):
        some = _found(at, each, known)
        waits += sum(awaited.jobs for awaited in some)
        if waits > MAX_WAITS:
            raise _too_many_waits("for one job", "a job that waits for some of them, and for which this one waits")
        found += some
    return tuple(found)


def _too_many_waits(of: str, hint: str) -> SpecError:
    return SpecError(f"are more than {MAX_WAITS:,} jobs {of}, with the tasks of arrays.", field="after", hint=hint)


def _found(at: int, after: After, known: KnownJobs) -> list[Awaited]:
    field, hint = f"after.{at}", "after: [412], or the name of a job; rota jobs --all"
    if after.index is not None:
        if after.index >= len(known.earlier):
            problem = "is not the index of an earlier job of the same request; the first has index 0."
            raise SpecError(problem, field=field, value=str(after.index), hint="put that job before this one")
        item = known.earlier[after.index]
        return [Awaited(None, item, after.when, known.size(item))]
    same = known.earlier_named(after.job)
    if len(same) > 1:
        raise SpecError("is the name of several jobs of this request.", field=field, value=str(after.job), hint="{index: 0}")
    if same:
        return [Awaited(None, same[0], after.when, known.size(same[0]))]
    try:
        array = known.finder.find_array(str(after.job), unique=True)
        jobs = [known.finder.find(str(after.job), unique=True)] if array is None else known.history.tasks(array)
    except RotaError as error:
        raise SpecError(error.message, field=field, hint=error.hint or hint) from None
    for job in jobs:
        _check_possible(job, after, field, known)
    return [Awaited(job.id, None, after.when) for job in jobs if not job.ended]


def _check_possible(job: JobOutline, after: After, field: str, known: KnownJobs) -> None:
    """Raise SpecError if a job has ended in another way than it must."""
    if job.ended and not after.when.met(job.phase):
        said = "was cancelled" if job.phase == "cancelled" else f"has {job.phase}"
        name = f" {job.name}" if known.names_of in (None, job.user) else ""
        problem = f"job {job.id}{name} {said}, so this job could never start when it {after.when.text}."
        raise SpecError(problem, field=field, value=str(after.job), hint="leave it out, or rota requeue that job first")


def dependencies_of(item: NewJob, numbers: Mapping[int, int], history: JobHistory) -> tuple[Dependency, ...]:
    """Return the dependencies of a job that is being written to the journal. A job that has just ended as it must is left out. If
    one has ended in another way, the scheduler cancels the new job. `numbers`: jobs of this turn by the id of their item."""
    found = []
    for each in item.after:
        number = each.job if each.job is not None else numbers.get(id(each.item), -1)
        for job in history.arrays.jobs(number) if number in history.arrays else [number]:
            known = history.records.outline(job) if job in history.records else None
            if known is None or not (known.ended and each.when.met(known.phase)):
                found.append(Dependency(job, each.when))
    return tuple(found)


def still_awaited(record: JobRecord, records: JobRecords) -> list[After]:
    """Return the dependencies of a job whose jobs have not ended. If it is submitted again, it waits for these only."""
    return [After.model_validate(each) for each in record.after if each["job"] in records and not records.has_ended(each["job"])]
