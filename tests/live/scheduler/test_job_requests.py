"""Jobs are held, suspended, resumed and queued again, with real processes."""

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rota.errors import ConflictError, ForbiddenError, InputError, SpecError, UnknownNameError
from rota.live.daemon import Daemon
from rota.server.bodies import read_change
from rota.wire.actor import Actor, Role
from rota.wire.job_filter import JobFilter
from rota.wire.job_request import JobPattern, JobRequest, Verb
from rota.wire.rows import JobRow, RequestRow
from tests.live.scheduler.test_daemon import PATIENCE, ended, running, submit

SAVES = "trap 'exit 75' TERM; touch {mark}; while :; do sleep 0.05; done"


def ask(daemon: Daemon, verb: Verb, *jobs: int | str, lose_work: bool = False) -> list[RequestRow]:
    return daemon.request(JobRequest(verb=verb, jobs=tuple(map(str, jobs)), lose_work=lose_work))


def until(daemon: Daemon, job: int, holds: Callable[[JobRow], bool]) -> JobRow:
    end = time.monotonic() + PATIENCE
    while not holds(row := daemon.job(str(job))):
        assert time.monotonic() < end, row
        daemon.wait_for_change(0, 0.05)
        time.sleep(0.02)
    return row


def at_work(daemon: Daemon, tmp_path: Path, **spec: object) -> int:
    """Submit a job that saves when it is asked to stop, and wait until it is ready for that."""
    mark = tmp_path / f"mark-{time.monotonic_ns()}"
    fields = {"checkpoint": {"saves": True}, "park": False} | spec
    job = submit(daemon, SAVES.format(mark=mark), **fields)
    end = time.monotonic() + PATIENCE
    while not mark.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    return job


def test_a_held_job_does_not_start_until_it_is_released(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        blocker = submit(daemon, ["sleep", "300"], gpus=4)
        until(daemon, blocker, lambda row: row.phase == "running")
        job = submit(daemon, "true", name="held")
        (row,) = ask(daemon, Verb.HOLD, "held")
        assert (row.was, row.changed, row.job.reason) == ("queued", True, "HELD")
        assert not ask(daemon, Verb.HOLD, job)[0].changed, "again changes nothing"
        assert daemon.why(job).reasons[0].code == "HELD" and "rota release" in daemon.why(job).reasons[0].sentence
        daemon.cancel(blocker)
        ended(daemon, blocker)
        later = submit(daemon, "true")
        assert ended(daemon, later).phase == "finished" and daemon.job(str(job)).phase == "queued"
    with running(tmp_path) as daemon:
        assert daemon.job(str(job)).reason == "HELD", "a restart releases nothing"
        assert daemon.job(str(job)).last_change.startswith("held at ")
        assert ask(daemon, Verb.RELEASE, job)[0].changed
        assert ended(daemon, job).phase == "finished"


def test_a_suspended_job_saves_and_stays_away_until_it_is_resumed(tmp_path: Path) -> None:
    with running(tmp_path, "1xV100") as daemon:
        job = at_work(daemon, tmp_path)
        with pytest.raises(ConflictError, match="only waiting jobs"):
            ask(daemon, Verb.HOLD, job)
        assert ask(daemon, Verb.SUSPEND, job)[0].was == "running"
        row = until(daemon, job, lambda row: row.phase == "checkpointed")
        assert (row.reason, row.suspensions) == ("HELD", 1)
        assert ended(daemon, submit(daemon, "true")).phase == "finished", "its GPU is free"
        assert daemon.job(str(job)).phase == "checkpointed"
        ask(daemon, Verb.RESUME, job)
        until(daemon, job, lambda row: row.phase == "running")
        daemon.cancel(job)
        ended(daemon, job)


def test_a_job_that_would_lose_its_work_is_refused_and_no_other_is_touched(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        careful = at_work(daemon, tmp_path)
        careless = submit(daemon, ["sleep", "300"], park=False)
        until(daemon, careless, lambda row: row.phase == "running")
        for verb in (Verb.SUSPEND, Verb.REQUEUE):
            with pytest.raises(ConflictError, match="of work would be lost") as refused:
                ask(daemon, verb, careful, careless)
            assert "--lose-work" in refused.value.hint
        assert {row.phase for row in daemon.jobs()} == {"running"}
        ask(daemon, Verb.SUSPEND, careful, careless, lose_work=True)
        for job in (careful, careless):
            until(daemon, job, lambda row: row.phase in ("checkpointed", "queued") and row.reason == "HELD")
            daemon.cancel(job)


def test_a_running_job_is_queued_again_and_an_ended_one_is_submitted_again(tmp_path: Path) -> None:
    with running(tmp_path, "1xV100") as daemon:
        job = at_work(daemon, tmp_path, name="train")
        waiting = submit(daemon, "true")
        row = ask(daemon, Verb.REQUEUE, job, waiting)
        assert [(each.was, each.changed) for each in row] == [("running", True), ("queued", False)]
        until(daemon, job, lambda row: row.suspensions == 1)
        daemon.cancel(job)
        assert ended(daemon, job).phase == "cancelled" and ended(daemon, waiting).phase == "finished"
        again = ask(daemon, Verb.REQUEUE, job, waiting)
        assert [(each.requested, each.was) for each in again] == [(job, "cancelled"), (waiting, "finished")]
        assert [each.job.id for each in again] == [waiting + 1, waiting + 2]
        assert (again[0].job.name, again[0].job.user) == ("train", "ana")
        daemon.cancel(again[0].job.id)
        assert ended(daemon, again[1].job.id).phase == "finished"


def test_a_pattern_selects_the_jobs_that_a_request_can_change(tmp_path: Path) -> None:
    with running(tmp_path, "1xV100") as daemon:
        first = submit(daemon, ["sleep", "300"], name="sweep-0", tenant="vision/a")
        until(daemon, first, lambda row: row.phase == "running")
        second = submit(daemon, "true", name="sweep-1", tenant="vision")
        third = submit(daemon, "true", name="other", tenant="visionary")

        def matching(verb: Verb, dry_run: bool = False, **pattern: str) -> list[int]:
            wanted = JobRequest(verb=verb, matching=JobPattern(**pattern), dry_run=dry_run)
            return [each.requested for each in daemon.request(wanted)]

        assert matching(Verb.HOLD, dry_run=True, user="ana") == [second, third]
        assert daemon.job(str(second)).reason != "HELD", "a dry run changes nothing"
        assert matching(Verb.HOLD, name="sweep-?") == [second], "the running job is not held"
        assert matching(Verb.RELEASE, user="leo") == [] and matching(Verb.RELEASE, user="ana") == [second]
        assert matching(Verb.CANCEL, tenant="vision", phase="queued") == [second]
        assert matching(Verb.CANCEL, dry_run=True) == [first, third]
        assert matching(Verb.CANCEL, name="*") == [first, third]
        assert [ended(daemon, job).phase for job in (first, second, third)] == ["cancelled"] * 3
        with pytest.raises(UnknownNameError):
            ask(daemon, Verb.HOLD, "nothing")
        with pytest.raises(ConflictError, match="has ended"):
            ask(daemon, Verb.HOLD, first)


def test_a_job_that_reaches_its_limit_saves_fails_and_can_continue_with_another_limit(tmp_path: Path) -> None:
    with running(tmp_path, "1xV100") as daemon:
        job = at_work(daemon, tmp_path, max_run_time=4.0, name="train")
        other = submit(daemon, "true")
    with running(tmp_path, "1xV100") as daemon:  # the limit is known after a restart
        row = ended(daemon, job)
        assert (row.phase, row.exit_code) == ("failed", 75), "it saved and left when it was asked to"
        assert row.last_change.endswith(": reached its max_run_time of 4s"), row.last_change
        assert row.problem == "reached its max_run_time of 4s", "rota jobs shows it"
        assert daemon.why(job).last_change == row.last_change
        assert ended(daemon, other).phase == "finished"
        request = JobRequest(verb=Verb.REQUEUE, jobs=("train",), max_run_time=86_400.0)
        (again,) = daemon.request(request)
        assert (again.was, daemon.job(str(again.job.id)).spec["max_run_time"]) == ("failed", 86_400.0)
        daemon.cancel(again.job.id)
        ended(daemon, again.job.id)


def change(daemon: Daemon, job: int, **values: object) -> JobRow:
    return daemon.change_job(job, *read_change(json.dumps(values).encode()))


def test_values_of_a_job_change_and_stay_changed(tmp_path: Path) -> None:
    with running(tmp_path, "1xV100") as daemon:
        first = at_work(daemon, tmp_path, name="first")
        low, high = submit(daemon, "true", name="low", max_run_time=50.0), submit(daemon, ["sleep", "300"], name="high")
        row = change(daemon, low, name="renamed", priority=-5, weight=2.5, max_run_time=None, deadline="2090-01-01T09:00")
        assert (row.name, row.priority, row.weight) == ("renamed", -5, 2.5)
        assert row.spec["max_run_time"] is None and row.spec["deadline"].startswith("2090-01-01")
        for wrong, error in (
            ({"deadline": "2001-01-01T09:00"}, SpecError),
            ({"priority": 5000}, SpecError),
            ({"name": ""}, SpecError),
            ({"weight": None}, InputError),
            ({}, InputError),
            ({"gpus": 4}, InputError),
        ):
            with pytest.raises(error):
                change(daemon, low, **wrong)
        change(daemon, high, priority=7)
        until(daemon, high, lambda row: row.phase == "running")
        assert daemon.job(str(first)).suspensions == 1, "the job with the higher priority has taken its GPU"
        daemon.cancel(first)
        with pytest.raises(ConflictError, match="has ended"):
            change(daemon, first, priority=1)
    with running(tmp_path, "1xV100") as daemon:
        row = daemon.job("renamed")
        assert (row.id, row.priority, row.weight, row.last_change.partition(": ")[2][:12]) == (low, -5, 2.5, "name renamed")
        table = daemon.scheduler.state.jobs.table
        assert table.priority[daemon.scheduler.state.jobs.row[low]] == -5
        daemon.cancel(high)
        assert ended(daemon, low).phase == "finished"


def test_a_limit_may_be_raised_and_lowered_while_the_job_runs(tmp_path: Path) -> None:
    with running(tmp_path, "1xV100") as daemon:
        job = at_work(daemon, tmp_path, max_run_time=3600.0)
        with pytest.raises(SpecError, match="is over: the job has run for"):
            change(daemon, job, max_run_time=0.001)
        assert daemon.job(str(job)).phase == "running"
        for margin in (3.0, 10.0, 30.0):  # on a busy machine it may be over when the change arrives
            with contextlib.suppress(SpecError):
                change(daemon, job, max_run_time=time.time() - _started_s(daemon, job) + margin)
                break
        row = ended(daemon, job)
        assert row.phase == "failed" and "reached its max_run_time of" in row.last_change


def _started_s(daemon: Daemon, job: int) -> float:
    started = daemon.history.records[job].started_s
    assert started is not None
    return started


def test_a_job_that_ran_as_the_schedulers_user_is_not_submitted_again_by_a_unix_user(tmp_path: Path) -> None:
    """The scheduler served one user then, and serves all Unix users now: else a job of theirs from then would run as root."""
    ana = Actor("ana", Role.USER, 4001, may_run_as_scheduler=False)
    olga = Actor("olga", Role.OPERATOR, None, may_name_others=True, may_run_as_scheduler=False)  # has a token, no Unix account
    wanted = JobRequest(verb=Verb.REQUEUE, jobs=("1",))
    with running(tmp_path) as daemon:
        job = submit(daemon, "true")
        ended(daemon, job)
        for actor in (ana, olga):
            with pytest.raises(ForbiddenError, match="runs as the scheduler's own user"):
                daemon.request(wanted, actor)
            with pytest.raises(ForbiddenError):
                daemon.request(replace(wanted, dry_run=True), actor)
        assert len(daemon.jobs(JobFilter(everything=True))) == 1
        assert (
            ended(daemon, daemon.request(wanted, replace(ana, uid=None, may_run_as_scheduler=True))[0].job.id).phase == "finished"
        )


def test_a_user_does_not_keep_a_priority_that_an_operator_gave_to_an_earlier_job(tmp_path: Path) -> None:
    ana, olga = Actor("ana", Role.USER), Actor("olga", Role.OPERATOR)
    with running(tmp_path) as daemon:
        job = submit(daemon, "true", priority=100)
        ended(daemon, job)
        wanted = JobRequest(verb=Verb.REQUEUE, jobs=(str(job),))
        assert [daemon.request(wanted, actor)[0].job.priority for actor in (ana, olga)] == [0, 100]
