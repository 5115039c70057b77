"""Jobs that wait until their GPUs are close together."""

from typing import Any

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.beliefs.variability import Variability
from rota.core.explain import explain
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.commands import Launch
from rota.model.events import Exited, Outcome
from rota.model.job import Arrival, JobSpec
from rota.model.reasons import Reason
from rota.placers.close import few_nodes
from rota.placers.packed import Packed
from rota.placers.pal import Pal
from rota.placers.random import Random
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from tests.unit.core.helpers import Bench


def scattered(policy: Any = None, wait: bool = True) -> Bench:
    """Two nodes of four, two GPUs taken on each."""
    bench = Bench("2x(4xV100)", policy or Fifo(backfill=False), wait_for_locality=wait)
    bench.core.placer = Spread()
    for _ in range(2):
        bench.obey(bench.submit(gpus=2, steps=1000.0))
    assert [bench.state.jobs.desired[job].tolist() for job in (0, 1)] == [[0, 1], [4, 5]]
    return bench


def ends(bench: Bench, job: int) -> list[Any]:
    return bench.tell(Exited(job, bench.state.jobs.attempts[job].number, bench.now_s, Outcome.FINISHED, 1000.0))


def test_it_waits_and_says_why_and_starts_when_a_node_is_free() -> None:
    bench = scattered()
    bench.submit(gpus=4)
    assert 2 not in bench.state.jobs.desired
    (why, *_) = explain(bench.state, 2)
    assert why.code is Reason.FRAGMENTED
    assert why.sentence == "It needs 4 GPUs on one node; 4 are free, but scattered: 2, 2 by node."
    bench.obey(ends(bench, 0))
    assert bench.state.jobs.desired[2].tolist() == [0, 1, 2, 3] and explain(bench.state, 2) == []


def test_without_the_option_it_is_scattered() -> None:
    bench = scattered(wait=False)
    bench.obey(bench.submit(gpus=4))
    assert bench.state.jobs.desired[2].tolist() == [2, 3, 6, 7]


def test_a_placer_that_does_not_mind_makes_nobody_wait() -> None:
    bench = scattered()
    bench.core.placer = Random()
    bench.obey(bench.submit(gpus=4))
    assert bench.state.jobs.desired[2].tolist() == [2, 3, 6, 7]


def test_nobody_overtakes_where_nobody_may() -> None:
    bench = scattered(Fifo(backfill=False))
    bench.submit(gpus=4)
    bench.submit(gpus=1)
    assert 3 not in bench.state.jobs.desired
    assert explain(bench.state, 3)[0].code is Reason.OUTRANKED


def test_who_comes_after_gets_what_it_would_have_had() -> None:
    bench = scattered(Srsf())
    bench.submit(gpus=4, steps=2000.0)
    bench.obey(bench.submit(gpus=2, steps=9000.0))
    assert 2 not in bench.state.jobs.desired and 3 in bench.state.jobs.desired


def test_who_comes_first_drives_others_to_other_places() -> None:
    bench = scattered(Srsf())
    bench.obey(bench.submit(gpus=4, steps=1.0))
    assert sorted(bench.state.jobs.desired) == [0, 1, 2], "all fit, once one of the others has moved"
    assert len(set((bench.state.jobs.desired[2] // 4).tolist())) == 1


def test_nobody_is_stopped_in_vain() -> None:
    """By count the long gang has its turn before the last of those who run, whose GPUs do not make a place for it."""
    bench = Bench("2x(3xV100)", Srsf(), wait_for_locality=True)
    bench.core.placer = Spread()
    bench.obey(bench.submit(gpus=2, steps=10.0))
    bench.obey(bench.submit(gpus=2, steps=10.0))
    bench.obey(bench.submit(gpus=1, steps=1000.0))
    bench.obey(bench.submit(gpus=2, steps=100.0))
    assert sorted(bench.state.jobs.desired) == [0, 1, 2], "the last one runs on"
    assert explain(bench.state, 3)[0].code in (Reason.NO_FREE_GPUS, Reason.FRAGMENTED)


def test_wide_gangs_want_whole_nodes() -> None:
    bench = Bench("4x(4xV100)", Srsf(), wait_for_locality=True)
    bench.core.placer = Spread()
    bench.obey(bench.submit(gpus=1, steps=1.0))
    commands = bench.obey(bench.submit(gpus=9, steps=5.0))
    (launch,) = (command for command in commands if isinstance(command, Launch))
    nodes, counts = np.unique(launch.gpus // 4, return_counts=True)
    assert len(nodes) == 3 and sorted(counts.tolist()) == [1, 4, 4]


def test_a_placer_with_other_reasons_is_not_overruled() -> None:
    """One slow GPU on each node: PAL would rather have fast ones on two nodes, and a job that could run does not wait."""
    slow = Variability(("A",), np.array([[1.0, 1.0, 1.0, 2.8] * 2]), np.zeros((1, 8)))
    for wait in (False, True):
        core = Scheduler(Cluster.parse("2x(4xV100)"), Pal(), Settings(wait_for_locality=wait), variability=slow)
        jobs = [Arrival(0.0, JobSpec(gpus=4, steps=10.0)), Arrival(5.0, JobSpec(gpus=8, steps=10.0))]
        assert Engine(core, Fifo(), Physics(), jobs).run().ended == 2


def test_other_types_are_tried_before_it_waits() -> None:
    bench = Bench("2x(4xV100) + 1x(4xP100)", Srsf(), Rates(speeds={"V100": 2.0, "P100": 1.0}), wait_for_locality=True)
    bench.core.placer = Spread()
    for _ in range(2):
        bench.obey(bench.submit(gpus=2, steps=1.0, accelerators=("V100",)))
    bench.obey(bench.submit(gpus=4, steps=1000.0))
    assert bench.state.jobs.desired[2].tolist() == [8, 9, 10, 11] and bench.state.cycle.fragmented == ()


def test_a_rack_with_whole_nodes_comes_before_one_with_less_to_spare() -> None:
    cluster = Cluster.parse("2x(4x(4xV100))")
    free = np.array([2, 2, 2, 2, 4, 4, 1, 0])
    assert few_nodes(cluster.domains, free, 8, 1) == [(4, 4), (5, 4)]
    assert few_nodes(cluster.domains, free, 10, 1) is None
    assert sum(count for _, count in few_nodes(cluster.domains, free, 10, 2) or []) == 10


@pytest.mark.parametrize(("text", "slow", "gpus"), [("1x(8xV100) + 4x(4xV100)", [0], 8), ("10x(4xV100)", [0, 4, 8, 12], 36)])
def test_as_few_nodes_as_are_in_service(text: str, slow: list[int], gpus: int) -> None:
    cluster = Cluster.parse(text)
    scores = np.ones((1, cluster.gpus))
    scores[0, slow] = 2.0
    told = Variability(("A",), scores, np.zeros_like(scores))
    core = Scheduler(cluster, Packed(), Settings(wait_for_locality=True, cordon_slower_than=1.5), variability=told)
    record = Engine(core, Fifo(), Physics(), [Arrival(0.0, JobSpec(gpus=gpus, steps=10.0))]).run()
    assert record.ended == 1 and not set(slow) & set(record.gpu_intervals.gpus.tolist())


def test_who_is_not_spoken_of_keeps_its_place() -> None:
    """The table was compacted between question and plan, and a job came that the answer knows nothing of."""
    bench = Bench("2x(4xV100)", Srsf(), wait_for_locality=True)
    bench.obey(bench.submit(gpus=2))
    answer = bench.state.cycle.answer
    bench.obey(bench.submit(gpus=2))
    bench.state.jobs.compact()
    bench.state.cycle.answer, bench.state.cycle.has_new_answer = answer, True
    bench.obey(bench.submit(gpus=2))
    assert {0, 1} <= set(bench.state.jobs.desired), "and nothing is promised twice, as every step checks"


def test_it_survives_a_snapshot() -> None:
    from rota.core.snapshot import make_codec

    bench = scattered()
    bench.submit(gpus=4)
    words = make_codec()
    twin = Scheduler(Cluster.parse("2x(4xV100)"), Spread(), Settings(wait_for_locality=True))
    twin.restore(bench.core.snapshot(words), words)
    assert explain(twin.state, 2)[0].code is Reason.FRAGMENTED


def test_not_where_gpus_are_shared() -> None:
    with pytest.raises(OptionError, match="combined with packing"):
        Settings(wait_for_locality=True, colocation=True)


def test_an_urgent_job_makes_one_of_the_others_wait_for_its_place() -> None:
    bench = Bench("2x(4xV100)", Tiresias(thresholds=(100.0,)), wait_for_locality=True)
    bench.core.placer = Spread()
    bench.obey(bench.submit(gpus=3, steps=10_000.0))
    bench.obey(bench.submit(gpus=3, steps=10_000.0))
    bench.obey(bench.tell(at_s=200.0))
    bench.obey(bench.submit(gpus=2, steps=10.0))
    assert sorted(bench.state.jobs.desired) in ([0, 2], [1, 2]), "one of the old ones makes room for the new one"
