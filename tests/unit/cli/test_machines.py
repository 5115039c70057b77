"""`rota drain`, `undrain`, `remove`, `reserve`, `reservations` and `unreserve`, against a real server and a real core."""

import csv
import io
import json
import os
import pwd
from datetime import datetime

import pytest

from rota.cli.moments import unix_of
from rota.core.fold.tenancy import set_tenants
from rota.errors import OptionError
from rota.model.cluster import Node
from rota.model.events import NodeJoined, Started, Submitted
from rota.model.job import JobSpec
from rota.model.tenants import Tenants
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served

ME = pwd.getpwuid(os.getuid()).pw_name


def test_drain_and_undrain(served: Served, rota: Rota) -> None:
    code, out, _ = rota("drain", "n1", "--reason", "new disks", "--for", "2h")
    assert code == 0 and out.startswith(f"Drained n1 by {ME} until ") and out.endswith(": new disks. No job is there.\n")
    line = rota("nodes")[1].splitlines()[1]
    assert f"drained by {ME} until" in line and "✕✕✕✕" in line
    (row,) = json.loads(rota("reservations", "-o", "json")[1])
    assert (row["places"], row["reason"], row["by"], row["begun"], row["leaving"]) == (["n1"], "new disks", ME, True, [])
    assert rota("undrain", "n1")[:2] == (0, "n1 is no longer drained.\n")
    assert rota("reservations")[1] == "Nothing is drained or reserved.\n" and "drained" not in rota("nodes")[1]


def test_single_gpus_and_formats(served: Served, rota: Rota) -> None:
    rows = json.loads(rota("drain", "n1:0", "n1:2", "--reason", "fan", "-o", "json")[1])
    assert [row["places"] for row in rows] == [["n1:0"], ["n1:2"]] and rows[0]["until_at"] is None
    assert f"GPU 0 drained by {ME}: fan; GPU 2 drained by {ME}: fan" in rota("nodes")[1]
    assert rota("nodes", "-o", "wide")[1].count("drained") == 2
    (left,) = json.loads(rota("undrain", "n1:0", "-o", "json")[1])
    assert left["places"] == ["n1:2"]
    (row,) = csv.DictReader(io.StringIO(rota("reservations", "-o", "csv")[1]))
    assert row["places"] == "n1:2" and row["by"] == ME


def test_what_stays_is_named_and_wait_returns_when_it_is_empty(served: Served, rota: Rota) -> None:
    core = served.daemon.core
    core.step(1.0, [Submitted(1, JobSpec(saves=False, gpus=1), 1.0)])
    from rota.model.events import Allocated
    from rota.policies.fifo import Fifo

    core.step(1.0, [Allocated(core.state.cycle.decision, Fifo().allocate(core.view()), 1.0)])
    core.step(1.0, [Started(1, 1, 1, 1.0)])
    code, out, _ = rota("drain", "n1")
    assert code == 0 and "Job 1 is not known to save its state, and runs until it ends." in out
    code, _, err = rota("remove", "n1")
    assert code == 2 and "n1 still has job 1." in err and "Try: rota drain n1 --wait" in err
    code, out, _ = rota("drain", "n1:3", "--wait")
    assert code == 0 and out == f"Drained n1:3 by {ME}. No job is there.\n"


def test_remove(served: Served, rota: Rota) -> None:
    code, _, err = rota("remove", "n1")
    assert code == 2 and "n1 is in use. It has to be drained before it is removed." in err
    rota("drain", "n1", "--wait")
    assert rota("remove", "n1")[:2] == (0, "Removed n1. To let it join again: rota undrain n1\n")
    core = served.daemon.core
    core.fold(2e9, [NodeJoined(Node("n1", "V100", 4), 2e9)])
    assert core.state.nodes.gone == {0} and len(core.state.nodes.cluster.nodes) == 1
    assert rota("undrain", "n1")[0] == 0
    core.fold(2e9, [NodeJoined(Node("n1", "V100", 4), 2e9)])
    assert len(core.state.nodes.cluster.nodes) == 2


def test_reserve_and_unreserve(served: Served, rota: Rota) -> None:
    code, out, _ = rota("reserve", "2xv100", "--from", "2090-11-20T18:00", "--for", "2h", "--reason", "new disks")
    assert code == 0
    (number,) = served.daemon.core.state.nodes.drains
    assert (
        out == f"Reservation {number}: drains n1:0, n1:1 from 2090-11-20 18:00:00 by {ME} until 2090-11-20 20:00:00: new disks.\n"
    )
    assert "GPU 0, 1 drained from 2090-11-20 18:00:00" in rota("nodes")[1]
    again = json.loads(rota("reserve", "2xV100", "--from", "2090-11-20T19:00", "--until", "2090-11-21", "-o", "json")[1])
    assert again["places"] == ["n1:2", "n1:3"], "GPUs of another reservation at that time are not counted"
    code, _, err = rota("reserve", "1xV100", "--from", "2090-11-20T19:30", "--for", "1h")
    assert code == 2 and "0 GPUs of type V100 can be reserved in this time." in err
    assert rota("unreserve", str(number))[:2] == (0, f"Ended reservation {number}.\n")
    table = rota("reservations")[1].splitlines()
    assert table[0].split()[:2] == ["ID", "WHAT"] and len(table) == 2


def test_reserve_for_tenants_and_users(served: Served, rota: Rota) -> None:
    times = ("--from", "2090-11-20T18:00", "--for", "2h")
    code, out, _ = rota("reserve", "2xV100", *times, "--tenant", "vision/scans", "--user", "eve", "--reason", "deadline")
    assert code == 0
    (drain,) = served.daemon.core.state.nodes.drains.values()
    owners = "tenant vision/scans and user eve"
    assert out == (
        f"Reservation {drain.number}: reserves n1:0, n1:1 for {owners} from 2090-11-20 18:00:00 by {ME} "
        "until 2090-11-20 20:00:00: deadline.\n"
    )
    assert (drain.tenants, drain.users, drain.reserves) == (("vision/scans",), ("eve",), True)
    assert owners in rota("reservations")[1] and f"GPU 0, 1 reserved for {owners} from 2090" in rota("nodes")[1]
    (row,) = json.loads(rota("reservations", "-o", "json")[1])
    assert (row["tenants"], row["users"], row["staying"]) == (["vision/scans"], ["eve"], [])
    (flat,) = csv.DictReader(io.StringIO(rota("reservations", "-o", "csv")[1]))
    assert (flat["tenants"], flat["users"]) == ("vision/scans", "eve")
    code, _, err = rota("reserve", "n1:1", "n1:2", "--from", "2090-11-20T19:00", "--for", "1h", "--user", "ana")
    assert code == 2 and f"reservation {drain.number} has n1:1 at this time" in err and f"rota unreserve {drain.number}" in err
    assert rota("reserve", "n1:1", "--from", "2090-11-20T20:00", "--for", "1h", "--user", "ana")[0] == 0
    assert rota("reserve", "n1:1", "--from", "2090-11-20T18:00", "--for", "1h")[0] == 0, "maintenance comes first"


def test_what_is_reserved_is_for_a_tenant_that_there_is(served: Served, rota: Rota) -> None:
    set_tenants(served.daemon.core.state, Tenants(weights={"vision": 1.0}))
    code, _, err = rota("reserve", "n1", "--for", "1h", "--tenant", "visoin")
    assert code == 2 and "No tenant 'visoin'" in err and "vision" in err
    assert rota("reserve", "n1", "--for", "1h", "--tenant", "vision/")[0] == 0
    code, _, err = rota("undrain", "n1")
    assert code == 2 and "n1 is not drained by an operator." in err and "rota unreserve" in err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("reserve", "n1", "--for", "1h", "--user", "a\nb"), "users"),
        (("drain", "n9"), "No node 'n9'"),
        (("drain", "n1:4"), "is not a GPU of n1"),
        (("drain", "n1", "--for", "soon"), "--for"),
        (("drain", "n1", "--until", "teatime"), "--until"),
        (("drain", "n1", "--until", "2h", "--for", "2h"), "--for"),
        (("drain", "n1", "--until", "2001-01-01"), "until"),
        (("drain", "n1", "--reason", "a\nb"), "reason"),
        (("undrain", "n9"), "No node 'n9'"),
        (("remove", "n9"), "No node 'n9'"),
        (("reserve", "n1", "--from", "18:00"), "--for"),
        (("reserve", "8xH100", "--for", "1h"), "No accelerator 'H100'"),
        (("unreserve", "7000"), "No reservation '7000'"),
    ],
)
def test_one_clear_line_and_a_next_step(served: Served, rota: Rota, arguments: tuple[str, ...], expected: str) -> None:
    code, out, err = rota(*arguments)
    assert (code, out) == (2, ""), err
    problem, hint = err.rstrip("\n").split("\n")
    assert expected in problem and hint.startswith("Try: ")
    assert served.daemon.core.state.nodes.drains == {}


def test_moments() -> None:
    now = datetime(2026, 11, 20, 17, 0)
    assert unix_of("18:00", "--until", now) == datetime(2026, 11, 20, 18, 0).timestamp()
    assert unix_of("16:00", "--until", now) == datetime(2026, 11, 21, 16, 0).timestamp(), "the next one"
    assert unix_of("2026-11-22", "--until", now) == datetime(2026, 11, 22).timestamp()
    assert unix_of("2026-11-22T10:00+00:00", "--until", now) == 1795341600.0
    assert unix_of("now", "--from", now) == now.timestamp() and unix_of(None, "--from", now) is None
    with pytest.raises(OptionError, match="is not a time"):
        unix_of("25:00", "--until", now)
