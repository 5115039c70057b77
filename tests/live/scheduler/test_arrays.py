"""Arrays with real processes: one submission, one row, one request; and each task its own job."""

from pathlib import Path

import pytest

from rota.errors import ConflictError, InputError, OptionError, SpecError
from rota.live.daemon import Daemon
from rota.model.events import Submitted
from rota.wire.job_filter import JobFilter
from rota.wire.job_request import JobRequest, Verb
from rota.wire.rows import JobRow
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.live.scheduler.test_daemon import ended, running, submit
from tests.waiting import until


def send(daemon: Daemon, run: str, key: str | None = None, **fields: object) -> JobRow:
    spec = Spec.model_validate({"run": run, **fields})
    return daemon.submit(Submission(spec, "ana", "/", {"PATH": "/usr/bin:/bin"}, key))


def request(daemon: Daemon, verb: Verb, *keys: str) -> list[tuple[int, bool]]:
    return [(each.requested, each.changed) for each in daemon.request(JobRequest(verb=verb, jobs=keys))]


def test_the_tasks_of_an_array_get_their_index_and_are_one_row(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    run = f'echo "$ROTA_ARRAY_ID $ROTA_ARRAY_COUNT $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_MAX" > {out}/$ROTA_ARRAY_INDEX'
    with running(tmp_path) as daemon:
        row = send(daemon, run, name="train", array="1,3-7:2", compat="slurm")
        assert (row.id, row.name, row.array and row.array.tasks) == (1, "train[1,3-7:2]", 4)
        assert ended(daemon, row.id).phase == "finished"
        assert {each.name: each.read_text() for each in out.iterdir()} == {str(n): f"1 4 {n} 7\n" for n in (1, 3, 5, 7)}
        (again,) = daemon.jobs(JobFilter(everything=True))
        assert again.array is not None and (again.id, again.array.phases) == (1, {"finished": 4})
        tasks = daemon.jobs(JobFilter(everything=True, tasks=True))
        assert [(each.id, each.name, each.array_id, each.array_index) for each in tasks] == [
            (2, "train[1]", 1, 1),
            (3, "train[3]", 1, 3),
            (4, "train[5]", 1, 5),
            (5, "train[7]", 1, 7),
        ]
        assert [daemon.job(key).id for key in ("1", "train", "train[1,3-7:2]", "1_7", "train[7]")] == [1, 1, 1, 5, 5]
        with pytest.raises(ConflictError, match="is an array of 4 jobs"):
            daemon.logs(1, 0, 100)
    with running(tmp_path) as daemon:
        assert daemon.job("train").array == again.array, "a restart knows it"


def test_a_sweep_gives_each_job_its_values_as_variables_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running(tmp_path) as daemon:
        values = ["$(touch /tmp/never)", "0.1"]
        row = send(daemon, f'printf "%s %s\\n" "$lr" "$seed" >> {out}', name="s", sweep={"lr": values, "seed": "0..1"})
        assert ended(daemon, row.id).phase == "finished"
        assert sorted(out.read_text().splitlines()) == sorted(f"{lr} {seed}" for lr in values for seed in (0, 1))
        assert daemon.job("s[lr=0.1,seed=1]").array_index == 3


def test_no_more_tasks_run_than_the_limit_and_a_restart_keeps_it(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        row = send(daemon, "sleep 300", name="train", array={"indices": "0-9", "at_once": 2})
        until(lambda: (daemon.job("train").array or row.array).phases == {"running": 2, "queued": 8}, "two run")
        why = daemon.why(daemon.job("1_5").id).reasons[0]
        assert why.code == "OVER_QUOTA" and why.sentence == "Its array 1 runs at most 2 tasks at once, and 2 have GPUs."
    with running(tmp_path) as daemon:
        other = submit(daemon, "true", gpus=2, name="other")
        assert ended(daemon, other).phase == "finished", "the limit is that of the array alone"
        assert daemon.job("train").array.phases == {"running": 2, "queued": 8}
        assert request(daemon, Verb.HOLD, "train") == [(1, True)]
        assert request(daemon, Verb.CANCEL, "1_0") == [(2, True)]
        assert ended(daemon, 2).phase == "cancelled"
        assert daemon.job("1").array.phases == {"running": 1, "queued": 8, "cancelled": 1}, "the others are held"
        assert request(daemon, Verb.CANCEL, "1") == [(1, True)]
        assert ended(daemon, 1).phase == "cancelled"
        assert request(daemon, Verb.CANCEL, "1") == [(1, False)]


def test_a_requeued_array_runs_its_failed_tasks_again_under_their_index(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with running(tmp_path) as daemon:
        send(daemon, f"test $ROTA_ARRAY_INDEX = 0 || test -e {mark}", name="train", array="0-2")
        assert ended(daemon, 1).array.phases == {"failed": 2, "finished": 1}
        mark.touch()
        assert request(daemon, Verb.REQUEUE, "train") == [(1, True)]
        assert ended(daemon, 1).array.phases == {"finished": 3}
        assert daemon.job("1_2").id > 4


def test_a_job_after_an_array_waits_for_all_of_its_tasks(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    with running(tmp_path) as daemon:
        send(daemon, f"echo task >> {marks}", name="train", array="0-5")
        last = submit(daemon, f"echo last >> {marks}", after=["train"])
        assert ended(daemon, last).phase == "finished"
        assert marks.read_text().splitlines() == ["task"] * 6 + ["last"]
        bad = send(daemon, "false", name="bad", array="0-1").id
        waiting = submit(daemon, "true", after=[bad])
        assert ended(daemon, waiting).phase == "cancelled"


def test_the_same_key_is_the_same_array(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        first = send(daemon, "true", "k", name="train", array="0-3")
        assert send(daemon, "true", "k", name="train", array="0-3").id == first.id
        for other in ({"array": "0-4"}, {"array": "0-3%1"}, {}, {"sweep": {"a": [0, 1, 2, 3]}}):
            with pytest.raises(ConflictError, match="another job was submitted with this key"):
                send(daemon, "true", "k", name="train", **other)
        assert len(daemon.jobs(JobFilter(everything=True, tasks=True))) == 4
    with running(tmp_path) as daemon:
        assert send(daemon, "true", "k", name="train", array="0-3").id == first.id


def test_all_tasks_are_in_one_transaction(tmp_path: Path) -> None:
    """The journal has one entry with all tasks, so a crash leaves all of them or none."""
    with running(tmp_path) as daemon:
        send(daemon, "sleep 300", name="train", array="0-999%1", gpus=4)
        counts = [sum(isinstance(event, Submitted) for event in entry.events) for entry in daemon.journal.entries()]
        assert [count for count in counts if count] == [1000]
        daemon.cancel(1)


def test_a_large_array_is_one_row_of_a_page(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.set_policy("fifo")
        send(daemon, "sleep 300", name="train", array="1-10000%1")
        page = daemon.page()
        assert page.total == 1 and page.jobs[0].array.tasks == 10_000
        assert daemon.page(JobFilter(tasks=True, limit=5)).total == 10_000
        daemon.cancel(1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"array": "0-10000"}, "more than 10,000 tasks"),
        ({"array": "5-1"}, "not a range upwards"),
        ({"array": "0-3%0"}, "no number of tasks after %"),
        ({"array": "0-3", "sweep": {"a": [1]}}, "sweep gives its tasks already"),
        ({"sweep": {"a": "b"}}, "neither a list of values nor a range"),
        ({"sweep": {"A": [1]}, "env": {"A": "2"}}, "A is set by env too"),
        ({"sweep": {"ROTA_JOB_ID": [1]}}, "ROTA_JOB_ID is set by Rota too"),
    ],
)
def test_a_wrong_array_is_refused_with_the_reason(fields: dict[str, object], words: str) -> None:
    from rota.wire.spec import spec_from, spec_tree

    with pytest.raises(SpecError, match=words):
        spec_from(spec_tree({"run": "true", **fields}))


def test_a_name_of_two_arrays_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        for _ in range(2):
            send(daemon, "sleep 300", name="train", array="0-1")
        with pytest.raises(OptionError, match="fits 2 arrays: 1, 4"):
            request(daemon, Verb.CANCEL, "train")
        assert request(daemon, Verb.CANCEL, "1", "4") == [(1, True), (4, True)]


def test_one_request_cannot_wait_for_the_tasks_of_arrays_many_times(tmp_path: Path) -> None:
    """A few bytes of a request may not become millions of dependencies in the scheduler, for which all others would wait."""
    tasks = 2000

    def job(**fields: object) -> Submission:
        return Submission(Spec.model_validate({"run": "sleep 600", **fields}), "ana", "/", {"PATH": "/usr/bin:/bin"}, None)

    with running(tmp_path) as daemon:
        first = daemon.submit(job(name="first", array=f"0-{tasks - 1}%1")).id
        with pytest.raises(SpecError, match=r"are more than 100,000 jobs for one job, with the tasks of arrays"):
            daemon.submit(job(after=[first] * 51))
        for earlier in ({"index": 0}, "inner"):
            with pytest.raises(SpecError, match=r"jobs\[1\]  after — are 2,000 jobs for each of 2,000 tasks"):
                daemon.submit_many([job(name="inner", array=f"0-{tasks - 1}"), job(array=f"0-{tasks - 1}", after=[earlier])])
        with pytest.raises(
            SpecError, match=r"jobs\[50\]  after — are more than 100,000 jobs for the jobs of this request together"
        ):
            daemon.submit_many([job(after=[first]) for _ in range(51)])
        with pytest.raises(InputError, match=r"jobs\[5\].* are more than 10,000 with the tasks of arrays"):
            daemon.submit_many([job(array=f"0-{tasks - 1}") for _ in range(6)])
        assert [row.id for row in daemon.jobs()] == [first], "nothing was submitted"
        daemon.request(JobRequest(verb=Verb.CANCEL, jobs=(str(first),)))
