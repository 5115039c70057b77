"""The daemon without its server: what it keeps, refuses and recovers."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, read_setup
from rota.compose.registry import split_pair
from rota.errors import InputError, OptionError, SpecError, UnknownNameError
from rota.live import starts
from rota.live.daemon import Daemon
from rota.live.driver import Driver
from rota.live.given_beliefs import plain_tenants
from rota.live.home_setup import HomeSetup
from rota.live.journal import Journal
from rota.live.local_channel import LocalChannel
from rota.live.log_chunks import whole_characters
from rota.live.replay import replay
from rota.model.cluster import Cluster
from rota.model.events import CancelRequested, Submitted
from rota.model.tenants import Tenants
from rota.wire.job_filter import JobFilter
from rota.wire.job_request import JobRequest, Verb
from rota.wire.rows import RequestRow
from rota.wire.spec import Spec
from rota.wire.submission import Submission

PATIENCE = 300.0


def configuration(cluster: str = "4xV100", policy: str = "fifo", tenants: Tenants | None = None) -> dict[str, Any]:
    given = {} if tenants is None else {"tenants": {"text": "tenants.yaml", "value": plain_tenants(tenants)}}
    settings = {"retry_seconds": 5.0}
    return {"policy": policy, "placer": "packed", "cluster": cluster, "pretend": True, "settings": settings, "given": given}


def _with_policy(cluster: str, named: str, placer: str) -> HomeSetup:
    policy, paired = split_pair(named)
    return read_setup({**configuration(cluster, policy), "placer": paired or placer})


@contextmanager
def running(
    home: Path,
    cluster: str = "4xV100",
    policy: str = "fifo",
    tell: Callable[[str], None] = lambda line: None,
    tenants: Tenants | None = None,
) -> Iterator[Daemon]:
    chosen = configuration(cluster, policy, tenants)
    failed: list[BaseException] = []
    daemon = Daemon(
        home,
        make_scheduler,
        JOURNAL_CODEC,
        Driver(home, LocalChannel(home, Cluster.parse(cluster)), lease_grace_seconds=5.0),
        worker=lambda named: [sys.executable, "-m", "rota.server.policy_worker", named],
        setup=read_setup(chosen),
        with_policy=lambda named, placer: _with_policy(cluster, named, placer),
        on_failure=failed.append,
        tell=tell,
    )
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()
    assert not failed, failed


def submit(daemon: Daemon, run: str | list[str], **fields: Any) -> int:
    return daemon.submit(Submission(Spec(run=run, **fields), "ana", "/", {"PATH": "/usr/bin:/bin"})).id


def cancel_many(daemon: Daemon, keys: list[str]) -> list[RequestRow]:
    return daemon.request(JobRequest(verb=Verb.CANCEL, jobs=tuple(keys)))


def ended(daemon: Daemon, job: int) -> Any:
    end = time.monotonic() + PATIENCE
    while not daemon.job(str(job)).ended:
        assert time.monotonic() < end
        daemon.wait_for_change(0, 0.05)
        time.sleep(0.02)
    return daemon.job(str(job))


def test_a_job_from_submission_to_its_end(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        job = submit(daemon, "echo hello; env | sort", name="first", gpus=2, env={"EPOCHS": 90})
        row = ended(daemon, job)
        assert (row.phase, row.exit_code, row.name, row.user, row.gpus) == ("finished", 0, "first", "ana", 2)
        assert row.submitted_at < row.started_at <= row.finished_at
        assert (row.tenant, row.problem, row.steps_problem) == (None, None, None), "what is not there is null in JSON"
        log = daemon.logs(job, 0, 1 << 20).text
        for word in ("hello", "CUDA_VISIBLE_DEVICES=0,1", "EPOCHS=90", f"ROTA_JOB_ID={job}", "ROTA_JOB_NAME=first", "NNODES=1"):
            assert word in log
        assert "WORLD_SIZE" not in log and "HOME=" not in log, "only what the job was given"
        assert daemon.jobs() == [] and [each.id for each in daemon.jobs(JobFilter(everything=True))] == [job]
        assert daemon.why(job).reasons == []


def test_failures_retries_and_things_that_are_not_there(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        bad = submit(daemon, "exit 3")
        absent = submit(daemon, ["/no/such/program"])
        again = submit(daemon, f"test -e {tmp_path}/mark || {{ touch {tmp_path}/mark; exit 1; }}", retries=1)
        assert (ended(daemon, bad).phase, ended(daemon, bad).exit_code) == ("failed", 3)
        assert ended(daemon, absent).phase == "failed"
        assert ended(daemon, again).phase == "finished"


def test_waiting_and_cancelling(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        long = submit(daemon, ["sleep", "300"], gpus=4, name="long-one")
        waiting = submit(daemon, "true", gpus=1, name="waiting")
        why = daemon.why(waiting)
        end = time.monotonic() + PATIENCE
        while daemon.job("long-one").phase != "running":
            assert time.monotonic() < end
            time.sleep(0.02)
        why = daemon.why(waiting)
        assert why.reasons and why.reasons[0].code == "NO_FREE_GPUS" and [row.id for row in why.ahead] == [long]
        assert daemon.status().gpus_busy == 4 and daemon.status().jobs == {"running": 1, "queued": 1}
        assert daemon.job("long").id == long, "the beginning of a name"
        daemon.cancel(long)
        assert ended(daemon, long).phase == "cancelled"
        assert ended(daemon, waiting).phase == "finished"
        assert daemon.cancel(long).phase == "cancelled", "again changes nothing"


def test_a_cancelled_job_keeps_what_it_reached_and_was_not_suspended(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        pattern = r"step (\d+)/(\d+)"
        job = submit(daemon, "echo step 11/100; sleep 300", progress=pattern)
        failed = submit(daemon, "echo step 30/100; exit 3", progress=pattern)
        end = time.monotonic() + PATIENCE
        while daemon.job(str(job)).steps_done != 11:
            assert time.monotonic() < end
            time.sleep(0.02)
        daemon.cancel(job)
        row = ended(daemon, job)
        assert (row.phase, row.steps_done, row.steps_total) == ("cancelled", 11, 100)
        assert (row.suspensions, row.lost_steps, row.lost_seconds) == (0, 0, 0) and row.last_change.startswith("cancelled at ")
        row = ended(daemon, failed)
        assert (row.phase, row.steps_done, row.suspensions) == ("failed", 30, 0)


def test_a_restart_finds_everything(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        done = submit(daemon, "true", name="done")
        ended(daemon, done)
        long = submit(daemon, ["sleep", "300"], gpus=4)
        queued = submit(daemon, "true", name="later")
        end = time.monotonic() + PATIENCE
        while daemon.job(str(long)).phase != "running":
            assert time.monotonic() < end
            time.sleep(0.02)
        before = {row.id: (row.phase, row.name, row.submitted_at) for row in daemon.jobs(JobFilter(everything=True))}
    with running(tmp_path) as daemon:
        after = {row.id: (row.phase, row.name, row.submitted_at) for row in daemon.jobs(JobFilter(everything=True))}
        assert after == before, "the job ran on without a daemon"
        daemon.cancel(long)
        assert ended(daemon, long).phase == "cancelled" and ended(daemon, queued).phase == "finished"
        assert submit(daemon, "true") == queued + 1, "numbers go on"


@pytest.mark.parametrize("second", ["fifo", "finish-time-fairness", "tiresias:thresholds=60"])
def test_another_policy_takes_over_without_the_memory_of_the_first(second: str, tmp_path: Path) -> None:
    """After `tiresias` nothing was scheduled any more: what it remembered was handed to the next policy."""
    with running(tmp_path, policy="tiresias") as daemon:
        long = submit(daemon, ["sleep", "300"], gpus=2)
        end = time.monotonic() + PATIENCE
        while daemon.job(str(long)).phase != "running":
            assert time.monotonic() < end
            time.sleep(0.02)
    with running(tmp_path, policy=second) as daemon:
        assert ended(daemon, submit(daemon, "true")).phase == "finished"
        assert daemon.job(str(long)).phase == "running", "it goes on"
        state = daemon.scheduler.state
        assert state.cycle.answer is not None and state.cycle.answer.policy == second and not state.cycle.policy_fault
        daemon.cancel(long)
        ended(daemon, long)


@pytest.mark.parametrize(
    "fields,words",
    [
        ({"gpus": 5}, "UNSATISFIABLE"),
        ({"accelerators": ["H100"]}, "NO_SUCH_ACCELERATOR"),
        ({"deadline": "2020-01-01T00:00"}, "in the past"),
        ({"gpus": {"min": 5, "max": 8}}, "UNSATISFIABLE"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    with running(tmp_path) as daemon:
        with pytest.raises(InputError, match=words):
            submit(daemon, "true", **fields)
        assert daemon.jobs(JobFilter(everything=True)) == []


def test_an_elastic_job_runs_at_a_size_that_has_room(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        long = submit(daemon, ["sleep", "300"], gpus=3)
        job = submit(
            daemon, "echo $ROTA_GPUS GPUs, batch $ROTA_BATCH_SIZE", gpus={"min": 1, "max": 4}, batch={"size": 64, "max": 200}
        )
        assert ended(daemon, job).phase == "finished"
        assert "1 GPUs, batch 64" in daemon.logs(job, 0, 1000).text
        shown: Any = daemon.job(str(job)).spec
        assert shown["gpus"] == {"min": 1, "max": 4} and shown["batch"] == {"size": 64, "min": 64, "max": 128}
        daemon.cancel(long)
        ended(daemon, long)
        wide = submit(daemon, "echo $ROTA_GPUS GPUs", gpus={"min": 1, "max": 4})
        ended(daemon, wide)
        assert "4 GPUs" in daemon.logs(wide, 0, 1000).text


def test_names(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        for name in ("resnet-a", "resnet-b", "bert"):
            ended(daemon, submit(daemon, "true", name=name))
        assert daemon.job("bert").name == daemon.job("be").name == "bert"
        with pytest.raises(OptionError, match="fits several jobs: resnet-a, resnet-b"):
            daemon.job("resnet")
        with pytest.raises(UnknownNameError, match="No job 'vgg'"):
            daemon.job("vgg")
        with pytest.raises(UnknownNameError, match=r"No job '99'\. All: bert, resnet-a, resnet-b\."):
            daemon.cancel(99)


def test_a_name_means_the_job_that_has_not_ended(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        live = submit(daemon, ["sleep", "300"], name="train")
        newer = submit(daemon, "true", name="train")
        assert ended(daemon, newer).phase == "finished"
        assert daemon.job("train", unique=True).id == daemon.job("tra", unique=True).id == live, "the newer one has ended"
        second = submit(daemon, ["sleep", "300"], name="train")
        for key in ("train", "tr"):
            with pytest.raises(OptionError, match=f"fits 2 jobs: {live}, {second}"):
                daemon.job(key, unique=True)
            assert daemon.job(key).id == second, "to look at, the newest"
        other = submit(daemon, "true", name="trainer")
        ended(daemon, other)
        assert daemon.job("tr").id == second, "one that has ended is not in the way"
        for job in (live, second):
            daemon.cancel(job)
            ended(daemon, job)
        assert daemon.job("train", unique=True).id == second
        with pytest.raises(OptionError, match="fits several jobs: train, trainer"):
            daemon.job("tr")


def test_relative_folders_are_refused(tmp_path: Path) -> None:
    with running(tmp_path) as daemon, pytest.raises(SpecError, match="absolute"):
        daemon.submit(Submission(Spec(run="true"), "ana", "somewhere", {}))


@pytest.mark.parametrize(
    "data,kept",
    [(b"", 0), (b"abc", 3), ("ü".encode(), 2), (b"a\xc3", 1), ("a€".encode()[:-1], 1), ("a😀".encode()[:-1], 1), (b"\xff", 0)],
)
def test_a_character_is_never_cut(data: bytes, kept: int) -> None:
    assert whole_characters(data) == kept or data == b"\xff"


def test_a_restart_from_a_snapshot_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.live.upkeep.SNAPSHOT_EVERY", 3)
    with running(tmp_path) as daemon:
        for number in range(6):
            ended(daemon, submit(daemon, "true", name=f"j{number}"))
        long = submit(daemon, ["sleep", "300"], gpus=4)
        submit(daemon, "true", gpus=2)
        end = time.monotonic() + PATIENCE
        while daemon.job(str(long)).phase != "running":
            assert time.monotonic() < end
            time.sleep(0.02)
        found, last = daemon.journal.snapshot(), daemon.journal.last
        assert found is not None and 0 < found[0] <= last, "there is one, and entries may follow it"
    chosen = read_setup(configuration())
    journal = Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)
    whole, quick = make_scheduler(chosen), make_scheduler(chosen)
    snapshot = journal.snapshot()
    assert snapshot is not None
    quick.restore(snapshot[1], JOURNAL_CODEC)
    for entry in journal.entries():
        whole.fold(entry.now_s, entry.events)
        whole.commit(entry.decided)
        if entry.number > snapshot[0]:
            quick.fold(entry.now_s, entry.events)
            quick.commit(entry.decided)
    journal.close()
    assert whole.snapshot(JOURNAL_CODEC) == quick.snapshot(JOURNAL_CODEC)
    with running(tmp_path) as daemon:
        assert daemon.job(str(long)).phase == "running"
        daemon.cancel(long)
        ended(daemon, long)


def test_what_happened_while_nobody_looked_counts_once(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        job = submit(daemon, f"test -e {tmp_path}/mark || {{ touch {tmp_path}/mark; sleep 2; exit 75; }}; sleep 1")
        end = time.monotonic() + PATIENCE
        while daemon.job(str(job)).phase != "running":
            assert time.monotonic() < end
            time.sleep(0.02)
    time.sleep(3)  # it yields with no daemon there
    with running(tmp_path) as daemon:
        row = ended(daemon, job)
    assert (row.phase, row.suspensions) == ("finished", 1)


def test_two_jobs_of_half_a_gpu_run_on_one(tmp_path: Path) -> None:
    with running(tmp_path, cluster="1xV100") as daemon:
        jobs = [submit(daemon, ["sleep", "300"], gpus=0.5) for _ in range(3)]
        end = time.monotonic() + PATIENCE
        while [daemon.job(str(job)).phase for job in jobs] != ["running", "running", "queued"]:
            assert time.monotonic() < end, [daemon.job(str(job)).phase for job in jobs]
            time.sleep(0.02)
        assert daemon.scheduler.state.nodes.observed.gpu_fractions == {0: ((jobs[0], 500), (jobs[1], 500))}
        assert "needs 0.5 GPUs" in daemon.why(jobs[2]).reasons[0].sentence
        daemon.cancel(jobs[0])
        while daemon.job(str(jobs[2])).phase != "running":
            assert time.monotonic() < end
            time.sleep(0.02)
        for job in jobs[1:]:
            daemon.cancel(job)
            ended(daemon, job)


def test_a_running_job_says_nothing_of_the_end_of_an_earlier_life(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        job = submit(daemon, f"test -e {tmp_path}/mark && exec sleep 300; touch {tmp_path}/mark; exit 3", retries=1)
        end = time.monotonic() + PATIENCE
        while not (tmp_path / "mark").exists() or daemon.job(str(job)).phase != "running":
            assert time.monotonic() < end
            time.sleep(0.02)
        while "another try" in daemon.job(str(job)).last_change or daemon.job(str(job)).exit_code is not None:
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.02)
        row = daemon.job(str(job))
        assert (row.phase, row.exit_code, row.finished_at) == ("running", None, None) and row.last_change.startswith(
            "started at "
        )
        daemon.cancel(job)
        row = ended(daemon, job)
        assert row.phase == "cancelled" and row.started_at < row.finished_at


def test_what_is_left_of_a_job(tmp_path: Path) -> None:
    """A job that runs and tells its steps has an end in sight; one that ran before knows what is left; others know nothing."""
    steps = "trap 'exit 75' TERM; for i in $(seq 1 100000); do echo step $i/100000; sleep 0.05; done"
    with running(tmp_path, cluster="1xV100", policy="srsf") as daemon:
        long = submit(daemon, steps, progress=r"step (\d+)/(\d+)", steps=100_000, checkpoint={"grace": 20})
        silent = submit(daemon, "true", steps=200_000)
        end = time.monotonic() + PATIENCE
        while (row := daemon.job(str(long))).eta_seconds is None or not row.steps_per_second:
            assert time.monotonic() < end, row
            time.sleep(0.02)
        assert row.steps_total == 100_000 and row.steps_done is not None
        left = (row.steps_total - row.steps_done) / row.steps_per_second
        assert left - PATIENCE <= row.eta_seconds <= left, "less what it has worked since it told of its last step"
        assert daemon.job(str(silent)).eta_seconds is None
        short = submit(daemon, ["sleep", "300"], steps=1)
        while daemon.job(str(long)).phase != "checkpointed" or daemon.job(str(long)).eta_seconds is None:
            assert time.monotonic() < end, daemon.job(str(long))
            time.sleep(0.02)
        row = daemon.job(str(long))
        assert row.steps_per_second is None and 1000 < (row.eta_seconds or 0) < 1e6, "at the speed it had"
        for job in (long, silent, short):
            daemon.cancel(job)
            ended(daemon, job)
        assert daemon.job(str(long)).eta_seconds is None


def test_variables_without_a_value_are_passed_through(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        spec = Spec.model_validate({"run": "env", "env": ["TOKEN", "EPOCHS=90"]})
        job = daemon.submit(Submission(spec, "ana", "/", {"PATH": "/usr/bin:/bin", "TOKEN": "secret"})).id
        ended(daemon, job)
        log = daemon.logs(job, 0, 1 << 20).text
        assert "TOKEN=secret\n" in log and "EPOCHS=90\n" in log
        with pytest.raises(SpecError, match=r"env\.ABSENT — is not set where the job is submitted"):
            submit(daemon, "env", env={"ABSENT": None})


@pytest.mark.parametrize(("lines", "text"), [(0, ""), (1, "--- rota: finished ---\n"), (2, "3\n--- rota: finished ---\n")])
def test_the_last_lines_of_a_log(tmp_path: Path, lines: int, text: str) -> None:
    with running(tmp_path) as daemon:
        job = submit(daemon, "seq 1 3")
        ended(daemon, job)
        whole = daemon.logs(job, 0, 1 << 20)
        found = daemon.logs(job, 0, 10, tail=lines)
        assert (found.text, found.next_offset, found.ended) == (text, whole.next_offset, True)
        assert daemon.logs(job, 0, 10, tail=99).text == whole.text


def test_jobs_are_filtered_and_come_in_pages(tmp_path: Path) -> None:
    with running(tmp_path, cluster="1xV100") as daemon:
        jobs = [
            daemon.submit(Submission(Spec(run=["sleep", "300"]), user, "/", {"PATH": "/bin:/usr/bin"})).id
            for user in ("ana", "leo", "ana")
        ]
        until_running = time.monotonic() + PATIENCE
        while daemon.job(str(jobs[0])).phase != "running":
            assert time.monotonic() < until_running
            time.sleep(0.02)

        def ids(**wanted: Any) -> list[int]:
            return [row.id for row in daemon.jobs(JobFilter(**wanted))]

        assert ids() == jobs and ids(user="ana") == [jobs[0], jobs[2]] and ids(user="nobody") == []
        assert ids(phase="running") == [jobs[0]] and ids(phase="queued", limit=1) == [jobs[1]]
        assert ids(limit=2) == jobs[:2] and ids(limit=2, after=jobs[1]) == jobs[2:]
        assert ids(since_s=daemon.history.records[jobs[1]].submitted_s) == jobs[1:] and ids(since_s=time.time() + 60) == []
        daemon.cancel(jobs[1])
        ended(daemon, jobs[1])
        assert ids() == [jobs[0], jobs[2]] and ids(everything=True, phase="cancelled") == [jobs[1]]
        for job in (jobs[0], jobs[2]):
            daemon.cancel(job)
            ended(daemon, job)


def test_a_job_is_shown_with_everything_its_spec_said(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        fields = {
            "progress": r"step (\d+)",
            "retries": 2,
            "checkpoint": {"dir": "ckpt", "grace": "5m"},
            "env": {"TOKEN": "secret"},
        }
        job = submit(daemon, "true", deadline="2099-01-01T00:00:00Z", tenant="a/b", profile="resnet", steps=5, **fields)
        spec = daemon.job(str(job)).spec
        assert spec is not None and "secret" not in str(spec)
        assert (
            spec["checkpoint"] == {"dir": "/ckpt", "grace": 300.0, "saves": True}
            and spec["env"] == ["PATH", "TOKEN"]
            and spec["run"] == "true"
        )
        assert (spec["retries"], spec["deadline"], spec["progress"], spec["profile"], spec["tenant"], spec["steps"]) == (
            2,
            "2099-01-01T00:00:00Z",
            r"step (\d+)",
            "resnet",
            "a/b",
            5,
        )
        ended(daemon, job)


def until(wanted: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not wanted() and time.monotonic() < end:
        time.sleep(0.02)
    return wanted()


def tells_after(go: Path) -> str:
    """A job that loads for as long as we like, and then tells when it made its first step."""
    return f"while [ ! -e {go} ]; do sleep 0.02; done; date +%s.%N; for n in $(seq 1 6000); do echo step $n; sleep 0.1; done"


def test_a_job_has_started_when_its_first_step_is_seen(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with running(tmp_path) as daemon:
        tells = submit(daemon, tells_after(go), progress=r"step (\d+)")
        silent = submit(daemon, tells_after(go))
        assert until(lambda: daemon.job(str(silent)).phase == "running")
        assert daemon.job(str(tells)).phase == "starting" and daemon.job(str(tells)).started_at is None
    with running(tmp_path) as daemon:  # the start goes on meanwhile, and is the same one
        assert until(lambda: bool(daemon.driver.running()))
        assert daemon.job(str(tells)).phase == "starting"
        table, row = daemon.scheduler.state.jobs.table, daemon.scheduler.state.jobs.row[tells]
        launched_s, believed_seconds = table.phase_s.item(row), table.move_seconds.item(row)
        assert until(lambda: time.time() > launched_s + believed_seconds + 0.5)
        go.touch()
        assert until(lambda: daemon.job(str(tells)).phase == "running")
        first_s = float(daemon.logs(tells, 0, 1000).text.splitlines()[1])
        record = daemon.history.records[tells]
        assert record.started_s is not None and record.started_s >= first_s
        assert table.move_seconds.item(row) == record.started_s - launched_s, "what starting took is what moving costs"
        for job in (tells, silent):
            daemon.cancel(job)
            ended(daemon, job)


def test_one_that_never_makes_a_step_counts_as_started_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "PATIENCE", 0.1)
    with running(tmp_path, policy="srsf", cluster="1xV100") as daemon:
        stuck = submit(daemon, ["sleep", "300"], progress=r"step (\d+)", preemptible=True)
        assert until(lambda: daemon.job(str(stuck)).phase == "running")
        record = daemon.history.records[stuck]
        (status,) = daemon.driver.inventory()
        assert record.started_s == status.started_s and status.began_s is None
        ended(daemon, submit(daemon, "true", steps=1))
        daemon.cancel(stuck)
        ended(daemon, stuck)


def _sent(*specs: Spec) -> list[Submission]:
    return [Submission(spec, "ana", "/", {"PATH": "/usr/bin:/bin"}) for spec in specs]


def test_many_jobs_are_submitted_together_or_not_at_all(tmp_path: Path) -> None:
    with running(tmp_path, cluster="1xV100") as daemon:
        last = daemon.journal.last
        with pytest.raises(OptionError, match=r"jobs\[2\].*UNSATISFIABLE.*None of the jobs was taken") as refused:
            daemon.submit_many(_sent(*[Spec(run="true", gpus=gpus) for gpus in (1, 1, 64, 128)]))
        assert refused.value.field == "jobs.2.gpus"
        with pytest.raises(SpecError, match=r"jobs\[1\].*workdir"):
            daemon.submit_many([*_sent(Spec(run="true")), Submission(Spec(run="true"), "ana", "here", {})])
        assert daemon.jobs(JobFilter(everything=True)) == [] and daemon.journal.last == last
        taken = daemon.submit_many(_sent(*[Spec(run=["sleep", "300"], name=name) for name in ("a", None, "c")]))
        assert [(each.id, each.name) for each in taken] == [(1, "a"), (2, "job-2"), (3, "c")]
        assert daemon.submit_many([]) == []
        submitted = [
            [event.job for event in entry.events if isinstance(event, Submitted)] for entry in daemon.journal.entries(last)
        ]
        assert [1, 2, 3] in submitted, "in one entry, and so in one transaction"
        _cancel_all(daemon)


def test_many_jobs_are_cancelled_together(tmp_path: Path) -> None:
    with running(tmp_path, cluster="1xV100") as daemon:
        daemon.submit_many(_sent(*[Spec(run=["sleep", "300"], name=f"j{i}") for i in range(6)]))
        _until(lambda: daemon.job("1").phase == "running")
        with pytest.raises(UnknownNameError):
            cancel_many(daemon, ["2", "nobody"])
        with pytest.raises(OptionError, match="fits several"):
            cancel_many(daemon, ["2", "j"])
        assert len(daemon.jobs()) == 6, "a name is wrong, so nothing is cancelled"
        last = daemon.journal.last
        found = cancel_many(daemon, ["j2", "3", "1", "4", "3"])
        assert [(each.job.id, each.was) for each in found] == [(3, "queued"), (1, "running"), (4, "queued")]
        assert [each.job.phase in ("cancelled", "stopping") for each in found] == [True] * 3
        asked = [
            [event.job for event in entry.events if isinstance(event, CancelRequested)] for entry in daemon.journal.entries(last)
        ]
        assert [3, 1, 4] in asked, "in one transaction"
        ended(daemon, 1)
        assert [(each.job.phase, each.was) for each in cancel_many(daemon, ["1"])] == [("cancelled", "cancelled")]
        _cancel_all(daemon)


def test_a_page_of_jobs_begins_with_those_that_run(tmp_path: Path) -> None:
    with running(tmp_path, cluster="1xV100") as daemon:
        ended(daemon, submit(daemon, "true", name="first"))
        ended(daemon, submit(daemon, "true", name="second"))
        daemon.submit_many(_sent(*[Spec(run=["sleep", "300"], name=f"j{i}") for i in range(3, 9)]))
        _until(lambda: daemon.job("3").phase == "running")
        cancel_many(daemon, ["5"])
        page = daemon.page(JobFilter(everything=True))
        assert ([row.id for row in page.jobs], page.total) == ([3, 4, 6, 7, 8, 5, 2, 1], 8)
        page = daemon.page(JobFilter(skip=1, limit=2))
        assert ([row.id for row in page.jobs], page.total) == ([4, 6], 5)
        assert page.jobs == daemon.jobs(JobFilter(after=3, limit=2))
        assert daemon.page(JobFilter(phase="queued", limit=1)).total == 4
        assert daemon.page(JobFilter(user="bo")).total == 0
        assert daemon.status().jobs == {"running": 1, "queued": 4}
        _cancel_all(daemon)


def test_a_start_packs_what_is_old_and_takes_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SNAPSHOT_EVERY", "COMPACT_EVERY"):
        monkeypatch.setattr(f"rota.live.upkeep.{name}", 10_000)
    monkeypatch.setattr("rota.live.journal_packs.MIN_ENTRIES", 10)
    with running(tmp_path, cluster="1xV100") as daemon:
        for _ in range(6):
            daemon.cancel(job := submit(daemon, ["sleep", "300"]))
            ended(daemon, job)
    with closing(Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)) as journal:
        before = [JOURNAL_CODEC.encode(entry.events) for entry in journal.entries()]
        assert len(before) > 10 and journal.snapshot_number() == 0
    monkeypatch.setattr("rota.live.upkeep.SNAPSHOT_EVERY", 100)
    with running(tmp_path, cluster="1xV100") as daemon:
        _until(lambda: daemon.journal.snapshot_number() > 0)
        rows = [row.phase for row in daemon.jobs(JobFilter(everything=True))]
    with closing(Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)) as journal:
        assert [JOURNAL_CODEC.encode(entry.events) for entry in journal.entries()][: len(before)] == before
        assert journal._store.rows("SELECT count(*) FROM packs")[0][0] >= 1 and rows == ["cancelled"] * 6


def test_a_journal_is_packed_while_the_scheduler_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.live.upkeep.COMPACT_EVERY", 5)
    monkeypatch.setattr("rota.live.journal_packs.PACK_ENTRIES", 5)
    monkeypatch.setattr("rota.live.journal_packs.NEW_ENTRIES", 5)
    with running(tmp_path, cluster="1xV100") as daemon:
        for _ in range(20):
            daemon.cancel(submit(daemon, ["sleep", "300"], gpus=1))
    with closing(Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)) as journal:
        assert journal._store.rows("SELECT count(*) FROM packs")[0][0] >= 2
        assert journal._store.rows("SELECT count(*) FROM entries")[0][0] < 25
        for _, _, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
            assert difference is None, difference


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def _cancel_all(daemon: Daemon) -> None:
    cancel_many(daemon, [str(row.id) for row in daemon.jobs()])
    _until(lambda: not daemon.jobs())
