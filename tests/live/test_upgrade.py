"""Upgrades under 20 running jobs: the next version takes them over, a broken one leaves them and their journal alone, and after
one that changed the journal the version before runs from the copy that was kept.

A copy of the package with changed lines plays the next version.
"""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

import rota
from rota.agent.attempt_files import read_status
from rota.live.journal_store import SCHEMA
from rota.wire.home import ADDRESS_FILE
from tests.live.harness import PATIENCE, Site, until

pytestmark = pytest.mark.slow

JOBS = 20
LEASE_SECONDS = 300.0
NEXT = "99.0.0"
PACKAGE = Path(rota.__file__).parent

BROKEN = {
    "recovery": ("live/recovery.py", "    found = journal.snapshot()\n", '    raise ValueError("a snapshot from nowhere")\n'),
    "the first turn": ("live/daemon.py", "            decided = self._decide()\n", '            raise KeyError("gpus")\n'),
    "reading": ("live/journal_store.py", "READABLE = (1, SCHEMA)\n", "READABLE = (SCHEMA + 1, SCHEMA + 1)\n"),
}
"""What a broken version fails at, and the change that breaks it: file, line, and what replaces it."""
SAYS = {
    "recovery": f"Rota {NEXT} cannot run this home: ValueError: a snapshot from nowhere. It wrote no entry to the journal",
    "the first turn": f"Rota {NEXT} cannot run this home: KeyError: 'gpus'. It wrote no entry to the journal and stopped no job.",
    "reading": f"has schema {SCHEMA}, this Rota reads {SCHEMA + 1} to {SCHEMA}.",
}
NEW_SCHEMA = [
    ("live/journal_store.py", f"\nSCHEMA = {SCHEMA}\n", f"\nSCHEMA = {SCHEMA + 1}\n"),
    (
        "live/journal_store.py",
        "    if found < 3:\n",
        f"    if found < {SCHEMA + 1}:\n        yield 'CREATE TABLE novelties (number BIGINT PRIMARY KEY)'\n    if found < 3:\n",
    ),
]


def version(folder: Path, *changes: tuple[str, str, str]) -> Path:
    """Write a version of Rota with these changes. Return the folder from which it is imported."""
    package = folder / "rota"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, line, instead in (("__init__.py", f'__version__ = "{rota.__version__}"', f'__version__ = "{NEXT}"'), *changes):
        text = (package / name).read_text()
        assert text.count(line) == 1, (name, line)
        (package / name).write_text(text.replace(line, instead))
    return folder


class Traces(NamedTuple):
    """What shows whether a job was disturbed."""

    processes: frozenset[int]
    supervisors: frozenset[int]
    attempts: frozenset[str]
    starts: dict[int, list[str]]


class Upgraded(Site):
    """A home in which 20 jobs run, and versions take turns."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, pretend=f"{JOBS + 2}xV100", policy="fifo", lease_seconds=LEASE_SECONDS)
        self.jobs: list[int] = []
        self.lease_seconds = LEASE_SECONDS

    def run_as(self, packages: Path | None) -> None:
        """Use the version in this folder from now on; None for today's."""
        self.env = {} if packages is None else {"PYTHONPATH": str(packages), "PYTHONSAFEPATH": "1"}

    def submit_jobs(self) -> None:
        self.jobs = [self.submit(1, 1_000_000, 0.25, name=f"long-{number}") for number in range(JOBS)]
        until(lambda: all(self.steps(job) > 0 for job in self.jobs), "all jobs train")

    def steps(self, job: int) -> int:
        """Return the number of lines that the job has written, whether a scheduler runs or not."""
        log = self.home / "logs" / f"{job}.log"
        return log.read_text().count("\nstep ") if log.exists() else 0

    def traces(self) -> Traces:
        folders = [self.home / "run" / str(job) for job in self.jobs]
        return Traces(
            frozenset(self.jobs_running()),
            frozenset(self.supervisors()),
            frozenset(str(path.relative_to(self.home)) for each in folders for path in each.glob("[0-9]*")),
            {job: (self.work / f"{job}.life").read_text().splitlines() for job in self.jobs},
        )

    def leases(self) -> dict[int, float]:
        """Return the end of each lease, as its supervisor keeps it."""
        found = {}
        for job in self.jobs:
            status = read_status(self.home / "run" / str(job) / "1")
            assert status is not None and status.lease_s is not None
            found[job] = status.lease_s
        return found

    def refused(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Return a `rota up` that ends by itself."""
        flags = [word for flag in self.flags.items() for word in flag]
        command = [sys.executable, "-m", "rota", "up", "--home", str(self.home), *flags, *words]
        env = {**os.environ, **self.env}
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env, check=False)

    def running_version(self) -> str:
        return str(self.client().status().version)

    def contents(self) -> list[str]:
        """Return the journal, without the clock's origin, which every start may write."""
        with closing(sqlite3.connect(self.home / "journal.sqlite")) as database:
            return [line for line in database.iterdump() if "'clock'" not in line]

    def schema(self) -> int:
        with closing(sqlite3.connect(self.home / "journal.sqlite")) as database:
            return int(database.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()[0])

    @property
    def copy(self) -> Path:
        return self.home / f"journal.sqlite.schema-{SCHEMA}"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    place = Upgraded(tmp_path_factory.mktemp("upgrade"))
    try:
        place.up()
        place.submit_jobs()
        yield place
    finally:
        place.close()


@pytest.fixture
def place(started: Upgraded) -> Iterator[Upgraded]:
    """The jobs of all tests here: none of them may notice a test."""
    before = started.traces()
    assert len(before.processes) == len(before.supervisors) == len(before.attempts) == JOBS
    yield started
    started.down()
    started.run_as(None)
    started.up()
    assert started.traces() == before


def check_undisturbed(place: Upgraded, before: Traces) -> None:
    """The jobs run in the same processes, their output goes on, and a new job runs."""
    new = place.submit(1, 3, 0.01, name="new")
    assert [row.phase for row in place.client().ends([new])] == ["finished"]
    steps = {job: place.steps(job) for job in place.jobs}
    until(lambda: all(place.steps(job) > steps[job] for job in place.jobs), "the output of all jobs goes on")
    rows = place.rows()
    assert {rows[job].phase for job in place.jobs} == {"running"}
    assert {(rows[job].suspensions, rows[job].lost_steps, rows[job].setbacks) for job in place.jobs} == {(0, 0.0, 0)}
    until(lambda: len(place.supervisors()) == JOBS, "the supervisor of the new job has ended")
    assert place.traces() == before
    assert not place.violations()


@pytest.mark.parametrize("stopped", ["killed", "stopped"])
def test_the_next_version_takes_over_20_running_jobs(place: Upgraded, tmp_path: Path, stopped: str) -> None:
    before, leases = place.traces(), place.leases()
    place.kill() if stopped == "killed" else place.down()
    place.run_as(version(tmp_path))
    place.lease_seconds *= 3.0  # so leases are due for renewal at once
    place.up(lease_seconds=str(place.lease_seconds))
    assert place.running_version() == NEXT
    until(lambda: all(end > leases[job] for job, end in place.leases().items()), "all leases are renewed")
    check_undisturbed(place, before)
    assert not place.copy.exists(), "the schema is the same"


@pytest.mark.parametrize("detach", [False, True])
@pytest.mark.parametrize("fails_at", list(BROKEN))
def test_a_broken_version_changes_nothing(place: Upgraded, tmp_path: Path, fails_at: str, detach: bool) -> None:
    before = place.traces()
    place.down()
    kept = place.contents()
    place.run_as(version(tmp_path, BROKEN[fails_at]))
    ended = place.refused(*(["--detach"] if detach else []))
    assert ended.returncode == 1
    *_, said, hint = ended.stderr.splitlines()
    assert SAYS[fails_at] in said and hint.startswith("Try: ")
    assert "Traceback" not in ended.stderr and "try: rota submit" not in ended.stdout
    assert place.contents() == kept
    assert not (place.home / ADDRESS_FILE).exists() and not place.copy.exists()
    place.run_as(None)
    place.up()
    assert place.running_version() == rota.__version__
    check_undisturbed(place, before)


def test_after_an_upgrade_of_the_journal_one_can_go_back(place: Upgraded, tmp_path: Path) -> None:
    """As docs/backup.md says. What happened since the upgrade is lost."""
    before = place.traces()
    ends = f"echo ran >> {tmp_path}/ran; while [ ! -e {tmp_path}/end ]; do sleep 0.1; done"
    ended_later = int(place.client().submit(run=["/bin/sh", "-c", ends], name="ends-later").id)
    until((tmp_path / "ran").exists, "a job that is to end runs")
    until(lambda: place.rows()[ended_later].phase == "running", "the scheduler knows")
    place.down()
    kept = place.contents()
    place.run_as(version(tmp_path, *NEW_SCHEMA))
    place.up()
    assert place.running_version() == NEXT
    later = place.submit(1, 1_000_000, 0.25, name="later")
    until(lambda: place.steps(later) > 0, "a job of the next version trains")
    (tmp_path / "end").touch()
    assert [row.phase for row in place.client().ends([ended_later])] == ["finished"]
    until(lambda: not (place.home / "run" / str(ended_later)).exists(), "the files of its attempt are removed")
    assert place.schema() == SCHEMA + 1
    assert stat.S_IMODE(place.copy.stat().st_mode) == 0o600
    place.kill()
    place.run_as(None)
    ended = place.refused()
    assert ended.returncode == 1 and "was written by a later version of Rota" in ended.stderr
    assert str(place.copy) in ended.stderr

    place.copy.replace(place.home / "journal.sqlite")
    for part in ("wal", "shm"):
        (place.home / f"journal.sqlite-{part}").unlink(missing_ok=True)
    assert place.contents() == kept
    place.up()
    until(lambda: len(place.jobs_running()) == JOBS, "the job that is unknown again has been ended")
    assert later not in place.rows()
    assert [row.phase for row in place.client().ends([ended_later])] == ["finished"]
    assert (tmp_path / "ran").read_text() == "ran\nran\n", "it ended after the upgrade, so it ran again"
    check_undisturbed(place, before)
    assert place.schema() == SCHEMA
