"""Length predictions: learned from finished jobs, recorded while others run, and compared when they end."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from rota.beliefs.lengths import EPOCH_SECONDS, USUAL_EPOCHS
from rota.beliefs.rates import Rates
from rota.core.learn.job_lengths import KEEP_LENGTHS, NOTED, finished, predict_lengths
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.snapshot import make_codec, restore, take
from rota.model.cluster import Cluster
from rota.model.events import Exited, Outcome
from rota.model.length_prediction import LengthPrediction, LengthPredictions
from rota.placers.packed import Packed
from rota.policies.optimus import Optimus
from tests.unit.core.helpers import Bench

RATES = Rates(table={("net/global64", "V100", 1): 2.0, ("other", "V100", 1): 2.0})


def bench(foresees: bool = True) -> Bench:
    return Bench("4xV100", Optimus(), RATES, needs_predictions=foresees)


def end(made: Bench, job: int, steps: float, at_s: float) -> None:
    attempt = made.state.jobs.attempts[job].number
    made.obey(made.tell(Exited(job, attempt, at_s, Outcome.FINISHED, steps), at_s=at_s))


def run(made: Bench, steps: float, at_s: float = 0.0, **fields: Any) -> int:
    made.now_s = at_s
    made.obey(made.submit(steps=steps, **{"profile": "net/global64", "epoch_steps": 100.0, **fields}))
    return made.jobs - 1


def foreseen(made: Bench) -> LengthPredictions:
    return predict_lengths(made.state, made.state.jobs.rows)


def test_an_empty_history_works() -> None:
    made = bench()
    run(made, 5000.0)
    made.tell(at_s=100.0)
    seen = foreseen(made)
    assert seen.epoch_steps.tolist() == [100.0] and seen.epochs.tolist() == [2.0]
    assert seen.epochs_left.tolist() == [USUAL_EPOCHS - 2] and seen.steps_left.tolist() == [100 * (USUAL_EPOCHS - 2)]
    view = made.core.view()
    assert view.predictions is not None and view.predictions.epochs_left.tolist() == [USUAL_EPOCHS - 2]
    assert bench(False).core.view().predictions is None


def test_a_job_that_does_not_say_how_long_an_epoch_is() -> None:
    made = bench()
    run(made, 5000.0, epoch_steps=None)
    made.tell(at_s=90.0)
    assert foreseen(made).epochs.tolist() == [pytest.approx(90 / EPOCH_SECONDS)]


def test_the_lengths_of_finished_jobs_count_by_model() -> None:
    made = bench()
    end(made, run(made, 1000.0), 1000.0, 500.0)
    end(made, run(made, 3000.0, 500.0, profile="other"), 3000.0, 2000.0)
    assert made.state.beliefs.lengths == {"net": (10.0,), "other": (30.0,)}
    run(made, 9000.0, 2000.0)
    run(made, 9000.0, 2000.0, profile="other")
    run(made, 9000.0, 2000.0, profile="")
    usual = (10 + 30) / 2
    assert foreseen(made).epochs_left.tolist() == [(10 + usual) / 2, (30 + usual) / 2, usual]


def test_what_a_job_did_is_what_counts_not_what_it_asked_for() -> None:
    made = bench()
    end(made, run(made, 1000.0), 0.0, 500.0)
    assert made.state.beliefs.lengths == {"net": (10.0,)}, "of a job that does not say what it did, what was believed counts"
    made = bench()
    run(made, 1000.0)
    finished(made.state, 0, made.state.jobs.row[0])
    assert made.state.beliefs.lengths == {}, "a job that did nothing says nothing of others"


def test_only_the_latest_lengths_are_kept() -> None:
    made = bench()
    run(made, 1000.0)
    row = made.state.jobs.row[0]
    made.state.jobs.table.steps_done[row] = 700.0
    for _ in range(KEEP_LENGTHS + 5):
        finished(made.state, 0, row)
    assert len(made.state.beliefs.lengths["net"]) == KEEP_LENGTHS


def noted(made: Bench, job: int) -> list[float]:
    return [at for at, _ in made.state.beliefs.predicted.get(job, ())]


def test_beliefs_are_noted_each_time_a_job_has_trained_twice_as_long_and_compared_when_it_ends() -> None:
    made = bench()
    job = run(made, 2000.0)
    for at_s in range(25, 1000, 25):
        run(made, 1.0, float(at_s), gpus=4)  # somebody comes, and the policy is asked
        if len(noted(made, job)) == NOTED:
            break
    marks = noted(made, job)
    assert marks[0] >= 1.0 and all(second >= 2 * first for first, second in pairwise(marks))
    assert len(marks) == 5, "at 1, 2, 4, 8 and 16 epochs of 20"
    end(made, job, 2000.0, 1000.0)
    known = made.state.beliefs
    assert job not in known.predicted and [each.at_epochs for each in known.predictions] == marks
    assert {(each.model, each.epochs) for each in known.predictions} == {("net", 20.0)}
    assert all(each.believed_epochs == USUAL_EPOCHS for each in known.predictions)


def test_nothing_is_noted_for_a_policy_that_does_not_ask() -> None:
    made = bench(False)
    run(made, 2000.0)
    for at_s in (200.0, 400.0):
        run(made, 1.0, at_s)
    assert not made.state.beliefs.predicted


def test_what_is_noted_of_a_job_goes_when_it_is_gone() -> None:
    made = bench()
    job = run(made, 2000.0)
    run(made, 100.0, 200.0)
    assert noted(made, job)
    made.tell(Exited(job, made.state.jobs.attempts[job].number, 300.0, Outcome.FAILED, 0.0), at_s=300.0)
    assert not noted(made, job) and not made.state.beliefs.predictions


def test_a_snapshot_keeps_all_of_it() -> None:
    made = bench()
    known = made.state.beliefs
    known.lengths, known.predicted = {"net": (3.0, 4.5)}, {7: ((1.0, 30.0), (2.0, 12.0))}
    known.predictions = (LengthPrediction("net", 1.0, 30.0, 4.5),)
    words = make_codec()
    again = restore(take(made.state, words), words).beliefs
    assert again.lengths == known.lengths and again.predicted == known.predicted
    assert again.predictions == known.predictions and again.predictions[0].model == "net"


def test_draws_are_around_what_is_believed() -> None:
    seen = LengthPredictions(np.array([10.0, 10.0]), np.array([0.0, 20.0]), np.array([30.0, 20.0]))
    drawn = np.array([seen.drawn_left(np.random.default_rng(seed)) for seed in range(2000)])
    assert (drawn[:, 0] == 300.0).all(), "a job that has done nothing yet is as long as it is believed to be"
    assert (drawn > 0).all() and np.isfinite(drawn).all()
    assert np.median(drawn[:, 1]) == pytest.approx(200.0, rel=0.2) and drawn[:, 1].std() > 20.0
    assert (seen.drawn_left(np.random.default_rng(1)) == seen.drawn_left(np.random.default_rng(1))).all()


def test_a_scheduler_says_what_it_foresees_only_if_asked() -> None:
    core = Scheduler(Cluster.parse("1xV100"), Packed(), Settings(needs_predictions=True))
    seen = core.view().predictions
    assert seen is not None and not len(seen.epochs)
