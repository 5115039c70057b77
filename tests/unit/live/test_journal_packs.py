"""A journal grows with the number of events, is packed while it is in use, and loses nothing by it."""

import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, read_setup
from rota.compose.registry import make_policy
from rota.errors import JournalError
from rota.live.election import Election
from rota.live.journal import AskedAbout, Journal
from rota.live.journal_history import KeptJob, Noted
from rota.live.journal_packs import count_entries
from rota.live.journal_place import open_journal
from rota.live.recovery import recover
from rota.live.replay import replay
from rota.live.sqlite_store import _TABLES
from rota.live.views import decode_answer, decode_view, encode_answer, encode_view, memory_codec
from rota.model.commands import CallPolicy, Launch
from rota.model.events import Allocated, CancelRequested, External, Started, Submitted
from rota.model.job import JobSpec
from tests.postgres import PostgresServer, postgres_server

Open = Callable[[], Journal]


def configuration(policy: str) -> dict[str, Any]:
    return {"policy": policy, "placer": "packed", "cluster": "2xV100", "pretend": True, "settings": {}}


class Queue:
    """A scheduler, its policy and its journal, without processes: jobs come and start, and none ends by itself."""

    def __init__(self, journal: Journal, policy: str, *, whole: bool = False) -> None:
        """`whole`: answers are written as version 1 wrote them."""
        self.journal, self.whole, self.now_s, self.jobs = journal, whole, 0.0, 0
        journal.configure(configuration(policy))
        self.scheduler, self.policy = make_scheduler(read_setup(configuration(policy))), make_policy(policy)
        self.memories = memory_codec(self.policy)

    def turns(self, events: list[External]) -> None:
        """Until nothing more follows from these."""
        while events:
            self.now_s += 1.0
            question = self.scheduler.state.cycle
            asked = None if question.call_jobs is None or self.whole else AskedAbout(question.decision, question.call_jobs)
            self.scheduler.fold(self.now_s, events)
            decided = self.scheduler.decide()
            kept = Noted({e.job: KeptJob({"name": e.spec.name}, {}, False) for e in events if isinstance(e, Submitted)})
            self.journal.append(self.now_s, events, decided, kept, asked)
            events = [event for command in self.scheduler.commit(decided) for event in self._answer(command)]

    def _answer(self, command: object) -> Iterator[External]:
        if isinstance(command, Launch):
            yield Started(command.job, command.attempt, command.sequence, self.now_s)
        elif isinstance(command, CallPolicy):
            plain = encode_view(command.view)
            memory = None if plain["memory"] is None else self.memories.decode(json.loads(plain["memory"]))
            answer = decode_answer(encode_answer(self.policy.allocate(decode_view(plain, memory)), self.memories))
            yield Allocated(command.ticket, answer, self.now_s, self.scheduler.settings.policy)

    def submit(self, count: int) -> None:
        """One by one."""
        for _ in range(count):
            self.turns([self._next()])

    def submit_together(self, count: int) -> None:
        self.turns([self._next() for _ in range(count)])

    def _next(self) -> Submitted:
        self.jobs += 1
        return Submitted(self.jobs, JobSpec(name=f"j{self.jobs}", steps=1000.0 + self.jobs * 7919 % 1009), self.now_s)

    def cancel(self, count: int) -> None:
        """The oldest."""
        for job in list(self.scheduler.state.jobs.row)[:count]:
            self.turns([CancelRequested(job, self.now_s)])


def texts(journal: Journal) -> list[str]:
    """Every entry, with whole answers."""
    return [
        json.dumps([e.number, e.now_s, JOURNAL_CODEC.encode(e.events), JOURNAL_CODEC.encode(e.decided)])
        for e in journal.entries()
    ]


def check_replay(journal: Journal) -> None:
    seen = 0
    for _, _, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
        assert difference is None, difference
        seen += 1
    assert seen == journal.last


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    if request.param == "sqlite":
        yield lambda: Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)
        return
    place = request.getfixturevalue("server").place()
    with closing(Election(place)) as election:
        assert election.try_to_lead()
        yield lambda: open_journal(place, JOURNAL_CODEC, election.epoch)


@pytest.fixture
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.live.journal_packs.PACK_ENTRIES", 20)
    monkeypatch.setattr("rota.live.journal_packs.NEW_ENTRIES", 10)


POLICIES = ("fifo", "tiresias", "gittins", "srsf", "las", "max-min-fairness", "gandiva", "optimus")


@pytest.mark.parametrize("policy", POLICIES)
def test_every_answer_comes_back_and_leads_to_the_same_decisions(policy: str, tmp_path: Path) -> None:
    with (
        closing(Journal(tmp_path / "new.sqlite", JOURNAL_CODEC)) as new,
        closing(Journal(tmp_path / "old.sqlite", JOURNAL_CODEC)) as old,
    ):
        for journal, whole in ((new, False), (old, True)):
            queue = Queue(journal, policy, whole=whole)
            queue.submit(12)
            queue.cancel(6)
            queue.submit(4)
        assert texts(new) == texts(old), "as written whole"
        check_replay(new)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["tiresias", "srsf"])
def test_a_submission_costs_the_same_behind_a_long_queue(policy: str, tmp_path: Path) -> None:
    """It was the order of all jobs: 40 bytes for each of them and more, with every job that came or went."""

    def bytes_of(journal: Journal, act: Callable[[], None]) -> float:
        first = journal.last
        act()
        size = "SELECT avg(length(events) + coalesce(length(decided), 0)) FROM entries WHERE number > ?"
        return float(journal._store.rows(size, (first,))[0][0])

    with closing(Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)) as journal:
        queue = Queue(journal, policy)
        queue.submit(20)
        short = bytes_of(journal, lambda: queue.submit(20))
        queue.submit_together(2000)
        behind, leaving = bytes_of(journal, lambda: queue.submit(20)), bytes_of(journal, lambda: queue.cancel(20))
        assert behind < 1.5 * short and leaving < 1.5 * short, (short, behind, leaving)


def test_packing_keeps_every_entry(opens: Open, small_packs: None) -> None:
    journal = opens()
    queue = Queue(journal, "tiresias")
    queue.submit(30)
    before = texts(journal)
    assert journal.compact()
    while journal.compact():
        pass
    assert journal._store.rows("SELECT count(*) FROM packs")[0][0] == (len(before) - 10) // 20
    assert texts(journal) == before and count_entries(journal._store.rows) == (len(before), len(before))
    for after in (1, 19, 20, 21, 33, len(before) - 1):
        assert [entry.number for entry in journal.entries(after)] == list(range(after + 1, len(before) + 1))
    queue.submit(20)
    journal.save_snapshot(queue.scheduler.snapshot(JOURNAL_CODEC))
    queue.submit(5)
    journal.close()
    again = opens()
    check_replay(again)
    recovered = recover(again, JOURNAL_CODEC, make_scheduler)
    assert recovered.snapshot(JOURNAL_CODEC) == queue.scheduler.snapshot(JOURNAL_CODEC)
    again.close()


def test_who_reads_while_entries_are_packed_misses_none(opens: Open, small_packs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.live.journal_packs.PAGE", 7)
    writer, reader = opens(), opens()
    Queue(writer, "fifo").submit(40)
    numbers = []
    for entry in reader.entries():
        numbers.append(entry.number)
        if len(numbers) % 5 == 0:
            writer.compact()
    assert numbers == list(range(1, writer.last + 1))
    assert not writer.compact()
    writer.close()
    reader.close()


def test_few_entries_are_not_packed(tmp_path: Path, small_packs: None) -> None:
    with closing(Journal(tmp_path / "j.sqlite", JOURNAL_CODEC)) as journal:
        for number in range(29):
            journal.append(float(number), [], None)
        assert not journal.compact()
        journal.append(0.0, [], None)
        assert journal.compact() and not journal.compact()
        assert count_entries(journal._store.rows) == (30, 30)


@pytest.mark.parametrize("fails_at", [1, 2])
def test_packing_that_fails_leaves_the_journal_as_it_was(fails_at: int, tmp_path: Path, small_packs: None) -> None:
    with closing(Journal(tmp_path / "j.sqlite", JOURNAL_CODEC)) as journal:
        queue = Queue(journal, "fifo")
        queue.submit(30)
        before, count, execute = texts(journal), itertools.count(1), journal._store.execute

        def fail(statement: str, values: Any = ()) -> None:
            if next(count) == fails_at:
                raise JournalError("no room")
            execute(statement, values)

        journal._store.execute = fail  # type: ignore[method-assign]
        with pytest.raises(JournalError, match="no room"):
            journal.compact()
        journal._store.execute = execute  # type: ignore[method-assign]
        assert texts(journal) == before and journal._store.rows("SELECT count(*) FROM packs") == [(0,)]
        assert journal.compact() and texts(journal) == before


@pytest.mark.slow
def test_a_process_killed_while_it_packs_loses_nothing(tmp_path: Path, small_packs: None) -> None:
    """It packs once for each line that it gets, and is killed with SIGKILL while it may be at the last."""
    source = tmp_path / "source.sqlite"
    with closing(Journal(source, JOURNAL_CODEC)) as journal:
        Queue(journal, "tiresias").submit(80)
        before = texts(journal)
    colocation = (
        "import sys; from rota.live import journal_packs as p; p.PACK_ENTRIES, p.NEW_ENTRIES = 20, 10\n"
        "from rota.live.journal import Journal; from rota.core.snapshot import make_codec\n"
        "journal = Journal(sys.argv[1], make_codec()); print('ready', flush=True)\n"
        "for line in sys.stdin: print(journal.compact(), flush=True)\n"
    )
    for done in range(6):
        path = tmp_path / f"{done}.sqlite"
        shutil.copy(source, path)
        command = [sys.executable, "-c", colocation, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None and child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            for packed in range(done + 1):
                child.stdin.write("\n")
                child.stdin.flush()
                assert packed == done or child.stdout.readline() == "True\n"
            time.sleep(0.002 * done)  # not to wait for something: to hit it at different moments
            os.kill(child.pid, signal.SIGKILL)
        with closing(Journal(path, JOURNAL_CODEC)) as journal:
            assert journal._store.rows("SELECT count(*) FROM packs")[0][0] in (done, done + 1)
            assert texts(journal) == before
            assert count_entries(journal._store.rows) == (len(before), len(before))
            journal.append(1e6, [], None)


# Journals of the version before ----------------------------------------------------------------------------------


def written_by_version_1(path: Path) -> list[str]:
    """A journal as schema 1 has it: no packs, and every answer with the whole order of jobs, as the codec writes any array."""
    with closing(Journal(path, JOURNAL_CODEC)) as journal:
        queue = Queue(journal, "tiresias", whole=True)
        queue.submit(30)
        journal.save_snapshot(queue.scheduler.snapshot(JOURNAL_CODEC))
        queue.submit(10)
        found = texts(journal)
    with closing(sqlite3.connect(path)) as db:
        for table in ("packs", "job_events", "usage"):
            db.execute(f"DROP TABLE {table}")
        db.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
        db.commit()
        tables = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        assert tables == {each.strip() for each in _TABLES.split(";") if each.strip()}
        assert not db.execute("SELECT 1 FROM entries WHERE events LIKE '%\"answer\"%'").fetchall()
        assert db.execute('SELECT 1 FROM entries WHERE events LIKE \'%"order":{"array":%\'').fetchall()
    return found


def test_a_journal_of_the_version_before_is_read_written_and_packed(tmp_path: Path, small_packs: None) -> None:
    path = tmp_path / "journal.sqlite"
    before = written_by_version_1(path)
    with closing(Journal(path, JOURNAL_CODEC)) as journal:
        assert texts(journal) == before
        check_replay(journal)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() == ("1",), "reading changes nothing"
    with closing(Journal(path, JOURNAL_CODEC)) as journal:
        recovered = recover(journal, JOURNAL_CODEC, make_scheduler)
        queue = Queue(journal, "tiresias")
        queue.scheduler, queue.jobs, queue.now_s = recovered, 40, recovered.state.now_s
        queue.submit(5)
        while journal.compact():
            pass
        assert texts(journal)[: len(before)] == before
        check_replay(journal)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() == ("3",)


@pytest.mark.slow
def test_a_start_makes_a_journal_of_the_version_before_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.sqlite"
    monkeypatch.setattr("rota.live.sqlite_store.WASTE_BYTES", 100_000)
    with closing(Journal(path, JOURNAL_CODEC)) as journal:
        Queue(journal, "tiresias", whole=True).submit(200)
        before = texts(journal)
    large = path.stat().st_size
    with closing(Journal(path, JOURNAL_CODEC)) as journal:
        assert not journal.compact(), "not while it runs: there are few"
        while journal.compact(starting=True):
            pass
        journal.tidy()
        assert texts(journal) == before
    assert path.stat().st_size < large / 2, (large, path.stat().st_size)


def test_the_version_before_refuses_a_journal_of_this(tmp_path: Path) -> None:
    """It would not find the packs."""
    Journal(tmp_path / "j.sqlite", JOURNAL_CODEC).close()
    with closing(sqlite3.connect(tmp_path / "j.sqlite")) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() != ("1",)
