"""Which running jobs get host memory ready before they are parked."""

from rota.agent.attempt_files import AttemptStatus
from rota.agent.messages import decode_message, encode_message
from rota.live.parking_ahead import SETTLED_SECONDS, ParkingAhead
from rota.model.commands import Prepare
from tests.unit.core.helpers import Bench


def running(*jobs: int, attempt: int = 1) -> dict[int, AttemptStatus]:
    """Statuses of jobs that made their first steps at 10 s."""
    return {job: AttemptStatus(job, attempt, 1, "running", began_s=10.0) for job in jobs}


def due(ahead: ParkingAhead, bench: Bench, statuses: dict[int, AttemptStatus], now_s: float = 1000.0) -> list[int]:
    return [each.job for each in ahead.due(bench.state, statuses, now_s)]


def test_a_job_is_asked_once_and_only_while_another_waits() -> None:
    bench, ahead = Bench("1xV100"), ParkingAhead()
    bench.obey(bench.submit(can_park=True))
    assert due(ahead, bench, running(0)) == [], "no job waits"
    bench.obey(bench.submit(gpus=1, steps=1e6))
    assert due(ahead, bench, running(0), 10.0 + SETTLED_SECONDS - 1.0) == [], "it may still grow"
    assert due(ahead, bench, {}) == [], "its process is not known yet"
    assert due(ahead, bench, running(0, attempt=2)) == [], "this is not of its present attempt"
    assert [ahead.due(bench.state, running(0), 1000.0) for _ in range(2)] == [[Prepare(0, 1, (0,))], []]


def test_a_job_that_cannot_be_parked_is_not_asked() -> None:
    bench, ahead = Bench("1xV100"), ParkingAhead()
    bench.obey(bench.submit(can_park=False))
    bench.obey(bench.submit(steps=1e6))
    assert due(ahead, bench, running(0)) == []


def test_a_parked_job_waits_and_is_not_asked_again() -> None:
    bench, ahead = Bench("1xV100"), ParkingAhead()
    bench.obey(bench.submit(can_park=True, steps=1e6))
    bench.obey(bench.submit(can_park=True, steps=10.0))
    assert bench.state.jobs.attempts[0].parked and not bench.state.jobs.attempts[1].parked
    assert due(ahead, bench, running(0, 1)) == [1]


def test_the_message_reaches_the_agent_as_it_was_sent() -> None:
    assert decode_message(encode_message(Prepare(7, 2, ()))) == Prepare(7, 2, ())
