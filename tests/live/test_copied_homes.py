"""The drill of docs/backup.md with real schedulers and jobs: homes that are copied, put back, moved and adopted."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.live.home_id import home_id
from rota.live.identity import HOME_FILE
from tests.live.harness import Site, until
from tests.live.test_homes import up

pytestmark = pytest.mark.slow


class Copied:
    """A home with a job that runs, and what is made of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = Site(folder, pretend="1xV100", policy="fifo")
        self.site.up()
        self.job = self.site.submit(gpus=1, steps=100_000, pace=0.05)
        until(lambda: (self.site.work / f"{self.job}.step").exists(), "the job has saved")

    def back_up(self, *, run: bool = True) -> Path:
        """While the scheduler runs, as docs/backup.md says."""
        home, copy = self.site.home, self.folder / "copy"
        copy.mkdir(mode=0o700)
        source, target = sqlite3.connect(home / "journal.sqlite"), sqlite3.connect(copy / "journal.sqlite")
        with contextlib.closing(source), contextlib.closing(target):
            source.backup(target)
        for name in ("home-id", HOME_FILE, "token", "logs", *(["run"] if run else [])):
            subprocess.run(["cp", "-a", home / name, copy / name], check=True)
        return copy

    def restored(self, copy: Path) -> Site:
        """A site in the copy, for the same jobs."""
        self.site.home = copy
        return self.site

    def starts(self) -> list[int]:
        """The step that each attempt began with."""
        lines = (self.site.work / f"{self.job}.life").read_text().splitlines()
        return [int(line.split()[2]) for line in lines if line.startswith("start")]

    def is_as_it_was(self, pids: list[int]) -> bool:
        return self.site.jobs_running() == pids and len(self.starts()) == 1


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Copied]:
    made = Copied(tmp_path)
    original = made.site.home
    try:
        yield made
    finally:
        made.site.close()
        made.site.home = original
        for pid in made.site.supervisors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_copy_is_refused_while_the_original_runs_and_its_jobs_notice_nothing(copied: Copied) -> None:
    copy, pids = copied.back_up(), copied.site.jobs_running()
    ended = up(copy)
    assert ended.returncode == 1 and f"{copy} is a copy of {copied.site.home}." in ended.stderr
    ended = up(copy, "--detach")
    assert ended.returncode == 1 and "is a copy of" in ended.stderr
    ended = up(copy, "--adopt")
    assert ended.returncode == 1 and "A scheduler runs in" in ended.stderr
    assert copied.is_as_it_was(pids)
    copied.site.kill()  # the original's scheduler is gone, its jobs are not
    assert up(copy).returncode == 1 and copied.is_as_it_was(pids)


def test_a_copy_of_a_home_without_a_record_is_known_by_the_supervisors_of_the_original(copied: Copied) -> None:
    copied.site.kill()
    (copied.site.home / HOME_FILE).unlink()
    copy, pids = copied.folder / "copy", copied.site.jobs_running()
    subprocess.run(["cp", "-a", copied.site.home, copy], check=True)
    ended = up(copy)
    assert ended.returncode == 1 and f"is a copy of {copied.site.home}." in ended.stderr
    assert copied.is_as_it_was(pids)


@pytest.mark.parametrize(
    ("gone", "run"),
    [
        pytest.param(True, True, id="attempts gone-with run", marks=pytest.mark.nightly),
        pytest.param(True, False, id="attempts gone-without run"),
        pytest.param(False, True, id="attempts alive-with run"),
        pytest.param(False, False, id="attempts alive-without run", marks=pytest.mark.nightly),
    ],
)
def test_a_backup_is_put_back_and_its_jobs_go_on(copied: Copied, gone: bool, run: bool) -> None:
    """`gone`: with the machine. Else they are ended first, so that none runs twice."""
    copy, (pid,) = copied.back_up(run=run), copied.site.jobs_running()
    copied.site.kill()
    for supervisor in copied.site.supervisors() if gone else []:
        os.kill(supervisor, signal.SIGKILL)
    if gone:
        until(lambda: not copied.site.jobs_running(), "the machine is lost")
    shutil.rmtree(copied.site.home)
    site = copied.restored(copy)
    assert up(copy).returncode == 1
    site.up(adopt="")
    until(lambda: len(copied.starts()) == 2 and site.jobs_running() not in ([], [pid]), "the job runs again")
    assert copied.starts()[1] >= 5, "from its checkpoint"
    assert not site.violations()
    site.down()
    del site.flags["--adopt"]
    site.up()
    site.client().cancel(copied.job)
    until(lambda: site.rows()[copied.job].ended, "it can be cancelled")


def test_a_copy_with_a_new_identity_and_its_original_do_not_touch_each_other(copied: Copied) -> None:
    copy, pids = copied.back_up(), copied.site.jobs_running()
    other = Site(copied.folder / "other", pretend="1xV100", policy="fifo", home=copy)
    try:
        other.up(new_identity="")
        assert home_id(copy) != home_id(copied.site.home)
        assert "has a new identity and forgets 1 attempt of" in other.said()
        # Its job starts again, and finds that the original has the lock of the work they share.
        until(lambda: "is held by another" in copied.site.violations(), "the job of the copy is started")
        assert pids[0] in copied.site.jobs_running()
        other.client().cancel(copied.job)
        until(lambda: other.rows()[copied.job].ended, "the copy's job is ended")
    finally:
        other.close()
    assert copied.is_as_it_was(pids)
    assert copied.site.rows()[copied.job].phase == "running"


def test_a_home_that_is_renamed_goes_on_with_its_jobs(copied: Copied) -> None:
    pids = copied.site.jobs_running()
    copied.site.kill()
    moved = copied.site.home.rename(copied.folder / "moved")
    site = copied.restored(moved)
    site.up()
    until(lambda: site.rows()[copied.job].phase == "running", "its job is found")
    assert copied.is_as_it_was(pids)
    site.client().cancel(copied.job)
    until(lambda: site.rows()[copied.job].ended, "and is in its hands")
