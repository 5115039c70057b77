"""Records of ended jobs leave memory. What clients see of these jobs is read from the journal, also after a restart."""

from pathlib import Path
from typing import Any

import pytest

from rota.errors import ConflictError, SpecError
from rota.live.daemon import Daemon
from rota.wire.job_filter import JobFilter
from rota.wire.job_request import JobRequest, Verb
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.live.scheduler.test_daemon import cancel_many, ended, running
from tests.waiting import until


def send(daemon: Daemon, run: str, key: str | None = None, **fields: object) -> int:
    spec = Spec.model_validate({"run": run, **fields})
    return daemon.submit(Submission(spec, "ana", "/", {"PATH": "/usr/bin:/bin"}, key)).id


def answers(daemon: Daemon, jobs: list[int]) -> list[Any]:
    """What clients get for these jobs and for lists."""
    everything = JobFilter(everything=True)
    return [
        daemon.jobs(everything),
        daemon.jobs(everything._replace(tasks=True, phase="finished")),
        daemon.page(everything._replace(limit=2)),
        *([daemon.job(str(job)), daemon.why(job), daemon.events(job), daemon.logs(job, 0, 100).text] for job in jobs),
    ]


def test_what_clients_see_of_ended_jobs_is_read_from_the_journal(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        kept = daemon.history.records
        kept.kept_most = 0
        bad = send(daemon, "echo said; exit 3", name="bad")
        once = send(daemon, "true", "once", name="good")
        array = send(daemon, "exit $ROTA_ARRAY_INDEX", "swept", name="swept", array="0-1")
        assert [ended(daemon, job).phase for job in (bad, once, array)] == ["failed", "finished", "failed"]
        until(lambda: not kept.open, "all records have left memory")
        before = answers(daemon, [bad, once])
        assert [row.id for row in before[0]] == [bad, once, array] and "said\n" in before[3][3]
        assert [row.id for row in before[1]] == [once, array + 1]
    with running(tmp_path) as daemon:
        kept = daemon.history.records
        kept.kept_most = 0
        assert not kept.open and answers(daemon, [bad, once]) == before
        assert send(daemon, "true", "once", name="good") == once
        assert send(daemon, "exit $ROTA_ARRAY_INDEX", "swept", name="swept", array="0-1") == array
        twice = [Submission(Spec(run="true", name="good"), "ana", "/", {"PATH": "/usr/bin:/bin"}, "once")] * 2
        assert [each.id for each in daemon.submit_many(twice)] == [once, once]
        with pytest.raises(ConflictError, match=f"another job was submitted with this key: {once} good"):
            send(daemon, "false", "once", name="good")
        with pytest.raises(SpecError, match=f"job {bad} bad has failed"):
            send(daemon, "true", after=["bad"])
        assert ended(daemon, send(daemon, "true", after=["good", {"job": bad, "when": "failed"}])).phase == "finished"
        assert not cancel_many(daemon, ["bad", "good", "swept"])[0].changed
        again = daemon.request(JobRequest(verb=Verb.REQUEUE, jobs=("bad", f"{array}_1")))
        assert [row.requested for row in again] == [bad, array + 2]
        assert [ended(daemon, row.job.id).phase for row in again] == ["failed", "failed"]
        assert daemon.job(f"{array}_1").id == again[1].job.id and daemon.job("bad").id == again[0].job.id
        assert [row.id for row in daemon.jobs(JobFilter(everything=True, limit=3))] == [bad, once, array]
