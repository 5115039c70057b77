"""Beliefs follow what ran: through the real core, with different given and true rates."""

from pathlib import Path

import numpy as np
import pytest

from rota.api import simulate
from rota.beliefs.estimate import Estimator
from rota.beliefs.rates import MeasuredRates, Rates
from rota.beliefs.variability import Variability
from rota.compose.hidden_rates import reveal_rates
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.snapshot import make_codec
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.events import Allocated, Progressed, Started, Submitted
from rota.model.job import JobSpec
from rota.placers.packed import Packed
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo

TRUE = Rates(
    table={
        (name, kind, 1): rate * speed
        for name, rate in (("a", 10.0), ("b", 5.0), ("c", 2.0))
        for kind, speed in (("V100", 1.0), ("K80", 0.25))
    },
    pairs={("a", "b", "V100", 1): (6.0, 3.0), ("a", "c", "V100", 1): (7.0, 1.0), ("b", "c", "V100", 1): (3.0, 1.5)},
)


def running(rates: Rates, variability: Variability | None = None) -> Scheduler:
    core = Scheduler(
        Cluster.parse("1xV100 + 1xK80"), Packed(), Settings(learn=True, colocation=True), rates=rates, variability=variability
    )
    policy, commands = Fifo(), core.step(0.0, [Submitted(0, JobSpec(profile="c", steps=1e6), 0.0)])
    answer = policy.allocate(core.view())
    for command in core.step(0.0, [Allocated(core.state.cycle.decision, answer, 0.0)]):
        if hasattr(command, "gpus"):
            core.step(0.0, [Started(0, command.attempt, command.sequence, 0.0, from_step=0.0)])
    assert core.state.jobs.table.gpus_in_use[0] > 0 and commands
    return core


def tell(core: Scheduler, steps: float, at_s: float) -> None:
    one = np.array([0])
    core.step(
        at_s, [Progressed(one, core.state.jobs.table.attempt[:1].astype(np.int64), np.array([steps]), np.array([0.0]), at_s)]
    )


def test_a_wrong_belief_is_corrected_once_and_told_to_the_policy() -> None:
    core = running(Rates(model=Estimator(TRUE, ("a", "b"), {("c", "K80", 1, False, ""): (0.5,)})))
    before = core.state.beliefs.options
    believed = before.rate[before.by_share_column[0, core.state.jobs.table.share_column[0]]]
    asked = core.state.cycle.decision
    tell(core, 60 * believed * 2, 60.0)
    after = core.state.beliefs.options
    row = after.by_share_column[0, core.state.jobs.table.share_column[0]]
    assert after.rate[row] == pytest.approx(2 * believed)
    assert core.state.jobs.table.rate[0] == pytest.approx(2 * believed) and core.state.jobs.table.best_rate[0] == after.rate.max()
    assert core.state.cycle.decision > asked, "the policy is asked again"
    assert (after.kind == before.kind).all() and (after.pool == before.pool).all(), "numbers in use stay true"


def test_what_was_believed_rightly_changes_nothing() -> None:
    core = running(TRUE)
    before = core.state.beliefs.options
    tell(core, 60 * core.state.jobs.table.rate[0] * 1.01, 60.0)
    assert core.state.beliefs.options is before


def test_a_moment_says_nothing() -> None:
    core = running(TRUE)
    before = core.state.beliefs.options
    tell(core, 1000.0, 5.0)
    assert core.state.beliefs.options is before


def test_a_measured_table_learns_too() -> None:
    layer = TRUE.measurement("a", "V100", 1, 8.0)
    colocated_with = TRUE.measurement("c", "V100", 1, 0.7, colocated_with="a")
    assert layer is not None and colocated_with is not None
    measured = layer.extended(colocated_with)
    learned = measured.over(TRUE)
    assert learned.rate("a", "V100", 1)[0] == 8.0
    assert learned.colocated_rates("a", "c", "V100", 1) == (7.0, 0.7)
    assert TRUE.rate("a", "V100", 1)[0] == 10.0, "a value: the old one stays"
    given = Rates(table={("a", "V100", 1): 3.0, ("b", "V100", 1): 4.0})
    assert measured.over(given).table == {("a", "V100", 1): 8.0, ("b", "V100", 1): 4.0}, "what is measured is a layer of its own"
    assert MeasuredRates.found_in(learned, TRUE) == measured
    assert Rates().measurement("new", "V100", 1, 3.0) is None, "no source could take it"


@pytest.mark.parametrize("part", [0.0, -0.1, 1.5, float("nan")])
def test_a_part_is_a_part(part: float) -> None:
    with pytest.raises(OptionError, match="more than 0 and at most 1"):
        reveal_rates(TRUE, part, 0)


def test_nothing_to_hide_is_said() -> None:
    with pytest.raises(OptionError, match="needs measured rates"):
        reveal_rates(Rates(), 0.5, 0)


def test_the_same_seed_tells_the_same() -> None:
    first, second = reveal_rates(TRUE, 0.5, 3), reveal_rates(TRUE, 0.5, 3)
    assert first.model == second.model


def test_a_scheduler_that_was_told_little_still_finishes_and_the_result_says_so(tmp_path: Path) -> None:
    rates, trace = tmp_path / "rates.csv", tmp_path / "trace.csv"
    cells = [f"{name},{kind},{gpus},{rate}" for (name, kind, gpus), rate in TRUE.table.items()]
    rates.write_text("\n".join(["profile,accelerator,gpus,steps_per_second", *cells]))
    jobs = [f"{60 * i},1,{3000 + 100 * i},{'abc'[i % 3]}" for i in range(12)]
    trace.write_text("\n".join(["submit_time,gpus,steps,profile", *jobs]))
    done = simulate(trace, policy="max-min-fairness", cluster="2xV100 + 2xK80", profile=rates, known_rates=0.4)
    assert done.summary.finished == 12 and done.params["known_rates"] == 0.4


def test_a_slow_gpu_is_not_taken_for_a_slow_kind() -> None:
    slow = Variability(("A",), np.array([[2.0, 1.0]]), np.zeros((1, 2)))
    core = running(TRUE, slow)
    believed = core.state.beliefs.options.rate[
        core.state.beliefs.options.by_share_column[0, core.state.jobs.table.share_column[0]]
    ]
    assert core.state.jobs.table.rate[0] == pytest.approx(believed / 2), "it runs on the slow one"
    tell(core, 60 * believed, 60.0)  # twice what was believed of it there, so twice what was believed of its kind
    after = core.state.beliefs.options
    assert after.rate[after.by_share_column[0, core.state.jobs.table.share_column[0]]] == pytest.approx(2 * believed)
    assert core.state.jobs.table.rate[0] == pytest.approx(believed)


def test_a_copy_learns_for_itself() -> None:
    core = running(TRUE)
    core.state.placement_traits(0, 0, 1)
    twin = core.fork()
    twin.state.beliefs._traits.clear()
    assert core.state.beliefs._traits, "a fork may number new kinds otherwise"


def test_what_spreading_costs_is_believed_before_and_after_and_by_a_restored_core() -> None:
    """A job that lies badly keeps its pace when another kind surprises, and so it does in a core that was restored."""
    rates = Rates({("a", "V100", 2): 1.0, ("b", "V100", 1): 1.0}, across_nodes={("a", "V100", 2): 0.5})
    core = Scheduler(Cluster.parse("3x(2xV100)"), Spread(), Settings(learn=True), rates=rates)
    specs = [JobSpec(profile="b", steps=1e6), JobSpec(profile="b", steps=1e6), JobSpec(profile="b", steps=1e6)]
    specs.append(JobSpec(profile="a", gpus=2, steps=1e6))
    for number, spec in enumerate(specs):
        core.step(0.0, [Submitted(number, spec, 0.0)])
        for command in core.step(0.0, [Allocated(core.state.cycle.decision, Fifo().allocate(core.view()), 0.0)]):
            if hasattr(command, "gpus"):
                core.step(0.0, [Started(command.job, command.attempt, command.sequence, 0.0, from_step=0.0)])
    assert core.state.nodes.cluster.spanned(core.state.jobs.attempts[3].gpus) == 1 and core.state.jobs.table.rate[3] == 0.5
    words = make_codec()
    twin = Scheduler(Cluster.parse("3x(2xV100)"), Spread(), core.settings, rates=rates)
    twin.restore(core.snapshot(words), words)
    news = Progressed(np.array([0]), np.array([1]), np.array([120.0]), np.array([0.0]), 60.0)
    for each in (core, twin):
        each.step(60.0, [news])
        assert each.state.jobs.table.rate[:4].tolist() == [2.0, 2.0, 2.0, 0.5]
