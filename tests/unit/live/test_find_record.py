"""Finding jobs by user input."""

import pytest

from rota.errors import UnknownNameError
from rota.live.find_record import MAX_LISTED, find_record
from rota.live.job_record import JobRecord
from rota.wire.spec import Spec
from rota.wire.submission import Submission


def records(*names: str) -> dict[int, JobRecord]:
    spec = {name: Spec.model_validate({"name": name, "run": ["true"]}) for name in names}
    return {job: JobRecord(job, Submission(spec[name], "me", "/", {}), 0.0) for job, name in enumerate(names, 1)}


def test_an_unknown_name_is_answered_with_the_newest_names_and_how_many_there_are() -> None:
    with pytest.raises(UnknownNameError) as raised:
        find_record(records(*(f"train-{i:02}" for i in range(43))), "zzz")
    newest = ", ".join(f"train-{i:02}" for i in range(42, 42 - MAX_LISTED, -1))
    assert raised.value.message == f"No job 'zzz'. The newest {MAX_LISTED} of 43: {newest}."


def test_a_name_is_listed_once_and_all_names_where_they_are_few() -> None:
    with pytest.raises(UnknownNameError, match=r"No job 'zzz'\. All: a, b\."):
        find_record(records("b", "a", "b"), "zzz")
    with pytest.raises(UnknownNameError, match=r"No job 'zzz'\. All: none\."):
        find_record({}, "zzz")


def test_the_closest_name_is_found_among_those_that_are_not_listed() -> None:
    with pytest.raises(UnknownNameError, match=r"No job 'resmet'\. Closest: resnet\. The newest"):
        find_record(records("resnet", *(f"train-{i}" for i in range(30))), "resmet")
