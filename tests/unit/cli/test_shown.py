"""Formats of times, lengths of time, users and empty tables."""

import csv
import io
from dataclasses import fields, replace

import pytest

from rota.cli import job_text
from rota.wire.client import Client, connect
from rota.wire.rows import JobRow
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served


def test_times_have_one_format(served: Served, rota: Rota) -> None:
    job = Client(served.url, served.token).submit("x", name="resnet")
    row = served.daemon.rows[job.id]
    spec = {"deadline": "2030-01-01T09:00:00Z", "checkpoint": {"dir": "/srv/a", "grace": 90.0, "saves": True}}
    served.daemon.change(replace(row, last_change="started at 2026-11-17T23:04:17.816Z", spec=spec))
    out = rota("show", "resnet")[1]
    assert f"  last change  started at {job_text.clock('2026-11-17T23:04:17.816Z')}\n" in out
    assert f"  deadline     {job_text.clock('2030-01-01T09:00:00Z')}\n" in out
    assert "T23:04" not in out and "T09:00" not in out


@pytest.mark.parametrize(
    ("saves", "said"), [(True, ", saves its state"), (False, ", does not save its state"), (None, "")], ids=["yes", "no", "open"]
)
def test_a_grace_has_its_unit(served: Served, rota: Rota, saves: bool | None, said: str) -> None:
    job = Client(served.url, served.token).submit("x", name="resnet")
    spec = {"checkpoint": {"dir": "/srv/a", "grace": 90.0, "saves": saves}}
    served.daemon.change(replace(served.daemon.rows[job.id], spec=spec))
    assert f"  checkpoint   dir /srv/a, grace 90 s{said}\n" in rota("show", "resnet")[1]


def test_root_is_called_by_name(served: Served, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("root", "ana"):
        monkeypatch.setenv("LOGNAME", user)
        job_text._me.cache_clear()
        connect(served.home).submit("x", name=f"of-{user}")
        mine = next(line for line in rota("jobs")[1].splitlines() if f"of-{user}" in line)
        assert mine.split()[2] == ("root" if user == "root" else "you")


def test_a_csv_without_jobs_has_its_header(served: Served, rota: Rota) -> None:
    empty = rota("jobs", "-o", "csv")[1]
    heads = next(csv.reader(io.StringIO(empty)))
    assert empty.count("\n") == 1 and set(heads) == {each.name for each in fields(JobRow)} - {"array", "spec", "trials"}
    Client(served.url, served.token).submit("x", name="resnet")
    assert next(csv.reader(io.StringIO(rota("jobs", "-o", "csv")[1]))) == heads
