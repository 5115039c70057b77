"""One writer for each epoch, whatever happens to the sessions of candidates."""

import contextlib
import random
import threading
import time
from collections.abc import Iterator

import pytest

from rota.live import election as election_module
from rota.live import postgres_store
from rota.live.election import Election
from rota.live.journal_history import KeptJob, Noted
from rota.live.journal_place import PostgresLocation, open_journal
from rota.live.journal_store import JournalUnavailable, LeadershipLost
from tests.postgres import PostgresServer, postgres_server
from tests.unit.live.test_journal import WORDS

PATIENCE = 120.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as made:
        yield made


def test_one_leads_and_the_next_begins_an_epoch(server: PostgresServer) -> None:
    place = server.place()
    first, second = Election(place), Election(place)
    with contextlib.closing(first), contextlib.closing(second):
        assert first.try_to_lead() and first.epoch == 1 and first.is_led()
        leader = second.leader()
        assert leader is not None and leader.epoch == 1 and "on" in str(leader)
        assert not second.try_to_lead() and not second.try_to_lead()
        first.close()
        assert second.leader() == leader, "it is named until another leads"
        assert not second.is_led() and second.try_to_lead() and second.epoch == 2
        first.epoch = 1
        with pytest.raises(LeadershipLost, match="epoch 1, and another leads epoch 2"):
            first.heartbeat()


def test_a_leader_whose_session_was_ended_leads_on_if_no_other_came(server: PostgresServer) -> None:
    place = server.place()
    with contextlib.closing(Election(place)) as first:
        assert first.try_to_lead()
        _end_sessions(server, place, random.Random(0), all_of_them=True)
        with pytest.raises(JournalUnavailable):
            first.heartbeat()
        first.heartbeat()
        assert first.epoch == 1 and first.is_led()


def test_a_leader_that_stands_still_is_given_up(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not tell the server that it is there, as a process that was stopped."""
    usual = election_module.LEADER_TIMEOUT_SECONDS
    place, lost = server.place(), threading.Event()
    first, second = Election(place), Election(place)
    with contextlib.closing(first), contextlib.closing(second):
        monkeypatch.setattr(election_module, "LEADER_TIMEOUT_SECONDS", 3)
        assert first.try_to_lead()
        monkeypatch.setattr(election_module, "LEADER_TIMEOUT_SECONDS", usual)
        end = time.monotonic() + PATIENCE
        while not second.try_to_lead():
            assert time.monotonic() < end
            time.sleep(0.1)
        assert second.epoch == 2
        monkeypatch.setattr(election_module, "HEARTBEAT_SECONDS", 0.1)
        problems: list[BaseException] = []

        def fall(problem: BaseException) -> None:
            problems.append(problem)
            lost.set()

        first.start_heartbeat(fall)
        second.start_heartbeat(fall)
        assert lost.wait(PATIENCE) and isinstance(problems[0], LeadershipLost) and "led epoch 1" in str(problems[0])
        with contextlib.closing(Election(place)) as third:
            assert third.is_led() and not third.try_to_lead()
        assert len(problems) == 1, "the one that leads is not disturbed"


def test_a_leader_that_stands_still_within_a_message_is_given_up(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server waits for the rest of what it was told, and has no limit for that."""
    monkeypatch.setattr(postgres_store, "STUCK_SECONDS", 1)
    place = server.place()
    first, second = Election(place), Election(place)
    with contextlib.closing(first), contextlib.closing(second):
        assert first.try_to_lead()
        with contextlib.closing(postgres_store.connect(place)) as stuck, contextlib.suppress(stuck.OperationalError):
            stuck.execute("BEGIN")
            stuck.execute("SELECT value FROM meta WHERE key = 'epoch' FOR UPDATE")
            with stuck.pipeline():
                stuck.execute("SELECT 1").fetchall()
                stuck.execute("SELECT 2")
                stuck.pgconn.send_flush_request()
                stuck.pgconn.flush()
                first.close()
                end = time.monotonic() + PATIENCE
                while True:
                    with contextlib.suppress(JournalUnavailable):
                        if second.try_to_lead():
                            break
                    assert time.monotonic() < end
                    time.sleep(0.1)
        assert second.epoch == 2


def _end_sessions(server: PostgresServer, place: PostgresLocation, draw: random.Random, *, all_of_them: bool = False) -> int:
    """Of those that use this schema."""
    found = [
        pid
        for (pid,) in server.query(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'rota' AND pid <> pg_backend_pid() ORDER BY pid"
        )
    ]
    chosen = found if all_of_them else draw.sample(found, min(len(found), draw.randint(1, 2)))
    for pid in chosen:
        server.query("SELECT pg_terminate_backend(%s, %s)", (pid, 60_000 if all_of_them else 0))
    return len(chosen)


class Contender(threading.Thread):
    """Wants to lead, writes while it does, and notes what was acknowledged."""

    def __init__(self, number: int, place: PostgresLocation, done: threading.Event) -> None:
        super().__init__(daemon=True)
        self.number, self.place, self.done = number, place, done
        self.acknowledged: list[tuple[int, int]] = []
        """Epoch, and the number of the entry."""
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.done.is_set():
                with (
                    contextlib.closing(Election(self.place)) as election,
                    contextlib.suppress(JournalUnavailable, LeadershipLost),
                ):
                    if election.try_to_lead():
                        self._lead(election)
                time.sleep(0.005)
        except BaseException as problem:
            self.problem = problem

    def _lead(self, election: Election) -> None:
        with contextlib.closing(open_journal(self.place, WORDS, election.epoch)) as journal:
            while not self.done.is_set():
                try:
                    # The job table says who wrote: an entry of another would show.
                    noted = Noted({journal.last + 1: KeptJob({}, {"by": self.number}, False)})
                    journal.append(float(election.epoch), [], None, noted)
                    self.acknowledged.append((election.epoch, journal.last))
                except JournalUnavailable:
                    time.sleep(0.01)
                with contextlib.suppress(JournalUnavailable):
                    election.heartbeat()


def test_one_writer_for_each_epoch(server: PostgresServer) -> None:
    """Three that want to lead, and sessions that end at random moments."""
    place, done, draw = server.place(), threading.Event(), random.Random(7)
    contenders = [Contender(number, place, done) for number in range(3)]
    for each in contenders:
        each.start()
    try:
        end = time.monotonic() + PATIENCE
        while len({epoch for each in contenders for epoch, _ in each.acknowledged}) < 8:
            assert time.monotonic() < end and not any(each.problem for each in contenders)
            time.sleep(draw.uniform(0.0, 0.2))
            _end_sessions(server, place, draw)
    finally:
        done.set()
        for each in contenders:
            each.join(PATIENCE)
    assert [each.problem for each in contenders] == [None] * 3 and not any(each.is_alive() for each in contenders)
    with contextlib.closing(open_journal(place, WORDS)) as journal:
        entries = list(journal.entries())
        by = {job: row["by"] for job, _, row in journal.jobs()}  # type: ignore[index, call-overload]
    epochs = [int(entry.now_s) for entry in entries]
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1)) == sorted(by), "none is missing or twice"
    assert epochs == sorted(epochs), "a former leader writes no more"
    writers = {(epoch, by[entry.number]) for epoch, entry in zip(epochs, entries, strict=True)}
    assert len(writers) == len(set(epochs)), "one writer for each epoch"
    told = [(epoch, number, each.number) for each in contenders for epoch, number in each.acknowledged]
    assert {(epochs[number - 1], number, by[number]) for _, number, _ in told} == set(told), "what was acknowledged is there"
