"""GPUs that a policy suggests: used if they are available, refused in one line if they make no sense."""

from typing import Any

import numpy as np
import pytest

from rota.api import simulate
from rota.compose.registry import PLACERS
from rota.errors import PolicyError
from rota.model.allocation import Assignment, Ranking, Shares
from rota.model.job import Arrival, JobSpec
from rota.model.view import View
from rota.traces.trace import Trace

CLUSTER = "2x(4xV100) + 4xK80"


def jobs(*gpus: int) -> Trace:
    return Trace.of("hints", "test", [Arrival(float(at), JobSpec(gpus=each, steps=100.0)) for at, each in enumerate(gpus)])


class Asks:
    """Every job on V100s, the first of the view on these GPUs."""

    def __init__(self, *gpus: Any) -> None:
        self.gpus = gpus

    def allocate(self, view: View) -> Assignment:
        position = np.arange(len(view.jobs))
        option = view.options.by_kind[view.jobs.kind, 0]
        return Assignment(position=position, option=option, gpus={0: self.gpus} if len(position) else {})


@pytest.mark.parametrize("wait_for_locality", [False, True])
@pytest.mark.parametrize("placer", sorted(PLACERS))
def test_every_placer_leaves_them_to_the_policy(placer: str, wait_for_locality: bool) -> None:
    """Across two nodes, which no placer would do by itself."""
    found = simulate(
        jobs(2), policy=Asks(2, 5), cluster=CLUSTER, placer=placer, wait_for_locality=wait_for_locality, preset="ideal"
    )
    assert found.record.gpu_intervals.gpus.tolist() == [2, 5]


def test_what_is_taken_is_left_to_the_placer() -> None:
    """Position 0 is the earliest unfinished job, which holds these GPUs; the next one gets others."""

    class Same(Asks):
        def allocate(self, view: View) -> Assignment:
            answer = super().allocate(view)
            return Assignment(position=answer.position, option=answer.option, gpus=dict.fromkeys(range(len(view.jobs)), (0, 1)))

    found = simulate(jobs(2, 2), policy=Same(), cluster=CLUSTER, preset="ideal")
    first, second = found.record.gpu_intervals.gpus.reshape(-1, 2).tolist()
    assert first == [0, 1] and not {0, 1} & set(second)


@pytest.mark.parametrize(
    ("gpus", "story"),
    [
        ((0, 0), "contain a GPU twice"),
        ((-1, 0), "contain a number outside 0 to 11"),
        ((0, 12), "contain a number outside 0 to 11"),
        ((0.5, 1), "are not a tuple of whole numbers"),
        ((0,), "are 1, but its option has 2"),
        ((0, 1, 2), "are 3, but its option has 2"),
        ((0, 9), "are not of its option's accelerator type"),
    ],
)
@pytest.mark.parametrize("wait_for_locality", [False, True])
def test_nonsense_is_refused(gpus: tuple[Any, ...], story: str, wait_for_locality: bool) -> None:
    with pytest.raises(PolicyError, match=f"Asks.allocate: the GPUs suggested at position 0 {story}") as caught:
        simulate(jobs(2), policy=Asks(*gpus), cluster=CLUSTER, wait_for_locality=wait_for_locality)
    assert "\n" not in caught.value.message


class Answers:
    """Whatever it was given, made for the view."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def allocate(self, view: View) -> Any:
        return self.make(view, np.arange(len(view.jobs)))


@pytest.mark.parametrize(
    ("make", "story"),
    [
        (lambda view, all_: Ranking(order=all_, until_s=None), "until_s is None, not a time"),  # type: ignore[arg-type]
        (lambda view, all_: Ranking(order=all_, until_s="soon"), "until_s is 'soon', not a time"),  # type: ignore[arg-type]
        (lambda view, all_: Ranking(order=all_, until_s=float("nan")), "until_s is nan, not a time"),
        (lambda view, all_: Ranking(order=all_ * 0.5), "the order is not an array of whole numbers"),
        (lambda view, all_: Ranking(order=all_ * 0), "the order contains a number twice"),
        (lambda view, all_: Ranking(order=all_ - 1), "the order contains a number outside"),
        (lambda view, all_: Ranking(order=None), "the order is not an array of whole numbers"),  # type: ignore[arg-type]
        (lambda view, all_: Ranking(order=all_, run_seconds=all_ * np.nan), "run_seconds has an entry that is not a number"),
        (lambda view, all_: Ranking(order=all_, wait_seconds=all_ * np.nan), "wait_seconds has an entry that is not a number"),
        (lambda view, all_: Ranking(order=all_, run_seconds="60"), "run_seconds is not an array of numbers"),  # type: ignore[arg-type]
        (lambda view, all_: Ranking(order=all_, run_seconds=np.ones(9)), "run_seconds has 9 entries, but there are"),
        (lambda view, all_: Ranking(order=all_, option=all_ * 1.0), "option is not an array of whole numbers"),
        (lambda view, all_: Assignment(position=all_, option=None), "option is not an array of whole numbers"),  # type: ignore[arg-type]
        (lambda view, all_: Assignment(position=all_ * 0, option=all_ * 0), "the list of positions contains a number twice"),
        (lambda view, all_: Assignment(position=all_, option=all_ * 0, gpus={7: (0, 1)}), "position 7, which has no option"),
        (lambda view, all_: Assignment(position=all_, option=all_ * 0, gpus=[(0, 1)]), "gpus is not a dict"),  # type: ignore[arg-type]
        (lambda view, all_: Shares(option=all_, share=None), "share is not an array of numbers"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_cannot_be_used_is_refused_in_one_line(make: Any, story: str) -> None:
    with pytest.raises(PolicyError, match=f"Answers.allocate: .*{story}") as caught:
        simulate(
            Trace.of("two", "test", [Arrival(0.0, JobSpec(gpus=2, steps=9.0)) for _ in range(2)]),
            policy=Answers(make),
            cluster="4xV100",
        )
    assert "\n" not in caught.value.message
