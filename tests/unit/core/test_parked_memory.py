"""Memory of jobs whose specs say nothing of it: what was seen of it counts, and no more is promised than there is."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.beliefs.costs import MemoryCosts, MoveCosts
from rota.model.cluster import Node
from rota.model.commands import Suspend, SuspendKind
from rota.model.events import Exited, Measured, Outcome, Started, Suspended
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
    return float(made.state.machines.host_gib[0])


def test_what_it_was_seen_to_have_is_set_aside_and_what_it_took_is_kept_until_it_ends() -> None:
    made = bench()
    made.obey(made.submit(steps=1000.0, can_park=True))
    made.tell(seen(0, 30.0, 5.0), at_s=5.0)
    suspend = displaced(made, 10.0)
    assert suspend.kind is SuspendKind.PARK and room(made) == 70.0
    made.obey(made.tell(Suspended(0, 1, suspend.sequence, 11.0, suspend.kind, 5.0, gib=24.0), at_s=11.0))
    assert room(made) == 76.0, "what it really took is known now"
    commands = made.tell(Exited(1, 1, 12.0, Outcome.FINISHED, 1.0), at_s=12.0)
    made.tell(Started(0, 1, commands[0].sequence, 12.5), at_s=12.5)
    assert room(made) == 76.0, "its host memory stays allocated while it runs"
    again = displaced(made, 20.0)
    assert again.kind is SuspendKind.PARK and room(made) == 76.0, "and serves it the next time"
    made.obey(made.tell(Suspended(0, 1, again.sequence, 21.0, again.kind, 6.0, gib=31.0), at_s=21.0))
    assert room(made) == 69.0
    made.tell(Exited(0, 1, 22.0, Outcome.LOST, 0.0), at_s=22.0)
    assert room(made) == 100.0


def test_a_job_for_which_the_host_has_no_room_is_not_parked() -> None:
    made = bench(host_gib=40.0)
    made.obey(made.submit(steps=1000.0, can_park=True))
    made.tell(seen(0, 30.0, 5.0), at_s=5.0)
    first = displaced(made, 10.0)
    made.obey(made.tell(Suspended(0, 1, first.sequence, 11.0, first.kind, 5.0, gib=30.0), at_s=11.0))
    made.tell(seen(1, 12.0, 11.5), at_s=11.5)
    (second,) = of_type(made.submit(at_s=11.6, steps=0.1, can_park=True), Suspend)
    assert second.kind is SuspendKind.CHECKPOINT and room(made) == 10.0


def test_contexts_of_parked_jobs_leave_room_for_the_largest_that_was_seen() -> None:
    made = bench(context_gib=1.0)
    gib = float(made.state.machines.gpu_gib[0])
    made.obey(made.submit(steps=1000.0, can_park=True))
    made.tell(seen(0, gib - 0.5, 5.0), at_s=5.0)
    assert displaced(made, 10.0).kind is SuspendKind.CHECKPOINT, "a context would keep it from ever coming back"


def test_memory_without_a_pace_is_no_pace() -> None:
    made = bench()
    made.obey(made.submit(steps=1000.0))
    made.tell(seen(0, 30.0, 5.0), at_s=5.0)
    table = made.state.jobs.table
    assert table.peak_gib[0] == 30.0 and np.isnan(table.alone_rate[0]) and made.state.gib_of(0) == 30.0
    made.tell(seen(0, 32.0, 6.0, rate=2.0), at_s=8.0)
    assert table.peak_gib[0] == 32.0 and table.alone_rate[0] == 2.0


def test_memory_that_was_asked_for_wins_over_what_was_seen() -> None:
    made = bench()
    made.obey(made.submit(steps=1000.0, gpu_gib=8.0, can_park=True))
    made.tell(seen(0, 30.0, 5.0), at_s=5.0)
    assert made.state.gib_of(0) == 8.0
    displaced(made, 10.0)
    assert room(made) == 100.0 - 0.8


@settings(max_examples=60, deadline=None)
@given(st.floats(20.0, 200.0), st.lists(st.tuples(st.floats(1.0, 80.0), st.floats(0.1, 1.0)), min_size=1, max_size=8))
def test_never_more_than_the_host_has_and_all_of_it_back_at_the_end(host_gib: float, jobs: list[tuple[float, float]]) -> None:
    """Jobs come for one GPU, each shorter than the one before, each seen before it is displaced; what it takes of the host is a
    part of what it was seen to have. Then they end, awake or asleep."""
    made, at_s = bench(host_gib=host_gib), 0.0
    for number, (gib, _) in enumerate(jobs):
        commands = made.submit(at_s=at_s, steps=1000.0 / 2**number, can_park=True)
        for suspend in of_type(commands, Suspend):
            seen_gib, part = jobs[suspend.job]
            gib_taken = seen_gib * part if suspend.kind is SuspendKind.PARK else 0.0
            answer = Suspended(suspend.job, 1, suspend.sequence, at_s, suspend.kind, 0.5, gib=gib_taken)
            commands = made.tell(answer, at_s=at_s)
        made.obey(commands)
        made.tell(seen(number, gib, at_s + 0.01), at_s=at_s + 0.02)
        at_s += 0.1
        assert room(made) >= -1e-9
        kept = sum(each.host_gib for each in made.state.jobs.incarnations.values())
        assert abs(room(made) + kept - host_gib) < 1e-6
    while made.state.jobs.incarnations:
        at_s += 0.1
        job, life = min(made.state.jobs.incarnations.items())
        made.obey(made.tell(Exited(job, life.number, at_s, Outcome.FINISHED, 1e9), at_s=at_s))
        assert room(made) >= -1e-9
    assert abs(room(made) - host_gib) < 1e-6
