"""Finding jobs by user input."""

from dataclasses import replace

import pytest

from rota.errors import OptionError, UnknownNameError
from rota.live.find_record import MAX_LISTED, JobFinder, find_record
from rota.live.job_record import JobRecord
from rota.live.job_records import JobRecords
from rota.wire.spec import Spec
from rota.wire.submission import Submission


def records(*names: str, kind: type[JobRecord] = JobRecord) -> JobRecords:
    spec = {name: Spec.model_validate({"name": name, "run": ["true"]}) for name in names}
    found = JobRecords()
    for job, name in enumerate(names, 1):
        found.add(kind(job, Submission(spec[name], "me", "/", {}), 0.0))
    return found


def test_an_unknown_name_is_answered_with_the_newest_names_and_how_many_there_are() -> None:
    with pytest.raises(UnknownNameError) as raised:
        find_record(records(*(f"train-{i:02}" for i in range(43))), "zzz")
    newest = ", ".join(f"train-{i:02}" for i in range(42, 42 - MAX_LISTED, -1))
    assert raised.value.message == f"No job 'zzz'. The newest {MAX_LISTED} of 43: {newest}."


def test_a_name_is_listed_once_and_all_names_where_they_are_few() -> None:
    with pytest.raises(UnknownNameError, match=r"No job 'zzz'\. All: a, b\."):
        find_record(records("b", "a", "b"), "zzz")
    with pytest.raises(UnknownNameError, match=r"No job 'zzz'\. All: none\."):
        find_record(records(), "zzz")


def test_the_closest_name_is_found_among_those_that_are_not_listed() -> None:
    with pytest.raises(UnknownNameError, match=r"No job 'resmet'\. Closest: resnet\. The newest"):
        find_record(records("resnet", *(f"train-{i}" for i in range(30))), "resmet")


class Counted(JobRecord):
    """A record that counts how often its name is read."""

    read = 0

    @property
    def name(self) -> str:
        Counted.read += 1
        return super().name


def test_a_request_that_names_many_jobs_reads_each_name_once() -> None:
    """Else a user who names 10,000 of 20,000 jobs keeps the scheduler busy for minutes."""
    names = [f"train-{i}" for i in range(300)]
    many = records(*names, kind=Counted)
    many[1].phase = "finished"
    finder = JobFinder(many)
    assert [finder.find(name, unique=True).id for name in names] == list(range(1, 301))
    for _ in range(3):
        assert finder.find("train-29", unique=True).id == 30
        assert finder.find("train-0", unique=True).id == 1
    assert Counted.read < 4 * len(names)
    with pytest.raises(OptionError, match="fits several jobs: train-1, train-10"):
        JobFinder(many).find("train")


def test_names_of_one_user_are_looked_up_among_their_jobs_and_numbers_among_all() -> None:
    two = records("secret-plan", "mine")
    two[1].submitted = replace(two[1].submitted, user="leo")
    finder = JobFinder(two, "me")
    assert finder.find("1").id == 1 and finder.find("mi").id == 2
    for key in ("secret-plan", "sec", "3"):
        with pytest.raises(UnknownNameError) as raised:
            finder.find(key)
        assert raised.value.message.endswith("All: mine.")
