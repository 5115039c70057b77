"""Finding a job by user input: its number, its name, a unique beginning of its name, or the index of a task of an array."""

from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from itertools import islice, takewhile

from rota.errors import OptionError, UnknownNameError
from rota.live.arrays import Arrays
from rota.live.job_record import JobRecord

MAX_LISTED = 8
"""Maximum number of jobs that an error names."""


NO_ARRAYS = Arrays()


class JobFinder:
    """Finds the jobs of one request. All names are read once, however many jobs the request names."""

    def __init__(self, records: Mapping[int, JobRecord], names_of: str | None = None, arrays: Arrays = NO_ARRAYS) -> None:
        """`names_of`: the user among whose jobs names are looked up; None for all users."""
        self._all, self._names_of, self._arrays = records, names_of, arrays
        self._found: dict[str, JobRecord] = {}

    @cached_property
    def _records(self) -> Mapping[int, JobRecord]:
        if self._names_of is None:
            return self._all
        return {job: record for job, record in self._all.items() if record.submitted.user == self._names_of}

    @cached_property
    def _by_name(self) -> dict[str, list[JobRecord]]:
        found: dict[str, list[JobRecord]] = {}
        for record in self._records.values():
            found.setdefault(record.name, []).append(record)
        return found

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self._by_name)

    def find_array(self, key: str, *, unique: bool = False) -> int | None:
        """Return the number of the array that a key means; None if it means a job. Unfinished arrays come before ended ones, and
        newer ones before older. With `unique`, raise OptionError if several unfinished arrays have the name."""
        known = self._all if key.isdecimal() else self._records
        found = [number for number in self._arrays.find(key) if any(job in known for job in self._arrays.jobs(number))]
        if not found:
            return None
        unfinished = [number for number in found if any(not self._all[job].ended for job in self._arrays.jobs(number))]
        if unique and len(unfinished) > 1:
            numbers = _listed([str(number) for number in unfinished])
            raise OptionError(
                f"fits {len(unfinished)} arrays: {numbers}.", field="job", value=key, hint="their numbers instead of the name"
            )
        return (unfinished or found)[-1]

    def find(self, key: str, *, unique: bool = False) -> JobRecord:
        """Return a job. Unfinished jobs come before ended ones, and the newest job of a name before the others. With `unique`,
        raise OptionError if several unfinished jobs have the name, because the request must not hit the wrong job."""
        if key.isascii() and key.isdigit() and int(key) in self._all:
            return self._all[int(key)]
        task = self._arrays.task(key)
        if task is not None and task in self._all:
            return self._all[task]
        if key not in self._found:
            self._found[key] = self._named(key, unique=unique)
        return self._found[key]

    def _named(self, key: str, *, unique: bool) -> JobRecord:
        found = self._by_name.get(key) or self._begin_with(key)
        if not found:
            raise unknown_job(self._records, key)
        unfinished = [record for record in found if not record.ended]
        found = unfinished or found
        names = sorted({record.name for record in found})
        if len(names) > 1:
            raise OptionError(
                f"fits several jobs: {_listed(names)}.", field="job", value=key, hint="write more of the name, or the number"
            )
        if unique and len(unfinished) > 1:
            numbers = _listed([str(record.id) for record in unfinished])
            raise OptionError(
                f"fits {len(unfinished)} jobs: {numbers}.", field="job", value=key, hint="their numbers instead of the name"
            )
        return found[-1]

    def _begin_with(self, key: str) -> list[JobRecord]:
        """Return the jobs whose names begin like this, by number."""
        if not key:
            return []
        first = bisect_left(self._names, key)
        names = takewhile(lambda name: name.startswith(key), islice(self._names, first, None))
        return sorted((record for name in names for record in self._by_name[name]), key=lambda record: record.id)


def find_record(
    records: Mapping[int, JobRecord],
    key: str,
    *,
    unique: bool = False,
    names_of: str | None = None,
    arrays: Arrays = NO_ARRAYS,
) -> JobRecord:
    """Return one job, as a `JobFinder` finds it."""
    return JobFinder(records, names_of, arrays).find(key, unique=unique)


def find_array(records: Mapping[int, JobRecord], key: str, arrays: Arrays, *, unique: bool = False) -> int | None:
    """Return the number of one array, as a `JobFinder` finds it."""
    return JobFinder(records, None, arrays).find_array(key, unique=unique)


def unknown_job(records: Mapping[int, JobRecord], key: str) -> UnknownNameError:
    names = [record.name for record in records.values()]
    return UnknownNameError("job", key, names, newest=MAX_LISTED, hint="rota jobs --all")


def _listed(words: list[str]) -> str:
    return ", ".join(words[:MAX_LISTED]) + (f" and {len(words) - MAX_LISTED} more" if len(words) > MAX_LISTED else "")
