"""Submitting twice is submitting once, whatever happens in between."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota.errors import ConflictError, SpecError
from rota.live.daemon import Daemon
from rota.live.dependencies import KnownJobs
from rota.live.job_record import JobRecord
from rota.live.job_records import JobRecords
from rota.live.queued_requests import Together
from rota.live.submission_keys import SubmissionKeys
from rota.wire.job_filter import JobFilter
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.live.scheduler.test_daemon import ended, running

PATH = {"PATH": "/usr/bin:/bin"}
HOUR = 3600.0


def submit(daemon: Daemon, key: str, run: str = "true", user: str = "ana", **fields: Any) -> int:
    return daemon.submit(Submission(Spec(run=run, **fields), user, "/", PATH, key or None)).id


def jobs(daemon: Daemon) -> list[int]:
    return [row.id for row in daemon.jobs(JobFilter(everything=True))]


def test_the_same_key_is_the_same_job(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        first = submit(daemon, "a")
        assert submit(daemon, "a") == first
        ended(daemon, first)
        assert submit(daemon, "a") == first, "also when it has ended"
        assert submit(daemon, "b") != first and submit(daemon, "a", user="leo") != first
        assert submit(daemon, "") != submit(daemon, ""), "without a key each is a job"
        assert len(jobs(daemon)) == 5


def test_another_job_under_the_same_key_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        first = submit(daemon, "a", name="net")
        for fields in ({"gpus": 2}, {"name": "other"}, {"run": "false"}, {"env": {"A": "1"}}, {}):
            with pytest.raises(ConflictError, match=rf"another job was submitted with this key: {first} net"):
                submit(daemon, "a", **fields)
        assert jobs(daemon) == [first]


def test_of_many_at_once_one_is_taken(tmp_path: Path) -> None:
    with running(tmp_path) as daemon, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: submit(daemon, f"key-{number % 4}"), range(64)))
        assert len(set(found)) == 4 and sorted(set(found)) == jobs(daemon)
        assert all(len({found[i] for i in range(k, 64, 4)}) == 1 for k in range(4))


def test_of_many_jobs_of_one_request_none_is_taken_if_the_key_of_one_is_taken_meanwhile(tmp_path: Path) -> None:
    def sent(key: str, run: str = "true") -> Submission:
        return Submission(Spec(run=run), "ana", "/", PATH, key)

    with running(tmp_path) as daemon:
        known = KnownJobs(daemon.history)
        other, *several = [daemon._request(each, None, known) for each in (sent("b", "false"), sent("a"), sent("b"))]
        daemon._items.put(other)
        daemon._items.put(Together(several))
        assert other.done.result() == 1
        for each in several:
            with pytest.raises(ConflictError, match=r"jobs\[1\] .* another job was submitted .* None of the jobs was taken"):
                each.done.result()
        assert jobs(daemon) == [1]


def test_a_restart_knows_the_keys(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        first = submit(daemon, "a")
        named = submit(daemon, "b", name="net", gpus={"min": 1, "max": 4}, accelerators=["V100"])
    with running(tmp_path) as daemon:
        assert submit(daemon, "a") == first
        assert submit(daemon, "b", name="net", gpus={"min": 1, "max": 4}, accelerators=["V100"]) == named
        with pytest.raises(ConflictError):
            submit(daemon, "b")


def test_what_stands_in_the_way_of_a_new_job_does_not_hide_an_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deadline has passed since, so that it could not be submitted now."""
    deadline = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + HOUR))
    with running(tmp_path) as daemon:
        first = submit(daemon, "a", deadline=deadline)
        now_s = daemon.clock
        monkeypatch.setattr(daemon, "clock", lambda: now_s() + 2 * HOUR)
        with pytest.raises(SpecError, match="is in the past"):
            submit(daemon, "", deadline=deadline)
        assert submit(daemon, "a", deadline=deadline) == first


def test_a_key_belongs_to_its_user_and_its_job() -> None:
    records, job = JobRecords(), Submission(Spec(run="x"), "ana", "/", {})
    keys = SubmissionKeys(records)
    records.add(JobRecord(7, replace(job, idempotency_key="k"), 0.0))
    keys.add(7, records[7].submitted)
    assert keys.find(replace(job, idempotency_key="k")) == 7
    assert keys.find(replace(job, idempotency_key="k", spec=Spec(run="x", name="job-7"))) == 7
    assert keys.find(replace(job, idempotency_key="other")) is None and keys.find(job) is None
    assert keys.find(replace(job, idempotency_key="k", user="leo")) is None
