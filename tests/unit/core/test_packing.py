"""Two jobs on the same GPUs: how they become partners, what is estimated of them, and that each can end without the other."""

import json
from typing import Any

import numpy as np
import pytest

from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.explain import explain
from rota.core.plan.candidates import _kept_gpus
from rota.core.selection import SelectionRules
from rota.core.snapshot import make_codec
from rota.model.cluster import Node
from rota.model.commands import Kill, Launch, Resume, Suspend
from rota.model.events import (
    CancelRequested,
    Exited,
    HoldRequested,
    NodeLost,
    Outcome,
    Progressed,
    Started,
    Suspended,
    TimerFired,
)
from rota.model.job import Phase
from rota.model.reasons import Reason
from tests.packing import Told, pairs
from tests.unit.core.helpers import Bench, of_type

NAMES = (("", ""), ("a", "a"), ("a", "b"), ("b", "b"), ("b", "c"), ("a", "c"))


def bench(*units: tuple[int, ...], cluster: Any = "2xV100", gpus: int = 1, count: int = 2, **settings: Any) -> Bench:
    """A core with jobs 0 to count - 1 submitted at once and these units running."""
    made = Bench(cluster, Told(), rates=pairs(0.8, 0.6, NAMES), colocation=True, **settings)
    for job in range(count):
        made.submit(gpus=gpus, profile="abc"[job % 3], steps=1000.0)
    told(made, *units)
    return made


def told(made: Bench, *units: tuple[int, ...], at_s: float | None = None) -> list[Any]:
    """Have the policy asked again with this answer, and obey."""
    made.policy = Told(*units)
    made.state.cycle.invalidate()
    return made.obey(made.tell(TimerFired(at_s or made.now_s), at_s=at_s))


def column(made: Bench, name: str, *jobs: int) -> list[float]:
    return [getattr(made.state.jobs.table, name)[made.state.jobs.row[job]].item() for job in jobs]


def exits(made: Bench, job: int, outcome: Outcome = Outcome.FINISHED) -> Exited:
    return Exited(job, int(made.state.jobs.table.attempt[made.state.jobs.row[job]]), made.now_s, outcome, 0.0)


def steps(made: Bench, *jobs: int) -> list[float]:
    view = made.core.view()
    return [float(view.jobs.steps_done[view.jobs.ids.tolist().index(job)]) for job in jobs]


def test_a_pair_gets_one_placement_and_both_hold_it() -> None:
    made = bench(gpus=2)
    commands = told(made, (0, 1))
    launches = of_type(commands, Launch)
    assert [(launch.job, launch.gpus.tolist(), launch.partner) for launch in launches] == [(0, [0, 1], 1), (1, [0, 1], 0)]
    assert made.state.nodes.observed.gpu_fractions == {0: ((0, 500), (1, 500)), 1: ((0, 500), (1, 500))}
    assert column(made, "partner", 0, 1) == [1, 0]
    assert column(made, "rate", 0, 1) == [0.8, 0.6]
    assert column(made, "gpus_in_use", 0, 1) == [1.0, 1.0], "each of two on two GPUs uses one"


def test_together_already_means_no_change_at_all() -> None:
    made = bench((0, 1))
    plans = made.state.cycle.plans
    assert not told(made, (1, 0), at_s=5.0)
    assert made.state.cycle.plans > plans


def test_who_is_alone_stays_when_somebody_joins_it() -> None:
    made = bench((0,))
    (launch,) = of_type(told(made, (0, 1), at_s=10.0), Launch, Suspend)
    assert (launch.job, launch.gpus.tolist(), launch.partner) == (1, [0], 0)
    assert steps(made, 0, 1) == [10.0, 0.0]
    made.tell(TimerFired(20.0), at_s=20.0)
    assert steps(made, 0, 1) == [18.0, 6.0]
    assert made.core.view().jobs.attained_gpu_seconds.tolist() == [10.0 + 5.0, 5.0]


def test_a_job_runs_alone_until_its_partner_does() -> None:
    made = bench()
    made.policy = Told((0, 1))
    made.state.cycle.invalidate()
    first, second = of_type(made.tell(TimerFired(0.0)), Launch)
    made.tell(Started(0, first.attempt, first.sequence, 0.0))
    assert column(made, "rate", 0) == [1.0] and column(made, "gpus_in_use", 0, 1) == [1.0, 0.0]
    made.tell(Started(1, second.attempt, second.sequence, 4.0), at_s=6.0)
    # The report came two seconds late: what happened since then happened in company.
    assert steps(made, 0, 1) == pytest.approx([4.0 + 2 * 0.8, 2 * 0.6])
    alone, shared = made.state.beliefs.options.share_column[[0, column(made, "option", 0)[0]]]
    received = made.state.jobs.table.received[0]
    assert received[alone] == 4.0 and received[shared] == 0.0
    made.tell(Progressed(np.array([0]), np.array([1]), np.array([6.0]), np.array([0.0]), 8.0), at_s=8.0)
    assert made.state.jobs.table.received[0, shared] == 4.0


def test_who_is_left_keeps_its_gpus_and_speeds_up() -> None:
    made = bench((0, 1))
    made.now_s = 10.0
    assert not of_type(made.tell(exits(made, 0), at_s=10.0), Launch, Suspend)
    assert made.state.nodes.observed.holder.tolist() == [1, -1] and not made.state.nodes.observed.gpu_fractions
    assert made.state.nodes.planned.holder.tolist() == [1, -1]
    assert column(made, "rate", 1) == [1.0] and column(made, "gpus_in_use", 1) == [1.0] and column(made, "partner", 1) == [-1]
    assert made.state.beliefs.options.partner_kind[column(made, "option", 1)[0]] == -1
    made.tell(TimerFired(15.0), at_s=15.0)
    assert steps(made, 1) == [10 * 0.6 + 5.0]


def test_a_new_partner_waits_until_the_old_one_is_gone_and_says_so() -> None:
    made = bench((0, 1), count=3)
    made.policy = Told((1, 2))
    made.state.cycle.invalidate()
    (suspend,) = of_type(made.tell(TimerFired(10.0), at_s=10.0), Launch, Suspend)
    assert suspend.job == 0
    assert [(e.code, e.facts["victims"]) for e in explain(made.state, 2)] == [(Reason.WAITING_FOR_SUSPEND, [0])]
    assert column(made, "rate", 1) == [0.6], "the leaver still runs"
    (launch,) = of_type(made.tell(Suspended(0, 1, suspend.sequence, 12.0, suspend.kind, 9.6), at_s=12.0), Launch)
    assert (launch.job, launch.gpus.tolist(), launch.partner) == (2, [0], 1)
    assert column(made, "rate", 1) == [1.0]
    assert made.state.nodes.observed.gpu_fractions == {0: ((1, 500), (2, 500))}


def test_a_pair_waits_for_both_of_the_pair_before_it() -> None:
    made = bench((0, 1), cluster="1xV100", count=4)
    made.policy = Told((2, 3))
    made.state.cycle.invalidate()
    first, second = of_type(made.tell(TimerFired(10.0), at_s=10.0), Suspend)
    assert not of_type(made.tell(Suspended(0, 1, first.sequence, 11.0, first.kind, 1.0), at_s=11.0), Launch)
    launches = of_type(made.tell(Suspended(1, 1, second.sequence, 12.0, second.kind, 1.0), at_s=12.0), Launch)
    assert [launch.job for launch in launches] == [2, 3]


def test_when_a_pair_parts_one_stays() -> None:
    made = bench((0, 1))
    commands = of_type(told(made, (0,), (1,), at_s=5.0), Suspend, Launch)
    assert [type(command) for command in commands] == [Suspend, Launch] and {command.job for command in commands} == {1}
    assert made.state.nodes.observed.holder.tolist() == [0, 1]


def test_two_pairs_change_partners_and_only_two_jobs_move() -> None:
    made = bench((0, 1), (3, 4), count=6)  # kinds a b c a b c
    commands = of_type(told(made, (0, 2), (1, 5), at_s=5.0), Suspend, Launch)
    stayed = {0, 1, 3, 4} - {command.job for command in commands if isinstance(command, Suspend)}
    assert 0 in stayed and 0 in made.state.nodes.planned.holders(np.array([0]))


def test_jobs_of_one_kind_keep_their_partners_whatever_the_order() -> None:
    made = bench((0, 1), (3, 4), count=6)
    assert not of_type(told(made, (0, 4), (3, 1), at_s=5.0), Suspend, Launch)
    assert column(made, "partner", 0, 3) == [1, 4]


def test_two_who_sit_apart_do_not_move_together_if_others_sit_nowhere() -> None:
    made = bench((0,), (1,), count=6)  # 0 of kind a and 1 of kind b sit; 3 and 4 of the same kinds do not
    commands = of_type(told(made, (0, 1), (3, 4), at_s=5.0), Suspend, Launch)
    assert [(type(command), command.job, command.partner) for command in commands] == [(Launch, 3, 1), (Launch, 4, 0)]


@pytest.mark.parametrize("event", [HoldRequested, CancelRequested])
def test_what_happens_to_one_is_not_the_others_fate(event: Any) -> None:
    made = bench((0, 1), cluster="1xV100")
    commands = made.tell(event(0, 3.0), at_s=3.0)
    assert {command.job for command in of_type(commands, Suspend, Kill, Launch)} == {0}
    assert column(made, "partner", 1) == [-1] and made.state.jobs.desired[1].tolist() == [0]
    assert made.state.usable()[1].tolist() == [1], "its GPU is in use, not lost"
    made.tell(TimerFired(4.0), at_s=4.0)
    assert Phase(int(column(made, "phase", 1)[0])) is Phase.RUNNING and 1 in made.state.jobs.desired


def test_a_failure_of_one_leaves_the_other_running() -> None:
    made = bench((0, 1), cluster="1xV100")
    made.now_s = 5.0
    commands = made.tell(exits(made, 0, Outcome.LOST), at_s=5.0)
    assert {command.job for command in of_type(commands, Launch, Suspend)} <= {0}
    assert made.state.nodes.observed.gpu_fractions == {0: ((1, 500), (0, 500))}, "it is launched again, beside the other"
    assert column(made, "rate", 1) == [1.0]


def test_a_lost_node_takes_both() -> None:
    made = bench((0, 1), cluster=[Node("n", "V100", 1), Node("m", "K80", 1)])
    made.tell(NodeLost(0, 0, 5.0), at_s=5.0)
    assert made.state.nodes.observed.free.all()
    assert not any(job in made.state.jobs.attempts and made.state.jobs.attempts[job].gpus.tolist() == [0] for job in (0, 1))


def test_a_parked_job_wakes_beside_its_partner() -> None:
    floor = [Node("n", "V100", 1, host_gib=64.0)]
    made = Bench(floor, Told((0, 1)), rates=pairs(0.75), colocation=True)
    for _ in range(2):
        made.obey(made.submit(can_park=True, parked_gib=1.0, steps=1000.0))
    told(made, (0, 1))
    (suspend,) = of_type(told(made, (0,), at_s=4.0), Suspend)
    assert (suspend.job, suspend.kind) == (1, "park") and column(made, "rate", 0) == [1.0]
    (resume,) = of_type(told(made, (0, 1), at_s=8.0), Resume)
    assert (resume.job, resume.partner) == (1, 0) and column(made, "rate", 0, 1) == [0.75, 0.75]


def test_who_lost_its_partner_goes_on_until_the_policy_is_asked_again() -> None:
    made = bench((0, 1), (2,), count=3, decide=AtEvents(solve_every_seconds=100.0))
    assert len(made.state.jobs.desired) == 0, "the policy may not be asked yet"
    told(made, (0, 1), (2,), at_s=200.0)
    made.now_s = 210.0
    assert not of_type(made.tell(exits(made, 0), at_s=210.0), Suspend, Launch)
    made.tell(TimerFired(211.0), at_s=211.0)
    assert sorted(made.state.jobs.desired) == [1, 2]


def test_a_steady_answer_goes_on_with_those_who_are_left() -> None:
    decide = AtRounds(round_seconds=10.0, solve_every_seconds=95.0)
    made = bench(count=3, decide=decide, selection=SelectionRules(steady=True))
    told(made, (0, 1), (2,), at_s=200.0)
    made.now_s = 205.0
    made.tell(exits(made, 0), at_s=205.0)
    assert not of_type(made.tell(TimerFired(210.0), at_s=210.0), Suspend, Launch, Kill)
    assert sorted(made.state.jobs.desired) == [1, 2]


def test_a_pair_no_answer_knows_of_counts_its_gpus_once() -> None:
    made = bench((0, 1), (2,), count=3, gpus=2, cluster="8xV100")
    state = made.state
    assert len(_kept_gpus(state, np.array([0, 1, 2]))) == 4
    assert len(_kept_gpus(state, np.array([0, 2]))) == 4
    assert len(_kept_gpus(state, np.array([0, 1]))) == 2


def test_the_second_moves_up_and_a_copy_knows_it() -> None:
    made = bench((0, 1), (2,), count=3)
    words = make_codec()
    twin = made.core.fork()
    plain = json.loads(json.dumps(made.core.snapshot(words)))
    assert twin.snapshot(words) == made.core.snapshot(words)
    made.now_s = 3.0
    made.tell(exits(made, 0), at_s=3.0)
    assert made.state.nodes.observed.holder.tolist() == [1, 2] and twin.state.nodes.observed.gpu_fractions == {
        0: ((0, 500), (1, 500))
    }
    made.core.restore(plain, words)
    assert made.core.snapshot(words) == twin.snapshot(words)


def test_a_lease_that_ends_frees_only_its_own_half() -> None:
    made = bench((0, 1), lease_seconds=30.0, retry_seconds=5.0)
    made.state.jobs.table.lease_s[1] = 100.0  # job 1 was renewed, job 0 was not
    made.state.jobs.table.lease_s[0] = 9.0
    made.tell(TimerFired(10.0), at_s=10.0)
    assert 0 not in made.state.jobs.attempts or made.state.jobs.attempts[0].number == 2
    assert made.state.jobs.attempts[1].number == 1 and 1 in made.state.nodes.observed.holders(made.state.jobs.attempts[1].gpus)
