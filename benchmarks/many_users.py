"""Many users at one scheduler: 10,000 queued jobs of 200 users, and 500 submissions a second through the Python client.

    python -m benchmarks.many_users [--queued 10000] [--users 200] [--rate 500] [--seconds 20] [--round-seconds 2]

The scheduler is a real one, on the loopback, with eight pretend GPUs on which jobs sleep in turns; all others wait. The queue is
filled first. Then jobs come at this rate, 50 to a call; then one to a call, from two processes with 16 threads each. Turns of
the scheduler, its decisions and its timers are measured inside it (`benchmarks/watched_up.py`). Seconds are wall time. A client
that falls behind stops after `--seconds` and reports what it has sent. `benchmarks/ended_jobs.py` measures memory over many jobs.
The last line is JSON. It ends what it started.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.queue_load import Figures, Scheduler, scheduler
from rota.errors import RotaError
from rota.wire.client import Client, connect

TOGETHER = 50
"""Jobs of one call that submits several."""
PROCESSES, THREADS = 2, 16
"""Clients that submit one job at a time."""
PAGES = 20


def fill(client: Client, jobs: int, users: int) -> None:
    for first in range(0, jobs, TOGETHER):
        user = f"user-{first // TOGETHER % users}"
        client.submit_many([_spec(first + number) for number in range(min(TOGETHER, jobs - first))], user=user)


def paced(home: Path, rate: float, seconds: float, users: int, *, together: int, threads: int) -> dict[str, Any]:
    """Send calls at this rate of jobs from several threads. A call that is late is sent at once; none begins after the end."""
    client, lock = connect(home), threading.Lock()
    took: list[float] = []
    failed: list[str] = []
    began_s = time.monotonic()
    calls = iter(range(round(rate * seconds / together)))

    def submit() -> None:
        while True:
            with lock:
                call = next(calls, None)
            if call is None:
                return
            time.sleep(max(began_s + call * together / rate - time.monotonic(), 0.0))
            asked_s = time.monotonic()
            if asked_s > began_s + seconds:
                return
            user = f"user-{call % users}"
            try:
                if together > 1:
                    client.submit_many([_spec(number) for number in range(together)], user=user)
                else:
                    client.submit_spec(_spec(call), user=user)
                took.append(time.monotonic() - asked_s)
            except RotaError as problem:
                failed.append(problem.message)

    with ThreadPoolExecutor(threads) as pool:
        for each in [pool.submit(submit) for _ in range(threads)]:
            each.result()
    return {"jobs": len(took) * together, "seconds": time.monotonic() - began_s, "took": took, "failed": failed}


def one_to_a_call(home: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """From several processes, since one is busy with its own work at this rate."""
    words = ["--client", str(home), "--rate", str(asked.rate / PROCESSES), "--seconds", str(asked.seconds)]
    command = [sys.executable, "-m", "benchmarks.many_users", *words, "--users", str(asked.users)]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    found = [json.loads(client.communicate()[0]) for client in clients]
    return {
        "jobs": sum(each["jobs"] for each in found),
        "seconds": max(each["seconds"] for each in found),
        "took": [seconds for each in found for seconds in each["took"]],
        "failed": [problem for each in found for problem in each["failed"]],
    }


def measure(asked: argparse.Namespace, figures: Figures, watch: Path) -> None:
    flags = ["--decide", "rounds", "--round-seconds", str(asked.round_seconds)]
    phases: dict[str, tuple[float, float]] = {}
    with scheduler(asked.policy, pretend="8xV100", flags=flags, watch=str(watch)) as made:
        client = made.client()
        figures.note("at rest: memory, MB", made.resident_mb())
        with figures.timed("fill the queue", made, asked.queued):
            fill(client, asked.queued, asked.users)
        figures.note("full queue: memory, MB", made.resident_mb())
        phases["full queue"] = _wait(asked.seconds)
        began_s = time.monotonic()
        _report("50 to a call", paced(made.home, asked.rate, asked.seconds, asked.users, together=TOGETHER, threads=8), figures)
        phases["50 to a call"] = began_s, time.monotonic()
        began_s = time.monotonic()
        _report("one to a call", one_to_a_call(made.home, asked), figures)
        phases["one to a call"] = began_s, time.monotonic()
        figures.note("in the end: unfinished jobs", sum(client.status().jobs.values()))
        figures.note("in the end: memory, MB", made.resident_mb())
        figures.note("in the end: journal, MB", made.journal_mb())
        _pages(made, client, figures)
        made.end_jobs()
        made.stop()
    _turns(watch, phases, figures)


def _wait(seconds: float) -> tuple[float, float]:
    began_s = time.monotonic()
    time.sleep(seconds)
    return began_s, time.monotonic()


def _report(name: str, found: dict[str, Any], figures: Figures) -> None:
    figures.note(f"{name}: jobs", found["jobs"])
    figures.note(f"{name}: jobs a second", found["jobs"] / found["seconds"])
    figures.note(f"{name}: calls that failed", len(found["failed"]), found["failed"][0] if found["failed"] else "")
    _spread(f"{name}: a call, ms", found["took"], figures)


def _pages(made: Scheduler, client: Client, figures: Figures) -> None:
    took = []
    for number in range(PAGES):
        began_s = time.monotonic()
        client.page(skip=50 * number)
        took.append(time.monotonic() - began_s)
    _spread("a page of 50 jobs, ms", took, figures)
    with figures.timed("rota jobs", made):
        subprocess.run([sys.executable, "-m", "rota", "jobs", "--home", str(made.home)], capture_output=True, check=True)


def _turns(watch: Path, phases: dict[str, tuple[float, float]], figures: Figures) -> None:
    turns = [json.loads(line) for line in watch.read_text().splitlines()]
    for name, (from_s, to_s) in phases.items():
        some = [turn for turn in turns if from_s <= turn["at_s"] <= to_s]
        _spread(f"{name}: a turn, ms", [turn["turn"] for turn in some], figures)
        _spread(f"{name}: a turn, CPU ms", [turn["turn_cpu"] for turn in some], figures)
        _spread(f"{name}: a decision, ms", [turn["decide"] for turn in some], figures)
        _spread(f"{name}: a timer is late, ms", [turn["late"] for turn in some if turn["late"] is not None], figures)
        _spread(f"{name}: a snapshot, ms", [turn["snapshot"] for turn in some if turn["snapshot"] is not None], figures)


def _spread(name: str, seconds: Sequence[float], figures: Figures) -> None:
    rising = sorted(seconds)
    if rising:
        figures.note(f"{name}, p50", 1e3 * rising[len(rising) // 2])
        figures.note(f"{name}, p99", 1e3 * rising[min(int(0.99 * len(rising)), len(rising) - 1)], f"of {len(rising)}")
        figures.note(f"{name}, most", 1e3 * rising[-1])


def _spec(number: int) -> dict[str, Any]:
    return {"run": "sleep 100000", "name": f"job-{number}", "steps": 1000 + number * 7919 % 100_003, "checkpoint": {"grace": 1}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--rate", type=float, default=500.0, help="submissions a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each kind of submission comes")
    parser.add_argument("--round-seconds", type=float, default=2.0)
    parser.add_argument("--policy", default="tiresias")
    parser.add_argument("--client", metavar="HOME", help="only submit to the scheduler of this home, one to a call")
    asked = parser.parse_args()
    if asked.client is not None:
        print(json.dumps(paced(Path(asked.client), asked.rate, asked.seconds, asked.users, together=1, threads=THREADS)))
        return
    figures, load = Figures(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="rota-users-") as folder:
        measure(asked, figures, Path(folder) / "turns")
    print(json.dumps({"policy": asked.policy, **figures.found, "load": [round(load, 1), round(os.getloadavg()[0], 1)]}))


if __name__ == "__main__":
    main()
