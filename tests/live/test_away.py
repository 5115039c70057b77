"""A scheduler that is not running, or belongs to another user: what commands report about its home, and what they leave alone."""

import contextlib
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC
from rota.live.journal import Journal
from tests.live.harness import Site, site, until
from tests.second_user import NOBODY, as_nobody

pytestmark = pytest.mark.slow


def command(*words: str, home: Path) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "rota", *words, "--home", str(home)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


@pytest.fixture
def place() -> Iterator[Site]:
    """In a folder that other users can enter, as homes are."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with site(Path(folder), pretend="2xV100", policy="fifo") as made:
            yield made


def contents(home: Path) -> dict[str, str]:
    """What is in the files of a home that no supervisor writes. SQLite's index of its log, which is memory that readers share, is
    left out."""
    found = {}
    for path in sorted(home.rglob("*")):
        of_supervisors = path.is_relative_to(home / "run") or path.is_relative_to(home / "logs")
        if path.is_file() and not of_supervisors and path.suffix != ".sqlite-shm":
            found[str(path.relative_to(home))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def started(place: Site) -> None:
    """Two jobs that run, and one that waits."""
    for name in ("one", "two", "waits"):
        place.client().submit(run=f"echo hello of {name}; exec sleep 600", name=name)
    until(lambda: [row.phase for row in place.rows().values()] == ["running", "running", "queued"], "two run")
    until(lambda: "hello" in "".join(place.client().get("one").logs()), "the first has written")


@pytest.mark.parametrize("how", ["down", "kill"])
def test_a_home_without_its_scheduler_is_read_from_disk(place: Site, how: str) -> None:
    started(place)
    place.down() if how == "down" else place.kill()
    before = contents(place.home)
    shown = command("jobs", home=place.home)
    assert shown.returncode == 0, shown.stderr
    assert f"The scheduler of {place.home} is not running; 2 of its jobs are. Read from disk" in shown.stderr
    assert f"Start it: rota up --home {place.home}" in shown.stderr
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert [line[1] for line in lines[1:4]] == ["one", "two", "waits"]
    assert [line[3] for line in lines[1:4]] == ["running", "running", "queued"] and "read from disk" in shown.stdout
    rows = json.loads(command("jobs", "-o", "json", home=place.home).stdout)
    assert [row["placement"] for row in rows] == ["n1:0", "n1:1", None] and all(row["as_of"] for row in rows)
    one = json.loads(command("show", "one", "-o", "json", home=place.home).stdout)
    assert one["phase"] == "running" and one["spec"]["run"] and one["as_of"]
    assert "hello of one\n" in command("logs", "one", home=place.home).stdout
    line = [sys.executable, "-m", "rota", "submit", "--home", str(place.home), "--", "true"]
    submitted = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert submitted.returncode == 3 and submitted.stderr.splitlines() == [
        f"The scheduler of {place.home} is not running; 2 of its jobs are.",
        f"Try: rota up --home {place.home}",
    ]
    assert contents(place.home) == before, "nothing was written"
    place.up()
    assert [row.phase for row in place.rows().values()][:2] == ["running", "running"], "and it takes them over"


def test_a_job_that_ended_while_the_scheduler_was_away_has_ended_on_disk(place: Site) -> None:
    flag = place.work / "go"
    place.client().submit(run=f"while [ ! -e {flag} ]; do sleep 0.05; done; exit 3", name="ends")
    until(lambda: place.rows()[1].phase == "running", "it runs")
    place.down()
    flag.touch()
    until(lambda: json.loads(command("show", "ends", "-o", "json", home=place.home).stdout)["phase"] == "failed", "it failed")
    said = command("show", "ends", home=place.home)
    assert f"The scheduler of {place.home} is not running. Read from disk" in said.stderr and "exit code 3" in said.stdout


def test_a_second_user_hears_whose_home_it_is_and_nothing_else(place: Site) -> None:
    started(place)
    whose = f"{place.home} belongs to root and is not readable for you"
    for words in (("jobs",), ("down",), ("up",), ("up", "--detach"), ("logs", "one"), ("status",)):
        told = as_nobody("-m", "rota", *words, "--home", str(place.home))
        assert told.returncode in (2, 3) and told.stdout == "", (words, told)
        problem, hint = told.stderr.splitlines()
        assert whose in problem and hint == "Try: --home with a folder of yours", words
    doctor = as_nobody("-m", "rota", "doctor", "--home", str(place.home))
    (line,) = [line for line in doctor.stdout.splitlines() if str(place.home) in line]
    assert line.split(maxsplit=2) == ["fail", "home", whose]
    for advice in ("kill", "rm ", "move it away", "damaged", "free some space"):
        assert advice not in doctor.stdout, advice


def test_down_of_another_users_scheduler_is_one_line(place: Site) -> None:
    """Its owner has shared the home."""
    for path in (place.home, *place.home.iterdir()):
        path.chmod(0o755)
    told = as_nobody("-m", "rota", "down", "--home", str(place.home))
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == f"{place.home} — belongs to user root, not to user nobody.\nTry: another folder\n"
    place.client().status()


def test_after_a_reboot_a_job_starts_again_though_its_lease_is_long(place: Site) -> None:
    """As after a reboot: its processes are gone, and the clock that leases are counted in has begun again."""
    place.down()
    del place.flags["--lease-seconds"]
    place.up()
    work = place.submit(1, 400, 0.05, "again")
    until(lambda: (place.rows()[work].steps_done or 0) >= 5, "it has saved something")
    place.kill()
    pids = place.supervisors()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not set(pids) & set(place.supervisors()), "they are gone")
    with contextlib.closing(sqlite3.connect(place.home / "journal.sqlite", isolation_level=None)) as db:
        ((text,),) = db.execute("SELECT value FROM meta WHERE key = 'clock'").fetchall()
        clock = json.loads(text)
        db.execute("UPDATE meta SET value = ? WHERE key = 'clock'", (json.dumps({**clock, "boot": "an earlier one"}),))
    place.up()
    until(lambda: place.rows()[work].phase == "running" and place.rows()[work].suspensions == 1, "it runs again")
    lease_left = place.client().status().lease_left_seconds
    assert lease_left is not None and lease_left > 80_000


def test_a_journal_that_may_not_be_written_is_not_said_to_be_damaged_or_the_disk_full() -> None:
    """Its owner once ran the scheduler as root."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        with contextlib.closing(Journal(home / "journal.sqlite", JOURNAL_CODEC)):
            pass
        (home / "journal.sqlite").chmod(0o644)
        for path in (Path(folder), home):
            os.chown(path, NOBODY, NOBODY) if os.geteuid() == 0 else None
        told = as_nobody("-m", "rota", "up", "--pretend", "1xV100", "--home", str(home))
        assert (told.returncode, told.stdout) == (1, ""), told
        assert told.stderr.splitlines() == [
            f"{home / 'journal.sqlite'}: you have no permission to write it.",
            "Try: another --home",
        ]
