"""Faults for real processes, each at a moment that is awaited, not guessed."""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rota.agent.attempt_files import read_status
from rota.agent.constants import PARKED
from rota.agent.disk import attempt_folder
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.core.validate import validate
from rota.live.journal import Journal
from rota.live.recovery import recover
from tests.chaos.crowd import SAVED, Crowd, Hit
from tests.chaos.standstill import Standstill
from tests.live.harness import Site, until

TARGETS = ("daemon", "supervisor", "job")
WRITING, READING = 26, 6
"""About as many file operations there are in a checkpoint that is written, and in one that is read."""
QUOTAS = (0x8000, 0xC000, 0x14000)
"""Bytes that a file of a job may have under a quota: less than a checkpoint, more than its notes."""
JOURNAL_QUOTA = 4096
PATIENCE = 240.0
CLOCKED = Path(__file__).with_name("clocked.py")
NOT_LIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


class Held(NamedTuple):
    """A job that stopped in the middle of something."""

    pid: int
    supervisor: int
    job: int
    operation: int


class Fault(NamedTuple):
    """What happened."""

    kind: str
    target: str
    """Who was killed, or what was wrong."""
    at_s: float
    job: int | None = None


class Faults:
    """Every kind of fault is a method that returns when it has happened, and when what it took away is back."""

    def __init__(self, site: Site, crowd: Crowd, seed: int) -> None:
        self.site, self.crowd, self._seed = site, crowd, seed
        self._draw = random.Random(seed)
        self.hits: list[Hit] = []
        self.up_seconds: list[float] = []
        """From the kill of a daemon until the next one is ready."""
        self.small_disk = False
        """Checkpoints are on a disk of their own, which can be filled."""
        self._kinds: list[str] = []
        self._kind, self._decks = "", 0
        self._busy_s = 0.0
        self.standstill = Standstill(site, crowd)
        self.kinds: dict[str, Callable[[], Fault]] = {
            "killed at any moment": self._at_any_moment,
            "killed while it writes a checkpoint": lambda: self._in_the_middle("write", self._draw.randint(1, WRITING)),
            "killed while it resumes from a checkpoint": lambda: self._in_the_middle("resume", self._draw.randint(1, READING)),
            "killed while it is being parked": lambda: self._in_the_middle("parking", self._draw.randint(0, 2)),
            "killed while it is parked": self._while_parked,
            "killed while it is woken": lambda: self._in_the_middle("waking", self._draw.choice([3, 4])),
            "no room for a checkpoint": self._checkpoint_without_room,
            "checkpoint folder is read-only": self._checkpoint_read_only,
            "no room for the journal": self._journal_without_room,
            "clock jumps": self._clock_jumps,
            "log disk hangs": self._log_disk_hangs,
            "supervisor stopped": self._supervisor_stopped,
            "a copied home is started": self._copied_home,
        }

    def set_up(self) -> None:
        """Before the daemon is started."""
        work = self.site.work
        python = work / "python"
        python.write_text(
            "#!/bin/sh\nflags=\n"
            'while [ "$1" != -m ]; do flags="$flags $1"; shift; done\n'
            f"exec '{sys.executable}' $flags '{CLOCKED}' \"$@\"\n"
        )
        python.chmod(0o700)
        self.site.python = [str(python)]
        self.site.env = {"CHAOS_CLOCK": str(work / "clock"), "CHAOS_PYTHON": str(python)}
        mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(work / SAVED)]
        self.small_disk = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        self.standstill.set_up()

    def tear_down(self) -> None:
        self.standstill.tear_down()
        if self.small_disk:
            subprocess.run(["umount", "-l", str(self.site.work / SAVED)], check=True)

    def strike(self, number: int, only: str = "") -> Fault:
        """The next fault: each kind as often as the others. What is drawn depends on the seed and its number alone."""
        self._draw = random.Random(f"{self._seed} {number}")
        if not self._kinds:
            wanted = [kind for kind in self.kinds if only in kind]
            self._kinds = self._draw.sample(wanted, len(wanted))
            self._decks += 1
        self._kind = self._kinds.pop()
        return self.kinds[self._kind]()._replace(kind=self._kind)

    # Who is killed.

    def _target(self) -> str:
        """Of every kind of fault each as often as the others, and in every ten faults all of them."""
        return TARGETS[(self._seed + self._decks + list(self.kinds).index(self._kind)) % len(TARGETS)]

    def _kill(self, target: str, held: Held | None = None) -> Fault:
        """`held`: the job in question, which goes on if it is not the one that is killed."""
        at_s = time.time()
        if target == "daemon":
            self._restart_daemon(lambda: self._release() if held else None)
            return Fault("", target, at_s, held.job if held else None)
        assert held is not None
        os.kill(held.supervisor if target == "supervisor" else held.pid, signal.SIGKILL)
        self.hits.append(Hit(held.job, at_s, at_s))
        self._release()
        return Fault("", target, at_s, held.job)

    def _restart_daemon(self, between: Callable[[], object]) -> None:
        at_s, early = time.monotonic(), self._draw.random() < 0.5
        self.site.kill()
        _check_torn_copy(self.site)
        if early:
            between()
        self.site.up()
        self.up_seconds.append(time.monotonic() - at_s)
        if not early:
            between()

    # In the middle of something.

    def _wait(self, condition: Callable[[], bool], what: str, busy_every_seconds: float = 0.5) -> None:
        def met() -> bool:
            if time.monotonic() > self._busy_s + busy_every_seconds:
                self.crowd.keep_busy()
                self._busy_s = time.monotonic()
            return condition()

        until(met, what, PATIENCE)

    def _hold(self, moment: str, operation: int) -> Held:
        """Wait until some job is at this operation of this moment. It waits for us there."""
        work = self.site.work
        (work / "order.new").write_text(str(operation))
        (work / "order.new").rename(work / f"order.{moment}")
        # Jobs that come run first, and those that were suspended would stay so.
        pause = 5.0 if moment in ("waking", "resume") else 0.5
        self._wait((work / "held").exists, f"a job is held at operation {operation} of {moment}", pause)
        return Held(**json.loads((work / "held").read_text()))

    def _release(self) -> None:
        (self.site.work / "held").unlink()

    def _in_the_middle(self, moment: str, operation: int) -> Fault:
        return self._kill(self._target(), self._hold(moment, operation))

    def _while_parked(self) -> Fault:
        target = self._target()
        found: list[tuple[int, Path]] = []

        def one_is_parked() -> bool:
            """As its supervisor says, whose word is newer than the daemon's."""
            found[:] = [
                (job, folder)
                for job in self.crowd.jobs
                for folder in sorted(attempt_folder(self.site.home, job, 0).parent.glob("[0-9]*"))
                if (status := read_status(folder)) is not None and status.state == PARKED
            ]
            return bool(found)

        while True:
            self._wait(one_is_parked, "a job is parked")
            job, folder = self._draw.choice(found)
            with contextlib.suppress(OSError, ValueError):  # it, or its supervisor, has ended meanwhile
                (supervisor,) = (pid for pid in self.site.supervisors() if str(folder).encode() in _words(pid))
                status = read_status(folder)
                if status is None or status.state != PARKED or status.pid is None:
                    continue  # it was woken meanwhile
                if target == "daemon":
                    return self._kill("daemon")._replace(job=job)
                at_s = time.time()
                os.kill(supervisor if target == "supervisor" else status.pid, signal.SIGKILL)
                self.hits.append(Hit(job, at_s, at_s))
                return Fault("", target, at_s, job)

    def _at_any_moment(self) -> Fault:
        """A moment that depends on nothing but the seed. The job may be starting, saving, ending."""
        target = self._target()
        while True:
            self._wait(lambda: bool(self.site.jobs_running()), "a job runs")
            time.sleep(self._draw.uniform(0.0, 1.0))
            if target == "daemon":
                return self._kill("daemon")
            pids = self.site.supervisors() if target == "supervisor" else self.site.jobs_running()
            with contextlib.suppress(OSError, IndexError):
                pid = self._draw.choice(sorted(pids))
                job = _job_of(pid)
                if job is not None:
                    at_s = time.time()
                    os.kill(pid, signal.SIGKILL)
                    self.hits.append(Hit(job, at_s, at_s))
                    return Fault("", target, at_s, job)

    # Disks.

    def _checkpoint_without_room(self) -> Fault:
        """By a quota; on a small disk, if there is one, by taking all the room."""
        full = self.small_disk and self._draw.random() < 0.5
        quota = self._draw.choice(QUOTAS)
        held = self._hold("write", 1)
        with self._hit(None if full else held.job), self._filled() if full else _limited(held.pid, quota) as again:
            self._until_unsaved(held.job, again)
        return Fault("", "disk" if full else "quota", self.hits[-1].from_s, held.job)

    def _checkpoint_read_only(self) -> Fault:
        held = self._hold("write", 1)
        folder = self.crowd.checkpoints(held.job)
        with self._hit(held.job):
            folder.mkdir(exist_ok=True)  # it may be about to make it
            folder.chmod(0o500)
            try:
                self._until_unsaved(held.job, lambda: None)
            finally:
                folder.chmod(0o700)
        return Fault("", "folder", self.hits[-1].from_s, held.job)

    def _until_unsaved(self, job: int, again: Callable[[], None]) -> None:
        def unsaved() -> bool:
            again()
            return sum(line[0] == "unsaved" for line in self.crowd.life(job)) > before

        before = sum(line[0] == "unsaved" for line in self.crowd.life(job))
        self._release()
        self._wait(unsaved, f"job {job} cannot save")

    @contextlib.contextmanager
    def _hit(self, job: int | None) -> Iterator[None]:
        from_s = time.time()
        yield
        self.hits.append(Hit(job, from_s, time.time()))

    @contextlib.contextmanager
    def _filled(self) -> Iterator[Callable[[], None]]:
        """Of what others give back, nothing is left either."""
        path = self.site.work / SAVED / "somebody-else"

        def fill() -> None:
            with path.open("ab", buffering=0) as file:
                for size in (1 << 20, 1 << 12, 1):
                    with contextlib.suppress(OSError):
                        while True:
                            file.write(b"x" * size)

        fill()
        yield fill
        path.unlink()

    def _journal_without_room(self) -> Fault:
        """Right after it has taken a job. Then there is room again, or it is killed first."""
        process = self.site.process
        assert process is not None
        killed = self._draw.random() < 0.5
        job = self.crowd.submit(self._draw.choice(["parked", "plain"]))
        told = self.site.said().count("is full: no job is taken or started")
        with self._hit(None), _limited(process.pid, JOURNAL_QUOTA):
            full = lambda: self.site.said().count("is full: no job is taken or started") > told  # noqa: E731
            until(full, "the operator is told that the journal has no room", PATIENCE)
            if killed:
                self._restart_daemon(lambda: None)
        for pid in (*self.site.supervisors(), *self.site.jobs_running()):  # those that were started meanwhile have the limit too
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, NOT_LIMITED)
        if not killed:
            until(lambda: self.site.client().status().disk_problem is None, "there is room again", PATIENCE)
        assert job in self.site.rows(), f"job {job} was taken, and is not there"
        return Fault("", "daemon" if killed else "quota", self.hits[-1].from_s, job)

    # What stands still.

    def _log_disk_hangs(self) -> Fault:
        """A job that saves nothing begins again when its lease is over."""
        with self._hit(None):
            target = self.standstill.log_disk_hangs(self._draw, self._wait)
        return Fault("", target, self.hits[-1].from_s)

    def _supervisor_stopped(self) -> Fault:
        """Other jobs, too, lose their leases while the scheduler is away."""
        with self._hit(None):
            target, job = self.standstill.supervisor_stopped(self._draw, self._wait)
        return Fault("", target, self.hits[-1].from_s, job)

    # Copies.

    def _copied_home(self) -> Fault:
        """A copy of the home is started, while the original's scheduler runs or after it was killed. It must refuse, and no job
        may notice: no hit is recorded, so that steps which it costs are not explained."""
        killed = self._draw.random() < 0.5
        words = self._draw.choice([[], ["--detach"], *([] if killed else [["--adopt"]])])
        self._wait(lambda: bool(self.site.jobs_running()), "a job runs")
        at_s, copy = time.time(), self.site.work / "copied"
        if killed:
            self.site.kill()
        # What is removed meanwhile is missing; that is no reason for the copy to start.
        subprocess.run(["cp", "-a", self.site.home, copy], capture_output=True, check=False)
        command = [*self.site.python, "-m", "rota", "up", "--home", str(copy), "--pretend", "1xV100", "--listen", "127.0.0.1:0"]
        env = {**os.environ, **self.site.env}
        ended = subprocess.run([*command, *words], capture_output=True, text=True, env=env, timeout=PATIENCE, check=False)
        refused = f"A scheduler runs in {self.site.home}" if words == ["--adopt"] else f"is a copy of {self.site.home}"
        assert ended.returncode == 1 and refused in ended.stderr, ended.stderr
        shutil.rmtree(copy)
        if killed:
            self.site.up()
            self.up_seconds.append(time.time() - at_s)
        return Fault("", "after a kill" if killed else "beside it", at_s)

    # Time.

    def _clock_jumps(self) -> Fault:
        """Of all processes but the jobs, by ten seconds to a month, forwards or back; with luck the daemon is started anew."""
        offset = self._draw.choice([-1, 1]) * 10.0 ** self._draw.uniform(1.0, 6.4)
        at_s, work = time.time(), self.site.work
        (work / "clock.new").write_text(f"{offset:.3f}")
        (work / "clock.new").rename(work / "clock")
        if self._draw.random() < 0.5:
            self._restart_daemon(lambda: None)
        starts = self.crowd.count("start")
        self._wait(lambda: self.crowd.count("start") > starts, "jobs are started after the clock has jumped")
        return Fault("", "forwards" if offset > 0 else "backwards", at_s)


@contextlib.contextmanager
def _limited(pid: int, size: int) -> Iterator[Callable[[], None]]:
    """No file may grow beyond this size, for this process. The process may end meanwhile."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    yield lambda: None
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, NOT_LIMITED)


def _words(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def _job_of(pid: int) -> int | None:
    """Of a supervisor by its folder, of a job by its environment."""
    words = _words(pid)
    if b"rota.agent.supervisor" in words:
        return int(Path(words[words.index(b"rota.agent.supervisor") + 1].decode()).parent.name)
    found = [word for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if word.startswith(b"ROTA_JOB_ID=")]
    return int(found[0].split(b"=")[1]) if found else None


def _check_torn_copy(site: Site) -> None:
    """The journal as a kill left it, read by somebody else: every entry whole, and the core as it was."""
    copy = site.work / "copy"
    copy.mkdir()
    for name in ("journal.sqlite", "journal.sqlite-wal"):
        if (site.home / name).exists():
            shutil.copy(site.home / name, copy / name)
    journal = Journal(copy / "journal.sqlite", JOURNAL_CODEC)
    if journal.configuration() is not None:
        validate(recover(journal, JOURNAL_CODEC, make_scheduler).state)
    journal.close()
    shutil.rmtree(copy)
