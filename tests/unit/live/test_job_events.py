"""Events and usage of jobs, as the history derives them from what the core folds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rota.agent.attempt_files import AttemptStatus
from rota.core.scheduler import Scheduler
from rota.core.setup import Setup
from rota.core.snapshot import make_codec
from rota.live.history import JobHistory
from rota.live.job_events import Cause, EventKind, JobEvent, OtherJob, event_row, sentence
from rota.live.job_record import JobRecord
from rota.live.journal import Journal
from rota.live.read_past import all_events, usage_report
from rota.live.usage import total
from rota.model.commands import CallPolicy, Kill, Launch, Resume, Suspend, SuspendKind
from rota.model.events import (
    Allocated,
    CancelRequested,
    Exited,
    External,
    HoldRequested,
    NodeLost,
    Outcome,
    Started,
    Submitted,
    Suspended,
)
from rota.model.job import JobSpec
from rota.model.tenants import Guarantee, Tenants
from rota.placers.packed import Packed
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.unit.core.helpers import Bench

WORDS = make_codec()
DAY = 86_400.0


class Home:
    """A core with its history and its journal, as a daemon has them. Commands wait until the test answers them."""

    def __init__(self, path: Path, cluster: str = "2xV100", **settings: Any) -> None:
        tenants = settings.pop("tenants", None)
        self.bench = Bench(cluster, **settings)
        if tenants is not None:
            setup = Setup(settings=self.bench.core.settings, placer=Packed(), tenants=tenants)
            self.bench.core = Scheduler.of(self.bench.state.nodes.cluster, setup)
        self.core, self.state = self.bench.core, self.bench.state
        self.journal = Journal(path, WORDS)
        self.history = JobHistory(self.read, kept=0)
        self.order: list[int] = []
        """Jobs in the order that the policy wants."""
        self.waiting: list[Any] = []
        """Commands that nobody has answered."""
        self.parts: dict[int, AttemptStatus] = {}

    def read(self, jobs: Sequence[int]) -> dict[int, JobRecord]:
        return {job: JobRecord.of(job, sent, plain) for job, sent, plain in self.journal.records(jobs)}

    def turn(self, at_s: float, *events: External) -> None:
        """One turn of a daemon's loop."""
        state = self.state
        before, cancelling = set(state.jobs.row), set(state.jobs.cancelling)
        lives = {job: life.number for job, life in state.jobs.attempts.items()}
        self.core.fold(at_s, list(events))
        decided = self.core.decide()
        self.history.note(events, before, cancelling, lives, state, self.parts, decided)
        self.journal.append(at_s, list(events), decided, self.history.take_noted())
        self.history.settle()
        commands = self.core.commit(decided)
        for command in commands:
            if isinstance(command, CallPolicy):
                answer = self.bench.policy.allocate(command.view)
                self.turn(at_s, Allocated(command.ticket, answer, at_s, policy="srsf"))
            elif isinstance(command, Launch | Suspend | Resume | Kill):
                self.waiting.append(command)

    def submit(self, at_s: float, gpus: int = 1, steps: float = 1e6, user: str = "ana", tenant: str | None = None) -> int:
        job = max(self.state.jobs.last_job, 0) + 1
        spec = Spec(run="train", name=f"j{job}", gpus=gpus, steps=steps, tenant=tenant)
        self.history.add(JobRecord(job, Submission(spec, user, "/", {}), at_s))
        wanted = JobSpec(name=f"j{job}", gpus=gpus, steps=steps, user=user, tenant=tenant or "")
        self.turn(at_s, Submitted(job, wanted, at_s))
        return job

    def answer(self, at_s: float, kind: SuspendKind = SuspendKind.CHECKPOINT) -> None:
        """Answer all commands as an honest node does."""
        commands, self.waiting = self.waiting, []
        for each in commands:
            if isinstance(each, Launch | Resume):
                self.turn(at_s, Started(each.job, each.attempt, each.sequence, at_s))
            elif isinstance(each, Suspend):
                self.turn(at_s, Suspended(each.job, each.attempt, each.sequence, at_s, each.kind, 5.0))
            else:
                self.turn(at_s, Exited(each.job, each.attempt, at_s, Outcome.LOST, 5.0))

    def end(self, job: int, at_s: float, outcome: Outcome = Outcome.FINISHED) -> None:
        self.turn(at_s, Exited(job, self.state.jobs.attempts[job].number, at_s, outcome, 5.0))

    def events(self, job: int) -> list[JobEvent]:
        return all_events(self.journal, self.history.records[job])

    def kinds(self, job: int) -> list[str]:
        return [each.kind.value for each in self.events(job)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "j.sqlite")


def status(job: int, **facts: Any) -> AttemptStatus:
    """What a supervisor reports of an attempt that ran from 0 s."""
    return AttemptStatus(job=job, attempt=1, sequence=1, state="ended", started_s=0.0, **facts)


def test_the_events_of_a_job_that_gives_way_to_a_shorter_one(home: Home) -> None:
    long = home.submit(0.0, gpus=2)
    home.answer(1.0)
    short = home.submit(10.0, gpus=2, steps=10.0, user="leo")
    home.parts = {long: status(long, outcome="yielded", exit_code=75, stop_reason="suspend", ended_s=12.0)}
    home.answer(12.0)
    home.parts = {}
    home.answer(13.0)
    home.end(short, 20.0)
    home.answer(21.0)
    home.end(long, 30.0)
    assert home.kinds(long) == ["submitted", "started", "suspended", "resumed", "finished"]
    assert home.kinds(short) == ["submitted", "started", "finished"]
    stopped = home.events(long)[2]
    assert [each[0] for each in stopped.given_to] == [short] and stopped.policy == "srsf" and stopped.lost_seconds == 0.0
    assert sentence(stopped) == f"suspended: its GPUs go to {short} j{short} (leo) [policy srsf]; no work lost"
    assert sentence(home.events(long)[0]) == "submitted by ana"
    assert sentence(home.events(long)[1]) == "started on 2xV100 n1:0-1"
    assert home.events(long)[2].gpu_seconds == 2 * 12.0, "it held two GPUs from its launch to its end"
    assert home.events(long)[2].work_seconds == 2 * 11.0, "and worked from its start on"


def test_lost_work_is_counted_where_it_belongs(home: Home) -> None:
    job = home.submit(0.0, gpus=2)
    home.answer(0.0)
    short = home.submit(50.0, gpus=2, steps=10.0)
    home.parts = {job: status(job, outcome="yielded", exit_code=1, stop_reason="suspend", ended_s=60.0, safe_seconds=40.0)}
    home.answer(60.0)
    home.answer(60.0)
    home.parts = {short: status(short, outcome="failed", exit_code=3, ended_s=20.0)}
    home.end(short, 80.0, Outcome.FAILED)
    assert home.events(job)[2].lost_seconds == 20.0
    assert sentence(home.events(short)[-1]) == "failed with exit code 3; 20s of work lost"
    sums = total(row.amounts for row in home.journal.usage())
    assert (sums.preempted_seconds, sums.broken_seconds) == (20.0, 20.0)
    assert (sums.submitted, sums.failed, sums.preemptions) == (2, 1, 1)


def test_who_asked_stands_with_the_request(home: Home) -> None:
    job = home.submit(0.0, gpus=2)
    home.answer(1.0)
    home.turn(5.0, HoldRequested(job, 5.0, by="ops"))
    home.turn(5.5, HoldRequested(job, 5.5, by="ops"))
    home.answer(6.0)
    home.turn(8.0, HoldRequested(job, 8.0, held=False, by="ana"))
    home.answer(9.0)
    home.turn(10.0, CancelRequested(job, 10.0, by="leo"))
    home.answer(11.0)
    assert home.kinds(job) == ["submitted", "started", "held", "suspended", "released", "resumed", "cancelled"]
    said = [sentence(each) for each in home.events(job)]
    assert said[2] == "held by ops" and said[4] == "released by ana" and said[6] == "cancelled by leo"
    assert said[3] == "suspended: it is held by ops; no work lost"


def test_a_lost_node_is_named_and_the_next_attempt_is_a_new_start(tmp_path: Path) -> None:
    home = Home(tmp_path / "j.sqlite", "2x(1xV100)")
    job = home.submit(0.0)
    home.answer(1.0)
    home.turn(9.0, NodeLost(0, int(home.state.nodes.node_boot[0]), 9.0))
    home.answer(10.0)
    assert home.kinds(job) == ["submitted", "started", "lost", "started"]
    lost = home.events(job)[2]
    assert lost.nodes == ("n1",) and lost.gpu_seconds == 9.0 and sentence(lost) == "lost with n1; no work lost"
    assert home.history.records[job].last_change.startswith("started")


def test_repeats_after_a_restart_count_once(home: Home) -> None:
    job = home.submit(0.0)
    home.answer(1.0)
    started = home.events(job)[1]
    sequence = home.state.jobs.table.sequence.item(home.state.jobs.row[job])
    home.history = _restarted(home)
    for at_s in (5.0, 6.0):
        home.turn(at_s, Started(job, 1, sequence, 1.0))
    assert home.events(job)[1:] == [started]
    home.end(job, 10.0)
    home.history = _restarted(home)
    home.turn(11.0, Exited(job, 1, 10.0, Outcome.FINISHED, 5.0))
    assert home.kinds(job) == ["submitted", "started", "finished"]
    assert total(row.amounts for row in home.journal.usage()).gpu_seconds == 10.0


def _restarted(home: Home) -> JobHistory:
    history = JobHistory(home.read, kept=0)
    history.restore(home.journal.jobs())
    return history


def test_an_attempt_that_an_earlier_version_started_counts_from_its_start(home: Home) -> None:
    job = home.submit(0.0)
    home.answer(3.0)
    home.history = _restarted(home)
    home.history.records[job].stay = None
    home.history.adopt(home.state)
    home.turn(5.0, Started(job, 1, home.state.jobs.table.sequence.item(home.state.jobs.row[job]), 3.0))
    home.end(job, 10.0)
    assert home.kinds(job) == ["submitted", "started", "finished"]
    assert home.events(job)[-1].gpu_seconds == 7.0


def test_a_stay_over_midnight_is_split_between_the_days(home: Home) -> None:
    job = home.submit(DAY - 10.0, gpus=2)
    home.answer(DAY - 10.0)
    home.end(job, 2 * DAY + 5.0)
    by_day = {row.key.day: row.amounts.gpu_seconds for row in home.journal.usage() if row.amounts.gpu_seconds}
    assert by_day == {0: 20.0, 1: 2 * DAY, 2: 10.0}
    report = usage_report(home.journal, "day", 2, 2 * DAY + 5.0)
    assert [each.name for each in report.groups] == ["1970-01-02", "1970-01-03"]
    assert [each.gpus_busy for each in report.groups] == [2.0, 2.0]


def test_an_attempt_that_runs_counts_up_to_now(home: Home) -> None:
    home.submit(100.0, gpus=2, tenant="vision")
    home.answer(110.0)
    report = usage_report(home.journal, "tenant", 1, 200.0)
    assert [(each.name, each.gpu_seconds, each.work_seconds) for each in report.groups] == [("vision", 200.0, 180.0)]
    assert report.total.gpus_busy == 2.0 and report.total.mean_wait_seconds == 10.0


def test_a_report_by_tenant_states_how_soon_lent_gpus_came_back(tmp_path: Path) -> None:
    promised = {"vision": Guarantee(2), "speech": Guarantee(4)}
    home = Home(tmp_path / "j.sqlite", "8xV100", tenants=Tenants(dict.fromkeys(promised, 1.0), guarantees=promised))
    borrowers = [home.submit(0.0, gpus=2, tenant="vision") for _ in range(4)]
    home.answer(1.0)
    report = usage_report(home.journal, "tenant", 1, 5.0)
    assert [(each.name, each.reclaims) for each in report.groups] == [("vision", None)], "nothing was lent yet"
    first, second = home.submit(100.0, gpus=2, tenant="speech"), home.submit(100.0, gpus=2, tenant="speech")
    while home.waiting:
        home.answer(107.0)
    beyond = home.submit(110.0, gpus=2, tenant="speech")
    report = usage_report(home.journal, "tenant", 1, 200.0)
    assert {each.name: (each.reclaims, each.reclaim_seconds_p99) for each in report.groups} == {
        "speech": (2, 7.0),
        "vision": (None, None),
    }
    assert (report.total.reclaims, report.total.reclaim_seconds_p99) == (2, 7.0)
    (start,) = [each for each in home.events(first) if each.kind is EventKind.STARTED]
    assert (start.reclaim_seconds, start.tenant) == (7.0, "speech")
    assert sentence(start).endswith(", which its tenant had lent, 7.0s after it arrived")
    assert event_row(first, start).reclaim_seconds == 7.0
    assert all(each.reclaims is None for each in usage_report(home.journal, "user", 1, 200.0).groups)
    for job in (second, first, borrowers[0]):
        home.end(job, 300.0)
    while home.waiting:
        home.answer(310.0)
    assert home.history.records[beyond].started_s == 310.0
    assert usage_report(home.journal, "tenant", 1, 400.0).total.reclaims == 2, "GPUs that became free were not lent"
    assert usage_report(home.journal, "tenant", 1, 2 * DAY).total.reclaims is None, "it was on another day"


def test_that_lent_gpus_come_back_for_a_job_is_known_after_a_restart(tmp_path: Path) -> None:
    tenants = Tenants({"vision": 1.0, "speech": 1.0}, guarantees={"speech": Guarantee(2)})
    home = Home(tmp_path / "j.sqlite", tenants=tenants)
    home.submit(0.0, gpus=2, tenant="vision")
    home.answer(1.0)
    job = home.submit(10.0, gpus=2, tenant="speech/asr")
    assert home.history.records[job].reclaims
    home.history = _restarted(home)
    while home.waiting:
        home.answer(20.0)
    assert not home.history.records[job].reclaims
    report = usage_report(home.journal, "tenant", 1, 30.0)
    assert {each.name: each.reclaim_seconds_p99 for each in report.groups} == {"speech/asr": 10.0, "vision": None}


def test_nothing_is_written_for_a_job_that_waits_or_progresses(home: Home) -> None:
    home.submit(0.0, gpus=2)
    home.answer(1.0)
    for _ in range(20):
        home.submit(2.0, gpus=2, steps=2e6)
    written = home.journal._store.rows("SELECT job, count(*) FROM job_events GROUP BY job")
    assert written == [(1, 1)], "of the running job its start, and of the waiting ones nothing"


def test_a_user_who_sees_only_their_own_names_reads_numbers_of_others() -> None:
    others = (OtherJob(7, "secret", "leo"), OtherJob(8, "mine", "ana"))
    event = JobEvent(kind=EventKind.SUSPENDED, at_s=0.0, cause=Cause.DISPLACED, given_to=others)
    row = event_row(1, event, "ana")
    assert row.given_to == [7, 8] and "its GPUs go to 7 (leo) and 8 mine (ana)" in row.text
    assert "7 secret (leo)" in event_row(1, event).text


def test_a_job_whose_memory_was_damaged_is_not_parked_again(home: Home) -> None:
    job = home.submit(0.0)
    home.answer(1.0)
    text = "3 MiB of its GPU memory came back different after it was parked"
    home.parts = {job: status(job, outcome="lost", exit_code=-9, ended_s=9.0, damaged_mib=3, problem=text)}
    home.end(job, 9.0, Outcome.LOST)
    record = home.history.records[job]
    assert not record.ended and not home.history.submitted(job).spec.may_park
    assert record.parking_problem == text
    assert [each.problem for each in home.events(job) if each.kind is EventKind.LOST] == [text]
