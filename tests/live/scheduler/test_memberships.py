"""Members of tenants and limits on unfinished jobs, in a daemon with real processes: every way to submit is checked."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from rota.errors import ConflictError, ForbiddenError
from rota.live.daemon import Daemon
from rota.model.tenants import Tenants
from rota.wire.actor import Actor, Role
from rota.wire.job_filter import JobFilter
from rota.wire.job_request import JobRequest, Verb
from rota.wire.rows import JobRow
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.live.scheduler.test_daemon import ended, running

OPS = Actor("ops", Role.OPERATOR, may_name_others=True)
CLOSED = Tenants({"vision": 1.0, "speech": 1.0}, members={"vision": ("ana", "leo"), "speech": ("leo",)}, unknown="refuse")
LIMITED = Tenants({"vision": 1.0}, max_jobs={"vision": 6}, user_max_jobs={"vision": 4})
WAITS = "sleep 1000"


def sent(user: str, run: str = WAITS, key: str | None = None, **fields: object) -> Submission:
    return Submission(Spec.model_validate({"run": run, **fields}), user, "/", {"PATH": "/usr/bin:/bin"}, key)


def submit(daemon: Daemon, user: str, run: str = WAITS, key: str | None = None, **fields: object) -> JobRow:
    return daemon.submit(sent(user, run, key, **fields), Actor(user, Role.USER))


@contextmanager
def limited(home: Path, tenants: Tenants) -> Iterator[Daemon]:
    """A daemon with these tenants, whose jobs are cancelled at the end."""
    with running(home, tenants=tenants) as daemon:
        yield daemon
        cancel(daemon, *unfinished(daemon))


def requeue(daemon: Daemon, by: Actor | None, *jobs: int) -> list[int]:
    return [row.job.id for row in daemon.request(JobRequest(verb=Verb.REQUEUE, jobs=tuple(map(str, jobs))), by)]


def unfinished(daemon: Daemon) -> list[int]:
    return [row.id for row in daemon.jobs(JobFilter(tasks=True))]


def cancel(daemon: Daemon, *jobs: int) -> None:
    if not jobs:
        return
    daemon.request(JobRequest(verb=Verb.CANCEL, jobs=tuple(map(str, jobs))))
    for job in jobs:
        ended(daemon, job)


def test_only_members_and_operators_submit_into_a_tenant(tmp_path: Path) -> None:
    with limited(tmp_path, CLOSED) as daemon:
        mine = ended(daemon, submit(daemon, "ana", "true").id)
        assert mine.tenant == "vision", "ana is a member of no other"
        assert submit(daemon, "ana", array="0-1").tenant == "vision", "the tasks of an array too"
        with pytest.raises(ForbiddenError, match="ana is not a member of the tenant speech; they may submit into vision"):
            submit(daemon, "ana", tenant="speech")
        with pytest.raises(ForbiddenError, match="not a member"):
            submit(daemon, "ana", tenant="speech", array="0-9")
        with pytest.raises(ForbiddenError, match=r"jobs\[1\].*ana is not a member"):
            daemon.submit_many([sent("ana"), sent("ana", tenant="speech")], Actor("ana", Role.USER))
        assert len(unfinished(daemon)) == 2, "of several jobs none was taken"
        theirs = daemon.submit(sent("ana", "true", tenant="speech"), OPS).id
        ended(daemon, theirs)
        with pytest.raises(ForbiddenError, match="not a member of the tenant speech"):
            requeue(daemon, Actor("ana", Role.USER), theirs)
        again = requeue(daemon, OPS, theirs)
        assert again != [theirs] and daemon.job(str(again[0])).tenant == "speech"


def test_another_file_counts_for_new_jobs_alone(tmp_path: Path) -> None:
    with running(tmp_path, tenants=CLOSED) as daemon:
        first = submit(daemon, "ana", key="one")
        waits = submit(daemon, "ana", gpus=4)
    moved = Tenants({"vision": 1.0, "speech": 1.0}, members={"vision": ("leo",), "speech": ("ana",)}, unknown="refuse")
    with limited(tmp_path, moved) as daemon:
        assert [row.tenant for row in daemon.jobs()] == ["vision", "vision"], "jobs that exist stay"
        assert daemon.job(str(waits.id)).phase == "queued"
        assert submit(daemon, "ana", key="one").id == first.id, "a repeated submission is the job that it was"
        with pytest.raises(ForbiddenError, match="not a member of the tenant vision"):
            submit(daemon, "ana", tenant="vision")
        assert submit(daemon, "ana").tenant == "speech"
        rows = {row.tenant: row for row in daemon.tenants()}
        assert rows["vision"].members == ["leo"] and rows["speech"].max_jobs is None


def test_jobs_beyond_a_limit_are_refused_in_every_way_to_submit(tmp_path: Path) -> None:
    with limited(tmp_path, LIMITED) as daemon:
        done = ended(daemon, submit(daemon, "ana", "true", tenant="vision").id).id
        array = submit(daemon, "ana", tenant="vision", array="0-2").id
        last = submit(daemon, "ana", tenant="vision/labs", key="last").id
        with pytest.raises(ConflictError, match="ana has 4 unfinished jobs there, and at most 4 are allowed"):
            submit(daemon, "ana", tenant="vision")
        assert submit(daemon, "ana", tenant="vision/labs", key="last").id == last, "a repeated one is not a new job"
        with pytest.raises(ConflictError, match="ana has 4 unfinished jobs there"):
            requeue(daemon, None, done)
        with pytest.raises(ConflictError, match="its users have 4 unfinished jobs there, this adds 3, and at most 6"):
            submit(daemon, "leo", tenant="vision", array="0-2")
        with pytest.raises(ConflictError, match=r"jobs\[2\].*its users have 4 unfinished jobs there, this adds 3"):
            daemon.submit_many([sent("leo", tenant="vision")] * 3, None)
        assert len(unfinished(daemon)) == 4, "of several jobs none was taken"
        assert submit(daemon, "ana").tenant is None, "another tenant has no limit"
        cancel(daemon, array, last)
        assert requeue(daemon, None, done) and daemon.submit_many([sent("leo", tenant="vision")] * 4, None)


def test_a_limit_holds_however_many_submit_at_once(tmp_path: Path) -> None:
    def one(number: int) -> bool:
        try:
            if number % 3:
                submit(daemon, "ana", tenant="vision")
            else:
                daemon.submit_many([sent("leo", tenant="vision")] * 2, None)
        except ConflictError:
            return False
        return True

    with limited(tmp_path, LIMITED) as daemon, ThreadPoolExecutor(12) as pool:
        assert not all(pool.map(one, range(24)))
        users = [row.user for row in daemon.jobs()]
        assert len(users) in (5, 6) and users.count("ana") <= 4 and users.count("leo") in (2, 4)


def test_a_restart_counts_what_is_unfinished(tmp_path: Path) -> None:
    with running(tmp_path, tenants=LIMITED) as daemon:
        first, *_ = [submit(daemon, "ana", tenant="vision", gpus=4).id for _ in range(4)]
    with running(tmp_path, tenants=LIMITED) as daemon:
        with pytest.raises(ConflictError, match="ana has 4 unfinished jobs"):
            submit(daemon, "ana", tenant="vision")
        cancel(daemon, first)
        submit(daemon, "ana", tenant="vision")
    with limited(tmp_path, Tenants({"vision": 1.0}, user_max_jobs={"vision": 2})) as daemon:
        with pytest.raises(ConflictError, match="ana has 4 unfinished jobs there, and at most 2 are allowed"):
            submit(daemon, "ana", tenant="vision")
        assert len(unfinished(daemon)) == 4, "jobs that exist stay"


def test_two_submissions_with_one_key_count_once(tmp_path: Path) -> None:
    with limited(tmp_path, LIMITED) as daemon:
        for _ in range(3):
            submit(daemon, "ana", tenant="vision")
        ready, found = threading.Barrier(4), list[int]()

        def send() -> None:
            ready.wait()
            found.append(submit(daemon, "ana", key="same", tenant="vision").id)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(found) == 4 and len(set(found)) == 1
        taken = daemon.submit_many([sent("leo", key="k", tenant="vision")] * 3, None)
        assert len({each.id for each in taken}) == 1
