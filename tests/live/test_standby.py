"""A leader and a standby with a journal in PostgreSQL: real daemons and real jobs, of which none may be lost or started again."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC
from rota.errors import ConflictError
from rota.live.journal import Journal
from rota.live.journal_place import PLACE_FILE, find_journal, open_journal
from rota.server.background import stop
from tests.live.harness import PATIENCE, Site, check_record, until
from tests.postgres import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as made:
        yield made


class Led(Site):
    """A home that several schedulers would lead. `process` is the one that was started last."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        super().__init__(folder, policy="fifo")
        self.flags["--journal"] = server.url
        self._others: list[subprocess.Popen[bytes]] = []

    def stand_by(self, number: int) -> "Standby":
        made = Standby(self, number)
        self._others.append(made.process)
        return made

    def journal(self) -> Journal:
        return open_journal(find_journal(self.home), JOURNAL_CODEC)

    def lives(self, job: int) -> int:
        """How often it was started."""
        path = self.work / f"{job}.life"
        return path.read_text().count("start ") if path.exists() else 0

    def close(self) -> None:
        for process in self._others:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE)
        super().close()


class Standby:
    """A `rota up --standby`."""

    def __init__(self, place: Site, number: int) -> None:
        self._said = place.home.parent / f"standby{number}.said"
        words = [word for flag in place.flags.items() for word in flag]
        command = [*place.python, "-m", "rota", "up", "--standby", "--home", str(place.home), *words]
        with self._said.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, env={**os.environ, **place.env}, start_new_session=True
            )

    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def until(self, begins: str) -> None:
        """Until it has said a line that begins like this."""

        def found() -> bool:
            assert self.process.poll() is None, self.said()
            return any(line.startswith(begins) for line in self.said().splitlines())

        try:
            until(found, f"the standby says {begins}")
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.said()}") from None


@pytest.fixture
def led(tmp_path: Path, server: PostgresServer) -> Iterator[Led]:
    with contextlib.closing(Led(tmp_path, server)) as place:
        place.up()
        yield place


def start_jobs(place: Led, steps: int) -> list[int]:
    """Three that run, for a fifth of a second a step, and one that waits."""
    jobs = [place.submit(gpus, steps, 0.2) for gpus in (2, 1, 1)] + [place.submit(4, 5, 0.05)]
    until(lambda: all(place.lives(job) == 1 for job in jobs[:3]), "three jobs run")
    return jobs


def all_done(place: Led, jobs: list[int]) -> None:
    """Once each, with all their steps."""
    until(lambda: {row.phase for row in place.rows().values()} == {"finished"}, "all jobs are done")
    assert [place.lives(job) for job in jobs] == [1] * len(jobs), "none was started again"
    assert {row.lost_steps for row in place.rows().values()} == {0} and sorted(place.rows()) == jobs
    assert not place.violations()
    check_record(place, waits=0)


def test_a_standby_takes_over_from_a_leader_that_was_killed(led: Led) -> None:
    standby = led.stand_by(1)
    standby.until("standby: process ")
    again = subprocess.run(
        [sys.executable, "-m", "rota", "up", "--home", str(led.home), "--pretend", "4xV100", "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert led.process is not None
    assert again.returncode == 1 and f"already leads in {led.home}: process {led.process.pid} on " in again.stderr
    assert "--standby" in again.stderr
    jobs = start_jobs(led, 40)
    led.kill()
    standby.until("ready ")
    assert sorted(led.rows()) == jobs
    jobs.append(led.submit(1, 3, 0.05))
    all_done(led, jobs)
    with contextlib.closing(led.journal()) as journal:
        assert journal._store.rows("SELECT value FROM meta WHERE key = 'epoch'") == [("2",)]


@pytest.mark.nightly
def test_a_standby_knows_what_was_submitted_under_which_key(led: Led) -> None:
    """A client that lost the leader in the midst of its submission sends it again."""
    standby = led.stand_by(1)
    standby.until("standby: process ")
    client = led.client()
    job = client.submit(["sleep", "600"], gpus=4, key="nightly-7")
    led.kill()
    standby.until("ready ")
    assert client.url != led.client().url
    assert led.client().submit(["sleep", "600"], gpus=4, key="nightly-7").id == job.id
    with pytest.raises(ConflictError, match="nightly-7"):
        led.client().submit(["sleep", "700"], gpus=4, key="nightly-7")
    assert list(led.rows()) == [job.id]
    led.client().cancel(job.id)
    until(lambda: led.rows()[job.id].ended, "it is cancelled")


@pytest.mark.nightly
def test_a_leader_that_stood_still_writes_nothing_and_ends(led: Led) -> None:
    standby = led.stand_by(1)
    standby.until("standby: process ")
    jobs = start_jobs(led, 110)
    former = led.process
    assert former is not None
    former.send_signal(signal.SIGSTOP)
    try:
        standby.until("ready ")
        jobs.append(led.submit(1, 3, 0.05))
    finally:
        former.send_signal(signal.SIGCONT)
    assert former.wait(PATIENCE) == 1
    led.process = None
    assert "another leads epoch 2" in led.errors() and "rota up --standby" in led.errors()
    assert "Traceback" not in led.errors()
    all_done(led, jobs)
    assert standby.process.poll() is None, "the one that leads was not disturbed"


@pytest.mark.nightly
def test_postgresql_may_crash_while_jobs_run(led: Led, server: PostgresServer) -> None:
    jobs = start_jobs(led, 80)
    server.crash()
    try:
        until(lambda: "cannot be reached" in (led.client().status().disk_problem or ""), "the leader notices")
        refused = _refusal(led)
    finally:
        server.start()
    assert "Not taken" in refused and "cannot be reached" in refused
    until(lambda: "the journal can be written again" in led.said(), "the leader goes on")
    jobs.append(led.submit(1, 3, 0.05))
    all_done(led, jobs)
    assert led.process is not None and led.process.poll() is None
    kept = led.home / PLACE_FILE
    assert kept.stat().st_mode & 0o077 == 0 and not (led.home / "journal.sqlite").exists()
    standby = led.stand_by(1)
    standby.until("standby: process ")
    assert stop(led.home)[0] == led.process.pid, "`rota down` ends, though another holds the lock by then"
    standby.until("ready ")
    assert sorted(led.rows()) == jobs and led.process.wait(PATIENCE) == 0
    led.process = None


def _refusal(place: Led) -> str:
    try:
        place.submit(1, 3, 0.05)
    except Exception as problem:
        return str(problem)
    return ""
