"""Journals of earlier versions are read with the present names."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.core import snapshot
from rota.core.validate import validate
from rota.live.journal import Journal
from rota.live.recovery import recover
from rota.live.replay import replay
from rota.model.commands import Launch
from rota.model.events import CancelRequested, Exited, GpusDrained, PolicyFailed, Started, Submitted, Suspended
from rota.model.job import Demand, JobSpec
from rota.model.old_names import OLD_FIELD_NAMES, OLD_TYPE_NAMES
from rota.model.options import Kind
from rota.model.tenants import Tenants
from rota.policies.ones import OnesMemory
from rota.policies.optimus import OptimusMemory
from rota.policies.queues import QueueMemory
from rota.policies.slots import SlotMemory

JOURNALS = Path(__file__).parent / "journals"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Eight jobs under `tiresias` on three pretend GPUs, with suspensions and a cancel, as the version before wrote them."""
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((JOURNALS / "before-attempts.sql").read_text(encoding="utf-8"))
    return Journal(path, JOURNAL_CODEC)


def test_an_old_journal_replays_to_the_same_decisions(journal: Journal) -> None:
    events, entries = [], 0
    for entry, scheduler, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
        assert difference is None, difference
        validate(scheduler.state)
        events += entry.events
        entries += 1
    journal.close()
    assert entries == 79
    assert {event.attempt for event in events if isinstance(event, Started)} == {1, 2}
    assert any(isinstance(event, Suspended) for event in events) and any(isinstance(event, CancelRequested) for event in events)


def test_an_old_snapshot_is_the_state_that_its_entries_lead_to(journal: Journal) -> None:
    found = journal.snapshot()
    assert found is not None and found[1]["version"] < snapshot.VERSION
    restored = recover(journal, JOURNAL_CODEC, make_scheduler)
    *_, (_, folded, _) = replay(journal, JOURNAL_CODEC, make_scheduler)
    journal.close()
    assert snapshot.take(restored.state, JOURNAL_CODEC) == snapshot.take(folded.state, JOURNAL_CODEC)
    assert sorted(restored.state.jobs.attempts) == [5, 6]


def test_numbers_that_meant_unknown_are_read_as_none(journal: Journal) -> None:
    entries = [entry for entry, *_ in replay(journal, JOURNAL_CODEC, make_scheduler)]
    journal.close()
    found = [event for entry in entries for event in entry.events]
    decisions = [entry.decided for entry in entries if entry.decided is not None]
    launches = [command for decided in decisions for command in decided.commands if isinstance(command, Launch)]
    assert launches and {launch.partner for launch in launches} == {launch.batch_size for launch in launches} == {None}
    assert {event.setback for event in found if isinstance(event, Suspended | Exited)} == {None}
    assert None in {decided.ticket for decided in decisions} and 0 not in {decided.ticket for decided in decisions}
    specs = [event.spec for event in found if isinstance(event, Submitted)]
    assert specs[0] == JobSpec(name="j1", gpus=2, user="root", saves=None)
    assert specs[1] == JobSpec(name="j2", user="root", saves=None, can_park=True)
    assert {specs[0].steps, specs[0].slo, specs[0].deadline_seconds, specs[0].gpu_gib, specs[0].batch_size} == {None}


def test_texts_that_meant_none_are_read_as_none(journal: Journal) -> None:
    scheduler = recover(journal, JOURNAL_CODEC, make_scheduler)
    entries = [entry for entry, *_ in replay(journal, JOURNAL_CODEC, make_scheduler)]
    journal.close()
    specs = [event.spec for entry in entries for event in entry.events if isinstance(event, Submitted)]
    assert {(spec.profile, spec.tenant) for spec in specs} == {(None, None)}
    assert {kind.profile for kind in scheduler.state.jobs.kind_of} == {None} and scheduler.state.cycle.policy_fault is None


@pytest.mark.parametrize(
    ("now", "field"),
    [
        (PolicyFailed(3, 7.0), "message"),
        (GpusDrained(1, (0,), 7.0, 7.0, 9.0), "reason"),
        (Kind(None, Demand()), "profile"),
        (JobSpec(), "tenant"),
        (Tenants(), "reference"),
    ],
)
def test_an_empty_text_is_read_as_none_and_another_as_it_is(now: Any, field: str) -> None:
    plain = JOURNAL_CODEC.encode(now)
    assert plain["fields"][field] is None
    for text, read in (("", None), ("one", "one")):
        old = {**plain, "fields": {**plain["fields"], field: text}}
        assert getattr(JOURNAL_CODEC.decode(old), field) == read


def test_known_numbers_are_read_as_they_are() -> None:
    known = JobSpec(steps=0, slo=1.5, deadline_seconds=60.0, gpu_gib=2.0, batch_size=64, epoch_steps=1.0)
    assert JOURNAL_CODEC.decode(JOURNAL_CODEC.encode(known)) == known
    old = {"type": "Demand", "fields": {"gpus": 2, "gpu_counts": {"tuple": []}, "batch_size": 0, "batch_sizes": {"tuple": []}}}
    assert JOURNAL_CODEC.decode(old) == Demand(gpus=2) == JobSpec(gpus=2).demand


def test_an_old_name_is_not_a_name_of_today() -> None:
    known = snapshot.make_codec(OnesMemory, OptimusMemory, QueueMemory, SlotMemory)
    for old, new in OLD_TYPE_NAMES.items():
        assert old != new and known.named(old) is known.named(new)
        assert known.named(new).__name__ == new, "the old name of one type is not the name of another"
    for kind, names in OLD_FIELD_NAMES.items():
        assert not set(names) & set(names.values()), kind
