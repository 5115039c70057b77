"""The commands about the past: `rota history` and `rota report`."""

import csv
import io
import json

import pytest

from rota.wire.client import Client
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served


def submitted(served: Served) -> int:
    return Client(served.url, served.token).submit(["true"], name="bert").id


def test_the_history_of_a_job_in_every_format(served: Served, rota: Rota) -> None:
    job = submitted(served)
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
    assert [row["day"] for row in csv.DictReader(io.StringIO(out))] == ["ana"]


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
