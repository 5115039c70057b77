"""Finding a job by user input: its number, its name, a unique beginning of its name, or the index of a task of an array."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from rota.errors import OptionError, UnknownNameError
from rota.live.arrays import Arrays
from rota.live.ended_jobs import JobOutline
from rota.live.job_record import JobRecord
from rota.live.job_records import JobRecords

MAX_LISTED = 8
"""Maximum number of jobs that an error names."""


NO_ARRAYS = Arrays()


class JobFinder:
    """Finds the jobs of one request. The names of unfinished jobs are read once, however many jobs the request names."""

    def __init__(self, records: JobRecords, names_of: str | None = None, arrays: Arrays = NO_ARRAYS) -> None:
        """`names_of`: the user among whose jobs names are looked up; None for all users."""
        self._all, self._names_of, self._arrays = records, names_of, arrays
        self._found: dict[str, JobOutline] = {}
        self._found_arrays: dict[tuple[str, bool], int | None] = {}

    @cached_property
    def _by_name(self) -> dict[str, list[JobOutline]]:
        found: dict[str, list[JobOutline]] = {}
        for record in self._all.open.values():
            if self._is_visible(record):
                found.setdefault(record.name, []).append(record)
        return found

    @cached_property
    def _open_names(self) -> list[tuple[str, int]]:
        return sorted((name, record.id) for name, records in self._by_name.items() for record in records)

    @cached_property
    def _ended_names(self) -> list[tuple[str, int]]:
        return sorted((name, job) for job, name in self._all.ended.names(self._names_of))

    def _is_visible(self, job: JobOutline) -> bool:
        """Return whether the name of a job is looked up."""
        return self._names_of in (None, job.user)

    def find_array(self, key: str, *, unique: bool = False) -> int | None:
        """Return the number of the array that a key means; None if it means a job. Unfinished arrays come before ended ones, and
        newer ones before older. With `unique`, raise OptionError if several unfinished arrays have the name."""
        if (key, unique) not in self._found_arrays:
            self._found_arrays[key, unique] = self._array(key, unique=unique)
        return self._found_arrays[key, unique]

    def _array(self, key: str, *, unique: bool) -> int | None:
        found = self._arrays.find(key)
        if not key.isdecimal() and self._names_of is not None:  # the tasks of an array have one user
            found = [number for number in found if self._is_visible(self._all.outline(self._arrays.jobs(number)[0]))]
        if len(found) < 2:
            return found[0] if found else None
        unfinished = [number for number in found if not all(map(self._all.has_ended, self._arrays.jobs(number)))]
        if unique and len(unfinished) > 1:
            numbers = _listed([str(number) for number in unfinished])
            raise OptionError(
                f"fits {len(unfinished)} arrays: {numbers}.", field="job", value=key, hint="their numbers instead of the name"
            )
        return (unfinished or found)[-1]

    def find(self, key: str, *, unique: bool = False) -> JobOutline:
        """Return a job. Unfinished jobs come before ended ones, and the newest job of a name before the others. With `unique`,
        raise OptionError if several unfinished jobs have the name, because the request must not hit the wrong job."""
        if key.isascii() and key.isdigit() and int(key) in self._all:
            return self._all.outline(int(key))
        task = self._arrays.task(key)
        if task is not None and task in self._all:
            return self._all.outline(task)
        if key not in self._found:
            self._found[key] = self._named(key, unique=unique)
        return self._found[key]

    def _named(self, key: str, *, unique: bool) -> JobOutline:
        found = self._with_name(key) or self._begin_with(key)
        if not found:
            raise self._unknown(key)
        unfinished = [job for job in found if not job.ended]
        found = unfinished or found
        names = sorted({job.name for job in found})
        if len(names) > 1:
            raise OptionError(
                f"fits several jobs: {_listed(names)}.", field="job", value=key, hint="write more of the name, or the number"
            )
        if unique and len(unfinished) > 1:
            numbers = _listed([str(job.id) for job in unfinished])
            raise OptionError(
                f"fits {len(unfinished)} jobs: {numbers}.", field="job", value=key, hint="their numbers instead of the name"
            )
        return found[-1]

    def _with_name(self, key: str) -> list[JobOutline]:
        """Return the jobs with this name, by number. Ended ones are looked up only if there is no unfinished one."""
        found = self._by_name.get(key, [])
        if all(job.ended for job in found):
            found = [*found, *self._all.ended.named(key, self._names_of)]
        return sorted(found, key=lambda job: job.id)

    def _begin_with(self, key: str) -> list[JobOutline]:
        """Return the jobs whose names begin like this, by number. Ended ones are looked up only if there is no unfinished one,
        and then the newest of each name."""
        if not key:
            return []
        found = self._all.outlines([job for job in _begin(self._open_names, key) if job in self._all])
        if all(job.ended for job in found):
            found += self._all.ended.outlines([job for job in _begin(self._ended_names, key) if job in self._all.ended])
        return sorted(found, key=lambda job: job.id)

    def _unknown(self, key: str) -> UnknownNameError:
        numbers = [(job, name) for name, job in self._open_names] + self._all.ended.names(self._names_of)
        newest = {name: job for job, name in sorted(numbers)}
        return UnknownNameError("job", key, sorted(newest, key=newest.__getitem__), newest=MAX_LISTED, hint="rota jobs --all")


def find_record(records: JobRecords, key: str, *, unique: bool = False, arrays: Arrays = NO_ARRAYS) -> JobRecord:
    """Return the record of one job, as a `JobFinder` finds it."""
    return records[JobFinder(records, None, arrays).find(key, unique=unique).id]


def find_array(records: JobRecords, key: str, arrays: Arrays, *, unique: bool = False) -> int | None:
    """Return the number of one array, as a `JobFinder` finds it."""
    return JobFinder(records, None, arrays).find_array(key, unique=unique)


def _begin(names: Sequence[tuple[str, int]], key: str) -> list[int]:
    """Return the jobs whose names begin like this. `names` are in order."""
    at, found = bisect_left(names, (key,)), []
    while at < len(names) and names[at][0].startswith(key):
        found.append(names[at][1])
        at += 1
    return found


def _listed(words: list[str]) -> str:
    return ", ".join(words[:MAX_LISTED]) + (f" and {len(words) - MAX_LISTED} more" if len(words) > MAX_LISTED else "")
