"""A job that saves nothing and can't be parked is never suspended, and the reasons of waiting jobs mention it."""

import numpy as np
import pytest

import rota
from rota.core.explain import explain
from rota.model.cluster import Node
from rota.model.commands import Kill, Launch, Suspend, SuspendKind
from rota.model.events import (
    Attached,
    CancelRequested,
    Exited,
    HoldRequested,
    NodeDrainChanged,
    Outcome,
    Progressed,
    Started,
    Suspended,
)
from rota.model.job import Arrival, JobSpec, Phase
from rota.model.reasons import Reason
from rota.traces.trace import Trace
from tests.unit.core.helpers import Bench, of_type


def test_a_job_that_would_be_displaced_keeps_its_gpus_until_it_ends() -> None:
    made = Bench("1xV100")
    made.obey(made.submit(steps=1000.0, saves=False))
    assert made.submit(at_s=10.0, steps=1.0) == []
    (reason,) = [each for each in explain(made.state, 1) if each.code is Reason.NO_FREE_GPUS]
    assert "Job 0 is not known to save its state and can't be parked, so it keeps its GPUs until it ends." in reason.sentence
    assert reason.facts["left_running"] == [0]
    (launch,) = of_type(made.tell(Exited(0, 1, 50.0, Outcome.FINISHED, 1000.0), at_s=50.0), Launch)
    assert launch.job == 1


def test_one_that_saves_gives_its_gpus_up_instead() -> None:
    made = Bench("2xV100")
    made.obey(made.submit(steps=1000.0, saves=False))
    made.obey(made.submit(steps=2000.0))
    (suspend,) = of_type(made.submit(at_s=10.0, steps=1.0), Suspend)
    assert suspend.job == 1


def test_before_it_runs_it_may_lose_its_turn() -> None:
    made = Bench("1xV100")
    made.obey(made.submit(steps=10.0))
    made.submit(at_s=1.0, steps=500.0, saves=False)
    made.submit(at_s=2.0, steps=5.0, saves=False)
    (launch,) = of_type(made.tell(Exited(0, 1, 9.0, Outcome.FINISHED, 10.0), at_s=9.0), Launch)
    assert launch.job == 2


def test_it_is_parked_where_that_can_be_and_stays_where_it_sleeps() -> None:
    made = Bench([Node("n1", "V100", 2, host_gib=100.0)])
    made.obey(made.submit(steps=1000.0, saves=False, can_park=True, parked_gib=10.0))
    made.obey(made.submit(steps=50.0))
    (suspend,) = of_type(made.obey(made.submit(at_s=10.0, steps=1.0)), Suspend)
    assert (suspend.job, suspend.kind) == (0, SuspendKind.PARK)
    seen = made.obey(made.tell(Exited(1, 1, 20.0, Outcome.FINISHED, 50.0), at_s=20.0))
    assert not of_type(seen, Launch, Suspend), "GPU 1 is free, and it sleeps on GPU 0: it waits"


def test_without_room_on_the_host_it_is_left_running() -> None:
    made = Bench([Node("n1", "V100", 1, host_gib=5.0)])
    made.obey(made.submit(steps=1000.0, saves=False, can_park=True, parked_gib=10.0))
    assert made.submit(at_s=10.0, steps=1.0) == []


def test_a_node_that_is_drained_and_a_user_who_holds_it_end_it_all_the_same() -> None:
    made = Bench("2x(1xV100)")
    made.obey(made.submit(steps=1000.0, saves=False))
    (suspend,) = of_type(made.tell(NodeDrainChanged(0, 5.0, draining=True), at_s=5.0), Suspend)
    assert (suspend.job, suspend.kind) == (0, SuspendKind.CHECKPOINT)
    other = Bench("1xV100")
    other.obey(other.submit(steps=1000.0, saves=False))
    (suspend,) = of_type(other.tell(HoldRequested(0, 5.0), at_s=5.0), Suspend)
    assert suspend.job == 0


def test_one_that_left_without_saving_is_not_suspended_again() -> None:
    made = Bench("1xV100")
    made.obey(made.submit(steps=1000.0))
    (suspend,) = of_type(made.submit(at_s=10.0, steps=1.0), Suspend)
    (launch,) = of_type(made.tell(Suspended(0, 1, suspend.sequence, 11.0, suspend.kind, 0.0, saved=False), at_s=11.0), Launch)
    made.obey([launch])
    made.obey(made.tell(Exited(1, 1, 12.0, Outcome.FINISHED, 1.0), at_s=12.0))
    assert made.submit(at_s=20.0, steps=1.0) == [], "it has begun anew, and is left running"
    twin = made.core.fork()
    assert not twin.state.jobs.table.saves[twin.state.jobs.row[0]]


def test_its_partner_goes_and_it_stays_where_it_is() -> None:
    """Found by drawing set-ups: a placer that places anew moved it."""
    arrivals = [Arrival(0.0, JobSpec(name="a", steps=400.0, saves=False)), Arrival(1.0, JobSpec(name="b", steps=30.0))]
    arrivals += [Arrival(2.0 + at, JobSpec(name=f"c{at}", gpus=2, steps=40.0)) for at in range(3)]
    result = rota.simulate(
        Trace.of("stays", "stays", arrivals), policy="las", cluster="3xV100", placer="random:sticky=false", preset="ideal"
    )
    assert result.jobs[0]["suspensions"] == 0


@pytest.mark.parametrize("policy", ["las", "tiresias", "max-min-fairness", "gandiva", "srsf", "ones", "finish-time-fairness"])
def test_no_policy_suspends_it(policy: str) -> None:
    arrivals = [Arrival(at * 5.0, JobSpec(name=f"j{at}", gpus=1 + at % 2, steps=200.0, saves=at % 3 > 0)) for at in range(12)]
    result = rota.simulate(Trace.of("some", "some", arrivals), policy=policy, cluster="4xV100", round_seconds=30)
    assert [job["suspensions"] for job in result.jobs[::3]] == [0, 0, 0, 0]
    assert all(job["finished_s"] is not None for job in result.jobs)


def test_in_rounds_of_whole_steps_it_gets_the_steps_of_every_round() -> None:
    """Found by drawing set-ups: a round that only a job like that ran in lasted until the policy was asked again, for one round's
    steps."""

    def finished_s(saves: bool) -> float:
        trace = Trace.of("one", "one", [Arrival(0.0, JobSpec(name="a", steps=2000.0, saves=saves))])
        result = rota.simulate(trace, policy="isolated", cluster="1xV100", preset="gavel")
        return float(result.jobs[0]["finished_s"])

    assert finished_s(saves=False) == finished_s(saves=True)


# A job that nothing is known of: that is what a live job is until it shows that it saves.


def unknown(made: Bench) -> None:
    """Job 0 runs, and job 1 is ahead of it and waits."""
    made.obey(made.submit(steps=1000.0, saves=None))
    assert made.submit(at_s=10.0, steps=1.0) == []


def test_a_job_that_is_not_known_to_save_keeps_its_gpus() -> None:
    made = Bench("1xV100")
    unknown(made)
    (reason,) = [each for each in explain(made.state, 1) if each.code is Reason.NO_FREE_GPUS]
    assert reason.facts["left_running"] == [0]
    (kill,) = of_type(made.tell(CancelRequested(0, 11.0), at_s=11.0), Kill)
    assert kill.job == 0, "its user may end it all the same"


def test_as_soon_as_a_session_says_that_it_saves_it_gives_its_gpus_up() -> None:
    made = Bench("1xV100")
    unknown(made)
    assert of_type(made.tell(Attached(0, 9, 11.0), at_s=11.0), Suspend) == [], "that was of another attempt"
    (suspend,) = of_type(made.tell(Attached(0, 1, 12.0), at_s=12.0), Suspend)
    assert suspend.job == 0


def test_a_session_that_cannot_save_changes_nothing() -> None:
    made = Bench("1xV100")
    unknown(made)
    assert of_type(made.tell(Attached(0, 1, 12.0, saves=False), at_s=12.0), Suspend) == []


def test_as_soon_as_a_checkpoint_is_seen_it_gives_its_gpus_up() -> None:
    made = Bench("1xV100")
    unknown(made)
    told = [np.array([value]) for value in (0, 1, 20.0, 0.0)]
    assert of_type(made.tell(Progressed(*told, at_s=11.0), at_s=11.0), Suspend) == [], "it has made steps, and saved none"
    told[3] = np.array([15.0])
    (suspend,) = of_type(made.tell(Progressed(*told, at_s=12.0), at_s=12.0), Suspend)
    assert suspend.job == 0


def test_an_attempt_that_saved_and_left_shows_that_the_job_saves() -> None:
    made = Bench("1xV100")
    made.obey(made.submit(steps=1000.0, saves=None))
    made.obey(made.tell(Exited(0, 1, 20.0, Outcome.YIELDED, 20.0), at_s=20.0))
    (suspend,) = of_type(made.submit(at_s=30.0, steps=1.0), Suspend)
    assert suspend.job == 0


def test_one_whose_spec_says_that_it_does_not_save_is_left_running_whatever_is_seen() -> None:
    made = Bench("1xV100")
    made.obey(made.submit(steps=1000.0, saves=False))
    made.submit(at_s=10.0, steps=1.0)
    told = [np.array([value]) for value in (0, 1, 20.0, 15.0)]
    assert of_type(made.tell(Attached(0, 1, 12.0), Progressed(*told, at_s=12.0), at_s=12.0), Suspend) == []


def test_one_whose_spec_says_that_it_is_preemptible_is_suspended_again_and_again() -> None:
    made = Bench("1xV100")
    made.obey(made.submit(steps=1000.0, saves=None, preemptible=True))
    for attempt, at_s in ((1, 10.0), (2, 30.0)):
        (suspend,) = of_type(made.submit(at_s=at_s, steps=1.0), Suspend)
        assert suspend.job == 0
        lost = Suspended(0, attempt, suspend.sequence, at_s + 1, suspend.kind, 0.0, saved=False)
        made.obey(made.tell(lost, at_s=at_s + 1))
        made.obey(made.tell(Exited(attempt, 1, at_s + 2, Outcome.FINISHED, 1.0), at_s=at_s + 2))


def test_jobs_without_progress_do_not_suspend_each_other_for_ever() -> None:
    """Live, three of 40 s and one of 60 s on two of four GPUs had been suspended 56 times in a minute; none had finished."""
    arrivals = [Arrival(float(at), JobSpec(name="same", steps=40.0, saves=None)) for at in range(3)]
    arrivals += [Arrival(3.0, JobSpec(name="wide", gpus=2, steps=60.0, saves=None))]
    result = rota.simulate(
        Trace.of("sleep", "test", arrivals), policy="las:quantum_seconds=1", cluster="4xV100", launch_seconds=0.1
    )
    assert [job["suspensions"] for job in result.jobs] == [0, 0, 0, 0]
    assert all(job["finished_s"] is not None for job in result.jobs)


def test_one_that_can_not_be_parked_after_all_keeps_its_gpus() -> None:
    """Only when it is tried it shows that a job has no hook for parking: a shell script has none."""
    made = Bench([Node("n1", "V100", 1, host_gib=100.0)])
    made.obey(made.submit(steps=1000.0, saves=None, can_park=True, parked_gib=10.0))
    (suspend,) = of_type(made.submit(at_s=10.0, steps=1.0), Suspend)
    assert suspend.kind is SuspendKind.PARK
    kept = Started(0, 1, suspend.sequence, 11.0, can_park=False)
    assert of_type(made.tell(kept, at_s=11.0), Suspend, Launch, Kill) == []
    assert made.tell(kept, at_s=11.5) == [], "told again it changes nothing"
    state = made.state
    assert state.jobs.table.phase[0] == Phase.RUNNING and state.nodes.host_gib[0] == 100.0
    assert [each.facts["left_running"] for each in explain(state, 1) if each.code is Reason.NO_FREE_GPUS] == [[0]]
    (launch,) = of_type(made.tell(Exited(0, 1, 50.0, Outcome.FINISHED, 1000.0), at_s=50.0), Launch)
    assert launch.job == 1


def test_one_that_can_not_be_parked_and_is_held_has_to_leave() -> None:
    made = Bench([Node("n1", "V100", 1, host_gib=100.0)])
    made.obey(made.submit(steps=1000.0, saves=None, can_park=True, parked_gib=10.0))
    (suspend,) = of_type(made.tell(HoldRequested(0, 5.0), at_s=5.0), Suspend)
    assert suspend.kind is SuspendKind.PARK
    (suspend,) = of_type(made.tell(Started(0, 1, suspend.sequence, 6.0, can_park=False), at_s=6.0), Suspend)
    assert suspend.kind is SuspendKind.CHECKPOINT
