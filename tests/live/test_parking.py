"""Unmodified scripts under a real scheduler on pretend GPUs: they take turns on one GPU, parked in between, and lose nothing."""

import contextlib
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from rota.agent.constants import PARK_SIGNAL
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.live.replay import replay
from rota.model.commands import SuspendKind
from rota.model.events import Suspended
from tests.live.harness import Site, check_record, site, until

TIMES = 2

PLAIN = """
import os, sys, time
total = 0
for step in range(1, int(sys.argv[1]) + 1):
    total = (total * 31 + step) % 1_000_003
    print(f"step {step}/{sys.argv[1]} by {os.getpid()}", flush=True)
    time.sleep(float(sys.argv[2]))
    if os.path.exists("enough"):
        break
print("result", step, total, flush=True)
"""
TORCH = """
import hashlib, os, sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(1, int(sys.argv[1]) + 1):
    loss = (model(torch.randn(32, 8)) - 1.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}/{sys.argv[1]} by {os.getpid()}", flush=True)
    time.sleep(float(sys.argv[2]))
    if os.path.exists("enough"):
        break
print("result", step, hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest(), flush=True)
"""
"""Both end after so many steps, or when they see a file; what they come to depends on their steps alone."""


def submit(place: Site, script: str, steps: int, name: str, **more: object) -> int:
    path = place.work / f"{name}.py"
    path.write_text(script)
    return int(
        place.client()
        .submit(
            run=[sys.executable, str(path), str(steps), "0.05"],
            name=name,
            steps=steps,
            progress=r"step (\d+)/(\d+)",
            env={"PATH": os.environ["PATH"]},
            workdir=str(place.work),
            **more,
        )
        .id
    )


def log(place: Site, job: int) -> str:
    path = place.home / "logs" / f"{job}.log"
    return path.read_text() if path.exists() else ""


def steps_told(text: str) -> list[tuple[int, int]]:
    """Step and process of each line."""
    lines = [line.split() for line in text.splitlines() if line.startswith("step ")]
    return [(int(line[1].partition("/")[0]), int(line[3])) for line in lines]


def check_exact(place: Site, job: int) -> None:
    """Every step once, by one process, and the result of a run of so many steps that was left alone."""
    text = log(place, job)
    told = steps_told(text)
    steps = len(told)
    assert [step for step, _ in told] == list(range(1, steps + 1)), text
    assert len({pid for _, pid in told}) == 1
    name = place.rows()[job].name
    assert [line for line in text.splitlines() if line.startswith("result")] == [_alone(place, name, steps)]


def _alone(place: Site, name: str, steps: int) -> str:
    run = [sys.executable, str(place.work / f"{name}.py"), str(steps), "0"]
    said = subprocess.run(run, cwd="/", capture_output=True, text=True, check=True).stdout
    return next(line for line in said.splitlines() if line.startswith("result"))


def parkings(place: Site, job: int) -> int:
    """How often the job fell asleep, by a replay of the journal. A new scheduler learns it from the node's inventory."""
    journal, asleep, times = place.journal(), False, 0
    for entry, scheduler, _ in replay(journal, JOURNAL_CODEC, make_scheduler):
        kept = [event for event in entry.events if isinstance(event, Suspended) and event.job == job]
        assert {event.kind for event in kept} <= {SuspendKind.PARK}
        attempt = scheduler.state.jobs.attempts.get(job)
        before, asleep = asleep, attempt is not None and attempt.parked
        times += asleep and not before
    journal.close()
    return times


def test_two_unmodified_scripts_take_turns_under_gandiva(tmp_path: Path) -> None:
    if find_spec("torch") is None:
        pytest.skip("torch is not installed: make install-torch")
    with contextlib.closing(Site(tmp_path, pretend="1xV100", policy="gandiva:slice_seconds=10,max_switch_fraction=0.9")) as place:
        place.up(tactics="none")
        jobs = [submit(place, PLAIN, 1_000_000, "plain"), submit(place, TORCH, 1_000_000, "network")]
        until(lambda: all(row.suspensions >= TIMES for row in place.rows().values()), "both were parked several times", 300.0)
        (place.work / "enough").touch()
        until(lambda: all(row.ended for row in place.rows().values()), "both are done")
        for job in jobs:
            row = place.rows()[job]
            assert (row.phase, row.lost_steps) == ("finished", 0), log(place, job)
            assert row.park_method == "sleep"
            assert row.suspensions == parkings(place, job) >= TIMES
            check_exact(place, job)
        place.down()
        check_record(place, waits=0)


def test_three_scripts_without_checkpoints_take_turns_on_two_gpus(tmp_path: Path) -> None:
    """A parked one goes on where it sleeps, or waits: elsewhere it would begin again."""
    with site(tmp_path, pretend="2xV100", policy="las") as place:
        place.down()
        place.up(decide="rounds", round_seconds="1")
        jobs = [submit(place, PLAIN, 120, name) for name in ("one", "two", "three")]
        until(lambda: all(row.ended for row in place.rows().values()), "all are done")
        assert sum(row.suspensions for row in place.rows().values()) >= 1
        for job in jobs:
            row = place.rows()[job]
            assert (row.phase, row.lost_steps) == ("finished", 0), log(place, job)
            assert log(place, job).count("--- rota: started") == 1


def test_killed_with_minus_nine_while_one_is_parked_a_daemon_finds_it_so(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1xV100", policy="las") as place:
        place.down()
        place.up(decide="rounds", round_seconds="1")
        jobs = [submit(place, PLAIN, 1_000_000, "one"), submit(place, PLAIN, 1_000_000, "two")]
        for _ in range(2):
            until(lambda: "parked" in {row.phase for row in place.rows().values()}, "one is parked")
            place.kill()
            place.up()
        (place.work / "enough").touch()
        until(lambda: all(row.ended for row in place.rows().values()), "both are done")
        for job in jobs:
            row = place.rows()[job]
            assert (row.phase, row.lost_steps) == ("finished", 0), log(place, job)
            assert row.suspensions == parkings(place, job), "counted once, also after a restart"
            check_exact(place, job)
        assert sum(row.suspensions for row in place.rows().values()) >= 1
        place.down()
        check_record(place, waits=0)


def test_one_that_loses_its_supervisor_while_it_sleeps_is_launched_again(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1xV100", policy="las") as place:
        place.down()
        place.up(decide="rounds", round_seconds="1")
        jobs = [submit(place, PLAIN, 60, "one"), submit(place, PLAIN, 60, "two")]
        until(lambda: "parked" in {row.phase for row in place.rows().values()}, "one is parked")
        (parked,) = [job for job, row in place.rows().items() if row.phase == "parked"]
        (supervisor,) = [pid for pid in place.supervisors() if f"/run/{parked}/" in Path(f"/proc/{pid}/cmdline").read_text()]
        os.kill(supervisor, signal.SIGKILL)
        until(lambda: all(row.ended for row in place.rows().values()), "both are done")
        assert {place.rows()[job].phase for job in jobs} == {"finished"}
        assert "lost at step" in log(place, parked) or place.rows()[parked].lost_steps > 0
        assert len({pid for _, pid in steps_told(log(place, parked))}) > 1


def test_show_says_how_a_job_is_parked_and_why_not(tmp_path: Path) -> None:
    own = f"import signal, sys\nsignal.signal({PARK_SIGNAL}, lambda *_: None)\nsignal.signal(15, lambda *_: sys.exit(75))\n"
    with site(tmp_path, pretend="1xV100", policy="las") as place:
        place.down()
        place.up(decide="rounds", round_seconds="1")
        quiet = submit(place, PLAIN, 4000, "quiet", park=False, preemptible=True)
        loud = submit(place, own + PLAIN, 4000, "loud", checkpoint={"grace": 2})
        rows = place.rows()
        assert (rows[quiet].park_method, rows[quiet].park_reason) == ("exit", "its spec has park: false")
        reason = "its GPUs are pretend GPUs, so its processes are only stopped"
        assert (rows[loud].park_method, rows[loud].park_reason) == ("sleep", reason)
        until(lambda: "not parked" in (place.client().job(str(loud)).park_reason or ""), "it falls back")
        assert "did not answer signal" in (place.client().job(str(loud)).park_reason or "")
        assert "--- rota: parked" not in log(place, quiet) + log(place, loud)
        for job in (quiet, loud):
            place.client().cancel(str(job))
        until(lambda: all(row.ended for row in place.rows().values()), "both are cancelled")


def test_a_job_that_can_neither_be_parked_nor_save_is_left_running(tmp_path: Path) -> None:
    """One says so in its spec. Another says that it saves, is found out when it is told to stop, and begins again once."""
    with site(tmp_path, pretend="1xV100", policy="las") as place:
        place.down()
        place.up(decide="rounds", round_seconds="1")
        says = submit(place, PLAIN, 60, "says", park=False, checkpoint={"saves": False})
        until(lambda: len(steps_told(log(place, says))) > 5, "it runs")
        found = submit(place, PLAIN, 100, "found", park=False, checkpoint={"saves": True})
        why = place.client().why(str(found)).reasons[0].sentence
        assert f"Job {says} is not known to save its state and can't be parked, so it keeps its GPUs until it ends." in why
        until(lambda: place.rows()[says].ended, "the first is done")
        until(lambda: len(steps_told(log(place, found))) > 5, "the second runs")
        saves = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(75))\n"
        third = submit(place, saves + PLAIN, 40, "third", park=False)
        until(lambda: all(row.ended for row in place.rows().values()), "all are done", 300.0)
        rows = place.rows()
        assert {row.phase for row in rows.values()} == {"finished"}
        assert rows[says].park_method == "stay" and rows[says].suspensions == 0
        assert (rows[says].park_reason or "").startswith("it does not save its state, and can't be parked")
        check_exact(place, says)
        assert rows[found].suspensions <= 1 and len({pid for _, pid in steps_told(log(place, found))}) <= 2
        if rows[found].suspensions:
            assert rows[found].park_method == "stay"
            assert (rows[found].park_reason or "").startswith("it exited without saving when it was asked to stop")
        assert rows[third].phase == "finished"
