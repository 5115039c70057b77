"""Jobs that report more steps than there are, and jobs of an earlier version, under a real scheduler."""

import json
import math
from concurrent.futures import Future
from pathlib import Path

import pytest

from rota.live.queued_requests import NewJob
from rota.live.requests import to_job_spec
from rota.model.events import Progressed
from rota.server.answers import JsonAnswer
from rota.wire.job_filter import JobFilter
from rota.wire.submission import decode_submission
from tests.live.scheduler.test_daemon import ended, running, submit
from tests.unit.wire.test_submission import IN_A_HOME

LIAR = "for i in 1 2 3; do echo step 1{}; sleep 0.3; done"


@pytest.mark.parametrize(("steps", "most"), [(12, 12.0), (None, 1e15)])
def test_a_job_that_lies_about_its_steps(tmp_path: Path, steps: int | None, most: float) -> None:
    """As it runs, and as it is told when it has ended; the scheduler learns no rate that could not be."""
    with running(tmp_path, "1xV100") as daemon:
        number = submit(daemon, LIAR.format("0" * 300), steps=steps, progress=r"step (\d+)")
        row = ended(daemon, number)
        assert row.phase == "finished" and row.steps_done is not None and row.steps_done <= most
        assert "it reported 1e+300 steps" in row.steps_problem
        assert daemon.jobs(JobFilter(everything=True))[0].steps_problem == row.steps_problem
        events = [event for entry in daemon.journal.entries() for event in entry.events if isinstance(event, Progressed)]
        assert events and all(event.steps_done.max() <= most for event in events)
        assert math.isfinite(daemon.scheduler.state.now_s)
    with running(tmp_path, "1xV100") as daemon:
        assert "it reported 1e+300 steps" in daemon.job(str(number)).steps_problem, "also after a restart"


def test_a_job_of_an_earlier_version_can_be_shown(tmp_path: Path) -> None:
    """Earlier versions took deadlines that no date can say, and any number of steps."""
    with running(tmp_path, "1xV100") as daemon:
        submit(daemon, ["sleep", "300"])
        limits = {"deadline_at": 253402387139.0, "steps": int(1e308), "grace_seconds": 1e308, "name": "old"}
        old = decode_submission(json.loads(IN_A_HOME) | limits | {"batch_size": 2**62, "batch_sizes": [2**62], "progress": None})
        done: Future[int] = Future()
        daemon._items.put(NewJob(old, to_job_spec(old, daemon.clock()), "exit", "it saves", done))
        number = done.result(60)
        row = daemon.job(str(number))
        assert row.spec is not None and row.spec["deadline"] == "9999-01-01T00:00:00Z"
        for found in (row, daemon.jobs(), daemon.why(number), daemon.status()):
            assert JsonAnswer(found).body
        daemon.cancel(number)
        daemon.cancel(1)
        ended(daemon, 1)
    with running(tmp_path, "1xV100") as daemon:
        assert daemon.job("old").steps_total == 1e308
