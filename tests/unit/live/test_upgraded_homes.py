"""A home of the version before, which kept neither events nor usage, opens in this one. A home of a later version is refused."""

import resource
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.core.validate import validate
from rota.errors import JournalError
from rota.live.history import JobHistory
from rota.live.job_events import sentence
from rota.live.journal import Journal
from rota.live.journal_place import SQLITE_FILE
from rota.live.journal_store import SCHEMA, JournalFull
from rota.live.read_past import all_events, records_reader, usage_report
from rota.live.recovery import recover
from rota.live.replay import replay
from rota.live.sqlite_store import copy_before_upgrade
from rota.model.events import CancelRequested, Exited, Outcome
from rota.server.read_home import read_home

STORED = Path(__file__).parent / "journals" / "before-history.sql"
"""Six jobs of two users under `tiresias` on two pretend GPUs: one has finished, one has failed, one was cancelled, two run and
one waits."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / SQLITE_FILE)) as database:
        database.executescript(STORED.read_text(encoding="utf-8"))
    (tmp_path / SQLITE_FILE).chmod(0o600)
    return tmp_path


def schema_of(home: Path) -> str:
    with closing(sqlite3.connect(home / SQLITE_FILE)) as database:
        return str(database.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()[0])


def contents(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / SQLITE_FILE)) as database:
        return list(database.iterdump())


def test_a_home_of_the_version_before_is_read_without_a_change(home: Path) -> None:
    found = read_home(home)
    assert found is not None
    rows = {row.name: row for row in found.jobs(True)}
    assert {name: row.phase for name, row in rows.items() if row.ended} == {
        "short": "finished",
        "fails": "failed",
        "gone": "cancelled",
    }
    assert [each.text for each in found.events("short")] == ["submitted by ana"]
    assert found.report("user", 1).total.gpu_seconds == 0.0
    assert schema_of(home) == "2"


def test_its_jobs_go_on_and_their_usage_counts_from_their_start(home: Path) -> None:
    journal = Journal(home / SQLITE_FILE, JOURNAL_CODEC)
    scheduler = recover(journal, JOURNAL_CODEC, make_scheduler)
    state, history = scheduler.state, JobHistory(records_reader(home, JOURNAL_CODEC))
    validate(state)
    history.restore(journal.jobs())
    history.adopt(state)
    runs = sorted(state.jobs.attempts)
    assert [history.records[job].name for job in runs] == ["long", "waits"]
    before, lives = set(state.jobs.row), {job: each.number for job, each in state.jobs.attempts.items()}
    now_s = state.now_s + 100.0
    events = [Exited(runs[0], 1, now_s, Outcome.FINISHED, 1.0), CancelRequested(runs[1] - 1, now_s, by="leo")]
    scheduler.fold(now_s, events)
    decided = scheduler.decide()
    history.note(events, before, set(), lives, state, {}, decided)
    journal.append(now_s, events, decided, history.take_noted())
    assert schema_of(home) == str(SCHEMA)
    record = history.records[runs[0]]
    assert record.started_s is not None
    seconds = now_s - record.started_s
    ended = all_events(journal, record)
    assert [each.kind.value for each in ended] == ["submitted", "finished"]
    assert ended[-1].gpu_seconds == pytest.approx(seconds) and sentence(ended[-1]) == "finished"
    assert [sentence(each) for each in all_events(journal, history.records[runs[1] - 1])][-1] == "cancelled by leo"
    report = usage_report(journal, "user", 1, now_s)
    assert {each.name: each.finished for each in report.groups} == {"ana": 0, "leo": 1}
    assert report.total.gpu_seconds == pytest.approx(seconds + now_s - (history.records[runs[1]].started_s or 0.0))
    assert all(difference is None for _, _, difference in replay(journal, JOURNAL_CODEC, make_scheduler))
    journal.close()


@pytest.mark.parametrize("version", [str(SCHEMA + 1), "99"])
def test_a_home_of_a_later_version_is_refused_and_stays_as_it_is(home: Path, version: str) -> None:
    with closing(sqlite3.connect(home / SQLITE_FILE)) as database:
        database.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (version,))
        database.commit()
    before = contents(home)
    said = f"was written by a later version of Rota .schema {version}; this one reads 1 to {SCHEMA}.. Nothing was changed"
    with pytest.raises(JournalError, match=said) as caught:
        Journal(home / SQLITE_FILE, JOURNAL_CODEC)
    assert caught.value.hint == "the later version of Rota, or another --home"
    with pytest.raises(JournalError, match="later version"):
        read_home(home)
    assert contents(home) == before


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """No file that this process writes may become larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def request(journal: Journal) -> None:
    """Write an entry."""
    journal.append(1e9, [CancelRequested(1, 1e9)], None)


def test_the_journal_from_before_an_upgrade_is_kept(home: Path) -> None:
    before, copy = contents(home), copy_before_upgrade(home / SQLITE_FILE, 2)
    copy.write_text("of an earlier upgrade")
    journal = Journal(home / SQLITE_FILE, JOURNAL_CODEC)
    assert journal.configuration() is not None and copy.read_text() == "of an earlier upgrade", "nothing is written yet"
    request(journal)
    assert copy.name == "journal.sqlite.schema-2" and stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as database:
        assert list(database.iterdump()) == before
    request(journal)
    journal.close()
    assert schema_of(home) == str(SCHEMA)
    assert sorted(each.name for each in home.iterdir()) == [SQLITE_FILE, copy.name], "nothing else is left there"


def test_a_snapshot_too_upgrades_the_journal_first(home: Path) -> None:
    journal = Journal(home / SQLITE_FILE, JOURNAL_CODEC)
    journal.save_snapshot({})
    journal.close()
    assert schema_of(home) == str(SCHEMA) and copy_before_upgrade(home / SQLITE_FILE, 2).exists()


def test_without_room_for_the_copy_nothing_is_upgraded(home: Path) -> None:
    before, copy = contents(home), copy_before_upgrade(home / SQLITE_FILE, 2)
    journal = Journal(home / SQLITE_FILE, JOURNAL_CODEC)
    with files_at_most(4096), pytest.raises(JournalFull, match="the copy from before the upgrade cannot be written"):
        request(journal)
    assert contents(home) == before and not list(home.glob(f"{copy.name}*"))
    request(journal)
    journal.close()
    assert schema_of(home) == str(SCHEMA) and copy.exists()


def test_a_later_journal_is_refused_with_the_copy_that_can_be_put_back(home: Path) -> None:
    path = home / SQLITE_FILE
    copy = copy_before_upgrade(path, SCHEMA)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA + 1),))
        database.commit()
    copy.write_bytes(path.read_bytes())
    with pytest.raises(JournalError) as caught:
        Journal(path, JOURNAL_CODEC)
    assert caught.value.hint == f"the later version of Rota; or put {copy} back, see docs/backup.md"
