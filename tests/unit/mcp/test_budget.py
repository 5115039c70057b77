"""What the jobs of one server may have at once."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import BusyError, ForbiddenError, JournalError, OptionError, RotaError, UnreachableError
from rota.mcp.budget import KEY_PREFIX, Budget, BudgetLimits, BudgetRequest, gpu_seconds
from rota.wire.client import Client, connect
from rota.wire.transport import UnansweredError
from tests.unit.mcp.conftest import Program
from tests.unit.server.standin import Served


def started(served: Served, **limits: Any) -> Program:
    program = Program(served, **limits)
    program.hello()
    return program


def test_a_server_may_have_a_number_of_unfinished_jobs(served: Served) -> None:
    program = started(served, max_jobs=2)
    connect(served.home).submit("true", name="of-the-user")
    for left in (1, 0):
        assert program.call("submit", run="true")["budget"] == {
            "max_jobs": 2,
            "jobs_left": left,
            "max_gpus": None,
            "gpus_left": None,
            "max_gpu_hours": None,
            "gpu_hours_left": None,
        }
    refused = program.refused("submit", run="true")
    assert refused.startswith(
        "This server may have 2 unfinished jobs at once and has 2; 0 are left. Nothing was submitted.\nTry: "
    )
    assert program.refused("check", run="true").startswith("This server may have 2 unfinished jobs")
    assert len(served.daemon.rows) == 3
    served.daemon.end(2)
    assert program.call("whoami")["budget"]["jobs_left"] == 1
    program.call("submit", run="true")
    assert "0 are left" in program.refused("submit", run="true")


def test_a_server_may_have_a_number_of_gpus(served: Served) -> None:
    program = started(served, max_gpus=3.5)
    assert program.call("submit", run="true", gpus={"min": 1, "max": 3})["budget"]["gpus_left"] == 0.5
    refused = program.refused("submit", run="true", gpus=1)
    assert refused.startswith(
        "This server may have 3.5 GPUs at once; 0.5 are left and the job requests 1. Nothing was submitted."
    )
    assert program.call("submit", run="true", gpus=0.5)["budget"]["gpus_left"] == 0
    assert "0 are left" in program.refused("submit", run="true", gpus=0.5)
    program.call("cancel", jobs=[1])
    assert program.call("whoami")["budget"]["gpus_left"] == 3


def test_the_same_key_counts_once(served: Served) -> None:
    program = started(served, max_jobs=1, max_gpus=4)
    program.call("submit", run="true", gpus=3, key="k")
    assert program.call("submit", run="true", gpus=3, key="k")["budget"] == {
        "max_jobs": 1,
        "jobs_left": 0,
        "max_gpus": 4,
        "gpus_left": 1,
        "max_gpu_hours": None,
        "gpu_hours_left": None,
    }
    assert "another job was submitted with this key" in program.refused("submit", run="true", gpus=4, key="k")
    assert program.call("whoami")["budget"]["gpus_left"] == 1
    served.daemon.end(1)
    assert program.call("submit", run="true", gpus=3, key="k")["job"]["phase"] == "finished"
    budget = program.call("whoami")["budget"]
    assert (budget["jobs_left"], budget["gpus_left"]) == (1, 4)


def test_a_refused_job_does_not_count(served: Served) -> None:
    program = started(served, max_gpus=10)
    assert "UNSATISFIABLE" in program.refused("submit", run="true", gpus=8)
    assert program.call("whoami")["budget"]["gpus_left"] == 10


@pytest.mark.parametrize(
    ("problem", "retried", "counts"),
    [
        (UnreachableError("no scheduler answers."), False, False),
        (UnreachableError("no scheduler answers."), True, True),
        (UnansweredError("no answer."), False, True),
        (BusyError("too busy."), False, True),
        (JournalError("disk full."), False, True),
        (OptionError("too large."), False, False),
        (ForbiddenError("you may not."), False, False),
    ],
    ids=str,
)
def test_a_job_that_the_scheduler_may_have_taken_counts(
    served: Served, monkeypatch: pytest.MonkeyPatch, problem: RotaError, retried: bool, counts: bool
) -> None:
    program = started(served, max_jobs=1)

    def lost(self: Client, *_: Any, **__: Any) -> None:
        if retried:
            self.on_retry(problem)
        raise problem

    with monkeypatch.context() as patch:
        patch.setattr(Client, "submit_spec", lost)
        refused = program.refused("submit", run="true", key="k")
    assert problem.message in refused and ('with the key "k"' in refused) == counts
    assert program.call("whoami")["budget"]["jobs_left"] == (0 if counts else 1)
    if counts:
        assert "0 are left" in program.refused("submit", run="true")
        assert program.call("submit", run="true", key="k")["job"]["id"] == 1
        served.daemon.end(1)
        assert program.call("whoami")["budget"]["jobs_left"] == 1


def test_a_job_whose_record_is_gone_does_not_count(served: Served) -> None:
    program = started(served, max_jobs=1)
    program.call("submit", run="true")
    served.daemon.reset()
    assert program.call("submit", run="true")["budget"]["jobs_left"] == 0


def test_without_limits_nothing_is_counted(served: Served) -> None:
    program = started(served)
    for _ in range(5):
        found = program.call("submit", run="true")
    assert set(found["budget"].values()) == {None} and program.toolbox._budget.jobs() == []


def test_gpu_hours_count_what_jobs_used_and_what_unfinished_ones_may_use(served: Served) -> None:
    program = started(served, max_gpu_hours=10)
    connect(served.home).submit("true", max_run_time="100h")
    assert program.call("submit", run="true", gpus=2, max_run_time="3h")["budget"]["gpu_hours_left"] == 4
    refused = program.refused("submit", run="true", gpus=4, max_run_time="90m")
    words = "This server may use 10 GPU-hours; 4 are left and the job may use 6: 4 GPUs for 1h30m. Nothing was submitted."
    assert refused.startswith(words) and "max_run_time" in refused
    assert program.refused("check", run="true", gpus=4, max_run_time="90m").startswith(words)
    served.daemon.run(2, gpu_seconds=3600.0)
    assert program.call("whoami")["budget"]["gpu_hours_left"] == 4, "it may still use all that it may"
    served.daemon.end(2)
    assert program.call("whoami")["budget"]["gpu_hours_left"] == 9
    program.call("submit", run="true", key="endless")
    served.daemon.run(3, gpu_seconds=9.5 * 3600)
    for run in ("true", "false"):
        assert "10 GPU-hours; 0 are left. Nothing was submitted." in program.refused("submit", run=run)
    assert program.call("submit", run="true", key="endless")["job"]["id"] == 3, "the same submission is the same job"
    assert len(served.daemon.rows) == 3


def test_an_elastic_job_counts_for_all_gpus_that_it_may_get(served: Served) -> None:
    program = started(served, max_gpu_hours=4)
    program.call("submit", run="true", gpus={"min": 1, "max": 4}, max_run_time="1h")
    served.daemon.run(1, gpus=1)
    assert program.call("whoami")["budget"]["gpu_hours_left"] == 0, "it may still grow"
    assert "0 are left" in program.refused("submit", run="true", max_run_time="1h")


def test_a_server_that_is_started_again_counts_the_hours_of_the_one_before(served: Served) -> None:
    started(served, max_gpu_hours=1).call("submit", run="true", max_run_time="45m")
    program = started(served, max_gpu_hours=1)
    assert "0.25 are left" in program.refused("submit", run="true", max_run_time="30m")
    started(served).call("submit", run="true", max_run_time="15m")
    assert "0 are left" in program.refused("submit", run="true"), "all programs of the user count"


def test_all_tasks_of_an_array_count(served: Served) -> None:
    program = started(served, max_jobs=4, max_gpus=3, max_gpu_hours=10)
    assert "4 are left and 5 are requested" in program.refused("check", run="true", array="0-4")
    assert "3 are left and the job requests 4" in program.refused("check", run="true", array="1-4")
    assert "may use 12: 4 GPUs for 3h" in program.refused("check", run="true", array="1-4%2", max_run_time="3h")
    assert "may use 12: 3 GPUs for 4h" in program.refused("check", run="true", sweep={"lr": [1, 2, 3]}, max_run_time="4h")
    row = connect(served.home).submit("true", key=KEY_PREFIX + "a").row()
    tasks = [
        dataclasses.replace(row, id=9 + at, array_id=9, key=row.key if at == 0 else None, gpu_seconds=60.0) for at in range(3)
    ]
    others = [dataclasses.replace(tasks[0], id=20, array_id=20, key="mine")]
    assert gpu_seconds([*tasks, *others]) == 180


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from([0.25, 0.5, 1, 2, 3]), st.booleans()), max_size=40))
def test_no_sequence_of_submissions_and_ends_exceeds_a_budget(steps: list[tuple[str, float, bool]]) -> None:
    limits = BudgetLimits(max_jobs=3, max_gpus=4)
    budget, model = Budget(limits), dict[str, float]()
    for key, gpus, ends in steps:
        if ends:
            budget.forget(ord(key))
            model.pop(key, None)
            continue
        wanted = {**model, key: gpus}
        fits = len(wanted) <= 3 and sum(wanted.values()) <= 4
        if fits:
            budget.hold(key, BudgetRequest(gpus))
            budget.confirm(key, ord(key))
            model = wanted
        else:
            with pytest.raises(ForbiddenError):
                budget.hold(key, BudgetRequest(gpus))
        row = budget.row([])
        assert (row["jobs_left"], row["gpus_left"]) == (3 - len(model), 4 - sum(model.values()))
        assert sorted(budget.jobs()) == sorted(map(ord, model))
    assert dataclasses.asdict(limits) == {"max_jobs": 3, "max_gpus": 4, "max_gpu_hours": None}
