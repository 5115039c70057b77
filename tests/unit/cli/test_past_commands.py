"""The commands about the past: `rota history` and `rota report`."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from rota.traces.read_trace import read_trace
from rota.wire.client import connect
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served


def submitted(served: Served) -> int:
    return connect(served.home).submit(["true"], name="bert").id


def test_the_history_of_a_job_in_every_format(served: Served, rota: Rota) -> None:
    job = submitted(served)
    assert [each.kind for each in connect(served.home).get(job).events()] == ["submitted"]
    code, out, _ = rota("history", "bert")
    assert code == 0 and out.splitlines()[0].endswith("  submitted by ana")
    code, out, _ = rota("history", str(job), "-o", "json")
    assert [(each["job"], each["kind"], each["by"]) for each in json.loads(out)] == [(job, "submitted", "ana")]
    code, out, _ = rota("history", str(job), "-o", "csv")
    assert [row["text"] for row in csv.DictReader(io.StringIO(out))] == ["submitted by ana"]
    code, out, _ = rota("history", str(job), "-o", "wide")
    assert out.split("\n")[0].split() == ["TIME", "ATTEMPT", "BY", "GPU-HOURS", "WORK", "LOST", "EVENT"]


def test_show_has_the_last_events(served: Served, rota: Rota) -> None:
    submitted(served)
    code, out, _ = rota("show", "bert")
    assert code == 0 and any(line.split()[0] == "history" and line.endswith("submitted by ana") for line in out.splitlines())


def test_a_report_in_every_format(served: Served, rota: Rota) -> None:
    submitted(served)
    code, out, _ = rota("report", "--last", "2w", "--by", "tenant")
    lines = out.splitlines()
    assert code == 0 and lines[0].split()[:2] == ["TENANT", "JOBS"]
    assert lines[1].split()[:6] == ["ana", "1", "0", "0", "0", "14.00"] and lines[2].startswith("total")
    assert lines[-1].endswith("Preemption destroyed 0s of work.")
    code, out, _ = rota("report", "-o", "json")
    assert json.loads(out)["groups"][0]["gpu_seconds"] == 7 * 3600
    code, out, _ = rota("report", "-o", "csv", "--by", "day")
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["day"] == "ana" and "reclaims" not in row


def test_a_report_states_how_soon_lent_gpus_came_back_if_some_did(served: Served, rota: Rota) -> None:
    _, out, _ = rota("report", "--by", "tenant")
    assert "RECLAIM" not in out
    served.daemon.reclaims = 3
    code, out, _ = rota("report", "--by", "tenant")
    lines = out.splitlines()
    assert code == 0 and lines[0].endswith("RECLAIMS  RECLAIM P99") and lines[1].split()[-3:] == ["3", "1.2", "s"]
    assert lines[3].startswith("RECLAIM P99: time from arrival to start")
    _, out, _ = rota("report", "--by", "tenant", "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["reclaims"], row["reclaim_seconds_p99"]) == ("3", "1.25")
    _, out, _ = rota("report", "--by", "tenant", "-o", "json")
    assert json.loads(out)["total"]["reclaim_seconds_p99"] == 1.25


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("report", "--last", "7"), "--last: '7'"),
        (("report", "--last", "0d"), "--last: '0d'"),
        (("report", "--last", "12h"), "--last: '12h'"),
        (("report", "--by", "node"), "--by: 'node'"),
        (("history", "nobody"), "No job 'nobody'"),
        (("history",), "JOB"),
    ],
)
def test_bad_input_is_one_clear_line(served: Served, rota: Rota, arguments: tuple[str, ...], expected: str) -> None:
    code, out, err = rota(*arguments)
    problem, hint = err.rstrip("\n").split("\n")
    assert (code, out) == (2, "") and expected in problem and hint.startswith("Try: ")


def test_an_export_is_every_job_of_the_last_days(served: Served, rota: Rota) -> None:
    job = submitted(served)
    served.daemon.end(job)
    code, out, _ = rota("export", "--last", "1d")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0 and [(row["id"], row["user"], row["phase"]) for row in rows] == [(str(job), "ana", "finished")]
    code, out, _ = rota("export", "-o", "json")
    assert [each["gpu_seconds"] for each in json.loads(out)] == [0.0]


def test_an_export_has_each_task_of_an_array(served: Served, rota: Rota, tmp_path: Path) -> None:
    """One row for an array would be one job with the work of all its tasks."""
    for index in range(2):
        task = served.daemon.end(connect(served.home).submit(["true"], name=f"sift[{index}]").id)
        served.daemon.change(replace(task, array_id=7, array_index=index, gpu_seconds=60.0, work_seconds=60.0))
    code, out, _ = rota("export", "-o", "json")
    assert code == 0 and [(row["name"], row["array_index"]) for row in json.loads(out)] == [("sift[0]", 0), ("sift[1]", 1)]
    path = str(tmp_path / "past.csv")
    assert rota("export", "--trace", path)[0] == 0
    assert [(each.spec.name, each.spec.steps) for each in read_trace(path).arrivals] == [("sift[0]", 60.0), ("sift[1]", 60.0)]


def test_an_export_is_a_trace_that_a_simulation_runs(served: Served, rota: Rota, tmp_path: Path) -> None:
    for name, user, profile in (("bert", "ana", "A3C"), ("vit", "leo", None), ("none", "leo", None)):
        job = connect(served.home).submit(["true"], name=name, gpus=2).id
        done = served.daemon.end(job)
        used = 0.0 if name == "none" else 7200.0
        served.daemon.change(
            replace(done, user=user, tenant="vision", profile=profile, steps_done=50.0, gpu_seconds=used, work_seconds=used)
        )
    path = str(tmp_path / "past.csv")
    code, out, err = rota("export", "--trace", path, "-o", "json")
    assert (code, json.loads(out)) == (0, {"path": path, "jobs": 2, "skipped": 1}), err
    found = read_trace(path)
    assert [(each.spec.name, each.spec.user, each.spec.tenant, each.spec.profile) for each in found.arrivals] == [
        ("bert", "ana", "vision", "A3C"),
        ("vit", "leo", "vision", None),
    ]
    assert [each.spec.steps for each in found.arrivals] == [50.0, 3600.0]
    code, out, _ = rota("sim", "--trace", path, "--policy", "fifo", "--cluster", "2xV100", "-o", "json")
    assert code == 0 and json.loads(out)["summary"]["finished"] == 2
    code, _, err = rota("export", "--trace", path)
    assert code == 2 and "the file exists" in err
    code, _, err = rota("export", "-o", "table")
    assert code == 2 and "-o: 'table'" in err
