"""Real daemons and real jobs for the tests: a home, a `rota up` that can be killed, and a script that proves what it did."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rota
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.core.validate import validate
from rota.live.job_events import STARTS, EventKind
from rota.live.job_record import JobRecord
from rota.live.journal import Journal
from rota.live.read_past import all_events
from rota.live.replay import replay
from rota.live.usage import total
from rota.model.events import Exited, Submitted, Suspended
from rota.wire.client import Client
from rota.wire.rows import JobRow
from tests.properties.test_reasons import confirm
from tests.waiting import LONG_SECONDS, until

__all__ = ["PATIENCE", "until"]
PATIENCE = LONG_SECONDS

JOB = '''
"""Counts steps, saves when it is told to stop, and holds locks that show who runs at the same time."""
import fcntl, os, signal, sys, time
work, steps, pace, leave = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
mine = sys.argv[5] if len(sys.argv) > 5 else work  # the folder of its user
job, life = os.environ["ROTA_JOB_ID"], os.environ["ROTA_ATTEMPT"]
def note(name, text):
    with open(name, "a") as file:
        file.write(text + "\\n")
life_file = os.path.join(mine, f"{job}.life")
held = []
for name in [f"job-{job}"] + [f"gpu-{gpu}" for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]:
    lock = open(os.path.join(work, name + ".lock"), "a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        note(os.path.join(work, "violations"), f"{name} is held by another while job {job} attempt {life} starts")
        sys.exit(3)
    held.append(lock)
stop = False
def ask(*_):
    global stop
    stop = True
signal.signal(signal.SIGTERM, ask)
state = os.path.join(mine, f"{job}.step")
def save(n):
    with open(state + ".new", "w") as file:
        file.write(str(n))
        file.flush()
        os.fsync(file.fileno())
    os.replace(state + ".new", state)
n = int(open(state).read()) if os.path.exists(state) else 0
note(life_file, f"start {time.time()} {n}")
while n < steps:
    if stop:
        save(n)
        note(life_file, f"yield {time.time()} {n}")
        sys.exit(leave)
    if not os.path.exists(os.path.join(work, "hurry")):
        time.sleep(pace)
    n += 1
    if n % 5 == 0:
        save(n)
    print(f"step {n}/{steps}", flush=True)
save(n)
note(life_file, f"done {time.time()} {n}")
'''


class Site:
    """A home with a daemon in it, and a folder where jobs leave their traces."""

    def __init__(
        self,
        folder: Path,
        *,
        pretend: str = "4xV100",
        policy: str = "tiresias",
        lease_seconds: float = 300.0,
        home: Path | None = None,
    ) -> None:
        self.home, self.work = home or folder / "home", folder / "work"
        self.work.mkdir(parents=True)
        (self.work / "job.py").write_text(JOB)
        self.flags = {"--pretend": pretend, "--policy": policy, "--lease-seconds": str(lease_seconds), "--listen": "127.0.0.1:0"}
        self.flags["--min-run-factor"] = "0"
        """Of the next `up`. Without a minimum run time jobs are suspended as often as the policy likes."""
        self.python = [sys.executable]
        """What the daemon is run by, and variables that it gets on top of ours."""
        self.env: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self._out = (folder / "daemon.out").open("a+")
        self._said = folder / "daemon.said"

    def up(self, **flags: str) -> None:
        """`up(pretend="2xV100")` changes a flag, for later starts too; `up(wait_for_locality="")` sets one without a value."""
        self.flags |= {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
        words = [word for flag in self.flags.items() for word in flag if word]
        command = [*self.python, "-m", "rota", "up", "--home", str(self.home), *words]
        env = {**os.environ, **self.env}
        with self._said.open("w") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=self._out, env=env, start_new_session=True)
        until(lambda: self._is_ready() or self.process is None or self.process.poll() is not None, "rota up is ready")
        assert self._is_ready(), self.said() + self.errors()

    def _is_ready(self) -> bool:
        return any(line.startswith("ready ") and line.endswith("\n") for line in self.said().splitlines(keepends=True))

    def said(self) -> str:
        """What the last `up` has told the operator."""
        return self._said.read_text()

    def errors(self) -> str:
        self._out.seek(0)
        return self._out.read()

    def client(self) -> Client:
        return rota.connect(self.home)

    def submit(self, gpus: int, steps: int, pace: float, name: str = "", retries: int = 0, leave: int = 75) -> int:
        """`leave`: its exit code when it has saved because it was told to stop."""
        run = [sys.executable, "-S", str(self.work / "job.py"), str(self.work), str(steps), str(pace), str(leave)]
        job = self.client().submit(
            run=run,
            gpus=gpus,
            steps=steps,
            name=name or None,
            progress=r"step (\d+)/(\d+)",
            checkpoint={"grace": 20},
            retries=retries,
        )
        return int(job.id)

    def hurry(self) -> None:
        """From now on jobs do not pause between steps: a test that needs a long job for a while ends soon on any machine."""
        (self.work / "hurry").touch()

    def rows(self) -> dict[int, JobRow]:
        return {row.id: row for row in self.client().jobs(everything=True)}

    def kill(self) -> None:
        """As a power cut for the daemon alone: its worker dies by itself, its supervisors stay."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self._reap()

    def down(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
        if self.process is not None:
            self._reap()

    def _reap(self) -> None:
        assert self.process is not None
        self.process.wait(PATIENCE)
        self.process = None

    def journal(self) -> Journal:
        return Journal(self.home / "journal.sqlite", JOURNAL_CODEC)

    def violations(self) -> str:
        path = self.work / "violations"
        return path.read_text() if path.exists() else ""

    def supervisors(self) -> list[int]:
        return _processes(lambda words, env: "rota.agent.supervisor" in words and str(self.home) in " ".join(words))

    def jobs_running(self) -> list[int]:
        return _processes(lambda words, env: str(self.work / "job.py") in words and "rota.agent.supervisor" not in words)

    def close(self) -> None:
        """End everything this site has started."""
        self.down()
        for pid in (*self.supervisors(), *self.jobs_running()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._out.close()


def _processes(wanted: Callable[[list[str], str], bool]) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if wanted(words, ""):
                    found.append(int(folder.name))
    return found


@contextlib.contextmanager
def site(folder: Path, **options: object) -> Iterator[Site]:
    made = Site(folder, **options)  # type: ignore[arg-type]
    try:
        made.up()
        yield made
    finally:
        made.close()


def heed_interrupts() -> None:
    """For `preexec_fn`: a shell starts what it runs in the background with SIGINT ignored, and these tests may be run so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def check_record(place: Site, waits: int = 30) -> None:
    """Every state the core was in is sound, every wait explained, every decision the same again."""
    journal = place.journal()
    seen, events = 0, []
    for entry, scheduler, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
        assert difference is None, difference
        validate(scheduler.state)  # phase changes are checked where they are made: an illegal one raises
        seen += confirm(scheduler)
        events += entry.events
    jobs = [job for job, _, _ in journal.jobs()]
    check_past(journal)
    journal.close()
    assert seen > waits
    assert [event.job for event in events if isinstance(event, Submitted)] == jobs
    assert any(isinstance(event, Exited | Suspended) for event in events)


def check_past(journal: Journal) -> None:
    """Every job has one beginning among its events and at most one end, no attempt ends twice, and the usage is that of all
    attempts."""
    records = [JobRecord.of(job, sent, plain) for job, sent, plain in journal.jobs()]
    ends = []
    for record in records:
        found = all_events(journal, record)
        assert [each.ends_job for each in found] == [*(False for _ in found[1:]), record.ended], (record.id, found)
        assert not record.ended or found[-1].kind == record.phase, (record.id, found)
        assert [each.kind for each in found].count(EventKind.SUBMITTED) == 1
        ended = [each.attempt for each in found if each.ends_attempt]
        assert len(ended) == len(set(ended)), (record.id, found)
        begun = {each.attempt for each in found if each.kind in STARTS}
        assert {each.attempt for each in found if each.kind is EventKind.FINISHED} <= begun, (record.id, found)
        ends += [each for each in found if each.ends_attempt]
    sums = total(row.amounts for row in journal.usage())
    assert sums.submitted == len(records) and sums.attempts == len(ends)
    assert sums.finished + sums.failed + sums.cancelled == sum(each.ended for each in records)
    assert sums.gpu_seconds == pytest.approx(sum(each.gpu_seconds for each in records))
    assert sum(each.gpu_seconds for each in ends) <= sums.gpu_seconds + 1e-6
