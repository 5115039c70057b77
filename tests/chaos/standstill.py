"""Faults in which something stands still and nothing dies: a log disk that hangs, and a supervisor that is stopped.

No job may outlive its lease by more than its grace and a margin. Leases are short meanwhile, so that this can be waited for.
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rota.agent.attempt_files import AttemptStatus, read_order, read_status
from rota.agent.constants import ENDED
from rota.agent.disk import LOGS, RUN
from rota.agent.processes import boot_s
from tests.chaos.crowd import Crowd
from tests.live.harness import Site

LEASE_SECONDS = 10.0
GRACE_SECONDS = 5.0
"""For the job whose supervisor is stopped. A stopped supervisor asks it nothing, so that all of it is waited for."""
LONG_STEPS = 700
"""Of a job that does not end by itself before its lease and its grace are over."""
DISK_BYTES = 64 << 20


class Attempt(NamedTuple):
    """One that is not known to have ended."""

    folder: Path
    status: AttemptStatus
    gone_s: float
    """When its job has to be gone, on the clock that counts from boot."""

    @property
    def job(self) -> int:
        return self.status.job

    @property
    def lives(self) -> bool:
        return is_alive(self.status.pid or 0)


class Standstill:
    """`wait`: until something holds, while the crowd is kept busy or not."""

    def __init__(self, site: Site, crowd: Crowd) -> None:
        self.site, self.crowd = site, crowd
        self.own_disk = False
        """Logs are on a disk of their own, which can be frozen. If not, what writes them is stopped."""
        self.beyond_seconds: list[float] = []
        """How long jobs were alive after lease and grace, for every fault."""
        self._usual_lease = site.flags["--lease-seconds"]

    def set_up(self) -> None:
        """Before the daemon is started."""
        logs, image = self.site.home / LOGS, self.site.work / "log-disk"
        logs.mkdir(mode=0o700, parents=True)
        self.site.home.chmod(0o700)
        with image.open("wb") as file:
            file.truncate(DISK_BYTES)
        for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, logs]):
            if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                return
        logs.chmod(0o700)
        self.own_disk = True

    def tear_down(self) -> None:
        if self.own_disk:
            subprocess.run(["umount", "-l", str(self.site.home / LOGS)], check=True)

    # Two faults.

    @contextlib.contextmanager
    def short_leases(self) -> Iterator[None]:
        """The scheduler is started again before and after."""
        self._start_again(str(LEASE_SECONDS))
        yield
        self._start_again(self._usual_lease)

    def _start_again(self, lease_seconds: str) -> None:
        self.site.down()
        self.site.up(lease_seconds=lease_seconds)

    def log_disk_hangs(self, draw: random.Random, wait: Callable[[Callable[[], bool], str], None]) -> str:
        """The scheduler is killed too, and all jobs end with their leases; or it lives, and is told of an end meanwhile."""
        killed = draw.random() < 0.5
        with self.short_leases():
            self._long_job(draw, wait)
            with self._hung_logs():
                if killed:
                    self.site.kill()
                    self._until_gone(self.attempts())
                else:
                    running = self.attempts()
                    wait(lambda: any(_has_ended(attempt.folder) for attempt in running), "an end is told while the log hangs")
        return "scheduler too" if killed else "alone"

    def supervisor_stopped(self, draw: random.Random, wait: Callable[[Callable[[], bool], str], None]) -> tuple[str, int]:
        """The scheduler is killed too, and the process beside the supervisor ends the job; or it lives, and reports the end."""
        killed = draw.random() < 0.5
        with self.short_leases():
            victim = self._victim(draw, wait)
            if killed:
                self.site.kill()
            self._until_gone([victim])
            if killed:
                self.site.up()
            wait(lambda: _has_ended(victim.folder), "its end is reported")
            assert not self._ours("rota.agent.supervisor", victim.folder), "its supervisor is still there"
            assert not self._ours("rota.agent.log_writer", victim.folder), "the process beside it is still there"
        return ("scheduler too" if killed else "alone"), victim.job

    def _victim(self, draw: random.Random, wait: Callable[[Callable[[], bool], str], None]) -> Attempt:
        """One whose supervisor was stopped while it ran."""
        while True:
            found = self._long_job(draw, wait)
            with contextlib.suppress(ProcessLookupError, ValueError):  # it was suspended meanwhile
                (supervisor,) = self._ours("rota.agent.supervisor", found.folder)
                os.kill(supervisor, signal.SIGSTOP)
                status = read_status(found.folder)
                if found.lives and status is not None and status.stop_reason is None:
                    return next(attempt for attempt in self.attempts() if attempt.folder == found.folder)
                os.kill(supervisor, signal.SIGCONT)

    def _long_job(self, draw: random.Random, wait: Callable[[Callable[[], bool], str], None]) -> Attempt:
        """One that has just been submitted, and runs."""
        job = self.crowd.submit(draw.choice(["leaves", "plain", "wide"]), grace=GRACE_SECONDS, steps=LONG_STEPS)
        found: list[Attempt] = []

        def runs() -> bool:
            found[:] = [attempt for attempt in self.attempts() if attempt.job == job and attempt.lives]
            return bool(found)

        wait(runs, f"job {job} runs")
        time.sleep(draw.uniform(0.0, 0.5))
        return found[0]

    # What is there.

    def attempts(self) -> list[Attempt]:
        """All that have not ended and whose leases are short by now, as their supervisors wrote."""
        found = []
        for folder in _folders(self.site.home / RUN):
            status, order = read_status(folder), read_order(folder)
            if status is None or order is None or status.state == ENDED or status.lease_s is None:
                continue
            if status.lease_s < boot_s() + LEASE_SECONDS + 1.0:
                grace_seconds = min(order.grace_seconds, order.lease_grace_seconds)
                found.append(Attempt(folder, status, status.lease_s + grace_seconds))
        return found

    def _until_gone(self, attempts: list[Attempt]) -> None:
        """Until no job of these lives. How long each lived beyond its lease and grace is noted."""
        left = list(attempts)
        worst = 0.0
        while left:
            gone, now_s = [attempt for attempt in left if not attempt.lives], boot_s()
            worst = max([worst, *(now_s - attempt.gone_s for attempt in gone)])
            left = [attempt for attempt in left if attempt not in gone]
            assert not left or now_s < max(attempt.gone_s for attempt in left) + 120.0, f"jobs outlive their leases: {left}"
            time.sleep(0.05)
        self.beyond_seconds.append(worst)

    @contextlib.contextmanager
    def _hung_logs(self) -> Iterator[None]:
        if not self.own_disk:
            writers = self._ours("rota.agent.log_writer")
            _signal(writers, signal.SIGSTOP)
            yield
            return _signal(writers, signal.SIGCONT)
        subprocess.run(["fsfreeze", "--freeze", self.site.home / LOGS], check=True)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", self.site.home / LOGS], check=True)

    def _ours(self, word: str, below: Path | None = None) -> list[int]:
        found, folder = [], str(below or self.site.home)
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0") if process.name.isdigit() else []
                found += [int(process.name)] if word in words and any(each.startswith(folder) for each in words) else []
        return found


def _folders(run: Path) -> list[Path]:
    """Of all attempts. They come and go."""
    found: list[Path] = []
    for job in run.iterdir():
        with contextlib.suppress(OSError):
            found += [folder for folder in job.iterdir() if folder.is_dir()]
    return found


def _has_ended(folder: Path) -> bool:
    """A folder that is gone was that of an attempt whose end was told."""
    status = read_status(folder)
    return status.state == ENDED if status is not None else not folder.exists()


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def is_alive(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    return False
