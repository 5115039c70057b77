"""The commands that talk to a scheduler, against a real server with a daemon in memory."""

import csv
import io
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.cli import job_text
from rota.cli import jobs as jobs_command
from rota.cli.main import COMMANDS, GROUPS
from rota.model.reasons import Reason
from rota.wire.client import Client
from rota.wire.rows import ReasonRow, TrialRow
from rota.wire.transport import HttpTransport
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served, serve
from tests.waiting import LONG_SECONDS


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("submit",), "nothing to run"),
        (("submit", "--"), "no command follows --"),
        (("submit", "train.c"), "neither a spec"),
        (("submit", "python", "train.py"), "a command follows --"),
        (("submit", "absent.yaml"), "no such file"),
        (("submit", "absent.sh"), "no such script"),
        (("show", "nobody"), "No job 'nobody'"),
        (("why", "nobody"), "No job 'nobody'"),
        (("logs", "nobody"), "No job 'nobody'"),
        (("cancel", "nobody"), "No job 'nobody'"),
        (("wait", "nobody"), "No job 'nobody'"),
        (("show", ""), "JOB"),
        (("show",), "JOB"),
        (("cancel",), "JOB"),
        (("logs", "x", "-o", "csv"), "text"),
        (("jobs", "--watch", "-o", "csv"), "--watch"),
        (("jobs", "--limit", "-1"), "--limit"),
        (("jobs", "--limit", "few"), "--limit"),
        (("wait", "x", "--timeout", "-1"), "--timeout"),
        (("wait", "x", "--timeout", "nan"), "--timeout"),
        (("wait", "x", "--timeout", "soon"), "--timeout"),
    ],
)
def test_one_clear_line_and_a_next_step(served: Served, rota: Rota, arguments: tuple[str, ...], expected: str) -> None:
    code, out, err = rota(*arguments)
    assert (code, out) == (2, ""), err
    problem, hint = err.rstrip("\n").split("\n")
    assert expected in problem and hint.startswith("Try: ")


# jobs


def submitted(served: Served, rota: Rota, *names: str) -> None:
    for name in names:
        assert rota("submit", "--name", name, "--gpus", "2", "--steps", "1000", "--", "x")[0] == 0


def test_the_table(served: Served, rota: Rota) -> None:
    submitted(served, rota, "resnet50", "bert", "gpt", "vit", "old")
    daemon = served.daemon
    daemon.run(1, steps_done=410.0, steps_per_second=3900.0)
    daemon.change(replace(daemon.run(2, user="leo"), phase="checkpointed", accelerator=None, placement=None, reason="SHARE_USED"))
    daemon.change(replace(daemon.rows[3], accepted_accelerators=["A100"], reason="NO_FREE_GPUS"))
    daemon.change(replace(daemon.rows[4], name="evil\x1b[2J", steps_total=None))
    daemon.end(5, "failed", -9)
    code, out, err = rota("jobs")
    assert (code, err) == (0, "")
    heads, first, second, third, fourth, footer = out.splitlines()
    assert heads.split() == ["ID", "NAME", "USER", "PHASE", "TIME", "GPUS", "PROGRESS", "ETA", "NOTE"]
    assert first.split() == [
        "1",
        "resnet50",
        "you",
        "running",
        "-",
        "2xV100",
        "n1:0-1",
        "▇▇▇▁▁▁▁▁",
        "41%",
        "-",
        "3.9k",
        "steps/s",
    ]
    assert second.split()[:5] == ["2", "bert", "leo", "suspended", "-"] and second.endswith("has had its share")
    assert "wants 2xA100" in third and third.endswith("waits for free GPUs")
    assert "evil?[2J" in fourth and "\x1b" not in out
    assert footer == "4 jobs · 2/6 pretend GPUs busy · policy tiresias"
    heads, *_, killed, _ = rota("jobs", "--all")[1].splitlines()
    assert heads.split()[4:6] == ["TIME", "ENDED"] and "ended by SIGKILL" in killed
    assert "COMMAND" in rota("jobs", "-o", "wide")[1]
    daemon.problem = "raised ZeroDivisionError"
    assert rota("jobs")[1].splitlines()[-1] == "The policy failed: raised ZeroDivisionError"


def test_how_long_each_job_runs_waits_or_took(served: Served, rota: Rota) -> None:
    submitted(served, rota, "runs", "took", "never")
    since = (datetime.now(UTC) - timedelta(minutes=75)).isoformat(timespec="seconds")
    served.daemon.change(replace(served.daemon.run(1), phase_since=since))
    served.daemon.end(2)
    ended = replace(served.daemon.rows[2], started_at="2026-11-17T10:00:00Z", finished_at="2026-11-17T12:30:00Z")
    served.daemon.change(ended)
    served.daemon.cancel(3)
    served.daemon.change(replace(served.daemon.rows[3], started_at=None))
    lines = [line.split() for line in rota("jobs", "--all")[1].splitlines()]
    assert [line[4] for line in lines[1:4]] == ["1h15m", "2h30m", "-"]
    assert lines[1][5] == "-" and " ".join(lines[2][5:7]) == job_text.clock("2026-11-17T12:30:00Z")


def test_a_long_name_is_cut_off_unless_the_table_is_wide(served: Served, rota: Rota) -> None:
    long = "resnet-" + "x" * 80
    submitted(served, rota, long)
    assert f" {long[:31]}… " in rota("jobs")[1] and long not in rota("jobs")[1]
    assert long in rota("jobs", "-o", "wide")[1] and json.loads(rota("jobs", "-o", "json")[1])[0]["name"] == long


def test_a_long_queue_is_shown_in_part(served: Served, rota: Rota) -> None:
    Client(served.url, served.token).submit_many({"run": "x", "name": f"j{i}"} for i in range(1, 61))
    served.daemon.run(57)
    lines = rota("jobs")[1].splitlines()
    assert len(lines) == 52 and [line.split()[0] for line in lines[1:4]] == ["57", "1", "2"]
    assert lines[-1].startswith("showing 50 of 60 jobs (--limit 0 shows all) · ")
    lines = rota("jobs", "--limit", "2")[1].splitlines()
    assert len(lines) == 4 and lines[-1].startswith("showing 2 of 60 jobs")
    lines = rota("jobs", "--limit", "0")[1].splitlines()
    assert len(lines) == 62 and lines[-1].startswith("60 jobs · ")
    assert len(rota("jobs", "--limit", "60")[1].splitlines()) == 62
    assert [row["id"] for row in json.loads(rota("jobs", "-o", "json")[1])] == list(range(1, 61)), "programs get all"
    assert [row["id"] for row in json.loads(rota("jobs", "-o", "json", "--limit", "2")[1])] == [57, 1]
    assert len(rota("jobs", "-o", "csv", "--limit", "0")[1].splitlines()) == 61


def test_pages_larger_than_an_answer_are_put_together(served: Served, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.wire.job_filter.MAX_JOBS", 7)
    Client(served.url, served.token).submit_many({"run": "x"} for _ in range(20))
    for limit, shown in (("0", 20), ("15", 15), ("7", 7)):
        lines = rota("jobs", "--limit", limit)[1].splitlines()
        assert [line.split()[0] for line in lines[1:-1]] == [str(i) for i in range(1, shown + 1)]


def test_many_jobs_are_cancelled_with_one_request(served: Served, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    Client(served.url, served.token).submit_many({"run": "x"} for _ in range(30))
    asked = []
    ask = HttpTransport.ask
    monkeypatch.setattr(HttpTransport, "ask", lambda self, *args, **more: asked.append(args) or ask(self, *args, **more))
    code, out, _ = rota("cancel", *map(str, range(1, 31)))
    assert code == 0 and len(out.splitlines()) == 30 and asked == [("POST", "/cancellations")]
    assert {row.phase for row in served.daemon.rows.values()} == {"cancelled"}


def test_no_jobs(served: Served, rota: Rota) -> None:
    assert rota("jobs")[1] == "No unfinished jobs · 0/6 pretend GPUs busy · policy tiresias\n"
    assert rota("jobs", "-o", "json")[1] == "[]\n"


def test_the_rows_for_programs(served: Served, rota: Rota) -> None:
    submitted(served, rota, "resnet", "bert")
    served.daemon.end(2)
    (row,) = json.loads(rota("jobs", "-o", "json")[1])
    promised = "id name user phase gpus accelerator steps_done steps_total reason submitted_at started_at finished_at suspensions"
    assert set(row) >= set(promised.split())
    assert (row["id"], row["phase"], row["accelerator"], row["reason"]) == (1, "queued", None, "AWAITING_DECISION")
    assert [each["id"] for each in json.loads(rota("jobs", "--all", "-o", "json")[1])] == [1, 2]
    rows = list(csv.DictReader(io.StringIO(rota("jobs", "--all", "-o", "csv")[1])))
    assert [each["name"] for each in rows] == ["resnet", "bert"]


def test_watching_shows_changes_until_it_is_stopped(served: Served, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted(served, rota, "resnet")
    monkeypatch.setattr(jobs_command, "REDRAW_SECONDS", 0.0)
    ask, asked = Client.changes, 0

    def changes(client: Client, seen: int = 0, timeout: float = 20.0) -> int:
        nonlocal asked
        asked += 1
        if asked == 2:
            served.daemon.run(1)
        if asked == 3:
            raise KeyboardInterrupt
        return ask(client, seen, timeout)

    monkeypatch.setattr(Client, "changes", changes)
    code, out, err = rota("jobs", "--watch")
    assert (code, err) == (0, "") and out.index("queued") < out.index("running") and "\x1b" not in out
    asked = 0
    code, out, _ = rota("jobs", "--watch", "-o", "json")
    assert code == 0 and [json.loads(line)[0]["phase"] for line in out.splitlines()] == ["running", "running"]


def test_a_terminal_gets_colours_and_its_width_is_kept(served: Served, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted(served, rota, "resnet")
    served.daemon.run(1)
    row = served.daemon.rows[1]
    assert any("\x1b[32mrunning\x1b[0m" in line for line in jobs_command.table([row], wide=False, colour=True))
    assert not any("\x1b" in line for line in jobs_command.table([row], wide=False, colour=False))
    assert jobs_command.cut("abcdef", 4) == "abcd"
    assert jobs_command.cut("ab\x1b[32mcdef\x1b[0m", 4) == "ab\x1b[32mcd\x1b[0m"
    assert jobs_command.cut("ab\x1b[32mc\x1b[0m", 4) == "ab\x1b[32mc\x1b[0m"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert job_text.colourful()
    monkeypatch.setenv("NO_COLOR", "")
    assert not job_text.colourful()


# show, why, logs, cancel, wait


def test_show(served: Served, rota: Rota) -> None:
    submitted(served, rota, "resnet")
    served.daemon.run(1, steps_done=250.0, suspensions=2, lost_steps=30.0, utilization=0.93, peak_gib=4.5)
    code, out, _ = rota("show", "res")
    assert code == 0 and out.startswith("Job 1 resnet\n")
    for part in (
        "running on 2xV100 n1:0-1",
        "▇▇▁▁▁▁▁▁  25%  250 of 1,000 steps",
        "2, 30 steps lost",
        "93% busy alone, 4.5 GiB",
        "ago)",
    ):
        assert part in out
    assert json.loads(rota("show", "1", "-o", "json")[1])["name"] == "resnet"
    assert "resnet" in rota("show", "1", "-o", "csv")[1]
    served.daemon.end(1, "failed", 3)
    assert "exit code 3" in rota("show", "1")[1]


OPEN = TrialRow(
    number=1,
    tactic="pack",
    partner=2,
    partner_name="bert",
    joined=True,
    pair=["net", "net"],
    accelerator="V100",
    gpus=1,
    began_at="2026-12-01T09:00:00Z",
    not_judged_before="2026-12-01T09:01:00Z",
    exclusive_rate=20.0,
    partner_exclusive_rate=10.0,
    verdict="open",
)


def test_show_tells_what_was_tried(served: Served, rota: Rota) -> None:
    submitted(served, rota, "resnet")
    over = replace(
        OPEN, ended_at="2026-12-01T09:01:05Z", colocated_rate=9.0, partner_colocated_rate=4.0, gain=-0.15, verdict="reverted"
    )
    tried = [
        replace(over, pair_trials=3, mean_gain=-0.1, gain_stddev=0.05),
        replace(OPEN, number=2, joined=False, partner_name=""),
    ]
    served.daemon.change(replace(served.daemon.rows[1], trials=tried))
    began, judged, ended = (job_text.clock(f"2026-12-01T09:0{each}Z") for each in ("0:00", "1:00", "1:05"))
    out = rota("show", "1")[1]
    assert (
        f"  tried        {began} joined 2 bert: 20 -> 9 steps/s, its partner 10 -> 4 steps/s, gain -15%: reverted at {ended} "
        "(such pairs, 3 times: -10%, give or take 5%)\n"
    ) in out
    assert f"{began} was joined by 2: 20 steps/s alone, its partner 10 steps/s alone: open, judged from {judged} on\n" in out
    plain = json.loads(rota("show", "1", "-o", "json")[1])["trials"]
    assert [(each["number"], each["verdict"], each["gain"]) for each in plain] == [(1, "reverted", -0.15), (2, "open", None)]
    assert "trials" not in rota("show", "1", "-o", "csv")[1].splitlines()[0]
    assert "trials" not in json.loads(rota("jobs", "-o", "json")[1])[0]
    assert Client(served.url, served.token).job(1).trials == tried


def test_why(served: Served, rota: Rota) -> None:
    submitted(served, rota, "resnet", "bert", "gpt")
    served.daemon.run(1)
    code, out, _ = rota("why", "gpt")
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith("Job 3 gpt is queued (for ")
    assert lines[1] == " 1  4 GPUs are needed, 2 are free.  [AWAITING_DECISION]"
    assert lines[2] == " Ahead of it   1 resnet (you) · 2 bert (you)"
    assert lines[3] == " Last change   submitted"
    found = json.loads(rota("why", "3", "-o", "json")[1])
    assert [each["code"] for each in found["reasons"]] == ["AWAITING_DECISION"]
    assert [each["id"] for each in found["ahead"]] == [1, 2] and found["forecast"] is None
    why = served.daemon.why
    facts = {"ahead": list(range(1, 905))}
    served.daemon.why = lambda job: replace(why(job), reasons=[ReasonRow(code="OUTRANKED", sentence="904 jobs.", facts=facts)])
    assert rota("why", "gpt")[1].splitlines()[2] == " Ahead of it   1 resnet (you) · 2 bert (you) · and 902 more"
    del served.daemon.why
    assert rota("why", "1")[1].startswith("Job 1 resnet is running on 2xV100 n1:0-1.\n")
    assert rota("why", "3", "-o", "csv")[1].startswith("code,sentence\n")
    for phase, said in [
        ("finished", "has finished."),
        ("failed", "has failed (exit code 0)."),
        ("cancelled", "was cancelled."),
        ("parked", "is suspended (0 suspensions)."),
        ("unreachable", "is unreachable."),
    ]:
        served.daemon.end(2, phase)
        assert rota("why", "bert")[1].splitlines()[0] == f"Job 2 bert {said}"


def test_logs(served: Served, rota: Rota) -> None:
    submitted(served, rota, "resnet")
    assert rota("logs", "1") == (0, "", "")
    assert json.loads(rota("logs", "1", "-o", "json")[1]) == {"text": "", "next_offset": 0, "ended": False}
    served.daemon.write(1, "step 1\nno newline at the end")
    assert rota("logs", "resnet") == (0, "step 1\nno newline at the end", "")
    assert json.loads(rota("logs", "1", "-o", "json")[1])["text"].startswith("step 1\n")
    served.daemon.write(1, "\x1b[2J")
    assert rota("logs", "resnet")[1].endswith("the end\\x1b[2J") and rota("logs", "resnet", "--raw")[1].endswith("the end\x1b[2J")


def test_following_until_the_job_has_ended(served: Served, rota: Rota) -> None:
    submitted(served, rota, "resnet")

    def write() -> None:
        for i in range(5):
            served.daemon.write(1, f"step {i}\n")
            time.sleep(0.05)
        served.daemon.end(1)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        code, out, _ = rota("logs", "-f", "res")
        writing.result(timeout=LONG_SECONDS)
    assert code == 0 and out == "".join(f"step {i}\n" for i in range(5))
    pieces = [json.loads(line) for line in rota("logs", "-f", "1", "-o", "json")[1].splitlines()]
    assert "".join(piece["text"] for piece in pieces) == out and pieces[-1]["ended"]


def test_cancel(served: Served, rota: Rota) -> None:
    submitted(served, rota, "resnet", "bert", "gpt")
    served.daemon.run(2)
    assert rota("cancel", "1", "nobody")[0] == 2
    assert served.daemon.rows[1].phase == "queued", "one name is wrong, so nothing is cancelled"
    code, out, _ = rota("cancel", "resnet", "2", "1")
    first, second = out.splitlines()
    assert code == 0 and first.startswith("Cancelled 1 resnet (queued, submitted ") and first.endswith("; never ran).")
    assert second.startswith("Cancelled 2 bert (running, submitted ") and "never ran" not in second
    assert rota("cancel", "1")[1] == "1 resnet had already ended: cancelled.\n"
    assert [row["phase"] for row in json.loads(rota("cancel", "gpt", "-o", "json")[1])] == ["cancelled"]


def test_every_job_is_cancelled(served: Served, rota: Rota) -> None:
    assert rota("cancel", "--all") == (0, "No unfinished jobs.\n", "")
    submitted(served, rota, *(f"job-{number}" for number in range(30)))
    served.daemon.end(7)
    for wrong in (("cancel",), ("cancel", "1", "--all")):
        assert rota(*wrong)[0] == 2
    code, out, _ = rota("cancel", "--all")
    assert code == 0 and [line.split()[1] for line in out.splitlines()] == [str(n) for n in range(1, 31) if n != 7]
    assert {row.phase for row in served.daemon.rows.values()} == {"cancelled", "finished"}


def test_wait(served: Served, rota: Rota) -> None:
    submitted(served, rota, "resnet", "bert", "gpt")
    code, out, err = rota("wait", "resnet", "--timeout", "0.2")
    assert (code, out, err) == (124, "", "Out of time. Not ended: 1 resnet.\n")
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(lambda: (time.sleep(0.2), served.daemon.end(1)))
        assert rota("wait", "resnet")[:2] == (0, "Job 1 resnet has finished.\n")
        ending.result(timeout=LONG_SECONDS)
    served.daemon.end(2, "failed", 7)
    code, out, _ = rota("wait", "1", "bert", "--timeout", "30")
    assert code == 1 and "Job 2 bert has failed (exit code 7)." in out
    served.daemon.cancel(3)
    assert rota("wait", "3")[0] == 1
    code, out, _ = rota("wait", "1", "2", "-o", "json")
    assert code == 1 and [row["phase"] for row in json.loads(out)] == ["finished", "failed"]


# Where there is no scheduler


@pytest.mark.parametrize("command", [("jobs",), ("show", "1"), ("why", "1"), ("logs", "1"), ("cancel", "1"), ("wait", "1")])
def test_unreachable(rota: Rota, tmp_path: Path, command: tuple[str, ...]) -> None:
    code, out, err = rota(*command, "--home", str(tmp_path))
    assert (code, out) == (3, "")
    problem, hint = err.splitlines()
    assert problem == f"No scheduler has been started in {tmp_path}."
    assert hint == f"Try: rota up --home {tmp_path}"


def test_a_scheduler_that_is_gone(rota: Rota, tmp_path: Path) -> None:
    with serve(tmp_path) as gone:
        url = gone.url
    code, out, err = rota("submit", "--home", str(tmp_path), "--", "x")
    assert (code, out) == (3, "")
    assert err == f"Cannot reach the scheduler at {url} (connection refused).\nTry: rota up · rota doctor\n"


def test_a_token_of_another_scheduler(served: Served, rota: Rota, tmp_path: Path) -> None:
    (tmp_path / "daemon.json").write_text(json.dumps({"url": served.url}))
    (tmp_path / "token").write_text("x" * 43)
    code, _, err = rota("jobs", "--home", str(tmp_path))
    assert code == 3 and err.startswith(f"The token in {tmp_path} does not fit this scheduler")


def test_every_reason_has_words() -> None:
    assert set(job_text.REASONS) == {reason.name for reason in Reason if reason is not Reason.NONE}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0s"), (9.9, "9s"), (312, "5m12s"), (3600, "1h"), (7800, "2h10m"), (3601, "1h"), (270_000, "3d3h"), (-5, "0s")],
)
def test_lengths_of_time(seconds: float, said: str) -> None:
    assert job_text.length(seconds) == said


def test_every_command_is_in_the_help(rota: Rota) -> None:
    _, out, _ = rota("--help")
    assert all(f"  {name} " in out for name in COMMANDS | GROUPS)


def test_a_terminal_without_the_signs_gets_question_marks(served: Served, tmp_path: Path) -> None:
    served.daemon.problem = "ünï"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-m", "rota", "jobs"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "No unfinished jobs ? 0/6" in done.stdout, done.stderr


def test_a_quick_question_loads_no_heavy_library(served: Served) -> None:
    code = (
        "import sys\nfrom rota.cli.main import main\nsys.argv = ['rota', 'jobs']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'pydantic', 'fastapi', 'rich', 'yaml', 'uvicorn', 'rota.cli.sim'}\n"
        "sys.stderr.write(str(sorted(heavy & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "[]" and done.stdout


def test_policy_set(served: Served, rota: Rota, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine: pass\n")
    assert rota("policy", "set", "fifo") == (0, "The policy is fifo with placer packed; it was tiresias with packed.\n", "")
    code, out, _ = rota("policy", "set", "./mine.py:Mine:alpha=2", "-o", "json")
    assert code == 0 and json.loads(out)["policy"] == f"{tmp_path}/mine.py:Mine:alpha=2", "the scheduler is in another folder"
    code, out, err = rota("policy", "set", "broken")
    assert (code, out) == (2, "") and "its first answer failed" in err and "Try: rota policy check NAME" in err
    assert served.daemon.policy == f"{tmp_path}/mine.py:Mine:alpha=2"


def test_what_is_left_is_shown(served: Served, rota: Rota) -> None:
    client = Client(served.url, served.token)
    for name in ("runs", "waits", "unknown"):
        client.submit("train", name=name)
    served.daemon.run(1, eta_seconds=7800.0)
    served.daemon.change(replace(served.daemon.rows[2], phase="checkpointed", eta_seconds=60.0))
    cells = {line.split()[1]: line for line in rota("jobs")[1].splitlines()}
    assert cells["runs"].endswith(" 2h10m") and " 1m+ " in cells["waits"] and " - " in cells["unknown"]
    assert "left         2h10m\n" in rota("show", "runs")[1]
    assert "left         1m of running, once it has GPUs\n" in rota("show", "waits")[1]


def test_env_flags_add_to_the_spec(served: Served, rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    (tmp_path / "job.yaml").write_text("run: train\nenv: {EPOCHS: 90, SEED: 1, HF_TOKEN: }\n")
    assert rota("submit", "job.yaml", "--env", "EPOCHS=91", "--env", "EMPTY=")[0] == 0
    spec, _, _, env = served.daemon.sent[1]
    assert dict(spec.env) == {"EPOCHS": "91", "SEED": 1, "HF_TOKEN": None, "EMPTY": ""} and env["HF_TOKEN"] == "secret"
    assert rota("submit", "--env", "HF_TOKEN", "--", "train")[0] == 0
    spec, _, _, env = served.daemon.sent[2]
    assert dict(spec.env) == {"HF_TOKEN": None} and env["HF_TOKEN"] == "secret"
    code, _, err = rota("submit", "--env", "=1", "--", "train")
    assert code == 2 and "--env: '=1' — has no name" in err
    code, _, err = rota("submit", "--env", "A B=1", "--", "train")
    assert code == 2 and "cannot be an environment variable" in err


def test_the_last_lines(served: Served, rota: Rota) -> None:
    Client(served.url, served.token).submit("train")
    served.daemon.write(1, "one\ntwo\nthree\n")
    served.daemon.end(1)
    assert rota("logs", "1", "--tail", "2") == (0, "two\nthree\n", "")
    assert rota("logs", "1", "--tail", "0", "-f") == (0, "", "")
    assert rota("logs", "1", "--tail", "-1")[0] == 2


def test_status(served: Served, rota: Rota) -> None:
    served.daemon.problem = "it \x1b[31mfailed"
    code, out, _ = rota("status")
    assert (
        code == 0
        and "cluster    4xV100 + 2xK80: 0 of 6 pretend GPUs busy\n" in out
        and "policy     tiresias, placer packed" in out
    )
    assert "attention  the policy failed: it ?[31mfailed\n" in out
    assert json.loads(rota("status", "-o", "json")[1])["gpus"] == 6
    assert len(list(csv.DictReader(io.StringIO(rota("status", "-o", "csv")[1])))) == 1


def test_no_error_message_steers_a_terminal(served: Served, rota: Rota) -> None:
    """Names of homes that an earlier version filled may hold anything, and an error lists the names that are near."""
    code, _, err = rota("submit", "--name", "a\x1b[2Jb", "--", "train")
    assert code == 2 and "contains a control character" in err and "\x1b" not in err
    Client(served.url, served.token).submit("train", name="plain")
    served.daemon.change(replace(served.daemon.rows[1], name="evil\x1b]0;title\x07"))
    for command in ("show", "why", "cancel", "logs", "wait"):
        code, out, err = rota(command, "nobody")
        assert code == 2 and "evil?]0;title?" in err and "\x1b" not in out + err and "\x07" not in out + err
    for words_ in (("jobs",), ("show", "1"), ("why", "1"), ("jobs", "-o", "wide")):
        _, out, err = rota(*words_)
        assert "\x1b" not in out + err and "\x07" not in out + err


def test_filters(served: Served, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.wire.client.PAGE_JOBS", 2)  # so that there are several pages
    client = Client(served.url, served.token)
    for user in ("ana", "leo", "ana", "leo", "ana"):
        client.submit_spec({"run": "train"}, user=user)
    served.daemon.run(3)
    served.daemon.end(5, "failed", 1)

    def ids(*words_: str) -> list[int]:
        code, out, err = rota("jobs", "-o", "json", *words_)
        assert code == 0, err
        return [row["id"] for row in json.loads(out)]

    assert ids() == [1, 2, 3, 4] and ids("--all") == [1, 2, 3, 4, 5]
    assert ids("--user", "leo") == [2, 4] and ids("--user", "me") == [1, 3]
    assert ids("--phase", "running") == [3] and ids("--phase", "failed") == [5], "it says --all by itself"
    assert ids("--since", "1h") == [1, 2, 3, 4] and ids("--since", "2099-01-01T00:00") == []
    out = rota("jobs", "-o", "wide", "--all")[1]
    assert "STARTED" in out and "ENDED" in out
    for wrong in (("--phase", "runing"), ("--since", "yesterday"), ("--since", "x"), ("--since", "")):
        code, _, err = rota("jobs", *wrong)
        assert code == 2 and wrong[0] in err and "Try: " in err


def test_show_tells_what_the_spec_said(served: Served, rota: Rota) -> None:
    Client(served.url, served.token).submit("train")
    spec = {
        "name": "job-1",
        "workdir": "/home/ana",
        "env": ["PATH", "TOKEN"],
        "retries": 2,
        "checkpoint": {"dir": "/c", "grace": 60.0},
    }
    served.daemon.change(replace(served.daemon.rows[1], spec={**spec, "profile": None}))
    out = rota("show", "1")[1]
    for line in ("workdir      /home/ana", "env          PATH TOKEN", "retries      2", "checkpoint   dir /c, grace 60 s"):
        assert f"  {line}\n" in out
    assert "profile" not in out and json.loads(rota("show", "1", "-o", "json")[1])["spec"]["retries"] == 2


# nodes


def test_nodes_and_who_has_their_gpus(served: Served, rota: Rota) -> None:
    for name in ("one", "two"):
        served.daemon.run(json.loads(rota("submit", "--name", name, "-o", "json", "--", "train")[1])["id"])
    code, out, _ = rota("nodes")
    lines = out.splitlines()
    assert code == 0 and lines[0].split() == ["NODE", "TYPE", "GPUS", "JOBS", "HEALTH"]
    assert lines[1].split()[:3] == ["n1", "V100", "■■□✕"] and "one, two" in lines[1]
    assert "GPU 1 takes 1.50 times as long as others; GPU 3 out of service" in lines[1]


def test_nodes_with_what_was_read_of_their_gpus(served: Served, rota: Rota) -> None:
    code, out, _ = rota("nodes", "-o", "wide")
    assert code == 0 and "4.5 of 16 GiB" in out and "93%" in out and "1290 MHz of 1530" in out and "61 °C" in out
    assert "n1: 20.0 of 100 GiB for parked jobs are set aside" in out
    found = json.loads(rota("nodes", "-o", "json")[1])
    assert [gpu["temperature_c"] for gpu in found[0]["gpus"]] == [61, None, None, None] and found[0]["host_gib"] == 100.0
    rows = list(csv.DictReader(io.StringIO(rota("nodes", "-o", "csv")[1])))
    assert [row["utilization"] for row in rows] == ["0.93", "", "", ""] and rows[3]["cordoned"] == "True"


def test_tenants_show_what_they_have_lend_and_borrow(served: Served, rota: Rota) -> None:
    code, out, _ = rota("tenants")
    assert code == 0
    head, row = (line.split() for line in out.splitlines()[:2])
    assert row[0] == "vision" and row[head.index("HAS")] == "3" and row[head.index("BORROWED")] == "1"
    assert "-1.5 GPU-h" in out and "1.5 s" in out
    assert "ana 2, leo 1" in rota("tenants", "-o", "wide")[1]
    (found,) = json.loads(rota("tenants", "-o", "json")[1])
    assert found["users"] == {"ana": 2.0, "leo": 1.0} and found["welfare"] == 1.25
    (line,) = csv.DictReader(io.StringIO(rota("tenants", "-o", "csv")[1]))
    assert line["tenant"] == "vision" and line["users"] == "ana 2; leo 1"
