"""A long queue on one scheduler: how large the journal gets, and how long submitting, listing, restarting and cancelling take.

    python -m benchmarks.queue_load [--jobs 10000] [--one-by-one 5000] [--policy tiresias]

The scheduler is a real one, on the loopback, with one pretend GPU: one job sleeps on it and all others wait. First jobs are
submitted one by one, each with a request of its own, and cancelled in the same way, because that makes the most decisions. Then
many are submitted in one call, listed, found again after the scheduler was killed, and cancelled in one call.

Seconds are wall time, with the CPU seconds of the scheduler and of its policy's worker beside them: on a busy machine only these
tell. What a start costs without jobs is shown too. The last line is JSON. It ends what it started.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rota.wire.client import Client, connect

LIMITS = {
    "one by one: journal, MB": 20.0,
    "one by one: journal after cancelling, MB": 20.0,
    "together: submit, seconds": 20.0,
    "together: rota jobs, seconds": 0.5,
    "together: restart, seconds": 3.0,
}
"""What must hold on two free cores, with 5,000 jobs one by one and 10,000 together."""
TICKS = os.sysconf("SC_CLK_TCK")


class Scheduler:
    """`rota up` in a home of its own."""

    def __init__(self, home: Path, policy: str, *, pretend: str = "1xV100", flags: Sequence[str] = (), watch: str = "") -> None:
        """`watch`: the file into which it writes how long its turns took; empty for none."""
        self.home, self.policy, self._pretend, self._flags = home, policy, pretend, flags
        self._program = ["benchmarks.watched_up", watch] if watch else ["rota", "up"]
        self.process: subprocess.Popen[str] | None = None

    def up(self) -> None:
        """Until it answers."""
        command = [sys.executable, "-m", *self._program, "--home", str(self.home), "--pretend", self._pretend]
        command += ["--listen", "127.0.0.1:0", "--policy", self.policy, *self._flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        while not (line := self.process.stdout.readline()).startswith("ready"):
            assert line, "rota up has ended"
        self.client().status()

    def client(self) -> Client:
        return connect(self.home)

    def stop(self) -> None:
        """As `rota down`."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.kill()

    def end_jobs(self) -> None:
        """Cancel the jobs that run."""
        with contextlib.suppress(Exception):
            client = self.client()
            running = [row.id for row in client.jobs(phase="running")]
            client.cancel_many(running)
            list(client.ends(running, timeout=30.0))

    def resident_mb(self) -> float:
        assert self.process is not None
        return resident_mb(self.process.pid)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def cpu_seconds(self) -> float:
        """Of the scheduler, its threads and the processes that it started."""
        if self.process is None:
            return 0.0
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                pid, rest = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
                if self.process.pid in (pid, int(rest[1])):
                    total += int(rest[11]) + int(rest[12])
        return total / TICKS

    def journal_mb(self) -> float:
        return sum(path.stat().st_size for path in self.home.glob("journal.sqlite*") if path.suffix != ".sqlite-shm") / 1e6


def resident_mb(pid: int) -> float:
    """Return the memory that a process has now."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


@contextlib.contextmanager
def scheduler(policy: str, **options: Any) -> Iterator[Scheduler]:
    with tempfile.TemporaryDirectory(prefix="rota-queue-") as folder:
        made = Scheduler(Path(folder) / "home", policy, **options)
        made.up()
        try:
            yield made
        finally:
            made.end_jobs()
            made.kill()


class Figures:
    """What was measured, printed as it comes."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    def note(self, name: str, value: float, text: str = "") -> None:
        self.found[name] = round(value, 3)
        limit = f"   at most {LIMITS[name]:g}" if name in LIMITS else ""
        print(f"{name:<50} {value:10,.2f}{limit}{text and '   ' + text}", flush=True)

    @contextlib.contextmanager
    def timed(self, name: str, on: Scheduler, count: int = 0) -> Iterator[None]:
        began_s, before = time.monotonic(), on.cpu_seconds()
        yield
        seconds = time.monotonic() - began_s
        self.note(f"{name}, seconds", seconds, f"{count / seconds:,.0f} a second" if count else "")
        self.note(f"{name}, CPU seconds", on.cpu_seconds() - before)


def one_by_one(count: int, policy: str, figures: Figures) -> None:
    with scheduler(policy) as made:
        client = made.client()
        with figures.timed("one by one: submit", made, count):
            for number in range(count):
                client.submit_spec(_spec(number))
        figures.note("one by one: journal, MB", made.journal_mb())
        with figures.timed("one by one: cancel", made, count):
            for number in range(count, 1, -1):
                client.cancel(number)
        figures.note("one by one: journal after cancelling, MB", made.journal_mb())


def together(count: int, policy: str, figures: Figures) -> None:
    with scheduler(policy) as made:
        made.kill()
        with figures.timed("start without jobs", made):
            made.up()
        client = made.client()
        with figures.timed("together: submit", made, count):
            assert len(client.submit_many(_spec(number) for number in range(count))) == count
        figures.note("together: journal, MB", made.journal_mb())
        _until_decided(client)
        command = [sys.executable, "-m", "rota", "jobs", "--home", str(made.home)]
        with figures.timed("together: rota jobs", made):
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert f"showing 50 of {count:,} jobs" in shown, shown[-200:]
        made.kill()
        with figures.timed("together: restart", made):
            made.up()
        assert sum(made.client().status().jobs.values()) == count, "every job is there again"
        _until_decided(made.client())
        with figures.timed("together: cancel", made, count):
            made.client().cancel_many(range(2, count + 1))
        figures.note("together: journal after cancelling, MB", made.journal_mb())


def _until_decided(client: Client) -> None:
    """One job runs, and the policy has been heard on all others."""
    while client.page(phase="running").total < 1:
        client.changes(client.changes(0, 0.0), 1.0)


def _spec(number: int) -> dict[str, Any]:
    return {"run": "sleep 100000", "name": f"job-{number}", "steps": 1000 + number * 7919 % 100_003, "checkpoint": {"grace": 1}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs that are submitted together; 0: none")
    parser.add_argument("--one-by-one", type=int, default=5000, help="jobs that are submitted one by one; 0: none")
    parser.add_argument("--policy", default="tiresias")
    asked = parser.parse_args()
    figures = Figures()
    if asked.jobs:
        together(asked.jobs, asked.policy, figures)
    if asked.one_by_one:
        one_by_one(asked.one_by_one, asked.policy, figures)
    print(json.dumps({"policy": asked.policy, **figures.found}))


if __name__ == "__main__":
    main()
