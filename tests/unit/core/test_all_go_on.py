"""While all jobs run, the end of one changes nothing for the others, so the policy is not called."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from rota.api import simulate
from rota.model.allocation import Ranking
from rota.model.job import Arrival, JobSpec
from rota.model.view import View
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from rota.traces.synthetic import synthetic
from rota.traces.trace import Trace


@dataclass(frozen=True)
class Counted:
    """Another policy, which notes when it is asked. With `always` its answers have to be renewed at every end."""

    policy: Any
    asked: list[float]
    always: bool = False

    def allocate(self, view: View) -> Ranking:
        self.asked.append(view.now_s)
        answer: Ranking = self.policy.allocate(view)
        if self.always:
            answer = replace(answer, memory=answer.memory or 0, memory_can_wait=False)
        return answer


def one_after_the_other(jobs: int, gpus: int) -> Trace:
    """Jobs that come every second and run for a hundred."""
    return Trace("made up", "", tuple(Arrival(float(i), JobSpec(gpus=gpus, steps=100.0, profile="")) for i in range(jobs)))


def ends_asked_about(cluster: str, gpus: int = 1, **fields: Any) -> int:
    policy = Counted(fields.pop("policy", Srsf()), [], fields.pop("always", False))
    simulate(one_after_the_other(4, gpus), cluster=cluster, policy=policy, preset="ideal", **fields)
    return sum(at_s >= 100.0 for at_s in policy.asked)


def test_the_policy_is_not_asked_at_the_end_of_a_job_while_all_run() -> None:
    assert ends_asked_about("8xV100") == 0
    assert ends_asked_about("8xV100", policy=Tiresias()) == 0


@pytest.mark.parametrize(
    ("why", "fields"),
    [
        ("a job waits", {"cluster": "2xV100"}),
        ("another type may have become free", {"cluster": "4xV100 + 4xK80"}),
        ("the policy has something to remember", {"cluster": "8xV100", "always": True}),
        ("the placer places all jobs anew", {"cluster": "8xV100", "placer": "packed:sticky=false"}),
        ("jobs wait for a place", {"cluster": "2x(4xV100)", "wait_for_locality": True}),
        ("a job may move to what it leaves", {"cluster": "2x(4xV100)", "tactics": "migrate"}),
    ],
)
def test_it_is_asked_where_an_end_may_change_something(why: str, fields: dict[str, Any]) -> None:
    assert ends_asked_about(**fields) > 0, why


@pytest.mark.parametrize("policy", [Srsf(), Tiresias(), Tiresias(thresholds=(60.0, 600.0), promote=2.0)])
@pytest.mark.parametrize("load", [0.4, 0.8, 1.1])
@pytest.mark.slow
def test_every_result_is_what_it_is_when_the_policy_is_always_asked(policy: Any, load: float) -> None:
    trace = synthetic(120, 3, load=load, gpus=16)
    few: list[float] = []
    many: list[float] = []
    spared, always = (
        simulate(trace, cluster="2x(8xV100)", policy=Counted(policy, asked, flag), placer="random", preset="ideal")
        for asked, flag in ((few, False), (many, True))
    )
    assert np.array_equal(spared.record.finished_s, always.record.finished_s)
    assert np.array_equal(spared.record.suspensions, always.record.suspensions)
    assert spared.summary.decisions == always.summary.decisions, "an end that decides itself counts as a decision"
    assert len(few) < len(many)
