"""A day of use: sixty jobs of ten sorts, the expected result of each, and a user who looks at them all day."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rota.errors
from tests.live.harness import PATIENCE, Site, until

GPUS = 6
STEPS = 20
LOG_BYTES = 1 << 18

JOB = '''
"""Counts steps, and holds locks that show who runs at the same time: its own, and halves of its GPUs."""
import fcntl, os, signal, sys, time
work, sort, steps, pace = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
job, life = os.environ["ROTA_JOB_ID"], os.environ["ROTA_ATTEMPT"]
def note(name, text):
    with open(os.path.join(work, name), "a") as file:
        file.write(text + "\\n")
def held(name):
    lock = open(os.path.join(work, name + ".lock"), "a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock
wanted = [[f"job-{job}"]]
for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(","):
    halves = [f"gpu-{gpu}-a", f"gpu-{gpu}-b"]
    wanted += [halves] if sort == "half" else [[halves[0]], [halves[1]]]
locks = []
for names in wanted:
    lock = next((lock for lock in map(held, names) if lock is not None), None)
    if lock is None:
        note("violations", f"{' and '.join(names)} held by another while job {job} attempt {life} starts")
        sys.exit(3)
    locks.append(lock)
note(f"{job}.lives", life)
stop = False
def ask(*_):
    global stop
    stop = True
signal.signal(signal.SIGTERM, signal.SIG_IGN if sort == "ignores" else ask)
state = os.path.join(work, f"{job}.step")
def save(n):
    with open(state + ".new", "w") as file:
        file.write(str(n))
    os.replace(state + ".new", state)
def leave(code):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Python would die of it on its way out
    save(n)
    sys.exit(code)
n = first = int(open(state).read()) if os.path.exists(state) else 0
if sort == "forks" and os.fork() == 0:
    os.setsid()  # out of its session, with its locks, and deaf
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("children", str(os.getpid()))
    time.sleep(600)
if sort == "loads":
    time.sleep(600)
while n < steps:
    if stop or (sort == "yields" and n == first + 3):
        leave(75)
    if sort == "fails" and n == 2:
        leave(3)
    time.sleep(pace)
    n += 1
    if sort == "ignores":
        save(n)
    if sort == "floods":
        for _ in range(40):
            print("x" * 10_000)
    if sort != "silent":
        print(f"step {n}/{steps}", flush=True)
leave(0)
'''

SORTS: dict[str, dict[str, Any]] = {
    "fails": {"retries": 1},
    "ignores": {"checkpoint": {"grace": 0.3}},
    "forks": {},
    "floods": {},
    "yields": {},
    "silent": {"progress": None, "steps": None},
    "half": {"gpus": 0.5},
    "wide": {"gpus": 4},
    "too-much": {"gpus": GPUS + 1},
}
"""What is submitted, where it differs from one GPU and `STEPS` that are told. The tenth sort is `CANCELLED`."""

CANCELLED: dict[str, dict[str, Any]] = {
    "starting": {"sort": "loads"},
    "running": {"steps": 10_000},
    "suspending": {"sort": "ignores", "steps": 10_000, "checkpoint": {"grace": 600}},
    "checkpointed": {"steps": 10_000},
    "finished": {"steps": 2},
    "queued": {"steps": 10_000, "gpus": GPUS},
}
"""By the phase in which it is cancelled. Those without end can't leave it of themselves, once they are there."""

WAITING = ("queued", "starting", "parked", "checkpointed", "unreachable")


@dataclass
class Acknowledged:
    """A job that the scheduler has taken."""

    sort: str
    ends: str
    """The phase that it should end in."""
    cancel_in: str = ""
    cancelled: bool = False


class Day:
    def __init__(self, place: Site) -> None:
        self.place = place
        self.jobs: dict[int, Acknowledged] = {}
        self.refused = 0
        self.explained: dict[str, int] = {}
        """Reasons that were given -> the job that had it first."""
        self._asked: set[tuple[int, str, str | None]] = set()
        (place.work / "job.py").write_text(JOB)

    # What people do ----------------------------------------------------------------------------------------------

    def submit(self, sort: str, ends: str = "finished", cancel_in: str = "", **fields: Any) -> None:
        steps = fields.pop("steps", STEPS)
        spec = {"gpus": 1, "steps": steps, "progress": r"step (\d+)/(\d+)", "checkpoint": {"grace": 30}, **SORTS.get(sort, {})}
        spec |= {"name": f"{cancel_in or sort}-{len(self.jobs)}", **fields}
        run = [sys.executable, "-S", str(self.place.work / "job.py"), str(self.place.work), sort, str(steps), "0.08"]
        if sort == "too-much":
            with pytest.raises(rota.errors.RotaError, match="can never run here"):
                self.place.client().submit(run=run, **spec)
            self.refused += 1
            return
        job = self.place.client().submit(run=run, **{name: value for name, value in spec.items() if value is not None})
        self.jobs[int(job.id)] = Acknowledged(sort, ends, cancel_in)

    def submit_one_of_each(self) -> None:
        for sort in SORTS:
            self.submit(sort, "failed" if sort == "fails" else "finished")

    def submit_those_to_cancel(self) -> None:
        for phase, fields in CANCELLED.items():
            ends = "finished" if phase == "finished" else "cancelled"
            self.submit(**{"sort": "plain", "ends": ends, "cancel_in": phase, **fields})

    def rota(self, *words: str) -> str:
        command = [sys.executable, "-m", "rota", *words, "--home", str(self.place.home)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    # What is seen ------------------------------------------------------------------------------------------------

    def look(self) -> dict[int, str]:
        """Phases as they are. Whoever waits says why, and those to be cancelled are if they are where they should be."""
        client = self.place.client()
        rows = {row.id: row for row in client.jobs(everything=True)}
        for job, row in rows.items():
            mine = self.jobs[job]
            if mine.cancel_in == row.phase and not mine.cancelled:
                client.cancel(job)
                mine.cancelled = True
            elif row.phase in WAITING and (job, row.phase, row.reason) not in self._asked:
                self._asked.add((job, row.phase, row.reason))
                self._ask_why(job)
        return {job: row.phase for job, row in rows.items()}

    def _ask_why(self, job: int) -> None:
        found = self.place.client().why(job)
        if found.job.phase not in WAITING:
            return  # it waits no longer
        assert found.reasons, f"job {job} ({self.jobs[job].sort}) is {found.job.phase} for no reason"
        assert all(reason.code and reason.sentence for reason in found.reasons), found.reasons
        for reason in found.reasons:
            if self.explained.setdefault(reason.code, job) == job:
                assert f"Job {job} " in self.rota("why", str(job))

    def until_in_phase(self, phase: str) -> None:
        """Until the one that is to be cancelled in this phase is there. It is let be for now."""
        (job,) = [job for job, mine in self.jobs.items() if mine.cancel_in == phase]
        until(lambda: self.place.client().job(job).phase == phase, f"job {job} is {phase}", PATIENCE)

    def until_cancelled(self, *phases: str) -> None:
        def done() -> bool:
            self.look()
            return all(mine.cancelled for mine in self.jobs.values() if mine.cancel_in in phases)

        until(done, f"jobs were cancelled in {phases}", PATIENCE)

    def until_ended(self, count: int) -> None:
        until(lambda: list(self.look().values()).count("finished") >= count, f"{count} jobs have finished", PATIENCE)

    def until_all_ended(self) -> None:
        until(lambda: {*self.look().values()} <= {"finished", "failed", "cancelled"}, "all jobs end", PATIENCE)

    # What is left ------------------------------------------------------------------------------------------------

    def lives(self, job: int) -> list[int]:
        path = self.place.work / f"{job}.lives"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def children_alive(self) -> list[int]:
        path = self.place.work / "children"
        pids = [int(line) for line in path.read_text().splitlines()]
        return [pid for pid in pids if _is_ours(pid, self.place.work)]

    def log_bytes(self, job: int) -> int:
        return sum(path.stat().st_size for path in (self.place.home / "logs").glob(f"{job}.log*"))


def _is_ours(pid: int, work: Path) -> bool:
    try:
        return os.fsencode(work / "job.py") in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
