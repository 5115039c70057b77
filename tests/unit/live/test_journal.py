"""The journal: durable, complete or absent, and readable after any interruption."""

import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from rota.core.snapshot import make_codec
from rota.errors import JournalError
from rota.live.election import Election
from rota.live.event_notes import KeptEvent
from rota.live.job_events import EventKind, JobEvent
from rota.live.journal import Journal
from rota.live.journal_entries import JournalEntry
from rota.live.journal_history import KeptJob, Noted
from rota.live.journal_place import open_journal
from rota.live.usage import NOTHING, UsageKey, UsageRow
from rota.model.events import Decided, External, Progressed, Submitted, TimerFired
from rota.model.job import JobSpec
from tests.postgres import PostgresServer, postgres_server

WORDS = make_codec()
Open = Callable[[], Journal]
"""Opens the same journal again each time, as its writer."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    if request.param == "sqlite":
        yield lambda: Journal(tmp_path / "j.sqlite", WORDS)
        return
    place = request.getfixturevalue("server").place()
    with closing(Election(place)) as election:
        assert election.try_to_lead()
        yield lambda: open_journal(place, WORDS, election.epoch)


def turn(number: int) -> tuple[float, list[External], Decided | None]:
    batch = Progressed(np.arange(number), np.ones(number, dtype=np.int64), np.linspace(0, 1, number), np.zeros(number), 1.0)
    events: list[External] = [Submitted(number, JobSpec(name=f"j{number}", gpus=2), 0.5), batch, TimerFired(float(number))]
    return float(number), events, Decided(float(number), None, ()) if number % 2 else None


def fill(journal: Journal, first: int, last: int) -> None:
    for number in range(first, last + 1):
        journal.append(*turn(number), Noted({number: KeptJob({"name": f"j{number}"}, {"phase": "queued"}, number % 3 == 0)}))


def same(entry: JournalEntry, number: int) -> bool:
    now_s, events, _ = turn(number)
    return (entry.number, entry.now_s) == (number, now_s) and json.dumps(WORDS.encode(entry.events)) == json.dumps(
        WORDS.encode(events)
    )


def test_what_goes_in_comes_out(opens: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.live.journal.PAGE", 3)
    journal = opens()
    fill(journal, 1, 7)
    journal.close()
    again = opens()
    found = list(again.entries())
    assert [same(entry, i) for i, entry in enumerate(found, 1)] == [True] * 7
    assert [entry.decided is None for entry in found] == [False, True] * 3 + [False]
    assert [entry.number for entry in again.entries(after=5)] == [6, 7] and again.last == 7
    assert [job for job, _, _ in again.jobs(unfinished=True)] == [1, 2, 4, 5, 7]
    assert again.job(3) == ({"name": "j3"}, {"phase": "queued"}) and again.job(99) is None
    assert sorted(again.records([7, 99, 1, 3, 2])) == [each for each in again.jobs() if each[0] in (1, 2, 3, 7)]
    assert list(again.records([])) == []
    again.append(*turn(8), Noted({3: KeptJob({"name": "ignored"}, {"phase": "finished"}, True)}))
    assert again.job(3) == ({"name": "j3"}, {"phase": "finished"}), "a spec never changes"
    again.close()


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Commands and environments of jobs are in it."""
    Journal(tmp_path / "j.sqlite", WORDS).close()
    assert (tmp_path / "j.sqlite").stat().st_mode & 0o077 == 0


def test_snapshots_and_configurations(opens: Open) -> None:
    journal = opens()
    assert journal.snapshot() is None and journal.configuration() is None
    journal.configure({"policy": "fifo"})
    fill(journal, 1, 2)
    journal.save_snapshot({"a": 1})
    fill(journal, 3, 4)
    journal.configure({"policy": "fifo"})
    journal.configure({"policy": "las"})
    fill(journal, 5, 5)
    journal.save_snapshot({"a": 2})
    journal.save_snapshot({"a": 3})
    assert journal.snapshot() == (5, {"a": 3})
    assert [journal.configuration(n) for n in (1, 4, 5)] == [{"policy": "fifo"}, {"policy": "fifo"}, {"policy": "las"}]
    with journal._store.transaction():
        journal._store.execute("UPDATE snapshots SET state = ? WHERE number = 5", (b"\0",))
    journal.close()
    broken = opens()
    assert broken.snapshot() == (2, {"a": 1}), "one that cannot be read leaves the one before"
    broken.close()


def test_a_failed_transaction_leaves_nothing(opens: Open) -> None:
    journal = opens()
    fill(journal, 1, 1)
    with pytest.raises(TypeError):
        journal.append(*turn(2), Noted({2: KeptJob({"x": 1}, {"y": 1}, None)}))  # type: ignore[arg-type]
    assert journal.last == 1 and len(list(journal.entries())) == 1
    fill(journal, 2, 2)
    assert journal.last == 2
    journal.close()


def test_what_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is not a database, and long enough to be looked at" * 20)
    with pytest.raises(JournalError, match="not a journal"):
        Journal(tmp_path / "text", WORDS)
    with sqlite3.connect(tmp_path / "other") as db:
        db.execute("CREATE TABLE x (y)")
    db.close()
    with pytest.raises(JournalError, match="not a journal"):
        Journal(tmp_path / "other", WORDS)
    journal = Journal(tmp_path / "new", WORDS)
    journal.close()
    with sqlite3.connect(tmp_path / "new") as db:
        db.execute("UPDATE meta SET value = '99'")
    db.close()
    with pytest.raises(JournalError, match="schema 99"):
        Journal(tmp_path / "new", WORDS)


def test_copies_taken_in_the_middle_of_writes_can_be_read(tmp_path: Path) -> None:
    """As a power cut leaves them: the files as they happen to be while another thread writes."""
    source = tmp_path / "source"
    source.mkdir()
    journal = Journal(source / "j.sqlite", WORDS)
    done = threading.Event()

    def write() -> None:
        fill(journal, 1, 150)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    copies = []
    while not done.is_set() and len(copies) < 60:
        before, copy = journal.last, tmp_path / f"copy{len(copies)}"
        copy.mkdir()
        for name in ("j.sqlite", "j.sqlite-wal"):  # the shared memory file is rebuilt
            if (source / name).exists():
                shutil.copy(source / name, copy / name)
        copies.append((copy, before))
    writer.join()
    journal.close()
    assert len(copies) > 5
    for copy, before in copies:
        _check_prefix(copy, before)


def test_a_log_cut_at_any_byte_keeps_a_prefix(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite", WORDS)
    fill(journal, 1, 12)
    whole = (tmp_path / "j.sqlite-wal").read_bytes()
    base = (tmp_path / "j.sqlite").read_bytes()
    journal.close()
    kept = []
    for n, cut in enumerate(range(len(whole), 0, -max(len(whole) // 60, 1))):
        copy = tmp_path / f"cut{n}"
        copy.mkdir()
        (copy / "j.sqlite").write_bytes(base)
        (copy / "j.sqlite-wal").write_bytes(whole[:cut])
        kept.append(_check_prefix(copy, 0))
    assert kept[0] == 12 and kept == sorted(kept, reverse=True) and len(set(kept)) > 5


def _check_prefix(copy: Path, least: int) -> int:
    journal = Journal(copy / "j.sqlite", WORDS)
    found = list(journal.entries())
    assert len(found) >= least, "what was acknowledged is there"
    assert all(same(entry, i) for i, entry in enumerate(found, 1))
    assert [job for job, _, _ in journal.jobs()] == list(range(1, len(found) + 1)), "the job table is as far as the entries"
    journal.append(*turn(len(found) + 1))
    journal.close()
    return len(found)


def test_a_configuration_that_another_connection_replaced_is_read_again(opens: Open) -> None:
    writer, reader = opens(), opens()
    writer.configure({"policy": "fifo"})
    assert writer.configuration() == reader.configuration() == {"policy": "fifo"}
    assert reader.configuration() is reader.configuration(), "it is not read twice"
    writer.configure({"policy": "las"})
    assert writer.configuration() == reader.configuration() == {"policy": "las"}
    assert writer.configuration(0) is None
    for each in (writer, reader):
        each.close()


def test_a_journal_of_the_version_before_gets_the_tables_of_today(opens: Open) -> None:
    journal = opens()
    fill(journal, 1, 2)
    with journal._store.transaction():
        journal._store.execute("DROP TABLE job_events")
        journal._store.execute("DROP TABLE usage")
        journal._store.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")
    journal.close()
    again = opens()
    assert again.events_of(1) == [] and list(again.usage()) == [], "it kept neither"
    key, amounts = UsageKey(3, "ana", "vision", "V100"), NOTHING._replace(submitted=2, gpu_seconds=1.5)
    event = JobEvent(kind=EventKind.HELD, at_s=3.0, by="ops")
    noted = Noted({}, [KeptEvent(1, 1, 3.0, event.to_plain())], [UsageRow(key, amounts)])
    again.append(*turn(3), noted)
    again.append(*turn(4), Noted({}, [], [UsageRow(key, amounts), UsageRow(key._replace(owner="leo"), amounts)]))
    again.close()
    found = opens()
    assert [each.number for each in found.entries()] == [1, 2, 3, 4]
    assert found.events_of(1) == [event] and found.events_of(2) == []
    assert list(found.usage(3)) == [UsageRow(key, amounts.plus(amounts)), UsageRow(key._replace(owner="leo"), amounts)]
    assert list(found.usage(4)) == []
    found.close()
