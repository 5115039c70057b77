"""Drains of operators: no job is put there, jobs that save leave, others stay until they end, and an exact timer ends a drain."""

import json
from typing import Any

import numpy as np
import pytest

from rota.core.explain import explain
from rota.core.explain_drains import drain_sentences
from rota.core.snapshot import make_codec
from rota.model.cluster import Node
from rota.model.commands import Launch, Resume, SetTimer, Suspend, SuspendKind
from rota.model.events import (
    Attached,
    DrainCancelled,
    Exited,
    GpusDrained,
    GpusUndrained,
    HoldRequested,
    NodeJoined,
    NodeLeft,
    NodeReadmitted,
    NodeRemoved,
    Outcome,
    TimerFired,
)
from rota.model.job import Phase
from rota.model.reasons import Reason
from rota.model.units import FOREVER
from rota.policies.fifo import Fifo
from rota.policies.srsf import Srsf
from tests.unit.core.helpers import Bench, of_type

A, B = Node("a", "V100", 2), Node("b", "V100", 2)
UNSAVED = {"saves": False, "steps": 1000.0}


def bench(*nodes: Node, policy: Any = None) -> Bench:
    return Bench(list(nodes) or [A, B], policy or Fifo(backfill=True))


def drain(*gpus: int, number: int = 1, at_s: float = 0.0, until_s: float = FOREVER, from_s: float | None = None) -> GpusDrained:
    return GpusDrained(number, gpus, at_s, at_s if from_s is None else from_s, until_s, "disk", "ana")


def placed(made: Bench) -> dict[int, list[int]]:
    return {job: attempt.gpus.tolist() for job, attempt in made.state.jobs.attempts.items()}


def test_no_job_starts_there_and_why_says_what_is_drained_by_whom_and_until_when() -> None:
    made = bench()
    made.tell(drain(0, 1, 2, until_s=7200.0))
    (launch,) = of_type(made.obey(made.submit(gpus=1)), Launch)
    assert launch.gpus.tolist() == [3]
    assert not of_type(made.obey(made.submit(gpus=1)), Launch)
    reason = explain(made.state, 1)[0]
    assert reason.code is Reason.NO_FREE_GPUS
    assert reason.facts["drained"] == [
        "a is drained by ana (disk) for another 2 h.",
        "GPU 0 of b is drained by ana (disk) for another 2 h.",
    ]
    assert all(each in reason.sentence for each in reason.facts["drained"])


def test_a_job_that_saves_moves_and_the_node_empties() -> None:
    made = bench()
    made.obey(made.submit(gpus=2))
    assert placed(made) == {0: [0, 1]}
    seen = made.obey(made.tell(drain(0, 1, at_s=5.0), at_s=5.0))
    (suspend,), (launch,) = of_type(seen, Suspend), of_type(seen, Launch)
    assert suspend.kind is SuspendKind.CHECKPOINT and launch.gpus.tolist() == [2, 3]
    assert made.tell(drain(0, 1, at_s=5.0), at_s=6.0) == [], "a repeat changes nothing"


def test_a_job_on_another_gpu_of_the_node_stays() -> None:
    made = bench()
    made.obey(made.submit(gpus=1))
    made.obey(made.submit(gpus=1))
    made.obey(made.tell(drain(1, at_s=5.0), at_s=5.0))
    assert placed(made)[0] == [0] and placed(made)[1] in ([2], [3])


@pytest.mark.parametrize("policy", [Fifo(backfill=True), Srsf()])
def test_a_job_that_is_not_known_to_save_runs_until_it_ends_and_the_next_one_does_not_come(policy: Any) -> None:
    made = bench(A, policy=policy)
    made.obey(made.submit(gpus=1, **UNSAVED))
    made.obey(made.submit(gpus=1, **UNSAVED))
    assert not of_type(made.tell(drain(0, 1, at_s=5.0), at_s=5.0), Suspend)
    assert made.state.jobs.staying == {0, 1}
    assert not of_type(made.submit(at_s=6.0, gpus=1, steps=1.0), Suspend, Launch)
    assert not of_type(made.tell(Exited(0, 1, 9.0, Outcome.FINISHED, 1000.0), at_s=9.0), Launch, Suspend)
    assert not of_type(made.tell(Exited(1, 1, 9.0, Outcome.LOST, 0.0), at_s=9.0), Launch), (
        "what is lost does not start again there"
    )
    assert not made.state.jobs.attempts
    assert {each.job for each in of_type(made.tell(GpusUndrained((0, 1), 12.0), at_s=12.0), Launch)} == {1, 2}


def test_it_leaves_as_soon_as_it_shows_that_it_saves() -> None:
    made = bench()
    made.obey(made.submit(gpus=1, saves=None, steps=1000.0))
    assert not of_type(made.tell(drain(0, 1, at_s=5.0), at_s=5.0), Suspend)
    (suspend,) = of_type(made.tell(Attached(0, 1, 6.0), at_s=6.0), Suspend)
    assert suspend.job == 0 and made.state.jobs.staying == set()


def test_its_user_may_hold_it_all_the_same() -> None:
    made = bench()
    made.obey(made.submit(gpus=1, **UNSAVED))
    made.tell(drain(0, 1, at_s=5.0), at_s=5.0)
    (suspend,) = of_type(made.tell(HoldRequested(0, 6.0), at_s=6.0), Suspend)
    assert suspend.job == 0


def test_a_parked_job_that_saves_is_written_to_storage_and_one_that_does_not_resumes_where_it_is() -> None:
    def parked(saves: bool) -> Bench:
        made = Bench([Node("a", "V100", 1, host_gib=100.0), Node("b", "V100", 1, host_gib=100.0)])
        made.obey(made.submit(steps=1000.0, saves=saves, can_park=True, parked_gib=10.0))
        made.obey(made.submit(steps=999.0))
        made.obey(made.submit(at_s=10.0, steps=1.0))
        made.tell(drain(0, at_s=11.0), at_s=11.0)
        return made

    made = Bench([Node("a", "V100", 1, host_gib=100.0)])
    made.obey(made.submit(steps=1000.0, can_park=True, parked_gib=10.0))
    (park,) = of_type(made.obey(made.submit(at_s=10.0, steps=1.0)), Suspend)
    assert park.kind is SuspendKind.PARK
    suspends = of_type(made.tell(drain(0, at_s=11.0), at_s=11.0), Suspend)
    assert (0, SuspendKind.CHECKPOINT) in {(each.job, each.kind) for each in suspends}

    made = parked(saves=False)
    assert not of_type(made.tell(TimerFired(12.0), at_s=12.0), Suspend)
    assert made.state.jobs.attempts[0].parked
    seen = made.tell(*(Exited(job, 1, 20.0, Outcome.FINISHED, 1.0) for job in (1, 2)), at_s=20.0)
    (resume,) = of_type(seen, Resume)
    assert resume.job == 0 and not of_type(seen, Suspend)
    made.obey([resume])
    assert made.state.jobs.staying == {0}


def test_a_job_that_was_to_come_when_another_leaves_does_not() -> None:
    made = bench(Node("a", "V100", 1), policy=Srsf())
    made.obey(made.submit(gpus=1, steps=1000.0))
    (suspend,) = of_type(made.submit(at_s=1.0, gpus=1, steps=10.0), Suspend)
    made.tell(drain(0, at_s=2.0), at_s=2.0)
    assert not of_type(made.obey([suspend]), Launch) and made.state.jobs.desired == {}


def test_a_timer_ends_it_to_the_second() -> None:
    made = bench(A)
    (timer,) = of_type(made.tell(drain(0, 1, until_s=600.0)), SetTimer)
    assert timer.at_s == 600.0
    made.submit(at_s=1.0, gpus=2)
    assert not of_type(made.tell(TimerFired(599.0), at_s=599.0), Launch)
    (launch,) = of_type(made.tell(TimerFired(600.0), at_s=600.0), Launch)
    assert launch.job == 0 and made.state.nodes.drains == {}


def test_a_maintenance_window_begins_and_ends_by_itself() -> None:
    made = bench(A)
    made.tell(drain(0, 1, from_s=100.0, until_s=200.0))
    (launch,) = of_type(made.obey(made.submit(at_s=1.0, gpus=1)), Launch)
    assert launch.job == 0, "it may run until the window begins"
    assert of_type(made.tell(TimerFired(99.0), at_s=99.0), Suspend) == []
    (suspend,) = of_type(made.tell(TimerFired(100.0), at_s=100.0), Suspend)
    made.obey([suspend])
    assert drain_sentences(made.state) == ["a is drained by ana (disk) for another 1.7 min."]
    (launch,) = of_type(made.tell(TimerFired(200.0), at_s=200.0), Launch)
    assert launch.job == 0


def test_a_window_is_cancelled_and_undrain_leaves_windows_to_come() -> None:
    made = bench(A)
    made.tell(drain(0, 1, from_s=100.0, until_s=200.0))
    made.tell(GpusUndrained((0, 1), 1.0), at_s=1.0)
    assert list(made.state.nodes.drains) == [1]
    made.tell(DrainCancelled(1, 2.0), at_s=2.0)
    assert made.state.nodes.drains == {} and made.state.nodes.drained == ()


def test_the_latest_drain_of_a_gpu_gives_its_reason_and_its_end() -> None:
    made = bench(A)
    made.tell(drain(0, 1, until_s=50.0))
    made.tell(drain(1, number=2, at_s=1.0), at_s=1.0)
    assert {number: each.gpus for number, each in made.state.nodes.drains.items()} == {1: (0,), 2: (1,)}
    made.tell(TimerFired(60.0), at_s=60.0)
    assert made.state.nodes.drained == (1,)


def test_a_node_that_is_booted_joins_drained_and_one_that_was_removed_does_not_join() -> None:
    made = bench()
    made.tell(drain(0, 1, until_s=1000.0))
    made.tell(NodeLeft(0, 10.0), NodeJoined(A, 20.0), at_s=20.0)
    assert made.state.nodes.drained == (4, 5)
    made.tell(NodeRemoved(2, 30.0, "ana"), NodeJoined(A, 31.0), at_s=31.0)
    assert len(made.state.nodes.cluster.nodes) == 3 and made.state.nodes.removed == {"a"} and made.state.nodes.drains == {}
    made.tell(NodeReadmitted("a", 40.0), NodeJoined(A, 41.0), at_s=41.0)
    assert len(made.state.nodes.cluster.nodes) == 4 and made.state.nodes.drained == ()


def test_a_snapshot_and_a_copy_know_it() -> None:
    made, words = bench(A), make_codec()
    made.obey(made.submit(gpus=1, **UNSAVED))
    made.tell(drain(0, 1, at_s=5.0, until_s=50.0), at_s=5.0)
    plain = json.loads(json.dumps(made.core.snapshot(words)))
    other, twin = bench(A), made.core.fork()
    other.core.restore(plain, words)
    made.tell(GpusUndrained((0, 1), 6.0), at_s=6.0)
    for state in (other.state, twin.state):
        assert state.nodes.drained == (0, 1) and state.nodes.drains[1].until_s == 50.0 and state.jobs.staying == {0}
        assert not state.usable()[0].any()
    assert made.state.usable()[0].all() and made.state.jobs.table.phase[0] == Phase.RUNNING
    event = drain(0, 1)
    assert words.decode(json.loads(json.dumps(words.encode(event)))) == event


def test_a_gpu_that_is_not_there_is_not_drained() -> None:
    made = bench(A)
    made.tell(drain(7, 8))
    assert made.state.nodes.drains == {} and np.all(made.state.usable()[0])
