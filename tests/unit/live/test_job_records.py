"""Records leave memory when their jobs have ended. A history that keeps none of them answers as one that keeps all."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import ConflictError, JournalError, RotaError
from rota.live.dependencies import KnownJobs, find_awaited
from rota.live.ended_jobs import EndedJob, EndedJobs
from rota.live.find_record import JobFinder
from rota.live.history import JobHistory
from rota.live.job_record import JobRecord
from rota.live.job_records import JobRecords, LockedReads
from rota.live.listing import by_number, page_of
from rota.live.whole_job import whole_job
from rota.wire.job_filter import JobFilter
from rota.wire.rows import ENDED
from rota.wire.spec import Spec
from rota.wire.submission import Submission, encode_submission
from rota.wire.task_array import ArrayTask
from tests.unit.core.helpers import Bench

NAMES = ("net", "net-2", "other", "Größe")
USERS = ("ana", "leo")
KEYS = ("", "a", "b")
NOW_S = 100.0

Plain = tuple[int, dict[str, Any], dict[str, Any]]
"""Number, submission and row of a job, as the journal has them."""


@st.composite
def journals(draw: st.DrawFn) -> list[Plain]:
    """Jobs of a journal: some alone, some as tasks of arrays, some of which were submitted again."""
    found: list[Plain] = []
    number, keys = 0, set[tuple[str, str]]()
    for _ in range(draw(st.integers(0, 8))):
        number += 1
        user, name, key = draw(st.sampled_from(USERS)), draw(st.sampled_from((None, *NAMES))), draw(st.sampled_from(KEYS))
        if (user, key) in keys:
            key = ""
        keys.add((user, key))
        count = draw(st.sampled_from((0, 0, 0, 1, 3)))
        array, tasks = number, range(count) if count else [None]
        number -= not count
        for index in tasks:
            number += 1
            task = None if index is None else task_of(array, index, count)
            sent = Submission(Spec(run="x", name=name), user, "/", {}, key or None, draw(st.sampled_from((None, 7))), task)
            key = ""
            found.append((number, encode_submission(sent), draw(rows(number))))
    again = [each for each in found if each[1].get("task") and each[2]["phase"] in ENDED]
    for _, sent_again, _ in again[: draw(st.integers(0, 1))]:
        number += 1
        found.append((number, {**sent_again, "idempotency_key": None}, draw(rows(number))))
    return found


def task_of(array: int, index: int, count: int) -> ArrayTask:
    return ArrayTask(
        name=f"swept-{array % 2}", text=f"0-{count - 1}", index=index, first=0, last=count - 1, count=count, array=array
    )


@st.composite
def rows(draw: st.DrawFn, number: int) -> dict[str, Any]:
    phase, figures = draw(st.sampled_from(("queued", "running", *ENDED))), st.sampled_from((0.1, 0.2, 7.0))
    row: dict[str, Any] = {"submitted_s": float(number // 2), "phase": phase, "last_change": "noted"}
    if draw(st.booleans()):
        row |= {"started_s": 20.0, "suspensions": 2, "lost_seconds": draw(figures), "gpu_seconds": draw(figures)}
    if phase in ENDED:
        row |= {"ended_s": draw(st.sampled_from((30.0, 31.0, 32.0))), "exit_code": 0}
    if draw(st.integers(0, 3)) == 0:
        row["changes"] = {"name": draw(st.sampled_from(NAMES))}
    return row


def history_of(journal: Sequence[Plain], kept: int | None) -> JobHistory:
    """Return a history with these jobs: one that keeps all records, or so many of ended jobs. The first half is as at a start;
    the jobs of the second half have ended since."""
    at = {job: (sent, plain) for job, sent, plain in journal}

    def read(jobs: Sequence[int]) -> dict[int, JobRecord]:
        return {job: JobRecord.of(job, *at[job]) for job in jobs}

    history = JobHistory(None if kept is None else read, kept or 0)
    history.restore(journal[: len(journal) // 2])
    for job, sent, plain in journal[len(journal) // 2 :]:
        history.add(JobRecord.of(job, sent, plain))
    history.take_noted()
    history.settle()
    return history


def answer(make: Callable[[], Any]) -> Any:
    """Return what a call returns, or its error."""
    try:
        return make()
    except RotaError as error:
        return type(error), error.message


STATE = Bench("2xV100").state
FILTERS = st.builds(
    JobFilter,
    everything=st.booleans(),
    user=st.sampled_from(("", *USERS, "eva")),
    phase=st.sampled_from(("", "queued", "suspended", *ENDED)),
    since_s=st.sampled_from((0.0, 2.0, 50.0)),
    after=st.integers(0, 5),
    limit=st.integers(1, 6),
    skip=st.integers(0, 4),
    tasks=st.booleans(),
)


KEYS_ASKED = st.sampled_from((*NAMES, "ne", "swept-1", "1", "1_0", "x"))


@given(journal=journals(), kept=st.sampled_from((0, 2)), wanted=FILTERS, key=KEYS_ASKED)
@settings(max_examples=150, deadline=None)
def test_a_history_that_keeps_few_records_answers_as_one_that_keeps_all(
    journal: list[Plain], kept: int, wanted: JobFilter, key: str
) -> None:
    every, few = history_of(journal, None), history_of(journal, kept)
    assert all(not record.ended for record in few.records.open.values())
    for user in (None, *USERS):
        for unique in (False, True):
            asked = [whole_job_of(history, key, unique, user) for history in (every, few)]
            assert asked[0] == asked[1]
        spec = Spec(run="x", after=[{"job": key}])  # type: ignore[list-item]
        awaited = [answer(lambda: find_awaited(spec, KnownJobs(each, user))) for each in (every, few)]  # noqa: B023
        assert awaited[0] == awaited[1]
    assert by_number(every, STATE, {}, NOW_S, wanted) == by_number(few, STATE, {}, NOW_S, wanted)
    assert page_of(every, STATE, {}, NOW_S, wanted) == page_of(few, STATE, {}, NOW_S, wanted)
    assert dict(every.records) == dict(few.records)
    for job, sent, _ in journal:
        submitted = JobRecord.of(job, sent, {"submitted_s": 0.0}).submitted
        found = [answer(lambda: each.known_number(submitted)) for each in (every, few)]  # noqa: B023
        assert found[0] == found[1]
        assert EndedJob.of(every.records[job]) == EndedJob.of_plain(*journal[[each[0] for each in journal].index(job)])


def whole_job_of(history: JobHistory, key: str, unique: bool, user: str | None) -> Any:
    return answer(lambda: whole_job(history, STATE, {}, NOW_S, key, unique=unique, user=user))


@given(journal=journals(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_removed_jobs_leave_nothing_behind(journal: list[Plain], data: st.DataObject) -> None:
    """It is as if they had never been there."""
    history = history_of(journal, 2)
    ended = history.ended_before(33.0)
    old = data.draw(st.lists(st.sampled_from(ended), unique=True)) if ended else []
    history.forget(old)
    left = [each for each in journal if each[0] not in old]
    assert dict(history.records) == dict(history_of(left, None).records)
    assert history.ended_before(31.0) == [job for job, _, plain in left if plain.get("ended_s") == 30.0]
    listed = JobFilter(everything=True, limit=50, tasks=True)
    assert by_number(history, STATE, {}, NOW_S, listed) == by_number(history_of(left, None), STATE, {}, NOW_S, listed)
    numbers = {sent["task"]["array"] for _, sent, _ in left if sent.get("task")}
    assert {each for each in range(99) if each in history.arrays} == numbers


def record(job: int, phase: str = "running", **sent: Any) -> JobRecord:
    return JobRecord(job, Submission(Spec(run="x"), "ana", "/", {}, **sent), 1.0, phase=phase)


def test_a_record_stays_until_the_journal_has_it_and_a_change_brings_it_back() -> None:
    written: dict[int, JobRecord] = {}
    history = JobHistory(lambda jobs: {job: written[job] for job in jobs}, kept=0)
    history.add(record(1))
    history.take_noted()
    history.settle()
    job = history.records.writable(1)
    job.phase, job.ended_s = "failed", 2.0
    history.changed.add(1)
    noted = history.take_noted().jobs[1]
    assert history.records[1] is job and len(history.records.ended) == 0, "it is not in the journal yet"
    written[1] = JobRecord.of(1, encode_submission(job.submitted), noted.row)
    history.settle()
    assert history.records.open == {} and history.records[1] == job and history.records[1] is not job
    late = history.records.writable(1)
    late.exit_code = 3
    history.changed.add(1)
    assert history.take_noted().jobs[1].row["exit_code"] == 3 and history.records[1] is late
    assert list(history.records) == [1] and len(history.records) == 1


def test_records_are_read_without_the_lock_and_once_for_a_request() -> None:
    lock, asked, stored = threading.Lock(), list[Sequence[int]](), {job: record(job, "failed") for job in (1, 2, 3)}

    def read(jobs: Sequence[int]) -> dict[int, JobRecord]:
        assert not lock.locked()
        asked.append(jobs)
        return {job: stored[job] for job in jobs if job in stored}

    records = JobRecords(read, kept=1)
    for each in stored.values():
        records.add(each)
    assert records.settle([1, 2, 3]) == list(stored.values())
    reads = LockedReads(lock, records)
    assert reads(lambda: records.many([3, 1, 2, 1])) == [stored[3], stored[1], stored[2], stored[1]]
    assert asked == [[1, 2]], "the latest is in memory"
    kept: dict[int, JobRecord] = {}
    assert [reads(lambda: records[1], kept) for _ in range(3)] == [stored[1]] * 3 and asked == [[1, 2], [1]]
    assert not lock.locked()
    del stored[2]
    with pytest.raises(JournalError, match="the journal has no record of job 2"):
        reads(lambda: records[2])
    with pytest.raises(KeyError):
        reads(lambda: records[4])


def test_two_keys_with_one_hash_are_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.live.submission_keys.hash", lambda key: 7, raising=False)
    stored = {1: record(1, "finished", idempotency_key="a"), 2: record(2, "finished", idempotency_key="b")}
    history = JobHistory(lambda jobs: {job: stored[job] for job in jobs}, kept=0)
    history.restore((job, encode_submission(each.submitted), each.to_plain()) for job, each in stored.items())
    assert [history.known_number(each.submitted) for each in stored.values()] == [1, 2]
    assert history.known_number(record(3, idempotency_key="c").submitted) is None
    other = Submission(Spec(run="y"), "ana", "/", {}, "b")
    with pytest.raises(ConflictError, match="another job was submitted with this key: 2 job-2"):
        history.known_number(other)


def test_an_ended_job_takes_few_bytes() -> None:
    import tracemalloc

    found = EndedJobs()
    tracemalloc.start()
    for job in range(1, 20_001):
        found.add(EndedJob.of(record(job, "finished")))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / 20_000 < 170
    found.remove(range(1, 19_001))
    assert list(found) == list(range(19_001, 20_001)) and found.outline(19_500).name == "job-19500"


def test_a_start_that_takes_long_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, lines = encode_submission(record(1).submitted), list[str]()
    jobs = [(job, sent, {"submitted_s": 0.0, "ended_s": 1.0, "phase": "finished"}) for job in range(1, 2501)]
    history = JobHistory(lambda wanted: {}, kept=0)
    history.restore(jobs[:1200], lines.append)
    assert lines == [], "it was quick"
    monkeypatch.setattr("rota.live.history.TELL_SECONDS", -1.0)
    history.restore(jobs[1200:], lines.append)
    assert lines == ["1,000 jobs were read from the journal so far"] and len(history.records) == 2500


def test_a_page_looks_at_the_tasks_of_its_own_arrays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    journal: list[Plain] = []
    for array in range(1, 201, 4):
        for index in range(3):
            sent = Submission(Spec(run="x"), "ana", "/", {}, None, None, task_of(array, index, 3))
            row = {"submitted_s": 1.0, "phase": "finished", "ended_s": float(array + index)}
            journal.append((array + 1 + index, encode_submission(sent), row))
    history, read, seen = history_of(journal, 0), EndedJobs.outlines, list[int]()

    def outlines(self: EndedJobs, jobs: Sequence[int]) -> list[EndedJob]:
        seen.extend(jobs)
        return read(self, jobs)

    monkeypatch.setattr(EndedJobs, "outlines", outlines)
    page = page_of(history, STATE, {}, NOW_S, JobFilter(everything=True, limit=2))
    assert page.total == 50 and [row.id for row in page.jobs] == [197, 193] and len(set(seen)) <= 6
    rows = by_number(history, STATE, {}, NOW_S, JobFilter(everything=True, limit=1, phase="finished"))
    assert [row.id for row in rows] == [1] and len(set(seen)) <= 9
    assert by_number(history, STATE, {}, NOW_S, JobFilter(everything=True, phase="failed")) == []


def test_a_name_of_many_ended_jobs_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    journal: list[Plain] = []
    for number in range(1, 31):
        sent = Submission(Spec(run="x", name=f"net-{number % 3}"), "ana", "/", {})
        journal.append((number, encode_submission(sent), {"submitted_s": 1.0, "phase": "finished", "ended_s": 2.0}))
    history, seen = history_of(journal, 0), list[int]()
    names_of = EndedJobs._names_of
    monkeypatch.setattr(EndedJobs, "_names_of", lambda self, rows: (seen.append(len(rows)), names_of(self, rows))[1])
    for key in ("ne", "x"):
        with pytest.raises(RotaError, match="net-0, net-1, net-2"):
            JobFinder(history.records).find(key)
    assert history.records.ended.names("leo") == []
    assert history.records.ended.names(None) == [(28, "net-1"), (29, "net-2"), (30, "net-0")]
    assert max(seen) == 3
    assert JobFinder(history.records).find("net-1").id == 28
