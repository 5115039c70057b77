"""The nouns: clusters from text, rates, options, units, errors."""

import numpy as np
import pytest

from rota.beliefs.make_options import make_options, why_never
from rota.beliefs.rates import Rates
from rota.core.scheduler import Scheduler
from rota.core.state.phases import LEGAL
from rota.errors import IllegalTransition, InputError, RotaError, UnknownNameError
from rota.model.cluster import Cluster
from rota.model.job import Demand, JobSpec, Phase
from rota.model.options import Kind
from rota.model.reasons import Reason
from rota.model.view import keyed_rng
from rota.placers.packed import Packed


def test_a_bare_count_is_one_pool_and_brackets_are_nodes() -> None:
    cluster = Cluster.parse("6xv100 + 2x(4xA100) + (2xK80)")
    assert [(n.accelerator, n.gpus) for n in cluster.nodes] == [("V100", 6), ("A100", 4), ("A100", 4), ("K80", 2)]
    assert cluster.pools == ("V100", "A100", "K80") and cluster.pool_gpus.tolist() == [6, 8, 2]
    assert cluster.gpus == 16 and cluster.node_first.tolist() == [0, 6, 10, 14, 16]
    assert cluster.gpu_node[9] == 1 and cluster.gpu_pool[9] == 1


def test_equal_types_in_several_terms_are_one_pool() -> None:
    assert Cluster.parse("2xV100 + 1x(4xV100)").pool_gpus.tolist() == [6]


def test_floor_plans_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Cluster.parse("2xV100").gpu_node[0] = 5


def test_rates_scale_from_the_nearest_smaller_count_and_know_what_does_not_run() -> None:
    rates = Rates({("bert", "V100", 1): 2.0, ("bert", "V100", 4): 6.0, ("bert", "K80", 1): 0.0})
    assert rates.rate("bert", "V100", 4) == (6.0, 0.0)
    assert rates.rate("bert", "V100", 8)[0] == 12.0
    assert rates.rate("bert", "K80", 1)[0] == 0.0
    assert rates.rate("bert", "H100", 1)[0] == 0.0, "profiled, but not here"
    assert rates.rate("unheard-of", "H100", 1)[0] == 3.72
    assert rates.rate("", "SOMETHING-NEW", 2)[0] == 1.0


def test_options_are_best_first_and_only_where_a_job_can_run() -> None:
    cluster = Cluster.parse("2xK80 + 4xV100 + 1xH100")
    options = make_options([Kind("", Demand(2), ()), Kind("", Demand(1), ("V100",)), Kind("", Demand(9), ())], cluster, Rates())
    assert [cluster.pools[p] for p in options.pool[options.by_kind[0][options.by_kind[0] >= 0]]] == ["V100", "K80"]
    assert options.gpus.tolist() == [2, 2, 1]
    assert options.best.tolist() == [1, 2, -1]


def test_why_a_kind_can_never_run() -> None:
    cluster = Cluster.parse("2xK80")
    assert why_never(Kind("", Demand(9), ()), cluster) == (Reason.UNSATISFIABLE, "the largest pool it accepts has 2")
    assert why_never(Kind("", Demand(1), ("B200",)), cluster) == (Reason.NO_SUCH_ACCELERATOR, "the cluster has K80")
    code, why = why_never(Kind("bert", Demand(1), ()), cluster)
    assert code is Reason.UNSATISFIABLE and "profile 'bert' has no rate there" in why


def test_new_kinds_leave_option_numbers_as_they_were() -> None:
    core = Scheduler(Cluster.parse("4xV100 + 4xK80"), Packed(), rates=Rates())
    state = core.state
    seen: list[tuple[int, float]] = []
    for gpus in (3, 1, 2, 4):
        state.add_job(state.jobs.last_job + 1, JobSpec(gpus=gpus, steps=1.0), 0.0)
        for number, (kind, rate) in enumerate(seen):
            assert (state.beliefs.options.kind[number], state.beliefs.options.rate[number]) == (kind, rate)
        seen = list(zip(state.beliefs.options.kind.tolist(), state.beliefs.options.rate.tolist(), strict=True))


def test_randomness_is_keyed() -> None:
    assert keyed_rng(1, 2, 3).random() == keyed_rng(1, 2, 3).random()
    assert len({keyed_rng(a, b, 1).random() for a in range(5) for b in range(5)}) == 25


def test_every_phase_is_in_the_table_and_ends_are_final() -> None:
    assert set(LEGAL) == set(Phase)
    for phase, targets in LEGAL.items():
        assert (not targets) == phase.ended
    assert Phase.PARKED.label == Phase.CHECKPOINTED.label == "suspended"


def test_an_illegal_change_is_refused_with_a_story() -> None:
    core = Scheduler(Cluster.parse("1xV100"), Packed())
    core.state.add_job(0, JobSpec(), 0.0)
    with pytest.raises(IllegalTransition, match="job 0 cannot go from queued to running"):
        core.state.jobs.transition(0, Phase.RUNNING, 0.0)


def test_errors_say_where_what_and_what_next() -> None:
    error = InputError("not a number.", where="t.csv", line=3, field="gpus", value="two", hint="a whole number")
    assert error.message == "t.csv:3  gpus: 'two' — not a number." and error.hint == "a whole number"
    assert "Closest: fifo" in UnknownNameError("policy", "fifa", ["fifo", "las"]).message
    assert issubclass(InputError, RotaError)


def test_views_are_in_order_of_submission() -> None:
    core = Scheduler(Cluster.parse("1xV100"), Packed())
    for job in range(5):
        core.state.add_job(job, JobSpec(steps=float(job)), float(job))
    assert core.view().jobs.ids.tolist() == [0, 1, 2, 3, 4]
    assert np.isfinite(core.view().jobs.seconds_left).all()


@pytest.mark.parametrize("wrong", [{"gpus": 0}, {"gpus": 1.5}, {"steps": float("nan")}, {"steps": -1.0}])
def test_a_spec_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        JobSpec(**wrong)  # type: ignore[arg-type]
    assert JobSpec(accelerators=("v100",)).accelerators == ("V100",)


def test_nodes_are_numbered_through() -> None:
    cluster = Cluster.parse("2x(4xV100) + 2x(4xP100) + 8xK80")
    assert [node.name for node in cluster.nodes] == ["n1", "n2", "n3", "n4", "n5"]
