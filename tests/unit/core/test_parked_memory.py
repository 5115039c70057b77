"""Memory of jobs whose specs do not give it: measurements count, and no more is reserved than there is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.move_costs import MemoryCosts, MoveCosts
from rota.model.cluster import Node
from rota.model.commands import Launch, Suspend, SuspendKind
from rota.model.events import Exited, Measured, Outcome, Started, Suspended
from tests.examples import examples
from tests.unit.core.helpers import Bench, of_type

NAN = float("nan")


def bench(host_gib: float = 100.0, gpus: int = 1, context_gib: float = 0.0) -> Bench:
    costs = MoveCosts(memory=MemoryCosts(context_gib=context_gib))
    return Bench([Node("n1", "H200", gpus, host_gib=host_gib)], costs=costs)


def seen(job: int, gib: float, at_s: float, rate: float = NAN) -> Measured:
    one = [np.array([each]) for each in (job, 1)]
    return Measured(*one, *(np.array([each]) for each in (at_s, rate, NAN, gib, gib)), at_s)


def displaced(made: Bench, at_s: float) -> Suspend:
    """A shorter job comes for the GPU."""
    (suspend,) = of_type(made.submit(at_s=at_s, steps=1.0, can_park=True), Suspend)
    return suspend


def room(made: Bench) -> float:
    return float(made.state.nodes.host_gib[0])


def test_what_it_was_seen_to_have_is_set_aside_and_what_it_took_is_kept_until_it_ends() -> None:
    made = bench()
    made.obey(made.submit(steps=1000.0, can_park=True))
    made.tell(seen(0, 30.0, 5.0), at_s=5.0)
    suspend = displaced(made, 10.0)
    assert suspend.kind is SuspendKind.PARK and room(made) == 70.0
    made.obey(
        made.tell(Suspended(0, 1, suspend.sequence, 11.0, suspend.kind, 5.0, host_gib=24.0, keeps_host_memory=True), at_s=11.0)
    )
    assert room(made) == 76.0, "what it really took is known now"
    commands = made.tell(Exited(1, 1, 12.0, Outcome.FINISHED, 1.0), at_s=12.0)
    made.tell(Started(0, 1, commands[0].sequence, 12.5), at_s=12.5)
    assert room(made) == 76.0, "its host memory stays allocated while it runs"
    again = displaced(made, 20.0)
    assert again.kind is SuspendKind.PARK and room(made) == 76.0, "and serves it the next time"
    made.obey(made.tell(Suspended(0, 1, again.sequence, 21.0, again.kind, 6.0, host_gib=31.0, keeps_host_memory=True), at_s=21.0))
    assert room(made) == 69.0
    made.tell(Exited(0, 1, 22.0, Outcome.LOST, 0.0), at_s=22.0)
    assert room(made) == 100.0


def test_what_it_does_not_keep_is_free_while_it_runs() -> None:
    made = bench()
    made.obey(made.submit(steps=1000.0, can_park=True))
    made.tell(seen(0, 30.0, 5.0), at_s=5.0)
    suspend = displaced(made, 10.0)
    made.obey(made.tell(Suspended(0, 1, suspend.sequence, 11.0, suspend.kind, 5.0, host_gib=24.0), at_s=11.0))
    assert room(made) == 76.0
    commands = made.tell(Exited(1, 1, 12.0, Outcome.FINISHED, 1.0), at_s=12.0)
    made.tell(Started(0, 1, commands[0].sequence, 12.5), at_s=12.5)
    assert room(made) == 100.0


def test_a_job_for_which_the_host_has_no_room_is_not_parked() -> None:
    made = bench(host_gib=40.0)
    made.obey(made.submit(steps=1000.0, can_park=True))
    made.tell(seen(0, 30.0, 5.0), at_s=5.0)
    first = displaced(made, 10.0)
    made.obey(made.tell(Suspended(0, 1, first.sequence, 11.0, first.kind, 5.0, host_gib=30.0), at_s=11.0))
    made.tell(seen(1, 12.0, 11.5), at_s=11.5)
    (second,) = of_type(made.submit(at_s=11.6, steps=0.1, can_park=True), Suspend)
    assert second.kind is SuspendKind.CHECKPOINT and room(made) == 10.0


def test_contexts_of_parked_jobs_leave_room_for_the_largest_that_was_seen() -> None:
    made = bench(context_gib=1.0)
    gib = float(made.state.nodes.gpu_gib[0])
    made.obey(made.submit(steps=1000.0, can_park=True))
    made.tell(seen(0, gib - 0.5, 5.0), at_s=5.0)
    assert displaced(made, 10.0).kind is SuspendKind.CHECKPOINT, "a context would keep it from ever coming back"


def test_memory_without_a_pace_is_no_pace() -> None:
    made = bench()
    made.obey(made.submit(steps=1000.0))
    made.tell(seen(0, 30.0, 5.0), at_s=5.0)
    table = made.state.jobs.table
    assert table.peak_gib[0] == 30.0 and np.isnan(table.alone_rate[0]) and made.state.memory.gpu_gib_of(0) == 30.0
    made.tell(seen(0, 32.0, 6.0, rate=2.0), at_s=8.0)
    assert table.peak_gib[0] == 32.0 and table.alone_rate[0] == 2.0


def test_memory_that_was_asked_for_and_memory_that_was_seen() -> None:
    made = bench()
    made.obey(made.submit(steps=1000.0, gpu_gib=8.0, can_park=True))
    assert made.state.memory.gib_per_node(0, made.state.jobs.attempts[0]) == 8.0, "all of it may have to go to the host"
    made.tell(seen(0, 30.0, 5.0), at_s=5.0)
    assert made.state.memory.gpu_gib_of(0) == 8.0, "what a job is given on a GPU is what it asked for"
    displaced(made, 10.0)
    assert room(made) == 70.0, "what it would take of the host is what it has"


def test_what_a_spec_says_of_parking_is_taken_as_it_is() -> None:
    for spec, gib in (({"parked_gib": 4.0}, 4.0), ({"least_gib": 2.0, "gpu_gib": 8.0}, 2.0)):
        made = bench()
        made.obey(made.submit(steps=1000.0, can_park=True, **spec))
        made.tell(seen(0, 30.0, 5.0), at_s=5.0)
        displaced(made, 10.0)
        assert room(made) == 100.0 - gib


def test_another_size_of_contexts_while_a_job_sleeps() -> None:
    made = bench(context_gib=1.0)
    made.obey(made.submit(steps=1000.0, can_park=True))
    suspend = displaced(made, 10.0)
    made.obey(made.tell(Suspended(0, 1, suspend.sequence, 11.0, suspend.kind, 5.0), at_s=11.0))
    state = made.state
    state.memory.set_context(2.5)
    state.beliefs.costs = MoveCosts(memory=MemoryCosts(context_gib=2.5))
    assert state.nodes.context_gib.tolist() == [2.5]
    made.tell(Exited(0, 1, 12.0, Outcome.LOST, 0.0), at_s=12.0)
    assert state.nodes.context_gib.tolist() == [0.0]


@examples(60)
@given(
    st.booleans(), st.floats(20.0, 200.0), st.lists(st.tuples(st.floats(1.0, 80.0), st.floats(0.1, 1.0)), min_size=1, max_size=8)
)
@pytest.mark.slow
def test_never_more_than_the_host_has_and_all_of_it_back_at_the_end(
    keeps: bool, host_gib: float, jobs: list[tuple[float, float]]
) -> None:
    """Jobs come for one GPU, each shorter than the one before, each seen before it is displaced; what it takes of the host is a
    part of what it was seen to have. Then they end, awake or asleep."""
    made, at_s = bench(host_gib=host_gib), 0.0
    for number, (gib, _) in enumerate(jobs):
        commands = made.submit(at_s=at_s, steps=1000.0 / 2**number, can_park=True)
        for suspend in of_type(commands, Suspend):
            seen_gib, part = jobs[suspend.job]
            gib_taken = seen_gib * part if suspend.kind is SuspendKind.PARK else 0.0
            answer = Suspended(
                suspend.job, 1, suspend.sequence, at_s, suspend.kind, 0.5, host_gib=gib_taken, keeps_host_memory=keeps
            )
            commands = made.tell(answer, at_s=at_s)
        made.obey(commands)
        made.tell(seen(number, gib, at_s + 0.01), at_s=at_s + 0.02)
        at_s += 0.1
        assert room(made) >= -1e-9
        kept = sum(each.host_gib for each in made.state.jobs.attempts.values())
        assert abs(room(made) + kept - host_gib) < 1e-6
    while made.state.jobs.attempts:
        at_s += 0.1
        job, life = min(made.state.jobs.attempts.items())
        made.obey(made.tell(Exited(job, life.number, at_s, Outcome.FINISHED, 1e9), at_s=at_s))
        assert room(made) >= -1e-9
    assert abs(room(made) - host_gib) < 1e-6


def test_a_job_that_cannot_be_parked_where_it_runs_is_told_to_leave() -> None:
    """Its node finds that out when it starts it, and another node may find otherwise."""
    made = bench()
    (launch,) = of_type(made.submit(steps=1000.0, can_park=True), Launch)
    made.tell(Started(0, 1, launch.sequence, 1.0, can_park=False), at_s=1.0)
    assert not made.state.jobs.table.can_park.item(0)
    suspend = displaced(made, 10.0)
    assert suspend.kind is SuspendKind.CHECKPOINT and room(made) == 100.0, "nothing is set aside for it"
    (other,) = of_type(made.tell(Suspended(0, 1, suspend.sequence, 11.0, suspend.kind, 5.0), at_s=11.0), Launch)
    made.tell(Started(1, 1, other.sequence, 11.5), at_s=11.5)
    (again,) = of_type(made.tell(Exited(1, 1, 12.0, Outcome.FINISHED, 1.0), at_s=12.0), Launch)
    made.tell(Started(0, 2, again.sequence, 12.5, can_park=True), at_s=12.5)
    assert displaced(made, 20.0).kind is SuspendKind.PARK
