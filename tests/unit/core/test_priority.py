"""Priorities in the plan: what a job of a higher priority gets, and when."""

import pytest

from rota.beliefs.move_costs import MoveCosts
from rota.core.explain import explain
from rota.errors import OptionError
from rota.live.requests import check_priority
from rota.model.commands import Launch, Suspend
from rota.model.events import TimerFired
from rota.model.job import JobSpec
from rota.model.reasons import Reason
from rota.policies.fifo import Fifo
from rota.policies.srsf import Srsf
from tests.unit.core.helpers import Bench, of_type


def test_a_job_that_has_just_started_makes_a_step_before_it_gives_way() -> None:
    bench = Bench("1xV100", policy=Fifo(), costs=MoveCosts(5.0, 2.0, 1.0))
    bench.obey(bench.submit())
    assert of_type(bench.submit(priority=1, at_s=0.5), Suspend) == []
    assert bench.state.cycle.timer_s == pytest.approx(1.0), "it is looked at when the step is made"
    commands = bench.tell(TimerFired(bench.state.cycle.timer_s), at_s=bench.state.cycle.timer_s)
    assert [each.job for each in of_type(commands, Suspend)] == [0]


@pytest.mark.parametrize("backfill", [True, False])
def test_a_gang_that_cannot_start_takes_nothing(backfill: bool) -> None:
    bench = Bench("3xV100", policy=Srsf() if backfill else Fifo())
    bench.obey(bench.submit(saves=False))
    bench.obey(bench.submit())
    commands = bench.submit(gpus=3, priority=7)
    assert of_type(commands, Suspend) == [], "the first job keeps its GPU, so three are never free"
    launched = of_type(bench.submit(priority=-5), Launch)
    assert [each.job for each in launched] == ([3] if backfill else []), "fifo lets no job overtake unless it backfills"


def test_running_jobs_go_on_behind_a_gang_with_a_reservation() -> None:
    bench = Bench("4xV100", policy=Fifo(backfill=True))
    bench.obey(bench.submit(gpus=2, priority=9))
    bench.obey(bench.submit(steps=1e6))
    assert of_type(bench.submit(gpus=3, priority=7), Suspend) == [], "it can only start when the first job has ended"
    launched = of_type(bench.submit(steps=50.0, priority=-1), Launch)
    assert [each.job for each in launched] == [3], "a short job does not delay it"


def test_the_reason_names_jobs_of_a_higher_priority() -> None:
    bench = Bench("2xV100", policy=Fifo(backfill=False))
    bench.obey(bench.submit())
    bench.submit(gpus=2)
    bench.submit(gpus=2, priority=3)
    (outranked,) = [each for each in explain(bench.state, 1) if each.code is Reason.OUTRANKED]
    assert outranked.facts["ahead"] == [2, 0] and "priority, then" in outranked.sentence


def test_a_priority_has_limits() -> None:
    for wrong in (1001, -1001, 0.5, True):
        with pytest.raises(OptionError, match="from -1000 to 1000"):
            JobSpec(priority=wrong)  # type: ignore[arg-type]
    check_priority(1000, operator=True)
    check_priority(-1, operator=False)
    with pytest.raises(OptionError, match="only an operator"):
        check_priority(1, operator=False)
