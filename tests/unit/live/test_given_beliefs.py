"""Facts given later replace those given earlier, but no measurements."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.rates import Rates
from rota.beliefs.step_time import StepMeasurement, fit
from rota.beliefs.variability import Variability
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, plain_settings, read_setup
from rota.compose.parse_tactics import make_tactics
from rota.core.fold.configured import Configured
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.validate import validate
from rota.live.given_beliefs import plain_rates, plain_scores, scored_devices
from rota.live.home_setup import HomeSetup
from rota.model.allocation import Ranking
from rota.model.events import Allocated, Progressed, Started, Submitted
from rota.model.job import JobSpec
from rota.profiles.catalogue import Catalogue
from rota.profiles.curves import published_efficiency
from rota.profiles.scaling import StepTimes
from rota.tactics.pack import Pack
from tests.examples import examples

NAMES = ["V100:0", "V100:1", "K80:0"]
FAST_V100 = Rates(table={("net", "V100", 1): 40.0, ("net", "K80", 1): 2.0, ("old", "V100", 1): 3.0})
FAST_K80 = Rates(table={("net", "V100", 1): 2.0, ("net", "K80", 1): 40.0, ("old", "V100", 1): 3.0})
NO_K80 = Rates(table={("net", "V100", 1): 7.0})


def scores(*values: float, name: str = "A") -> Variability:
    return Variability((name,), np.array([values]), np.full((1, len(values)), 0.1))


def told(
    rates: Rates | None = None, slow: Variability | None = None, skews: Mapping[str, float] | None = None, **said: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {name: {"text": value} for name, value in said.items()}
    if rates is not None:
        found["profile"] = {"text": "rates.csv", "value": plain_rates(rates)}
    if slow is not None:
        found["variability"] = {"text": "scores.csv", "value": plain_scores(slow, NAMES)}
    if skews is not None:
        found["tensors"] = {"text": "tensors.csv", "value": skews}
    return found


STEP_TIMES = StepTimes(
    {"net T4": fit([StepMeasurement(n, n > 2, b, 0.1 + 0.01 * b + 0.05 * n) for n in (1, 2, 4) for b in (4, 8, 16)])}
)


def setup(says: Mapping[str, Any], **settings: Any) -> HomeSetup:
    plain = plain_settings(Settings(policy="fifo", learn_variability=True, **settings))
    common = {"policy": "fifo", "placer": "packed", "cluster": "2xV100 + 1xK80", "pretend": True, "settings": plain}
    return read_setup({**common, "given": dict(says)})


def configured(scheduler: Scheduler, now: HomeSetup) -> Scheduler:
    """A copy of a scheduler that is set up like this from now on."""
    twin = scheduler.fork()
    twin.fold(twin.state.now_s, [Configured(now, twin.state.now_s)])
    return twin


def started(chosen: HomeSetup, profiles: Sequence[str] = ("net", "old", "")) -> Scheduler:
    """A scheduler with jobs, the first of which runs on the first GPU."""
    scheduler = make_scheduler(chosen)
    submitted = [Submitted(i + 1, JobSpec(gpus=1, steps=1e6, profile=name), 0.0) for i, name in enumerate(profiles)]
    scheduler.step(0.0, submitted)
    order = np.arange(len(profiles))
    answer = Ranking(order=order, option=scheduler.state.beliefs.options.best[scheduler.state.jobs.table.kind[order]])
    scheduler.step(0.0, [Allocated(scheduler.state.cycle.decision, answer, 0.0)])
    for job, life in list(scheduler.state.jobs.attempts.items()):
        scheduler.step(1.0, [Started(job, life.number, scheduler.state.jobs.in_flight[job].command.sequence, 1.0)])
    return scheduler


def beliefs(scheduler: Scheduler) -> dict[str, Any]:
    """All that follows from what was told, in an order of its own."""
    state = scheduler.state
    known, table = state.beliefs, state.jobs.table
    size = table.size
    return {
        "options": {(row.kind, row.pool, row.milligpus): row.rate for row in known.options.rows() if row.rate > 1e-6},
        "rates": known.rates,
        "costs": known.costs,
        "skew": known.skews.of("net"),
        "scores": None if known.variability is None else known.variability.scores.tolist(),
        "learning": None if known.learning is None else known.learning.scores.tolist(),
        "columns": [column[:size].tolist() for column in (table.best_rate, table.nominal_rate, table.move_seconds)],
        "cordoned": state.nodes.cordoned,
    }


SAID = st.fixed_dictionaries(
    {
        "rates": st.sampled_from([None, FAST_V100, FAST_K80, NO_K80]),
        "slow": st.sampled_from([None, scores(1.0, 1.0, 1.0), scores(1.4, 1.0, 1.2), scores(1.0, 3.0, 1.0, name="B")]),
        "skews": st.sampled_from([None, {"net": 0.9}]),
    },
    optional={
        "spread_penalty": st.sampled_from([1.5, "net=1.7/1.2"]),
        "launch_seconds": st.sampled_from([0.0, 30.0]),
        "restore_seconds": st.just(4.0),
        "resize_seconds": st.just(2.0),
        "cordon_slower_than": st.just(1.3),
    },
)


@examples(60)
@given(first=SAID, second=SAID)
def test_who_is_told_later_believes_what_others_were_told_from_the_start(first: dict[str, Any], second: dict[str, Any]) -> None:
    before, now = (
        setup(told(**each), **({"cordon_slower_than": 1.3} if "cordon_slower_than" in each else {})) for each in (first, second)
    )
    submitted = [Submitted(i + 1, JobSpec(gpus=1, steps=1000.0, profile=name), 0.0) for i, name in enumerate(("net", "old", ""))]
    changed, fresh = make_scheduler(before), make_scheduler(now)
    for scheduler in (changed, fresh):
        scheduler.step(0.0, submitted)
    again = configured(changed, now)
    validate(again.state)
    assert beliefs(again) == beliefs(fresh)
    assert beliefs(configured(again, before)) == beliefs(changed)


def test_running_jobs_are_believed_to_run_at_the_new_rate() -> None:
    before, now = setup(told(FAST_V100)), setup(told(FAST_K80, scores(2.0, 2.0, 1.0)))
    scheduler = started(before)
    table = scheduler.state.jobs.table
    assert table.rate[0] == 40.0
    again = configured(scheduler, now)
    assert again.state.jobs.table.rate[0] == 1.0, "2 steps a second, on a GPU that takes twice as long"
    assert table.rate[0] == 40.0, "the other scheduler knows nothing of it"
    validate(again.state)


def test_a_type_of_which_nothing_was_known_becomes_an_option() -> None:
    before, now = setup(told(NO_K80)), setup(told(FAST_K80))
    scheduler = make_scheduler(before)
    scheduler.step(0.0, [Submitted(1, JobSpec(gpus=1, steps=10.0, profile="net", accelerators=("K80",)), 0.0)])
    assert not len(scheduler.state.jobs.rows), "it cannot run"
    again = configured(scheduler, now)
    assert len(again.state.jobs.rows) == 1 and again.state.jobs.table.best_rate[0] == 40.0


def test_measured_rates_stay() -> None:
    before, now = setup(told(FAST_V100), learn=True), setup(told(FAST_K80), learn=True)
    scheduler = started(before)
    life = scheduler.state.jobs.attempts[1].number
    for at_s in (1.0, 101.0, 201.0):
        scheduler.step(at_s, [Progressed(np.array([1]), np.array([life]), np.array([10 * (at_s - 1)]), np.array([0.0]), at_s)])
    assert scheduler.state.beliefs.rates.table["net", "V100", 1] == pytest.approx(10.0)
    known = configured(scheduler, now).state.beliefs
    assert known.rates.table["net", "V100", 1] == pytest.approx(10.0), "measured"
    assert known.rates.table["net", "K80", 1] == 40.0, "told"


def test_a_start_that_took_longer_stays_the_price_of_moving() -> None:
    before, now = setup(told(launch_seconds=3.0)), setup(told(launch_seconds=0.5))
    scheduler = started(before)
    scheduler.state.jobs.table.move_seconds[0] = 12.0
    scheduler.state.jobs.table.own("move_measured")[0] = True
    again = configured(scheduler, now)
    assert again.state.jobs.table.move_seconds[:3].tolist() == [12.0, 0.5, 0.5]


def test_a_measured_price_that_equals_a_given_one_is_still_measured() -> None:
    scheduler = started(setup(told(launch_seconds=0.5)))
    table = scheduler.state.jobs.table
    measured = table.move_measured[: table.size].tolist()
    assert any(measured) and not all(measured), "each start took one second"
    for seconds in (1.0, 3.0):
        scheduler.fold(2.0, [Configured(setup(told(launch_seconds=seconds)), 2.0)])
    assert table.move_seconds[: table.size].tolist() == [1.0 if each else 3.0 for each in measured]


def test_a_snapshot_from_before_version_17_says_by_its_prices_which_were_measured() -> None:
    scheduler = started(setup(told(launch_seconds=0.5)))
    plain = scheduler.snapshot(JOURNAL_CODEC)
    table = JOURNAL_CODEC.decode(plain["jobs"]["table"])
    without = {name: column for name, column in table.items() if name not in ("move_measured", "resize_measured")}
    old = {**plain, "version": 16, "jobs": {**plain["jobs"], "table": JOURNAL_CODEC.encode(without)}}
    again = make_scheduler(setup(told(launch_seconds=0.5)))
    again.restore(old, JOURNAL_CODEC)
    assert again.snapshot(JOURNAL_CODEC) == plain and again.state.jobs.table.move_measured.any()


def test_measured_scores_stay_and_are_weighed_against_what_is_told() -> None:
    before, now = setup(told(slow=scores(1.1, 1.2, 1.3))), setup(told(slow=scores(1.5, 1.6, 1.7)))
    scheduler = make_scheduler(before)
    known = scheduler.state.beliefs
    assert known.learning is not None
    learned = known.learning
    for at_s in range(4):
        learned = learned.learned("A", [1], 2.0, float(at_s))
    known.learning = known.variability = learned
    again = configured(scheduler, now).state.beliefs.learning
    assert again is not None and again.scores.tolist() == [[1.5, float(learned.scores[0, 1]), 1.7]]
    assert [value for _, value, _ in again.recent[0, 1]] == [1.6, 2.0, 2.0, 2.0, 2.0]
    assert again.learned("A", [1], 2.0, 5.0).scores[0, 1] == 2.0
    other = setup(told(slow=scores(1.0, 1.0, 1.4, name="B")))
    last = configured(scheduler, other).state.beliefs.learning
    assert last is not None and last.scores.tolist() == [[1.0, 1.0, 1.4]], "a class that is gone takes its measurements with it"


def test_gpus_keep_their_names_and_numbers_are_never_used_again() -> None:
    assert scored_devices([("a", "b"), ("d",), ("c",)]) == ["a", "b", "d", "c"]
    assert scored_devices([("a", "b"), ("c",), ("b",)]) == ["a", "", "c", "b"], "b left, and joined again"


def test_who_is_told_of_packing_later_may_share_gpus_and_goes_on_so() -> None:
    """Also when the tactic is given up: jobs may share GPUs at that moment."""
    without, colocation = setup({}), setup({}, tactics=make_tactics("pack:settle_seconds=5"))
    scheduler = started(without)
    assert not scheduler.state.sharing
    later = configured(scheduler, colocation)
    assert later.state.sharing and later.settings.tactics.colocating == Pack(settle_seconds=5.0) and not scheduler.state.sharing
    later.restore(json.loads(json.dumps(later.snapshot(JOURNAL_CODEC))), JOURNAL_CODEC)
    assert later.state.sharing
    assert configured(later, without).state.sharing


def test_a_policy_that_packs_finds_pairs_for_jobs_that_were_there_before_it() -> None:
    rates = Rates(table=FAST_V100.table, pairs={("net", "old", "V100", 1): (30.0, 2.0)})
    before, colocation = (setup(told(rates), colocation=yes) for yes in (False, True))
    scheduler = started(before)
    option = scheduler.state.jobs.table.option[:3].tolist()
    later = configured(scheduler, colocation)
    assert later.state.beliefs.options.has_colocated and not scheduler.state.beliefs.options.has_colocated
    assert later.state.jobs.table.option[:3].tolist() == option, "numbers of options in use stay true"
    validate(later.state)
    again = configured(later, before)
    assert again.state.beliefs.options.has_colocated, "jobs may share GPUs at that moment"


def test_a_folder_of_step_times_is_told_as_the_model_that_fits_it() -> None:
    """It goes into the configuration as a few numbers, and comes out the same after a restart."""
    measured = Rates(model=STEP_TIMES, efficiency=published_efficiency())
    says = json.loads(json.dumps(told(measured)))
    assert "curves" not in json.dumps(says).replace('"curves": {"dict": []}', ""), "what is published need not be kept"
    found = setup(says).given.rates
    assert found.model == STEP_TIMES.fitted() == setup(says).given.rates.model
    assert found.efficiency == published_efficiency().modelled()
    assert found.rate("net/global16", "T4", 2)[0] == pytest.approx(1 / (0.1 + 0.08 + 0.1), rel=0.15)
    assert found.rate("vgg16/bs32", "V100", 1) == Rates(model=Catalogue()).rate("vgg16/bs32", "V100", 1)


def test_other_step_times_replace_those_that_were_told_before() -> None:
    before, now = (setup(told(Rates(model=model))) for model in (STEP_TIMES, Catalogue()))
    core = make_scheduler(before)
    core.step(0.0, [Submitted(0, JobSpec(profile="net/global16", gpus=2, gpu_counts=(1,), steps=10.0), 0.0)])
    assert core.state.beliefs.rates.model == STEP_TIMES
    later = configured(core, now)
    validate(later.state)
    assert later.state.beliefs.rates.model == Catalogue()
    assert configured(later, before).state.beliefs.rates.model == STEP_TIMES
