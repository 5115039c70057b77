"""Which job joins which, as a pure function."""

import math
from collections.abc import Sequence
from typing import Any

from rota.tactics.pair_up import Packable, PairProposal, pair_up

SEEN = {("a", "b"): 0.5, ("a", "c"): -0.2, ("b", "c"): 0.1}


def gain(host: str, guest: str, pool: int, gpus: int) -> float | None:
    first, second = sorted((host, guest))
    return SEEN.get((first, second))


def wishes_of(runners: Sequence[Packable], joiners: Sequence[Packable], **given: Any) -> list[PairProposal]:
    return pair_up(runners, joiners, gain, **{"min_gain": 0.2, "busy": set(), **given})


def job(position: int, name: str, utilization: float = 0.5, **fields: object) -> Packable:
    plain = Packable(position, name, position, 0, 1, position, utilization, math.nan, math.inf)
    return plain._replace(**fields)  # type: ignore[arg-type]


def test_the_pair_that_gains_most_is_chosen() -> None:
    (wish,) = wishes_of([job(0, "a"), job(1, "c")], [job(2, "b")])
    assert (wish.runner, wish.joiner, wish.option, wish.expected_gain) == (0, 2, 2, None)


def test_a_pair_that_does_worse_than_turns_is_left_alone() -> None:
    assert not wishes_of([job(0, "a")], [job(1, "c")])
    assert not wishes_of([job(0, "b")], [job(1, "c")], min_gain=0.2)
    assert wishes_of([job(0, "b")], [job(1, "c")], min_gain=0.0)


def test_a_pair_nobody_has_seen_is_tried_if_it_leaves_enough_idle() -> None:
    (wish,) = wishes_of([job(0, "x", 0.4)], [job(1, "y", 0.7)])
    assert wish.expected_gain is not None and abs(wish.expected_gain - 0.9) < 1e-9
    assert not wishes_of([job(0, "x", 0.95)], [job(1, "y", 0.9)])
    assert not wishes_of([job(0, "x", 0.4)], [job(1, "y", 0.7)], surprise=-0.8), "trials disappoint"


def test_one_thing_is_tried_on_a_server_at_a_time() -> None:
    hosts = [job(0, "x", node=7), job(1, "x", node=7), job(2, "x", node=8)]
    wishes = wishes_of(hosts, [job(3, "y"), job(4, "y"), job(5, "y")])
    assert sorted(wish.runner for wish in wishes) == [0, 2]
    assert not wishes_of(hosts, [job(3, "y")], busy={7, 8})


def test_memory_has_to_fit() -> None:
    host = job(0, "a", room_gib=5.0)
    assert not wishes_of([host], [job(1, "b", gib=6.0)])
    assert wishes_of([host], [job(1, "b", gib=5.0)])


def test_those_who_keep_gpus_least_busy_go_first_and_each_joins_one_job() -> None:
    wishes = wishes_of([job(0, "a")], [job(1, "b", 0.9), job(2, "b", 0.2)])
    assert [(wish.runner, wish.joiner) for wish in wishes] == [(0, 2)]


def test_a_job_that_sleeps_joins_others_only_where_it_sleeps() -> None:
    hosts = [job(0, "a", gpus_held=(0,)), job(1, "a", gpus_held=(1,))]
    (wish,) = wishes_of(hosts, [job(2, "b", gpus_held=(1,))])
    assert wish.runner == 1
    assert not wishes_of(hosts[:1], [job(2, "b", gpus_held=(1,))])


def test_jobs_of_another_size_or_pool_do_not_meet() -> None:
    assert not wishes_of([job(0, "a", gpus=2)], [job(1, "b")])
    assert not wishes_of([job(0, "a", pool=1)], [job(1, "b")])
