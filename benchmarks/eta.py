"""How far the ETA of `rota jobs` is off: ten real jobs on pretend GPUs, each of 500 steps of 20 ms after a start of some seconds.

python -m benchmarks.eta [--jobs N] [--steps N] [--check]

A job is asked about several times a second. When it has ended, what it said at 5% and at 30% is compared with how long it then
took. With `--check` it fails if an ETA is off by more than a factor of 1.5 at 5%, or by more than 15% at 30%. It takes about a
minute, and stops what it started.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from rota.wire.client import Client, connect
from rota.wire.rows import JobRow

STEP_SECONDS = 0.02
LOOK_SECONDS = 0.1
MAX_SECONDS = 600.0
MARKS = {0.05: 1.5, 0.30: 1.15}
"""The part of a job that is done, and by which factor its ETA may be off then."""
SCRIPT = """
import sys, time
steps, start = int(sys.argv[1]), float(sys.argv[2])
time.sleep(start)
for step in range(1, steps + 1):
    time.sleep({step})
    print(f"step {{step}}/{{steps}}", flush=True)
"""

Looks = dict[int, list[tuple[float, JobRow]]]
"""Rows of each job, and when they were read."""


def run(jobs: int, steps: int, home: Path) -> Looks:
    """All rows that were seen until all jobs had ended."""
    script = home.parent / "job.py"
    script.write_text(SCRIPT.format(step=STEP_SECONDS))
    rota = [sys.executable, "-m", "rota"]
    up = [
        *rota,
        "up",
        "--detach",
        "--home",
        str(home),
        "--pretend",
        f"{jobs}xV100",
        "--policy",
        "fifo",
        "--listen",
        "127.0.0.1:0",
    ]
    subprocess.run([*up, "--listen", "127.0.0.1:0"], check=True, stdout=subprocess.DEVNULL)
    try:
        client, dice, looks = connect(home), random.Random(0), Looks()
        for number in range(jobs):
            command = [sys.executable, "-S", str(script), str(steps), f"{dice.uniform(2, 6):.2f}"]
            job = client.submit(command, name=f"w{number}", steps=steps, progress=r"step (\d+)/(\d+)")
            looks[job.id] = []
        _watch(client, looks)
        return looks
    finally:
        subprocess.run([*rota, "down", "--home", str(home)], check=True, stdout=subprocess.DEVNULL)


def _watch(client: Client, looks: Looks) -> None:
    until = time.monotonic() + MAX_SECONDS
    while True:
        rows = client.jobs(everything=True)
        now_s = time.time()
        for row in rows:
            looks[row.id].append((now_s, row))
        if all(row.ended for row in rows):
            return
        if time.monotonic() > until:
            raise SystemExit(f"Not all jobs have ended within {MAX_SECONDS:g} s.")
        time.sleep(LOOK_SECONDS)


def errors(looks: Looks) -> dict[float, dict[int, float]]:
    """At each mark, for each job: its ETA as a multiple of how long it still took."""
    found: dict[float, dict[int, float]] = {mark: {} for mark in MARKS}
    for job, seen in looks.items():
        last = seen[-1][1]
        if last.phase != "finished" or last.finished_at is None:
            raise SystemExit(f"Job {job} has not finished: {last.phase}, {last.last_change}.")
        end_s = datetime.fromisoformat(last.finished_at).timestamp()
        for mark in MARKS:
            at_s, row = next((at_s, row) for at_s, row in seen if (row.steps_done or 0) >= mark * (row.steps_total or 1))
            found[mark][job] = float("nan") if row.eta_seconds is None else row.eta_seconds / max(end_s - at_s, 1e-3)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--check", action="store_true", help="Fail if an ETA is off by more than it may be.")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = errors(run(asked.jobs, asked.steps, Path(folder) / "home"))
    if asked.json:
        print(json.dumps({f"{mark:.0%}": each for mark, each in found.items()}))
    good = True
    for mark, most in MARKS.items():
        off = {job: max(ratio, 1 / ratio) if ratio > 0 else float("inf") for job, ratio in found[mark].items()}
        bad = sorted(job for job, factor in off.items() if not factor <= most)
        good = good and not bad
        if not asked.json:
            told = " ".join(f"{ratio:.2f}" for ratio in found[mark].values())
            print(f"at {mark:.0%} done: ETA / what it took: {told}")
            median, worst = statistics.median(off.values()), max(off.values())
            print(
                f"   off by a factor of {median:.2f} in the median, {worst:.2f} at most; allowed: {most:g}; beyond it: {len(bad)}"
            )
    return 1 if asked.check and not good else 0


if __name__ == "__main__":
    sys.exit(main())
