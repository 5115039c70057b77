"""Answers of policies: what `Ranking.by` refuses, and what the core finds wrong."""

import numpy as np
import pytest

import rota
from rota.errors import OptionError, PolicyError


@pytest.mark.parametrize("values", [["a", "b"], np.zeros((3, 1)), np.array([1.0, np.nan]), 3.0, np.array([object()])])
def test_a_ranking_goes_by_one_number_per_job(values: object) -> None:
    with pytest.raises(OptionError, match=r"one number for each job|not a number"):
        rota.Ranking.by(values)  # type: ignore[arg-type]


class Short:
    def allocate(self, view: rota.View) -> rota.Ranking:
        return rota.Ranking.by(view.jobs.gpus[:1])


class Late:
    def allocate(self, view: rota.View) -> rota.Ranking:
        return rota.Ranking.by(view.jobs.gpus, until_s=0.0)


class Writes:
    def allocate(self, view: rota.View) -> rota.Ranking:
        view.jobs.gpus[:] = 1
        return rota.Ranking.by(view.jobs.gpus)


@pytest.mark.parametrize(
    "policy,words",
    [
        (Short(), "made from 1 ranks, but there are"),
        (Late(), "holds until 0 s"),
        (Writes(), r"read-only \(test_allocation.py:\d+\)"),
    ],
)
def test_wrong_answers_are_named(policy: object, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        rota.simulate("synthetic:jobs=20,gpus=8,load=2", policy=policy, cluster="8xV100")  # type: ignore[arg-type]
