"""Chaos with real processes: daemon, supervisors and jobs are killed with -9 at seeded moments. Nothing may be lost or run twice.

    python -m tests.live.chaos --faults 200 --seed 1      # make chaos

Ends with one line of JSON.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rota.core.validate import validate
from rota.live.journal import Journal
from rota.live.recovery import recover
from rota.live.replay import replay
from rota.server.serve import WORDS, make_scheduler
from tests.live.harness import Site, site, until

CROWD = 8
"""Unfinished jobs while faults go on."""
SAVED_EVERY = 5
"""Steps between two saves of a job that is not asked to stop."""


def run(folder: Path, faults: int, seed: int, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Kill things and see what is left."""
    draw = random.Random(seed)
    kills: list[tuple[str, float]] = []
    hit: dict[int, float] = {}
    with site(folder, policy="tiresias:thresholds=2/5", lease_seconds=60.0) as place:
        submitted: list[int] = []
        for number in range(faults):
            _keep_busy(place, submitted, draw)
            time.sleep(draw.uniform(0.2, 1.2))
            target = draw.choice(["daemon", "supervisor", "job"])
            at_s = _strike(place, target, draw, hit, folder / f"copy{number}")
            while at_s is None:  # nobody of that kind at this moment
                time.sleep(0.05)
                target = draw.choice(["daemon", "supervisor", "job"])
                at_s = _strike(place, target, draw, hit, folder / f"copy{number}")
            kills.append((target, at_s))
            say(f"{number + 1} of {faults}: {target}")
        until(lambda: all(row.ended for row in place.rows().values()), "all jobs end", 600.0)
        rows = place.rows()
        violations = place.violations()
        place.down()
        _check_record(place)
        lives = {job: _life(place.work / f"{job}.life") for job in submitted}
        return {
            "faults": len(kills),
            "by_target": {name: sum(target == name for target, _ in kills) for name in ("daemon", "supervisor", "job")},
            "jobs": len(submitted),
            "jobs_lost": sum(job not in rows or rows[job].phase != "finished" for job in submitted),
            "ran_twice": len(violations.splitlines()),
            "steps_lost_max": max(_lost(place, job) for job in submitted),
            **_resumes(lives, hit),
            "seed": seed,
        }


def _keep_busy(place: Site, submitted: list[int], draw: random.Random) -> None:
    unfinished = sum(not row.ended for row in place.rows().values())
    for _ in range(CROWD - unfinished):
        submitted.append(place.submit(draw.choice([1, 1, 2, 4]), draw.randint(15, 50), 0.05, retries=1000))


def _strike(place: Site, target: str, draw: random.Random, hit: dict[int, float], copy: Path) -> float | None:
    if target == "daemon":
        at_s = time.time()
        place.kill()
        _check_torn_copy(place, copy)
        time.sleep(draw.uniform(0.0, 0.5))
        place.up()
        return at_s
    pids = place.supervisors() if target == "supervisor" else place.jobs_running()
    if not pids:
        return None
    pid = draw.choice(pids)
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if target == "job" else []
        found = [word.split(b"=")[1] for word in words if word.startswith(b"ROTA_JOB_ID=")]
        at_s = time.time()
        os.kill(pid, signal.SIGKILL)
        if found:
            hit[int(found[0])] = at_s
        return at_s
    return None


def _check_torn_copy(place: Site, copy: Path) -> None:
    """The files as the kill left them, read by somebody else: every entry whole, and the core as it was."""
    copy.mkdir()
    for name in ("journal.sqlite", "journal.sqlite-wal"):
        if (place.home / name).exists():
            shutil.copy(place.home / name, copy / name)
    journal = Journal(copy / "journal.sqlite", WORDS)
    configuration = journal.configuration()
    if configuration is not None:
        validate(recover(journal, WORDS, make_scheduler, configuration).state)
    journal.close()
    shutil.rmtree(copy)


def _check_record(place: Site) -> None:
    journal = place.journal()
    differences = [difference for _, _, difference in replay(journal, WORDS, make_scheduler) if difference is not None]
    journal.close()
    assert not differences, differences[0]


def _life(path: Path) -> list[tuple[str, float, int]]:
    words = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(what, float(at_s), int(step)) for what, at_s, step in words]


def _lost(place: Site, job: int) -> int:
    """The most steps it had told of and had to do again."""
    worst, told = 0, 0
    for line in (place.home / "logs" / f"{job}.log").read_text(errors="replace").splitlines():
        if line.startswith("step "):
            step = int(line.split()[1].split("/")[0])
            worst = max(worst, told - step + 1)
            told = step
    return worst


def _resumes(lives: dict[int, list[tuple[str, float, int]]], hit: dict[int, float]) -> dict[str, float | None]:
    """From the kill of a job to the start of its next incarnation."""
    gaps = []
    for job, at_s in hit.items():
        later = [start_s for what, start_s, _ in lives[job] if what == "start" and start_s > at_s]
        if later:
            gaps.append(later[0] - at_s)
    gaps.sort()
    if not gaps:
        return {"resume_seconds_p50": None, "resume_seconds_p95": None}
    return {"resume_seconds_p50": statistics.median(gaps), "resume_seconds_p95": gaps[min(int(0.95 * len(gaps)), len(gaps) - 1)]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill daemon, supervisors and jobs at random; check that nothing is lost.")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rota-chaos-"))
    try:
        found = run(folder, asked.faults, asked.seed, lambda text: sys.stderr.write(f"{text}\n") and None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found))
    sound = not found["jobs_lost"] and not found["ran_twice"] and found["steps_lost_max"] <= SAVED_EVERY
    sys.exit(0 if sound else 1)


if __name__ == "__main__":
    main()
