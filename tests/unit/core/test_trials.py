"""Trials: tried, measured, kept or reverted, and remembered."""

from typing import Any

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.compose.prepare import prepare_study
from rota.compose.study import make_study
from rota.core.snapshot import make_codec
from rota.model.job import Arrival, JobSpec
from rota.model.trial import PairStats, TrialVerdict
from rota.profiles.catalogue import Catalogue
from rota.sim.engine import Engine
from rota.traces.trace import Trace
from tests.checked import checked

PLAIN = {(name, "V100", 1): 1.0 for name in "abc"}
GOOD = Rates(table=PLAIN, pairs={("a", "b", "V100", 1): (0.8, 0.7), ("a", "a", "V100", 1): (0.7, 0.7)})
BAD = Rates(table=PLAIN, pairs={("a", "b", "V100", 1): (0.4, 0.3), ("a", "a", "V100", 1): (0.3, 0.3)})


def engine(rates: Rates, *jobs: tuple[float, str, float], **fields: Any) -> Engine:
    """A run whose scheduler is not told what pairs do, and whose state is checked at every step."""
    arrivals = tuple(Arrival(at_s, JobSpec(profile=name, steps=steps)) for at_s, name, steps in jobs)
    given = {"policy": "fifo", "tactics": "pack", "preset": "ideal", "cluster": "1xV100", "rates": rates, **fields}
    made = prepare_study(make_study({"trace": Trace("made up", "", arrivals), **given})).engine(None)
    made.scheduler.state.beliefs.rates = Rates(table=PLAIN)
    made.scheduler.state.beliefs.pairs["b", "b", "V100", 1] = PairStats(1, 0.4, 0.4)
    return checked(made)


FIRST_B = (0.0, "b", 100.0)
"""A short job of profile b, so that it has been measured alone."""


def test_a_good_pair_is_measured_kept_and_done_earlier() -> None:
    run = engine(GOOD, FIRST_B, (1.0, "a", 2000.0), (2.0, "b", 2000.0))
    record = run.run()
    known = run.scheduler.state.beliefs
    (trial,) = known.past_trials.values()
    assert trial.verdict is TrialVerdict.KEPT and trial.jobs == (1, 2) and trial.pair == ("a", "b", "V100", 1)
    assert trial.exclusive_rates == (1.0, 1.0) and trial.colocated_rates == pytest.approx((0.8, 0.7))
    assert trial.gain == pytest.approx(0.5) and known.pairs[trial.pair].gain == pytest.approx(0.5)
    assert record.finished_s.max() < 4100.0 * 0.75, "in turns they take 4,100 s"
    assert not record.suspensions.any()


def test_a_bad_pair_is_undone_once_it_was_measured_and_never_tried_again() -> None:
    run = engine(BAD, FIRST_B, (1.0, "a", 1000.0), (2.0, "b", 1000.0), (3.0, "b", 1000.0))
    record = run.run()
    known = run.scheduler.state.beliefs
    reverted = [trial for trial in known.past_trials.values() if trial.verdict is TrialVerdict.REVERTED]
    assert len(reverted) == known.trials_begun - sum(t.verdict is TrialVerdict.ABORTED for t in known.past_trials.values())
    assert sum(trial.pair == ("a", "b", "V100", 1) for trial in reverted) == 1
    assert reverted[0].ended_s - reverted[0].begun_s <= 120.0
    assert record.finished_s.max() < 3100.0 * 1.1, "it cost little"


def test_what_was_seen_survives_a_snapshot() -> None:
    run = engine(GOOD, FIRST_B, (1.0, "a", 500.0), (2.0, "b", 500.0))
    run.run()
    state, words = run.scheduler.state, make_codec(Catalogue)
    again = prepare_study(run_study(run)).engine(None).scheduler
    again.restore(run.scheduler.snapshot(words), words)
    assert again.state.beliefs.pairs == state.beliefs.pairs
    assert again.state.beliefs.trials_begun == state.beliefs.trials_begun and again.state.beliefs.sharing
    assert [t.verdict for t in again.state.beliefs.past_trials.values()] == [
        t.verdict for t in state.beliefs.past_trials.values()
    ]


def run_study(run: Engine) -> Any:
    arrivals = tuple(run.arrivals)
    return make_study({"trace": Trace("made up", "", arrivals), "cluster": "1xV100", "preset": "ideal", "tactics": "pack"})


def test_a_known_pair_needs_no_trial() -> None:
    run = engine(GOOD, FIRST_B, (1.0, "a", 1000.0), (2.0, "b", 1000.0))
    run.scheduler.state.beliefs.rates = GOOD
    record = run.run()
    assert not run.scheduler.state.beliefs.trials_begun and record.finished_s.max() < 2100.0 * 0.75


def test_measurements_with_noise_agree_on_average() -> None:
    run = engine(GOOD, FIRST_B, (1.0, "a", 1500.0), (2.0, "b", 1500.0), measurement_noise=0.05)
    run.run()
    (trial,) = run.scheduler.state.beliefs.past_trials.values()
    assert (
        trial.verdict is TrialVerdict.KEPT
        and trial.colocated_rates != (0.8, 0.7)
        and trial.colocated_rates == pytest.approx((0.8, 0.7), rel=0.2)
    )


def test_jobs_without_a_profile_are_remembered_one_by_one() -> None:
    arrivals = [(0.0, "", 600.0), (0.0, "", 600.0), (0.0, "", 600.0)]
    run = engine(GOOD, *arrivals, policy="gandiva")
    run.run()
    known = run.scheduler.state.beliefs
    seen = [name for trial in known.past_trials.values() for name in trial.pair[:2]]
    assert seen and all(name.startswith("#") for name in seen)
    assert list(known.pairs) == [("b", "b", "V100", 1)], "what was seen of jobs without a profile ends with them"


def test_spread_of_what_was_seen() -> None:
    seen = PairStats(1, 0.8, 0.7)
    assert seen.gain == pytest.approx(0.5) and seen.spread == 0.0
    gains = [0.5, 0.3, 0.4, 0.6]
    for value in gains[1:]:
        seen = seen.with_trial(0.8, 0.2 + value)
    assert seen.times == 4 and seen.gain == pytest.approx(np.mean(gains)) and seen.spread == pytest.approx(np.std(gains, ddof=1))


def test_a_trial_whose_job_ends_first_says_nothing() -> None:
    run = engine(GOOD, FIRST_B, (1.0, "a", 60.0), (2.0, "b", 2000.0))
    run.run()
    (trial,) = run.scheduler.state.beliefs.past_trials.values()
    assert trial.verdict is TrialVerdict.ABORTED
    assert trial.pair not in run.scheduler.state.beliefs.pairs, "it was too short to say anything"


@pytest.mark.parametrize("launch", [29.0, 30.0, 200.0])
def test_pairs_are_tried_however_long_a_start_takes(launch: float) -> None:
    run = engine(GOOD, FIRST_B, (1.0, "a", 3000.0), (2.0, "b", 3000.0), launch_seconds=launch)
    run.run()
    assert run.scheduler.state.beliefs.verdicts.get("kept") == 1


def test_while_a_partner_starts_the_policy_is_not_asked_all_the_time() -> None:
    jobs = [(5.0 * i, "ab"[i % 2], 900.0) for i in range(6)]
    run = engine(GOOD, FIRST_B, *jobs, policy="las", launch_seconds=40.0, cluster="2xV100")
    run.run()
    assert run.record.decisions < 2000
