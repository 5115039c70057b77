"""Usage: whatever happens to jobs, the GPU-seconds by user, tenant, type and day add up to those of all attempts."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.live.read_past import BY, usage_report
from rota.live.usage import total
from rota.model.events import CancelRequested, HoldRequested, NodeLost, NodeReported, Outcome
from tests.unit.live.test_job_events import DAY, Home

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "answer", "answer", "finish", "fail", "lose", "cancel", "hold", "release", "node"]),
        st.integers(0, 9),
        st.floats(0.0, 30_000.0),
    ),
    min_size=5,
    max_size=40,
)


def act(home: Home, what: str, number: int, at_s: float) -> None:
    jobs, running = sorted(home.state.jobs.row), sorted(home.state.jobs.attempts)
    if what == "submit":
        tenant = (None, "vision", "speech/asr")[number % 3]
        home.submit(at_s, gpus=1 + number % 3, steps=10.0 ** (number % 5), user=("ana", "leo")[number % 2], tenant=tenant)
    elif what == "answer":
        home.answer(at_s)
    elif what in ("finish", "fail", "lose") and running:
        outcome = {"finish": Outcome.FINISHED, "fail": Outcome.FAILED, "lose": Outcome.LOST}[what]
        home.end(running[number % len(running)], at_s, outcome)
    elif what == "cancel" and jobs:
        home.turn(at_s, CancelRequested(jobs[number % len(jobs)], at_s, by="leo"))
    elif what in ("hold", "release") and jobs:
        home.turn(at_s, HoldRequested(jobs[number % len(jobs)], at_s, held=what == "hold"))
    elif what == "node":
        node = number % 2
        boot = int(home.state.nodes.node_boot[node])
        home.turn(at_s, NodeLost(node, boot, at_s))
        home.turn(at_s, NodeReported(node, boot + 1, at_s))


@settings(max_examples=40)
@given(acts=ACTS)
def test_the_sums_of_a_report_are_those_of_all_attempts(acts: list[tuple[str, int, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, at_s = Home(Path(folder) / "j.sqlite", "2x(2xV100) + 1xK80"), 0.0
        for what, number, seconds in acts:
            at_s += seconds
            act(home, what, number, at_s)
        records = home.history.records.values()
        ended = [event for each in records for event in home.events(each.id) if event.ends_attempt]
        rows = list(home.journal.usage())
        booked = total(row.amounts for row in rows)
        alive = sum(each.stay.gpu_seconds for each in records if each.stay is not None)
        assert booked.attempts == len(ended)
        assert booked.gpu_seconds == pytest.approx(sum(event.gpu_seconds for event in ended) + alive)
        assert booked.gpu_seconds == pytest.approx(sum(each.gpu_seconds for each in records))
        assert booked.work_seconds <= booked.gpu_seconds + 1e-6, "no GPU is faster than the best of a job"
        reports = [usage_report(home.journal, by, int(at_s // DAY) + 1, at_s) for by in BY]
        for report in reports:
            assert sum(each.gpu_seconds for each in report.groups) == pytest.approx(report.total.gpu_seconds)
            assert report.total.gpu_seconds == pytest.approx(reports[0].total.gpu_seconds)
            assert report.total.gpu_seconds <= 5 * at_s + 1e-6, "there are five GPUs"
            assert report.total.submitted == len(records)
            assert report.total.finished + report.total.failed + report.total.cancelled == sum(each.ended for each in records)
        home.journal.close()
