"""Why a job waits under policies that share time."""

from rota.core.decision_timing import AtEvents
from rota.core.explain import explain
from rota.model.events import TimerFired
from rota.model.reasons import Reason
from rota.policies.max_min_fairness import MaxMinFairness
from rota.policies.min_cost import MinCost
from tests.unit.core.helpers import Bench


def test_having_had_more_than_its_share_is_share_used() -> None:
    bench = Bench("1xV100", MaxMinFairness(), decide=AtEvents(slice_seconds=100.0))
    bench.obey(bench.submit(steps=1e6))
    bench.obey(bench.submit(steps=1e6))
    bench.obey(bench.tell(TimerFired(100.0), at_s=100.0))
    bench.obey(bench.tell(TimerFired(110.0), at_s=110.0))
    waiting = next(job for job in (0, 1) if not bench.state.jobs.table.gpus_in_use[bench.state.jobs.row[job]])
    assert float(bench.core.view().jobs.run_seconds[waiting]) >= 55
    first = explain(bench.state, waiting)[0]
    assert first.code is Reason.SHARE_USED
    assert first.sentence == "Its share is used up: target 50% of the time, received 91%."
    assert explain(bench.state, waiting)[1].code is Reason.NO_FREE_GPUS, "and nothing is free"


def test_a_deadline_that_cannot_be_met_is_said() -> None:
    bench = Bench("1xV100", MinCost(slo=True))
    bench.obey(bench.submit(steps=1000.0, deadline_seconds=1100.0))
    bench.obey(bench.submit(steps=1000.0, deadline_seconds=500.0))
    notes = {job: [each.sentence for each in explain(bench.state, job) if each.code is Reason.POLICY_NOTE] for job in (0, 1)}
    waiting = next(job for job in (0, 1) if not bench.state.jobs.table.gpus_in_use[bench.state.jobs.row[job]])
    assert bench.state.cycle.answer.allocation.notes == {
        1: "Its deadline cannot be met: it needs 2 steps/s, and its fastest option gives 1."
    }
    assert waiting == 1 and notes[1] == ["Its deadline cannot be met: it needs 2 steps/s, and its fastest option gives 1."]
