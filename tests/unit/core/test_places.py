"""Jobs that wait until their GPUs can be had together."""

from typing import Any

import numpy as np
import pytest

from rota.core.explain import explain
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.commands import Launch
from rota.model.events import Exited, Outcome
from rota.model.reasons import Reason
from rota.placers.random import Random
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from tests.unit.core.helpers import Bench


def scattered(policy: Any = None, wait: bool = True) -> Bench:
    """Two nodes of four, two GPUs taken on each."""
    bench = Bench("2x(4xV100)", policy or Fifo(backfill=False), wait_for_place=wait)
    bench.core.placer = Spread()
    for _ in range(2):
        bench.obey(bench.submit(gpus=2, steps=1000.0))
    assert [bench.state.desired[job].tolist() for job in (0, 1)] == [[0, 1], [4, 5]]
    return bench


def ends(bench: Bench, job: int) -> list[Any]:
    return bench.tell(Exited(job, bench.state.lives[job].incarnation, bench.now_s, Outcome.FINISHED, 1000.0))


def test_it_waits_and_says_why_and_starts_when_a_node_is_free() -> None:
    bench = scattered()
    assert bench.submit(gpus=4) == [] or 2 not in bench.state.desired
    (why, *_) = explain(bench.state, 2)
    assert why.code is Reason.FRAGMENTED
    assert why.sentence == "It needs 4 GPUs on one node; 4 are free, but scattered: 2, 2 by node."
    bench.obey(ends(bench, 0))
    assert bench.state.desired[2].tolist() == [0, 1, 2, 3] and explain(bench.state, 2) == []


def test_without_the_option_it_is_scattered() -> None:
    bench = scattered(wait=False)
    bench.obey(bench.submit(gpus=4))
    assert bench.state.desired[2].tolist() == [2, 3, 6, 7]


def test_a_placer_that_does_not_mind_makes_nobody_wait() -> None:
    bench = scattered()
    bench.core.placer = Random()
    bench.obey(bench.submit(gpus=4))
    assert bench.state.desired[2].tolist() == [2, 3, 6, 7]


def test_nobody_overtakes_where_nobody_may() -> None:
    bench = scattered(Fifo(backfill=False))
    bench.submit(gpus=4)
    bench.submit(gpus=1)
    assert 3 not in bench.state.desired
    assert explain(bench.state, 3)[0].code is Reason.OUTRANKED


def test_who_comes_after_gets_what_it_would_have_had() -> None:
    bench = scattered(Srsf())
    bench.submit(gpus=4, steps=2000.0)
    bench.obey(bench.submit(gpus=2, steps=9000.0))
    assert 2 not in bench.state.desired and 3 in bench.state.desired


def test_who_comes_first_drives_others_to_other_places() -> None:
    bench = scattered(Srsf())
    bench.obey(bench.submit(gpus=4, steps=1.0))
    assert sorted(bench.state.desired) == [0, 1, 2], "all fit, once one of the others has moved"
    assert len(set((bench.state.desired[2] // 4).tolist())) == 1


def test_nobody_is_stopped_in_vain() -> None:
    """By count the long gang has its turn before the last of those who run, whose GPUs do not make a place for it."""
    bench = Bench("2x(3xV100)", Srsf(), wait_for_place=True)
    bench.core.placer = Spread()
    bench.obey(bench.submit(gpus=2, steps=10.0))
    bench.obey(bench.submit(gpus=2, steps=10.0))
    bench.obey(bench.submit(gpus=1, steps=1000.0))
    bench.obey(bench.submit(gpus=2, steps=100.0))
    assert sorted(bench.state.desired) == [0, 1, 2], "the last one runs on"
    assert explain(bench.state, 3)[0].code in (Reason.NO_FREE_GPUS, Reason.FRAGMENTED)


def test_wide_gangs_want_whole_nodes() -> None:
    bench = Bench("4x(4xV100)", Srsf(), wait_for_place=True)
    bench.core.placer = Spread()
    bench.obey(bench.submit(gpus=1, steps=1.0))
    commands = bench.obey(bench.submit(gpus=9, steps=5.0))
    (launch,) = (command for command in commands if isinstance(command, Launch))
    nodes, counts = np.unique(launch.gpus // 4, return_counts=True)
    assert len(nodes) == 3 and sorted(counts.tolist()) == [1, 4, 4]


def test_it_survives_a_snapshot() -> None:
    from rota.core.snapshot import codec

    bench = scattered()
    bench.submit(gpus=4)
    words = codec()
    twin = Scheduler(Cluster.parse("2x(4xV100)"), Spread(), Settings(wait_for_place=True))
    twin.restore(bench.core.snapshot(words), words)
    assert explain(twin.state, 2)[0].code is Reason.FRAGMENTED


def test_not_where_gpus_are_shared() -> None:
    with pytest.raises(OptionError, match="share"):
        Settings(wait_for_place=True, packing=True)


def test_an_urgent_job_makes_one_of_the_others_wait_for_its_place() -> None:
    bench = Bench("2x(4xV100)", Tiresias(thresholds=(100.0,)), wait_for_place=True)
    bench.core.placer = Spread()
    bench.obey(bench.submit(gpus=3, steps=10_000.0))
    bench.obey(bench.submit(gpus=3, steps=10_000.0))
    bench.obey(bench.tell(at_s=200.0))
    bench.obey(bench.submit(gpus=2, steps=10.0))
    assert sorted(bench.state.desired) in ([0, 2], [1, 2]), "one of the old ones makes room for the new one"
