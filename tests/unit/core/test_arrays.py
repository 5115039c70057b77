"""Limits of arrays in the core: how many tasks run at once, what the others wait for, and that nothing else waits."""

from rota.core.explain import explain, reasons
from rota.core.snapshot import make_codec
from rota.model.array_limit import ArrayLimit
from rota.model.events import CancelRequested, Exited, Outcome
from rota.model.reasons import Reason
from rota.policies.fifo import Fifo
from rota.policies.max_min_fairness import MaxMinFairness
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
