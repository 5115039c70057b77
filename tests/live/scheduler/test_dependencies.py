"""Jobs that start after other jobs, with real processes."""

import json
from pathlib import Path

import pytest

from rota.errors import SpecError
from rota.live.daemon import Daemon
from rota.server.bodies import read_submissions
from rota.server.identities import JobOwner
from rota.wire.job_request import JobRequest, Verb
from tests.live.scheduler.test_daemon import ended, running, submit


def bulk(daemon: Daemon, *specs: dict[str, object]) -> list[int]:
    body = {"jobs": [{"spec": spec} for spec in specs], "user": "ana", "workdir": "/", "env": {"PATH": "/usr/bin:/bin"}}
    sent = read_submissions(json.dumps(body).encode(), lambda user: JobOwner(user or "ana", None))
    return [row.id for row in daemon.submit_many(sent)]


def test_a_job_starts_after_others_have_ended_as_they_must(tmp_path: Path) -> None:
    marks = tmp_path / "order"
    with running(tmp_path) as daemon:
        held = submit(daemon, "true", gpus=4, name="blocker", after=[])
        gate = submit(daemon, ["sleep", "300"], name="gate")
        good = submit(daemon, f"echo good >> {marks}", name="good", after=[{"job": "gate", "when": "ended"}])
        later = submit(daemon, f"echo later >> {marks}", after=["good", held])
        rescue = submit(daemon, "true", after={"job": good, "when": "failed"}, name="rescue")
        assert ended(daemon, held).phase == "finished"
        (reason,) = daemon.why(later).reasons[:1]
        assert (reason.code, reason.facts["waits_for"]) == ("DEPENDENCY", [{"job": good, "when": "ok", "phase": "queued"}])
        assert daemon.job(str(later)).spec["after"][0] == {"job": good, "when": "ok"}
    with running(tmp_path) as daemon:
        assert daemon.job(str(later)).reason == "DEPENDENCY", "they wait after a restart too"
        daemon.cancel(gate)
        assert ended(daemon, later).phase == "finished" and marks.read_text() == "good\nlater\n"
        row = ended(daemon, rescue)
        assert (row.phase, row.started_at) == ("cancelled", None)
        assert row.last_change.endswith(f": it was to start when job {good} has failed, but that has finished")


def test_jobs_that_wait_for_a_failed_job_are_cancelled_with_the_reason(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        bad, second, third, other = bulk(
            daemon,
            {"run": "sleep 0.5; exit 3", "name": "bad"},
            {"run": "true", "after": {"index": 0}},
            {"run": "true", "name": "third", "after": [{"index": 1, "when": "ok"}]},
            {"run": "true", "after": [{"job": "bad", "when": "failed"}]},
        )
        assert ended(daemon, other).phase == "finished" and ended(daemon, bad).phase == "failed"
        assert ended(daemon, second).last_change.endswith(f": it was to start when job {bad} has finished, but that has failed")
        assert ended(daemon, third).last_change.endswith(f"job {second} has finished, but that was cancelled")
        again = daemon.request(JobRequest(verb=Verb.REQUEUE, jobs=("third",)))[0].job
        assert ended(daemon, again.id).phase == "finished", "what it waited for has ended"


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (["nothing"], "No job 'nothing'"),
        ([4711], "No job '4711'"),
        (["bad"], "has failed, so this job could never start"),
        ([{"job": "good", "when": "failed"}], "has finished, so this job could never start"),
        ([{"index": 0}], "is not the index of an earlier job"),
    ],
)
def test_what_can_never_happen_is_refused(tmp_path: Path, after: list[object], words: str) -> None:
    with running(tmp_path) as daemon:
        bad, good = submit(daemon, "exit 1", name="bad"), submit(daemon, "true", name="good")
        assert (ended(daemon, bad).phase, ended(daemon, good).phase) == ("failed", "finished")
        with pytest.raises(SpecError, match=words) as refused:
            submit(daemon, "true", after=after)
        assert refused.value.field == "after.0" and refused.value.hint
        with pytest.raises(SpecError, match=r"jobs\[1\]"):
            bulk(daemon, {"run": "true"}, {"run": "true", "after": [{"index": 1}]})
        fine = submit(daemon, "true", after=["good", {"job": "bad", "when": "failed"}, {"job": "bad", "when": "ended"}])
        assert ended(daemon, fine).phase == "finished", "what has happened already is fine"
        assert len(daemon.history.records) == 3
