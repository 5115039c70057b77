"""The scheduler step by step: its events and its commands."""

import numpy as np
import pytest

from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.settings import Settings
from rota.errors import OptionError
from rota.model.commands import CallPolicy, Launch, SetTimer, Suspend
from rota.model.events import (
    Allocated,
    CancelRequested,
    Exited,
    HoldRequested,
    Outcome,
    PolicyFailed,
    PolicyTimedOut,
    Progressed,
    Started,
    Submitted,
    TimerFired,
)
from rota.model.job import JobSpec, Phase
from rota.policies.fifo import Fifo
from rota.policies.tiresias import Tiresias
from tests.unit.core.helpers import Bench, of_type


def phase(bench: Bench, job: int) -> Phase:
    return Phase(bench.state.jobs.table.phase[bench.state.jobs.row[job]])


def test_a_submission_asks_the_policy_and_an_answer_launches() -> None:
    bench = Bench("2xV100")
    asked = bench.core.step(5.0, [Submitted(0, JobSpec(gpus=2, steps=10.0), 5.0)])
    (solve,) = of_type(asked, CallPolicy)
    assert solve.ticket == 1 and len(solve.view.jobs) == 1
    commands = bench.core.step(5.0, [Allocated(1, bench.policy.allocate(solve.view), 5.0)])
    (launch,) = of_type(commands, Launch)
    assert (launch.job, launch.attempt, launch.sequence, launch.from_step) == (0, 1, 1, 0.0)
    assert launch.gpus.tolist() == [0, 1] and launch.nodes == (0,)
    assert phase(bench, 0) is Phase.STARTING


def test_nothing_is_decided_before_the_answer_comes() -> None:
    bench = Bench("2xV100")
    bench.core.step(0.0, [Submitted(0, JobSpec(steps=10.0), 0.0)])
    assert of_type(bench.core.step(1.0, [Submitted(1, JobSpec(steps=10.0), 1.0)]), CallPolicy, Launch) == []
    assert bench.state.cycle.needs_policy


def test_a_launch_waits_for_its_victim() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(steps=1000.0))
    commands = bench.submit(at_s=10.0, steps=5.0)
    (suspend,) = of_type(commands, Suspend)
    assert suspend.job == 0 and not of_type(commands, Launch)
    assert phase(bench, 0) is Phase.SUSPENDING
    later = bench.obey(commands, steps=10.0)
    (launch,) = of_type(later, Launch)
    assert launch.job == 1
    assert phase(bench, 0) is Phase.CHECKPOINTED and phase(bench, 1) is Phase.RUNNING


def test_a_resumed_job_goes_on_from_its_checkpoint_in_a_new_attempt() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(steps=1000.0))
    bench.obey(bench.submit(at_s=10.0, steps=5.0), steps=7.0)
    done = bench.tell(Exited(1, 1, 15.0, Outcome.FINISHED, 5.0), at_s=15.0)
    (launch,) = of_type(done, Launch)
    assert (launch.job, launch.attempt, launch.from_step) == (0, 2, 7.0)
    assert 1 not in bench.state.jobs.row


def test_fifo_is_strict_and_backfill_overtakes_without_delaying() -> None:
    strict, loose = Bench("4xV100", Fifo()), Bench("4xV100", Fifo(backfill=True))
    for bench in (strict, loose):
        bench.obey(bench.submit(gpus=3, steps=100.0))
        bench.obey(bench.submit(gpus=4, steps=10.0))
        bench.obey(bench.submit(gpus=1, steps=50.0))
        bench.obey(bench.submit(gpus=1, steps=200.0))
    assert sorted(strict.state.jobs.attempts) == [0]
    assert sorted(loose.state.jobs.attempts) == [0, 2], "job 2 ends before job 0 does, job 3 would delay job 1"


def test_tiresias_wakes_exactly_when_a_job_sinks() -> None:
    bench = Bench("2xV100", Tiresias(thresholds=(100.0,)))
    commands = bench.obey(bench.submit(gpus=2, steps=1000.0, at_s=3.0))
    assert not of_type(commands, SetTimer), "while nobody waits, a change of rank changes nothing"
    waiting = bench.submit(gpus=2, steps=10.0, at_s=20.0)
    assert of_type(waiting, SetTimer)[-1].at_s == 53.0
    assert not of_type(waiting, Suspend), "both sit in the first queue: who runs goes on"
    assert [c.job for c in of_type(bench.tell(TimerFired(53.0), at_s=53.0), Suspend)] == [0]


def test_a_failure_uses_a_retry_and_then_ends_the_job() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(retries=1))
    again = bench.tell(Exited(0, 1, 4.0, Outcome.FAILED, 0.0), at_s=4.0)
    assert of_type(again, Launch)[0].attempt == 2
    bench.obey(again)
    bench.tell(Exited(0, 2, 9.0, Outcome.FAILED, 0.0), at_s=9.0)
    assert 0 not in bench.state.jobs.row


def test_a_crash_after_a_request_to_stop_is_a_suspension() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(steps=1000.0))
    bench.submit(at_s=10.0, steps=5.0)
    bench.tell(Exited(0, 1, 11.0, Outcome.FAILED, 3.0), at_s=11.0)
    row = bench.state.jobs.row[0]
    assert phase(bench, 0) is Phase.CHECKPOINTED
    assert (
        bench.state.jobs.table.failures[row],
        bench.state.jobs.table.suspensions[row],
        bench.state.jobs.table.steps_done[row],
    ) == (0, 1, 3.0)


@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_late_and_repeated_events_change_nothing(repeat: int) -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(steps=1000.0))
    bench.obey(bench.submit(at_s=10.0, steps=5.0))
    for _ in range(repeat):
        bench.tell(Exited(0, 1, 11.0, Outcome.FAILED, 0.0), Started(0, 1, 1, 11.0), Submitted(1, JobSpec(), 11.0), at_s=12.0)
    assert phase(bench, 0) is Phase.CHECKPOINTED and phase(bench, 1) is Phase.RUNNING
    assert bench.state.nodes.observed.holder.tolist() == [1]


def test_cancel_kills_what_lives_and_forgets_what_does_not() -> None:
    bench = Bench("1xV100", Fifo())
    bench.obey(bench.submit())
    bench.submit()
    bench.tell(CancelRequested(1, 5.0), at_s=5.0)
    assert 1 not in bench.state.jobs.row
    (kill,) = bench.tell(CancelRequested(0, 6.0), at_s=6.0)
    assert phase(bench, 0) is Phase.STOPPING
    bench.tell(Exited(0, kill.attempt, 7.0, Outcome.LOST, 0.0), at_s=7.0)
    assert not bench.state.jobs.row and bench.state.nodes.observed.holder.tolist() == [-1]


def test_hold_suspends_and_release_brings_back() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit())
    held = bench.tell(HoldRequested(0, 5.0), at_s=5.0)
    assert [c.job for c in of_type(held, Suspend)] == [0]
    bench.obey(held)
    assert len(bench.state.jobs.rows) == 0
    assert of_type(bench.tell(HoldRequested(0, 9.0, held=False), at_s=9.0), Launch)


@pytest.mark.parametrize("failure", [PolicyFailed(1, 0.0, "boom"), PolicyTimedOut(1, 0.0)])
def test_a_failed_policy_is_asked_again_and_the_plan_stands(failure: PolicyFailed | PolicyTimedOut) -> None:
    bench = Bench("2xV100", policy_retry_seconds=7.0)
    bench.core.step(0.0, [Submitted(0, JobSpec(steps=10.0), 0.0)])
    commands = bench.core.step(1.0, [failure])
    assert of_type(commands, SetTimer)[-1].at_s == 8.0 and not of_type(commands, CallPolicy)
    assert of_type(bench.core.step(8.0, [TimerFired(8.0)]), CallPolicy)[0].ticket == 2


def test_an_answer_to_an_old_question_is_ignored() -> None:
    bench = Bench("2xV100")
    (solve,) = of_type(bench.core.step(0.0, [Submitted(0, JobSpec(steps=10.0), 0.0)]), CallPolicy)
    answer = bench.policy.allocate(solve.view)
    bench.core.step(1.0, [PolicyTimedOut(1, 1.0)])
    assert not of_type(bench.core.step(1.0, [Allocated(1, answer, 1.0)]), Launch)


def test_rounds_fall_on_multiples_and_idle_time_skips_them() -> None:
    bench = Bench("1xV100", decide=AtRounds(round_seconds=60.0))
    assert of_type(bench.submit(at_s=130.0), SetTimer)[-1].at_s == 180.0
    assert not bench.state.jobs.attempts
    assert of_type(bench.tell(TimerFired(180.0), at_s=180.0), Launch)


def test_a_late_round_is_skipped_not_piled_up() -> None:
    bench = Bench("1xV100", decide=AtRounds(round_seconds=60.0))
    bench.submit(at_s=10.0)
    bench.obey(bench.tell(TimerFired(200.0), at_s=200.0))
    assert bench.state.cycle.next_round_s == 240.0 and bench.state.cycle.timer_s == 240.0


def test_solve_every_plans_from_the_last_answer_in_between() -> None:
    bench = Bench("1xV100", Fifo(), decide=AtEvents(solve_every_seconds=100.0))
    bench.obey(bench.submit(steps=10.0))
    bench.submit(at_s=1.0)
    bench.tell(Exited(0, 1, 10.0, Outcome.FINISHED, 10.0), at_s=10.0)
    assert bench.state.cycle.decision == 1 and not bench.state.jobs.attempts, "job 1 came after the answer in force"


def test_progress_is_believed_between_reports_and_corrected_by_them() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(steps=100.0))
    bench.tell(at_s=10.0)
    assert bench.core.view().jobs.steps_done.tolist() == [10.0]
    ids = np.array([0])
    bench.tell(Progressed(ids, np.array([1]), np.array([4.0]), np.array([2.0]), 10.0))
    assert bench.core.view().jobs.steps_done.tolist() == [4.0]
    bench.tell(Progressed(ids, np.array([99]), np.array([50.0]), np.array([50.0]), 12.0), at_s=12.0)
    jobs = bench.core.view().jobs
    assert jobs.steps_done.tolist() == [6.0], "a report of another attempt counts for nothing"
    assert jobs.attained_gpu_seconds.tolist() == [12.0] and jobs.run_seconds.tolist() == [12.0]


def test_a_fork_goes_its_own_way() -> None:
    bench = Bench("2xV100")
    bench.obey(bench.submit())
    twin = bench.core.fork()
    twin.step(5.0, [Exited(0, 1, 5.0, Outcome.FINISHED, 100.0)])
    assert not twin.state.jobs.row and 0 in bench.state.jobs.row
    assert bench.state.nodes.observed.holder.tolist() == [0, -1] and twin.state.nodes.observed.holder.tolist() == [-1, -1]


def test_a_job_that_cannot_run_is_kept_and_never_scheduled() -> None:
    bench = Bench("2xV100")
    bench.submit(gpus=3)
    bench.submit(gpus=1, accelerators=("H100",))
    assert len(bench.state.jobs.rows) == 0 and set(bench.state.jobs.row) == {0, 1}


def test_ended_rows_are_compacted_away() -> None:
    bench = Bench("1xV100", Fifo())
    for number in range(700):
        commands = bench.obey(bench.submit(at_s=float(number)))
        launch = of_type(commands, Launch)[0]
        bench.tell(Exited(launch.job, launch.attempt, bench.now_s, Outcome.FINISHED, 100.0))
    assert bench.state.jobs.table.size < 600 and bench.state.beliefs.finished == 700


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"lease_seconds": 0.0}, "lease_seconds"),
        ({"retry_seconds": -5.0}, "retry_seconds"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], field: str) -> None:
    with pytest.raises(OptionError) as error:
        Settings(**settings)  # type: ignore[arg-type]
    assert error.value.field == field
