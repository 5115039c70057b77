"""A home of the version before, which kept neither events nor usage, opens in this one. A home of a later version is refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.core.validate import validate
from rota.errors import JournalError
from rota.live.history import JobHistory
from rota.live.job_events import sentence
from rota.live.job_record import JobRecord
from rota.live.journal import Journal
from rota.live.journal_place import SQLITE_FILE
from rota.live.journal_store import SCHEMA
from rota.live.read_past import all_events, usage_report
from rota.live.recovery import recover
from rota.live.replay import replay
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
    state, history = scheduler.state, JobHistory()
    validate(state)
    for job, sent, plain in journal.jobs():
        history.restore(JobRecord.of(job, sent, plain))
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
