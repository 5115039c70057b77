"""The memory of trials: verdicts and pairs, also across a snapshot; and when a trial begins."""

import json
import math

import numpy as np
import pytest

from rota.core.plan.tactic import Tactics
from rota.core.snapshot import make_codec
from rota.model.commands import Launch, Suspend
from rota.model.events import Exited, Measured, Outcome
from rota.model.trial import PairStats
from rota.policies.fifo import Fifo
from rota.tactics.pack import Pack
from tests.unit.core.helpers import Bench, of_type

PAIR = ("net", "net", "V100", 1)


def measured(bench: Bench, since_s: float, **rates: float) -> Measured:
    """`j0=2.0`: job 0 made two steps per second."""
    jobs = np.array([int(name[1:]) for name in rates], dtype=np.int64)
    table, row = bench.state.jobs.table, bench.state.jobs.row
    unknown = np.full(len(jobs), math.nan)
    attempts = np.array([table.attempt[row[job]] for job in jobs.tolist()], dtype=np.int64)
    values = np.array(list(rates.values()))
    return Measured(jobs, attempts, np.full(len(jobs), since_s), values, unknown, unknown, unknown, bench.now_s)


def on_trial() -> Bench:
    """Job 0 runs alone, is measured, and job 1, which waits, joins it."""
    bench = Bench("1xV100", Fifo(), tactics=Tactics((Pack(settle_seconds=10.0),)))
    for _ in range(2):
        bench.obey(bench.submit(gpus=1, profile="net", steps=1e6))
    assert set(bench.state.jobs.attempts) == {0}
    bench.now_s = 20.0
    launches = of_type(bench.obey(bench.tell(measured(bench, 0.0, j0=10.0))), Launch)
    assert [(launch.job, launch.partner) for launch in launches] == [(1, 0)], "the first measurement is news where a job waits"
    assert bench.state.beliefs.trials[1].exclusive_rates == (10.0, 10.0), "of one with its profile"
    return bench


@pytest.mark.parametrize(("after", "verdict", "gain"), [(4.0, "reverted", -0.2), (9.0, "kept", 0.8)])
def test_a_verdict_is_counted_and_remembered_across_a_snapshot(after: float, verdict: str, gain: float) -> None:
    bench = on_trial()
    bench.now_s = 40.0
    suspended = of_type(bench.obey(bench.tell(measured(bench, 25.0, j0=after, j1=after))), Suspend)
    assert [command.job for command in suspended] == ([1] if verdict == "reverted" else [])
    words = make_codec()
    bench.core.restore(json.loads(json.dumps(bench.core.snapshot(words))), words)
    known = bench.state.beliefs
    assert known.verdicts == {verdict: 1} and known.trials_begun == 1 and not known.trials and known.sharing
    assert isinstance(known.pairs[PAIR], PairStats)
    assert known.pairs[PAIR].gain == pytest.approx(gain) and known.pairs[PAIR].times == 1
    assert known.past_trials[1].verdict == verdict

    bench.now_s = 60.0
    again = bench.obey(bench.tell(measured(bench, 45.0, j0=after if verdict == "kept" else 10.0)))
    again += bench.obey(bench.submit(gpus=1, profile="net", steps=1e6))
    assert of_type(again, Launch) == [] and known.trials_begun == 1, "what was seen is not tried again"


def test_a_trial_whose_job_ends_is_broken_off_and_counted() -> None:
    bench = on_trial()
    bench.obey(bench.tell(Exited(1, 1, bench.now_s, Outcome.FINISHED, 0.0)))
    bench.obey(bench.submit(gpus=1, profile="net", steps=1e6))
    assert bench.state.beliefs.verdicts == {"aborted": 1} and bench.state.beliefs.pairs == {}


def test_without_the_tactic_measurements_start_nothing() -> None:
    bench = Bench("1xV100", Fifo())
    for _ in range(2):
        bench.obey(bench.submit(gpus=1, profile="net", steps=1e6))
    bench.now_s = 20.0
    assert bench.tell(measured(bench, 0.0, j0=10.0)) == [] and not bench.state.cycle.needs_plan


def test_a_pair_of_which_one_stands_still_is_undone_once() -> None:
    bench = on_trial()
    given_up_s = bench.state.beliefs.trials[1].given_up_s
    bench.now_s = given_up_s - 1
    assert bench.tell(measured(bench, 25.0, j0=9.0)) == [], "the other one makes no steps to measure"
    bench.obey(bench.submit(gpus=1, profile="net", steps=1e6))
    assert set(bench.state.jobs.attempts) == {0, 1}
    bench.now_s = given_up_s + 1
    suspended = of_type(bench.obey(bench.submit(gpus=1, profile="net", steps=1e6)), Suspend)
    known = bench.state.beliefs
    assert [command.job for command in suspended] == [1] and known.verdicts == {"reverted": 1}
    assert known.pairs[PAIR].gain == pytest.approx(-0.1) and known.past_trials[1].colocated_rates == (9.0, 0.0)
    bench.now_s += 100.0
    assert of_type(bench.obey(bench.tell(measured(bench, bench.now_s - 50, j0=10.0))), Launch) == [] and known.trials_begun == 1
