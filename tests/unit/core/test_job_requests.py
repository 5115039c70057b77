"""Users hold, suspend, resume and requeue jobs."""

import json

from rota.core.explain import explain
from rota.core.scheduler import Scheduler
from rota.core.snapshot import make_codec
from rota.model.commands import Launch, Suspend, SuspendKind
from rota.model.events import HoldRequested, JobChanged, RequeueRequested, Started, Suspended, TimerFired
from rota.model.job import Phase
from rota.model.reasons import Reason
from rota.policies.fifo import Fifo
from tests.unit.core.helpers import Bench, of_type


def phase(bench: Bench, job: int) -> Phase:
    return Phase(int(bench.state.jobs.table.phase[bench.state.jobs.row[job]]))


def test_a_requeued_job_saves_and_starts_on_other_gpus_if_others_took_its_own() -> None:
    bench = Bench("2x(1xV100)")
    bench.obey(bench.submit())
    bench.obey(bench.submit(steps=200.0))
    waiting = bench.submit(steps=50.0)
    assert of_type(waiting, Suspend), "the shortest comes first"
    bench.obey(waiting)
    running = [job for job in range(3) if phase(bench, job) is Phase.RUNNING]
    first = running[0]
    (suspend,) = of_type(bench.tell(RequeueRequested(first, 5.0), at_s=5.0), Suspend)
    assert (suspend.job, suspend.kind) == (first, SuspendKind.CHECKPOINT)
    bench.obey([suspend], steps=7.0)
    row = bench.state.jobs.row[first]
    assert bench.state.jobs.table.steps_saved[row] == 7.0
    assert first in bench.state.jobs.row and bench.state.jobs.table.blocks[row] == 0


def test_a_requeued_job_starts_again_where_it_was_if_nothing_else_waits() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit())
    seen = bench.obey(bench.tell(RequeueRequested(0, 5.0), at_s=5.0), steps=9.0)
    (launch,) = of_type(seen, Launch)
    assert launch.attempt == 2 and phase(bench, 0) is Phase.RUNNING
    assert bench.state.jobs.table.suspensions[0] == 1


def test_a_parked_job_that_is_requeued_goes_to_storage() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(can_park=True, gpu_gib=1.0))
    bench.obey(bench.tell(HoldRequested(0, 2.0), at_s=2.0))
    assert phase(bench, 0) is Phase.PARKED
    (suspend,) = of_type(bench.tell(RequeueRequested(0, 3.0), at_s=3.0), Suspend)
    assert suspend.kind is SuspendKind.CHECKPOINT
    bench.obey([suspend], steps=4.0)
    assert phase(bench, 0) is Phase.CHECKPOINTED, "it is still held"
    assert of_type(bench.tell(HoldRequested(0, 5.0, held=False), at_s=5.0), Launch)


def test_a_job_that_waits_or_has_ended_is_not_changed_by_a_requeue() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(steps=10.0))
    bench.submit(steps=20.0)
    before = json.dumps(bench.core.snapshot(make_codec()))
    assert bench.tell(RequeueRequested(1, 0.0)) == [] and bench.tell(RequeueRequested(7, 0.0)) == []
    assert json.dumps(bench.core.snapshot(make_codec())) == before


def test_a_job_that_saves_nothing_keeps_running_where_its_work_is_to_be_kept() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(saves=False))
    for request in (HoldRequested(0, 1.0, lose_work=False), RequeueRequested(0, 2.0, lose_work=False)):
        assert of_type(bench.tell(request, at_s=request.at_s), Suspend) == []
    (suspend,) = of_type(bench.tell(HoldRequested(0, 3.0), at_s=3.0), Suspend)
    assert suspend.kind is SuspendKind.CHECKPOINT, "its user gives the work up"


def test_a_job_that_could_not_be_parked_after_all_is_released_and_keeps_its_work() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(saves=False, can_park=True, gpu_gib=1.0))
    (park,) = of_type(bench.tell(HoldRequested(0, 2.0, lose_work=False), at_s=2.0), Suspend)
    assert park.kind is SuspendKind.PARK
    later = bench.tell(Started(0, park.attempt, park.sequence, 3.0), at_s=3.0)
    assert of_type(later, Suspend) == [] and phase(bench, 0) is Phase.RUNNING
    assert bench.state.jobs.held == set()
    assert of_type(bench.tell(TimerFired(9.0), at_s=9.0), Suspend) == []


def test_holds_and_requeues_survive_a_snapshot() -> None:
    words = make_codec()
    bench = Bench("1xV100")
    bench.obey(bench.submit(saves=False))
    bench.submit()
    bench.tell(HoldRequested(1, 1.0), at_s=1.0)
    bench.tell(RequeueRequested(0, 1.0, lose_work=False), at_s=1.0)
    twin = Scheduler.of(bench.state.nodes.cluster, bench.core.setup)
    twin.restore(json.loads(json.dumps(bench.core.snapshot(words))), words)
    assert twin.state.jobs.held == {1} and twin.state.jobs.table.keeps_work[0]
    assert twin.state.jobs.table.blocks[0] == bench.state.jobs.table.blocks[0] != 0
    assert explain(twin.state, 1)[0].code is Reason.HELD


def test_a_late_answer_does_not_start_a_requeued_job_twice() -> None:
    bench = Bench("1xV100")
    (launch,) = of_type(bench.submit(), Launch)
    bench.tell(RequeueRequested(0, 1.0), at_s=1.0)
    (suspend,) = of_type(bench.tell(Started(0, launch.attempt, launch.sequence, 2.0), at_s=2.0), Suspend)
    answer = Suspended(0, suspend.attempt, suspend.sequence, 3.0, SuspendKind.CHECKPOINT, 1.0)
    (again,) = of_type(bench.tell(answer, at_s=3.0), Launch)
    assert again.attempt == 2 and of_type(bench.tell(answer, at_s=4.0), Launch) == []


def test_changed_values_count_from_now_on_and_survive_a_snapshot() -> None:
    bench = Bench("1xV100", policy=Fifo())
    bench.obey(bench.submit(max_run_seconds=100.0))
    bench.submit(weight=1.0)
    (suspend,) = of_type(bench.tell(JobChanged(1, 5.0, priority=3, weight=4.0, name="urgent"), at_s=5.0), Suspend)
    assert suspend.job == 0, "the other job comes first now"
    table, words = bench.state.jobs.table, make_codec()
    assert (table.weight[1], bench.state.jobs.specs[1].name) == (4.0, "urgent")
    bench.tell(JobChanged(1, 6.0, deadline_s=1000.0), at_s=6.0)
    assert table.deadline_s[1] == 1000.0
    twin = Scheduler.of(bench.state.nodes.cluster, bench.core.setup)
    twin.restore(json.loads(json.dumps(bench.core.snapshot(words))), words)
    assert twin.state.jobs.specs[1] == bench.state.jobs.specs[1] and twin.state.jobs.table.priority[1] == 3
    assert bench.tell(JobChanged(9, 7.0, priority=1), at_s=7.0) == [], "it has ended"


def test_a_raised_limit_reprieves_a_job_that_is_being_stopped() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(max_run_seconds=10.0))
    (suspend,) = of_type(bench.tell(TimerFired(10.0), at_s=10.0), Suspend)
    bench.tell(JobChanged(0, 10.5, max_run_seconds=50.0), at_s=10.5)
    seen = bench.obey([suspend], steps=9.0)
    assert of_type(seen, Launch) and phase(bench, 0) is Phase.RUNNING
    assert of_type(bench.tell(JobChanged(0, 11.0, max_run_seconds=10.0), at_s=11.0), Suspend), "and a lowered one stops it"
