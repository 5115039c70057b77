"""Commands that hold, release, suspend, resume and requeue jobs, and select them by a pattern."""

import json
import os
import pty
import subprocess
import sys

import pytest

from rota.wire.client import Client
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served
from tests.waiting import LONG_SECONDS


def submitted(rota: Rota, *names: str) -> None:
    for name in names:
        assert rota("submit", "--name", name, "--gpus", "2", "--", "x")[0] == 0


def test_waiting_jobs_are_held_and_released(served: Served, rota: Rota) -> None:
    submitted(rota, "resnet", "bert")
    code, out, err = rota("hold", "resnet", "2")
    assert (code, err) == (0, "")
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["Held", "1", "resnet"],
        ["Held", "2", "bert"],
    ]
    assert rota("hold", "1")[1] == "1 resnet was held already.\n"
    assert rota("release", "1")[1].startswith("Released 1 resnet (queued")
    assert rota("resume", "1")[1] == "1 resnet was not held.\n"
    assert json.loads(rota("hold", "1", "-o", "json")[1])[0]["reason"] == "HELD"


def test_running_jobs_are_suspended_and_resumed(served: Served, rota: Rota) -> None:
    submitted(rota, "resnet", "unsaved")
    served.daemon.run(1)
    code, _, err = rota("hold", "1")
    assert code != 0 and "rota suspend 1" in err
    assert rota("suspend", "1")[1].startswith("Suspending 1 resnet (running")
    assert rota("suspend", "1")[1] == "1 resnet was suspended already.\n"
    assert rota("resume", "1")[1].startswith("Released 1 resnet (suspended")
    served.daemon.run(2)
    code, out, err = rota("suspend", "unsaved")
    assert code != 0 and out == "" and "would be lost" in err and "--lose-work" in err
    assert rota("suspend", "unsaved", "--lose-work")[0] == 0


def test_ended_jobs_are_submitted_again_and_running_ones_wait_again(served: Served, rota: Rota) -> None:
    submitted(rota, "resnet", "bert", "vit")
    served.daemon.end(1, "failed", 1)
    served.daemon.run(2)
    out = rota("requeue", "1", "2", "3")[1].splitlines()
    assert out[0] == "Job 4  resnet   job 1 again, which was failed"
    assert out[1].startswith("Requeueing 2 bert (running") and out[2] == "3 vit waits for GPUs already."
    served.daemon.end(2)
    assert json.loads(rota("requeue", "2", "-o", "json")[1])[0]["id"] == 5


@pytest.mark.parametrize("verb", ["cancel", "hold"])
def test_a_pattern_needs_an_answer_or_yes(served: Served, rota: Rota, verb: str) -> None:
    submitted(rota, "sweep-1", "sweep-2", "other")
    code, out, err = rota(verb, "--name", "sweep-*")
    assert (code, out) == (2, "") and "2 jobs: 1 sweep-1, 2 sweep-2" in err and "--yes" in err
    assert {row.reason for row in served.daemon.rows.values()} == {"AWAITING_DECISION"}, "nothing has happened"
    code, out, _ = rota(verb, "--name", "sweep-*", "--yes")
    assert code == 0 and len(out.splitlines()) == 2
    assert served.daemon.rows[3].reason == "AWAITING_DECISION" and served.daemon.rows[3].phase == "queued"
    assert rota(verb, "--user", "stranger", "--yes") == (0, "No such jobs.\n", "")
    assert rota(verb, "--user", "stranger") == (0, "No such jobs.\n", ""), "there is nothing to ask"


@pytest.mark.parametrize(
    "wrong",
    [
        ("hold",),
        ("hold", "1", "--user", "ana"),
        ("suspend", "--phase", "finished"),
        ("release", "--name", " "),
        ("cancel", "--all", "--user", "ana"),
        ("cancel", "1", "--phase", "queued"),
        ("requeue",),
    ],
)
def test_a_wrong_selection_is_one_line_and_a_hint(served: Served, rota: Rota, wrong: tuple[str, ...]) -> None:
    submitted(rota, "resnet")
    code, out, err = rota(*wrong)
    assert (code, out, len(err.splitlines())) == (2, "", 2) and err.splitlines()[1].startswith("Try: ")
    assert served.daemon.rows[1].reason == "AWAITING_DECISION"


def test_values_of_a_job_are_changed(served: Served, rota: Rota) -> None:
    submitted(rota, "resnet")
    code, out, err = rota(
        "change", "resnet", "--priority", "-5", "--weight", "2", "--max-run-time", "none", "--deadline", "2090-01-01T09:00"
    )
    assert (code, err) == (0, "")
    assert out == "Changed 1 resnet: priority -5, weight 2.0, max_run_time none, deadline 2090-01-01T09:00.\n"
    row = json.loads(rota("change", "1", "--name", "bert", "-o", "json")[1])
    assert (row["name"], row["priority"], row["weight"]) == ("bert", -5, 2.0)
    for wrong in (
        (),
        ("--priority", "2000"),
        ("--priority", "high"),
        ("--max-run-time", "soon"),
        ("--deadline", "never"),
        ("--name", ""),
    ):
        code, out, err = rota("change", "1", *wrong)
        assert (code, out, len(err.splitlines())) == (2, "", 2), err
    served.daemon.end(1)
    assert rota("change", "1", "--priority", "1")[0] != 0


def test_on_a_terminal_the_command_asks(served: Served) -> None:
    client = Client(served.url, served.token)
    for name in ("sweep-1", "sweep-2"):
        client.submit("x", name=name)
    for answer, reasons in ((b"n\n", {"AWAITING_DECISION"}), (b"y\n", {"HELD"})):
        parent, child = pty.openpty()
        try:
            os.write(parent, answer)
            command = [sys.executable, "-m", "rota", "hold", "--name", "sweep-*", "--home", str(served.home)]
            done = subprocess.run(command, stdin=child, capture_output=True, text=True, timeout=LONG_SECONDS)
        finally:
            os.close(parent)
            os.close(child)
        assert "2 jobs: 1 sweep-1, 2 sweep-2" in done.stderr and "Hold them?" in done.stderr, done.stderr
        assert {row.reason for row in served.daemon.rows.values()} == reasons
