"""Finding a job by user input: its number, its name, or a unique beginning of its name."""

from collections.abc import Mapping

from rota.errors import OptionError, UnknownNameError
from rota.live.job_record import JobRecord

MAX_LISTED = 8
"""Maximum number of jobs that an error names."""


def find_record(records: Mapping[int, JobRecord], key: str, *, unique: bool = False, names_of: str | None = None) -> JobRecord:
    """Return a job. Unfinished jobs come before ended ones, and the newest job of a name before the others. With `unique`, raise
    OptionError if several unfinished jobs have the name, because the request must not hit the wrong job. `names_of`: the user
    among whose jobs a name is looked up; None for all users."""
    if key.isascii() and key.isdigit() and int(key) in records:
        return records[int(key)]
    if names_of is not None:
        records = {job: record for job, record in records.items() if record.submitted.user == names_of}
    found = [record for record in records.values() if record.name == key]
    if not found and key:
        found = [record for record in records.values() if record.name.startswith(key)]
    if not found:
        raise unknown_job(records, key)
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


def unknown_job(records: Mapping[int, JobRecord], key: str) -> UnknownNameError:
    names = [record.name for record in records.values()]
    return UnknownNameError("job", key, names, newest=MAX_LISTED, hint="rota jobs --all")


def _listed(words: list[str]) -> str:
    return ", ".join(words[:MAX_LISTED]) + (f" and {len(words) - MAX_LISTED} more" if len(words) > MAX_LISTED else "")
