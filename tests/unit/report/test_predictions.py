"""A result's report on the accuracy of length predictions."""

import json

import numpy as np
import pytest

import rota
from rota.core.state.beliefs import Beliefs
from rota.model.length_prediction import LengthPrediction
from rota.report.comparison import Comparison
from rota.report.predictions import PredictionsSummary
from rota.report.result import Result


def summary(*made: LengthPrediction) -> PredictionsSummary:
    known = Beliefs.__new__(Beliefs)
    known.predictions = made
    return PredictionsSummary.of(known)


def simulated(policy: str = "optimus") -> Result:
    return rota.simulate("ones:jobs=40,seed=3", policy=policy, cluster="4x(4xRTX5000)")


def test_by_how_far_jobs_had_come() -> None:
    found = summary(
        LengthPrediction("a", 1.0, 30.0, 10.0),
        LengthPrediction("a", 2.5, 5.0, 10.0),
        LengthPrediction("a", 5.0, 12.0, 10.0),
        LengthPrediction("b", 9.0, 10.0, 10.0),
        LengthPrediction("b", 11.0, 12.0, 10.0),
    )
    assert found.predictions == 5
    quarters = {each.done_upto: each for each in found.by_progress}
    assert set(quarters) == {0.25, 0.5, 1.0}, "none was made in the third quarter"
    first = quarters[0.25]
    assert first.predictions == 2 and first.typical_factor == pytest.approx(2.5) and first.bias == pytest.approx((3 + 0.5) / 2)
    assert quarters[0.5].typical_factor == quarters[0.5].bias == pytest.approx(1.2)
    assert quarters[1.0].predictions == 2, "one was believed to be further than it was in the end"
    assert found.by_model == {"a": pytest.approx(2.0), "b": pytest.approx(1.1)}
    assert str(found) == "5 predictions, typically off by 2.50x at 25%, 1.20x at 50%, 1.10x at 100% done"


def test_nothing_was_foreseen() -> None:
    assert str(summary()) == "0 predictions" and summary().to_dict()["by_progress"] == []


def test_a_simulation_says_what_was_believed_and_how_wrong_it_was() -> None:
    result = simulated()
    assert result.predictions is not None and result.predictions.predictions > 20
    parts = result.predictions.by_progress
    assert sum(each.predictions for each in parts) == result.predictions.predictions
    assert parts[-1].typical_factor < parts[0].typical_factor, "it is easier to foresee the end when it is near"
    assert all(1.0 <= each.typical_factor <= each.p90_factor and np.isfinite(each.p90_factor) for each in parts)
    plain = json.loads(json.dumps(result.to_dict()))["predictions"]
    assert plain["predictions"] == result.predictions.predictions and "predictions" in str(result)
    assert Comparison({"optimus": [result]}).to_dict()[0]["predictions"] == result.to_dict()["predictions"]
    assert len(Comparison({"optimus": [result, result]}).to_dict()[0]["predictions_by_seed"]) == 2


def test_a_policy_that_does_not_ask_has_none() -> None:
    result = simulated("goodput")
    assert result.predictions is None and "predictions" not in str(result) and "predictions" not in result.to_dict()
    assert "predictions" not in Comparison({"goodput": [result]}).to_dict()[0]
