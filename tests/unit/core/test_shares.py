"""Which jobs are picked when time is shared: in proportion, by deficit, and by the rules of the preset `gavel`."""

from typing import Any

import numpy as np
import pytest

from rota.api import simulate
from rota.beliefs.rates import Rates
from rota.compose.presets import preset
from rota.compose.registry import make_policy
from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.scheduler import Scheduler
from rota.core.selection import SelectionRules
from rota.core.settings import Settings
from rota.model.allocation import Ranking, Shares
from rota.model.cluster import Cluster
from rota.model.commands import Suspend
from rota.model.events import TimerFired
from rota.model.job import Arrival, JobSpec
from rota.model.needs import Needs
from rota.placers.packed import Packed
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.sim.record import Record
from rota.traces.trace import Trace
from tests.packing import pairs
from tests.unit.core.helpers import Bench, of_type


class Given:
    """Answers with these shares: (profile, profile beside it or "", type) -> fraction of time. Or per job: (number, ...)."""

    needs = Needs(colocation=True)

    def __init__(self, shares: dict[tuple[Any, str, str], float], **answer: Any) -> None:
        self.wanted, self.answer = shares, answer
        self.asked = 0

    def allocate(self, view: Any) -> Shares:
        self.asked += 1
        options, cluster = view.options, view.cluster
        kinds = self.kinds
        option, share, position = [], [], []
        for row in range(len(options)):
            colocated_with = kinds[int(options.partner_kind[row])] if options.partner_kind[row] >= 0 else ""
            key = (kinds[int(options.kind[row])], colocated_with, cluster.pools[options.pool[row]])
            if key in self.wanted:
                option.append(row)
                share.append(self.wanted[key])
            for place, job in enumerate(view.jobs.ids.tolist()):
                key = (job, colocated_with, cluster.pools[options.pool[row]])
                if key in self.wanted and view.jobs.kind[place] == options.kind[row]:
                    position.append(place)
                    option.append(row)
                    share.append(self.wanted[key])
        where = {"position": np.array(position, dtype=np.int64)} if position else {}
        return Shares(option=np.array(option, dtype=np.int64), share=np.array(share), **where, **self.answer)


def bench(
    cluster: str, shares: dict[tuple[Any, str, str], float], jobs: str, rates: Rates | None = None, **settings: Any
) -> Bench:
    """One job for each letter, endless, its letter its profile."""
    answer = settings.pop("answer", {})
    policy = Given(shares, **answer)
    policy.kinds = list(dict.fromkeys(jobs))  # type: ignore[attr-defined]  # kinds are numbered as they come
    made = Bench(cluster, policy, rates=rates or Rates(speeds={}), **{"decide": AtEvents(slice_seconds=10.0), **settings})
    for name in jobs:
        made.obey(made.submit(profile=name, steps=1e9))
    return made


def turn(made: Bench, until_s: float, every_s: float = 10.0) -> Bench:
    at_s = made.now_s
    while at_s + every_s <= until_s:
        at_s += every_s
        made.obey(made.tell(TimerFired(at_s), at_s=at_s), steps=0.0)
    return made


def ran(made: Bench) -> Any:
    return made.core.view().jobs.run_seconds


@pytest.mark.parametrize("shares", [(0.5, 0.3, 0.2), (0.9, 0.06, 0.04), (1 / 3, 1 / 3, 1 / 3)])
@pytest.mark.parametrize("ties", [False, True])
def test_time_is_in_proportion_to_shares(shares: tuple[float, ...], ties: bool) -> None:
    wanted = {(name, "", "V100"): share for name, share in zip("abc", shares, strict=True)}
    made = turn(bench("1xV100", wanted, "abc", selection=SelectionRules(deficits_break_ties=ties)), 3000.0)
    assert ran(made) / ran(made).sum() == pytest.approx(shares, abs=0.02)


def test_time_is_in_proportion_on_each_type() -> None:
    wanted = {("a", "", "V100"): 0.75, ("a", "", "K80"): 0.25, ("b", "", "V100"): 0.25, ("b", "", "K80"): 0.75}
    made = turn(bench("1xV100 + 1xK80", wanted, "ab"), 2000.0)
    received = made.state.jobs.table.received[:2, :2]
    assert received / received.sum(axis=1, keepdims=True) == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]), abs=0.02)
    assert ran(made) == pytest.approx([2000.0, 2000.0], rel=0.02), "no GPU idles"


def test_members_of_a_kind_take_turns() -> None:
    made = turn(bench("2xV100", {("a", "", "V100"): 0.4}, "aaaaa"), 2500.0)
    assert ran(made) == pytest.approx(np.full(5, 1000.0), rel=0.03)


def test_shared_gpus_are_shared_in_proportion_too() -> None:
    """a and b together most of the time, c the rest."""
    rates = pairs(0.8, 0.6, (("a", "b"),))
    wanted = {("a", "b", "V100"): 0.7, ("b", "a", "V100"): 0.7, ("c", "", "V100"): 0.3}
    made = turn(bench("1xV100", wanted, "abc", rates=rates, colocation=True), 2000.0)
    assert ran(made)[2] / 2000.0 == pytest.approx(0.3, abs=0.02)
    assert ran(made)[:2] / 2000.0 == pytest.approx([0.7, 0.7], abs=0.02)


def test_strict_shares_let_a_gpu_idle_and_others_do_not() -> None:
    only = {("a", "", "V100"): 1.0}
    strict = turn(bench("2xV100", only, "ab", answer={"strict": True}), 100.0)
    loose = turn(bench("2xV100", only, "ab"), 100.0)
    assert (ran(strict) > 0).tolist() == [True, False] and (ran(loose) > 0).tolist() == [True, True]


def test_who_has_no_share_gives_way_to_who_has() -> None:
    made = turn(bench("1xV100", {("a", "", "V100"): 0.0, ("b", "", "V100"): 0.2}, "ab"), 1000.0)
    assert ran(made)[0] <= 0.05 * ran(made)[1] + 20.0


def test_shares_may_be_of_single_jobs() -> None:
    wanted = {(0, "", "V100"): 0.8, (1, "", "V100"): 0.2}
    made = turn(bench("1xV100", wanted, "aa"), 2000.0)
    assert ran(made) / 2000.0 == pytest.approx([0.8, 0.2], abs=0.02)


def test_what_is_owed_is_paid_back_when_shares_change() -> None:
    """Job b is owed its half while a ran; the new answer lets b catch up first, unless debts only break ties."""
    made = bench("1xV100", {("a", "", "V100"): 0.5, ("b", "", "V100"): 0.5}, "ab")
    policy: Any = made.policy
    first = 0 if made.state.jobs.table.option[0] >= 0 else 1
    at_s = 0.0
    for _ in range(6):  # every 10 s a new answer: without debts the same job would win each time
        at_s += 10.0
        made.state.cycle.invalidate()
        made.obey(made.tell(TimerFired(at_s), at_s=at_s), steps=0.0)
    assert policy.asked >= 6
    assert ran(made) == pytest.approx([30.0, 30.0], abs=10.1), f"{first} had the first turn"


def test_debts_that_break_ties_do_not_outweigh_time_received() -> None:
    """Gavel's rule: b, owed a lot from before, comes first only among equals."""
    made = bench(
        "1xV100", {("a", "", "V100"): 0.5, ("b", "", "V100"): 0.5}, "ab", selection=SelectionRules(deficits_break_ties=True)
    )
    made.state.jobs.table.deficit[0, 0], made.state.jobs.table.deficit[1, 0] = -500.0, 500.0
    turn(made, 200.0)
    assert ran(made) == pytest.approx([100.0, 100.0], abs=20.1), "turns, not a payback of 500 s"
    paid = bench("1xV100", {("a", "", "V100"): 0.5, ("b", "", "V100"): 0.5}, "ab")
    paid.state.jobs.table.deficit[0, 0], paid.state.jobs.table.deficit[1, 0] = -500.0, 500.0
    turn(paid, 100.0)
    assert ran(paid)[1] >= 79.0


def test_old_debts_are_bounded() -> None:
    made = bench("1xV100", {("a", "", "V100"): 0.5, ("b", "", "V100"): 0.5}, "ab")
    made.state.jobs.table.deficit[1, 0] = 1e9
    made.obey(made.submit(profile="a", steps=1e9))  # new shares: what the old ones owed is booked, up to a limit
    assert made.state.jobs.table.deficit[1, 0] <= 10 * made.core.settings.decide.turn_seconds
    turn(made, 3000.0)
    assert ran(made)[0] > 500.0, "nobody runs for hours because of what was owed long ago"


def test_the_fastest_type_is_filled_first_unless_the_shares_are_blind() -> None:
    """With room for all, an aware answer fills V100s; a blind one starts anywhere."""
    rates = Rates(speeds={"K80": 0.25, "V100": 1.0})
    wanted = {("a", "", "V100"): 0.5, ("a", "", "K80"): 0.5}
    type_aware = bench("1xV100 + 1xK80", wanted, "a", rates=rates)
    assert type_aware.state.nodes.observed.holder.tolist() == [0, -1]
    firsts = set()
    for seed in range(12):
        made = bench("1xV100 + 1xK80", wanted, "a", rates=rates, answer={"type_agnostic": True}, seed=seed)
        firsts.add(tuple(made.state.nodes.observed.holder.tolist()))
    assert firsts == {(0, -1), (-1, 0)}


def test_a_blind_order_depends_on_the_seed_alone() -> None:
    wanted = {(name, "", kind): 0.5 for name in "ab" for kind in ("V100", "K80")}
    two = [turn(bench("1xV100 + 1xK80", wanted, "ab", answer={"type_agnostic": True}, seed=5), 500.0) for _ in range(2)]
    assert two[0].state.jobs.table.received.tolist() == two[1].state.jobs.table.received.tolist()


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"option": [0], "share": [0.5, 0.5]}, "differ in length"),
        ({"option": [0], "share": [1.5]}, "between 0 and 1"),
        ({"option": [0], "share": [-0.1]}, "between 0 and 1"),
        ({"option": [0], "share": [float("nan")]}, "between 0 and 1"),
        ({"option": [0, 0], "share": [0.1, 0.1]}, "twice"),
        ({"option": [9], "share": [0.1]}, "outside"),
        ({"option": [0], "share": [0.1], "position": [0, 1]}, "differ in length"),
        ({"option": [0], "share": [0.1], "position": [7]}, "outside"),
        ({"option": [0], "share": [0.1], "position": [1]}, "another kind"),
        ({"option": [9], "share": [0.1], "position": [0]}, "does not exist"),
        ({"option": [0, 0], "share": [0.1, 0.1], "position": [0, 0]}, "two shares"),
    ],
)
def test_what_is_wrong_with_shares_is_said(answer: dict[str, Any], fault: str) -> None:
    from rota.core.plan.candidates import CandidateTable

    made = bench("1xV100", {}, "ab")
    columns = {name: np.array(values, dtype=np.float64 if name == "share" else np.int64) for name, values in answer.items()}
    assert fault in Shares(**columns).fault(CandidateTable(made.state, made.state.jobs.rows, made.core.settings))


# The preset of Gavel's simulator -----------------------------------------------------------------------------------------


def gavel(
    policy: Any, cluster: str, table: dict[tuple[str, str, int], float], *jobs: tuple[float, str, float], **change: Any
) -> Record:
    rates = Rates(table=table)
    known = preset("gavel")
    settings = Settings(**{**known.settings, **change})
    physics = Physics(**{**known.physics, "rates": rates})
    core = Scheduler(Cluster.parse(cluster), Packed(), settings, rates=rates)
    arrivals = [Arrival(at_s, JobSpec(profile=name, steps=steps)) for at_s, name, steps in jobs]
    return Engine(core, make_policy(policy), physics, arrivals, seed=0).run()


ONE = {("a", "V100", 1): 1.0, ("b", "V100", 1): 0.03}


def test_a_round_is_as_many_whole_steps_as_fit() -> None:
    """b makes a step every 33.3 s: ten of them fit into 360 s, and the round ends when they are done, at 333.3 s."""
    record = gavel("max-min-fairness", "1xV100", ONE, (0.0, "b", 20.0), (0.0, "b", 20.0))
    ends = sorted(record.finished_s.tolist())
    assert ends == pytest.approx([3 * 10 / 0.03, 4 * 10 / 0.03]) or ends == pytest.approx([2 * 10 / 0.03, 4 * 10 / 0.03])


def test_turns_by_hand() -> None:
    """Two equal jobs of two rounds each on one GPU take turns: a b a b, or a b b a by ties; all ends with the fourth round."""
    record = gavel("max-min-fairness", "1xV100", ONE, (0.0, "a", 720.0), (0.0, "a", 720.0))
    ends = sorted(record.finished_s.tolist())
    assert ends[1] == pytest.approx(1440.0) and ends[0] == pytest.approx(1080.0)


def test_a_job_that_ends_inside_a_round_ends_there_and_the_next_round_starts_when_all_are_done() -> None:
    record = gavel("fifo", "2xV100", ONE, (0.0, "a", 100.0), (0.0, "a", 500.0), (0.0, "a", 10.0))
    assert record.finished_s[0] == pytest.approx(100.0)
    # The third waits for the second round, which starts at 360 s, and for an answer that knows the first is gone.
    assert record.finished_s[1] == pytest.approx(500.0)
    assert record.finished_s[2] >= 370.0


class InOrder:
    """First come, first served, and it may suspend."""

    def __init__(self) -> None:
        self.asked = 0

    def allocate(self, view: Any) -> Ranking:
        self.asked += 1
        return Ranking.by(-view.jobs.submitted_s)


def test_between_answers_a_steady_ranking_begins_nobody() -> None:
    for steady, running in ((True, {0}), (False, {0, 1})):
        policy = InOrder()
        decide = AtRounds(round_seconds=10.0, solve_every_seconds=100.0)
        made = Bench("2xV100", policy, decide=decide, selection=SelectionRules(steady=steady))
        made.obey(made.submit(steps=1e6))
        made.obey(made.tell(TimerFired(0.0)))
        made.obey(made.tell(TimerFired(10.0), at_s=10.0))
        assert set(made.state.jobs.desired) == {0}
        # The second comes: the answer in force does not know it, so it waits in either case until the policy is asked.
        made.obey(made.submit(steps=1e6, at_s=15.0))
        for at_s in (20.0, 30.0, 40.0):
            made.obey(made.tell(TimerFired(at_s), at_s=at_s))
        assert set(made.state.jobs.desired) <= running
        for at_s in range(50, 220, 10):
            made.obey(made.tell(TimerFired(float(at_s)), at_s=float(at_s)))
        assert set(made.state.jobs.desired) == {0, 1}


def test_an_upgrade_moves_a_job_that_nobody_may_suspend() -> None:
    """fifo suspends nobody; but when the fast GPU is free again, a job on the slow one may have it."""
    table = {("a", "V100", 1): 4.0, ("a", "K80", 1): 1.0}
    jobs = ((0.0, "a", 1440.0), (0.0, "a", 14400.0))
    moved = gavel("fifo", "1xV100 + 1xK80", table, *jobs)
    stayed = gavel("fifo", "1xV100 + 1xK80", table, *jobs, selection=SelectionRules(deficits_break_ties=True, steady=True))
    assert moved.finished_s[0] == stayed.finished_s[0] == pytest.approx(360.0)
    assert stayed.finished_s[1] == pytest.approx(14400.0)
    assert moved.finished_s[1] < 6000.0 and moved.migrations.tolist() == [0, 1]


def test_no_suspension_where_the_same_jobs_go_on() -> None:
    made = turn(bench("2xV100", {("a", "", "V100"): 1.0}, "aa"), 500.0)
    assert not of_type(made.tell(TimerFired(510.0), at_s=510.0), Suspend)
    assert ran(made).tolist() == [510.0, 510.0]


@pytest.mark.parametrize("policy", ["max-min-fairness", "max-throughput", "finish-time-fairness"])
def test_a_job_runs_where_it_has_its_share_and_not_where_it_is_slower(policy: str) -> None:
    """Alone on two types, of which the one with the better name is the slower one for it."""
    rates = Rates(table={("m", "V100", 1): 1.0, ("m", "K80", 1): 20.0})
    trace = Trace("one job", "", (Arrival(0.0, JobSpec(profile="m", steps=2000.0)),))
    result = simulate(trace, cluster="1xV100 + 1xK80", policy=policy, rates=rates)
    assert result.record.finished_s[0] == pytest.approx(105.0), "5 s to start, and 100 s on the K80"
