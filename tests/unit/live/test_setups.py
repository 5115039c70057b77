"""The setup of a scheduler is an event: the journal keeps it with its entry, and recovery folds it in its place."""

from dataclasses import replace
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_home_setup, make_scheduler, plain_setup
from rota.core.fold.configured import Configured, CoreEvent
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.errors import JournalError
from rota.live.given_beliefs import GivenFlag, plain_rates
from rota.live.home_setup import HomeSetup
from rota.live.journal import Journal
from rota.live.recovery import recover
from rota.live.replay import replay
from rota.model.cluster import Cluster, Node
from rota.model.events import NodeJoined, Submitted
from rota.model.job import JobSpec
from tests.unit.live.test_given_beliefs import FAST_K80, FAST_V100, scores, told

CLUSTER = Cluster.parse("2xV100")
NAMES = (("V100:0", "V100:1"),)


def setup(policy: str = "fifo", **flags: GivenFlag) -> HomeSetup:
    base = Settings(learn_variability=True)
    return make_home_setup(policy, "packed", base, flags, CLUSTER, pretend=True).with_devices(NAMES)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)


def write(journal: Journal, scheduler: Scheduler, now_s: float, *events: CoreEvent) -> None:
    scheduler.fold(now_s, events)
    decided = scheduler.decide()
    journal.append(now_s, events, decided)
    scheduler.commit(decided)


def test_a_setup_is_one_entry_and_recovery_folds_it_where_it_stands(journal: Journal) -> None:
    first = setup(variability=GivenFlag("s", told(slow=scores(1.1, 1.2, 1.3))["variability"]["value"]))
    second = setup("las", variability=first.flags["variability"]).with_devices((*NAMES, ("K80:0",)))
    scheduler = make_scheduler(first)
    write(journal, scheduler, 0.0, Submitted(1, JobSpec(steps=10.0), 0.0), Configured(first, 0.0))
    # The node joins before its GPUs get their scores, and the job after them is of the new policy.
    joined = NodeJoined(Node("n2", "K80", 1), 1.0)
    write(journal, scheduler, 1.0, joined, Configured(second, 1.0), Submitted(2, JobSpec(steps=10.0), 1.0))
    journal.compact(starting=True)
    kinds = [[type(event).__name__ for event in entry.events] for entry in journal.entries()]
    assert kinds == [["Submitted", "Configured"], ["NodeJoined", "Configured", "Submitted"]]
    assert [journal.setup(number) for number in (1, 2)] == [first, second]
    assert all(difference is None for _, _, difference in replay(journal, JOURNAL_CODEC, make_scheduler))
    found = recover(journal, JOURNAL_CODEC, make_scheduler)
    assert found.setup == second and found.settings.policy == "las"
    assert found.state.beliefs.variability is not None
    assert found.state.beliefs.variability.scores.tolist() == [[1.1, 1.2, 1.3]]
    assert found.snapshot(JOURNAL_CODEC) == scheduler.snapshot(JOURNAL_CODEC)


def test_a_setup_of_an_earlier_version_is_folded_before_the_events_of_its_entry(journal: Journal) -> None:
    """It was written beside the entry, and no event of the entry said so."""
    first, second = setup(), setup("las", wait_for_locality=GivenFlag(True))
    journal.configure(plain_setup(first))
    scheduler = make_scheduler(first)
    write(journal, scheduler, 0.0, Submitted(1, JobSpec(steps=10.0), 0.0))
    journal.configure(plain_setup(second))
    journal.append(1.0, [Submitted(2, JobSpec(steps=10.0), 1.0)], None)
    events = [list(entry.events) for entry in journal.entries()]
    assert [type(each[0]) for each in events] == [Configured, Configured] and [len(each) for each in events] == [2, 2]
    assert isinstance(events[1][0], Configured) and events[1][0].setup == second and events[1][0].at_s == 1.0
    assert recover(journal, JOURNAL_CODEC, make_scheduler).settings == second.settings


def test_a_journal_that_states_no_setup_is_refused(journal: Journal) -> None:
    journal.append(0.0, [Submitted(1, JobSpec(), 0.0)], None)
    with pytest.raises(JournalError, match="does not state the setup of entry 1"):
        recover(journal, JOURNAL_CODEC, make_scheduler)


def test_a_snapshot_without_the_layer_of_measured_rates_gets_it_back() -> None:
    """Earlier versions kept measured rates only among all others."""
    before, now = (setup(profile=GivenFlag("rates.csv", plain_rates(rates))) for rates in (FAST_V100, FAST_K80))
    scheduler = make_scheduler(before)
    found = before.given.rates.measurement("net", "V100", 1, 10.0)
    assert found is not None
    scheduler.state.beliefs.add_measured(found)
    plain = scheduler.snapshot(JOURNAL_CODEC)
    del plain["beliefs"]["measured"]
    again = make_scheduler(before)
    again.restore(plain, JOURNAL_CODEC)
    again.fold(1.0, [Configured(now, 1.0)])
    assert again.state.beliefs.rates.table == {**FAST_K80.table, ("net", "V100", 1): 10.0}


def test_measured_rates_survive_other_flags_and_a_snapshot(journal: Journal) -> None:
    before, now = (setup(profile=GivenFlag("rates.csv", plain_rates(rates))) for rates in (FAST_V100, FAST_K80))
    scheduler = make_scheduler(before)
    found = before.given.rates.measurement("net", "V100", 1, 2.0)
    assert found is not None
    scheduler.state.beliefs.add_measured(found)
    scheduler.fold(1.0, [Configured(now, 1.0)])
    again = make_scheduler(now)
    again.restore(scheduler.snapshot(JOURNAL_CODEC), JOURNAL_CODEC)
    again.fold(2.0, [Configured(before, 2.0)])
    # FAST_K80 gives the very rate that was measured; it is still known that it was measured.
    assert again.state.beliefs.rates.table == {**FAST_V100.table, ("net", "V100", 1): 2.0}


def test_a_policy_alone_needs_no_new_plan_and_other_settings_do() -> None:
    first = setup()
    for now, asks in ((setup("las"), False), (replace(first, settings=replace(first.settings, wait_for_locality=True)), True)):
        scheduler = make_scheduler(first)
        scheduler.step(0.0, [Submitted(1, JobSpec(steps=10.0), 0.0)])
        assert not scheduler.state.cycle.needs_policy
        scheduler.fold(1.0, [Configured(now, 1.0)])
        assert scheduler.state.cycle.needs_policy is asks and scheduler.settings == now.settings
