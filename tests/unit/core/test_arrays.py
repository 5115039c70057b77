"""Limits of arrays in the core: how many tasks run at once, what the others wait for, and that nothing else waits."""

from rota.core.explain import explain, reasons
from rota.core.snapshot import make_codec
from rota.model.array_limit import ArrayLimit
from rota.model.cluster import Node
from rota.model.commands import Launch, Resume, Suspend, SuspendKind
from rota.model.events import CancelRequested, Exited, Outcome, Started, Suspended
from rota.model.reasons import Reason
from rota.policies.fifo import Fifo
from rota.policies.max_min_fairness import MaxMinFairness
from rota.policies.srsf import Srsf
from tests.unit.core.helpers import Bench

LIMIT = ArrayLimit(412, 2)


def submit(made: Bench, array: ArrayLimit | None = LIMIT, **spec: object) -> int:
    made.obey(made.submit(array=array, **{"steps": 1e6, **spec}))
    return made.jobs - 1


def test_as_many_tasks_run_as_the_limit_says_and_the_others_name_it() -> None:
    made = Bench("8xV100", Fifo())
    tasks = [submit(made) for _ in range(4)]
    other = submit(made, None, gpus=2)
    assert sorted(made.state.jobs.desired) == [*tasks[:2], other], "no other job waits for the array"
    (why, *_) = explain(made.state, tasks[2])
    assert why.code is Reason.OVER_QUOTA and (why.facts["array"], why.facts["at_once"]) == (412, 2)
    assert why.sentence == "Its array 412 runs at most 2 tasks at once, and 2 have GPUs."
    assert sorted(why.facts["jobs"]) == tasks[:2]
    made.now_s = 10.0
    made.obey(made.tell(Exited(tasks[0], 1, 10.0, Outcome.FINISHED, 1e6)))
    assert sorted(made.state.jobs.desired) == [tasks[1], tasks[2], other]


def test_two_arrays_have_limits_of_their_own_and_the_reason_of_a_full_cluster_is_the_gpus() -> None:
    made = Bench("4xV100", MaxMinFairness())
    first = [submit(made) for _ in range(3)]
    second = [submit(made, ArrayLimit(500, 9)) for _ in range(4)]
    running = made.state.jobs.desired.keys()
    assert len(running & set(first)) <= 2 and len(running) == 4
    codes = reasons(made.state)
    waits = {job: Reason(codes[made.state.jobs.row[job]]) for job in second if job not in running}
    assert waits and Reason.OVER_QUOTA not in waits.values()


def test_a_task_that_is_still_saving_counts_and_the_next_one_waits_for_it() -> None:
    made = Bench("4xV100", Srsf())
    first = submit(made, ArrayLimit(412, 1))
    made.now_s = 10.0
    (stop,) = made.submit(array=ArrayLimit(412, 1), steps=10.0)
    assert isinstance(stop, Suspend) and stop.job == first, "three GPUs are free, and the second waits"
    (why,) = explain(made.state, 1)
    assert (why.code, why.facts) == (Reason.WAITING_FOR_SUSPEND, {"victims": [first]})
    assert why.sentence == "Its GPUs are granted; job 0 of its array is still saving."
    (start,) = made.tell(Suspended(first, 1, stop.sequence, 10.0, stop.kind, 1.0))
    assert isinstance(start, Launch) and start.job == 1


def test_a_parked_task_does_not_count_until_it_resumes() -> None:
    made, limit = Bench([Node("n1", "H200", 4, host_gib=100.0)], Srsf()), ArrayLimit(412, 1)
    submit(made, limit, can_park=True, parked_gib=10.0)
    made.now_s = 10.0
    (park,) = made.submit(array=limit, steps=100.0)
    (start,) = made.tell(Suspended(0, 1, park.sequence, 10.0, park.kind, 1.0))
    assert park.kind is SuspendKind.PARK and isinstance(start, Launch) and start.job == 1
    made.obey([start])
    (resume,) = made.tell(Exited(1, 1, 20.0, Outcome.FINISHED, 100.0), at_s=20.0)
    assert isinstance(resume, Resume)
    assert made.submit(array=limit, steps=10.0) == [], "the first is about to run again"
    (stop,) = made.tell(Started(0, 1, resume.sequence, 20.5), at_s=20.5)
    assert isinstance(stop, Suspend) and stop.job == 0


def test_tasks_that_start_together_count_each() -> None:
    """GPUs come free all at once, also where the tasks have fractions of them."""
    for gpus in (1, 0.5):
        made = Bench("4xV100", Fifo())
        blocker = submit(made, None, gpus=4, steps=10.0)
        tasks = [submit(made, gpus=gpus) for _ in range(4)]
        made.now_s = 10.0
        started = made.tell(Exited(blocker, 1, 10.0, Outcome.FINISHED, 10.0))
        assert [each.job for each in started if isinstance(each, Launch)] == tasks[:2]


def test_a_recovered_core_keeps_the_limits_and_forgets_them_with_the_last_task() -> None:
    made = Bench("4xV100", Fifo())
    for _ in range(4):
        submit(made)
    codec, before = make_codec(), reasons(made.state).tolist()
    made.core.restore(made.core.snapshot(codec), codec)
    assert reasons(made.state).tolist() == before and Reason.OVER_QUOTA in before
    made.now_s = 5.0
    made.obey(made.tell(CancelRequested(3, 5.0), CancelRequested(2, 5.0)))
    made.obey(made.tell(Exited(0, 1, 5.0, Outcome.FINISHED, 1e6), Exited(1, 1, 5.0, Outcome.FINISHED, 1e6)))
    late = submit(made, None, gpus=4)
    assert list(made.state.jobs.desired) == [late]
