"""Many short jobs, one after the other: what a scheduler keeps in memory of jobs that have ended.

    python -m benchmarks.ended_jobs [--jobs 100000] [--every 10000] [--seconds 1500]

The daemon with its journal on disk, the driver and the core are the real ones. Agents speak the real protocol from a process
of their own, and their jobs are records in its memory (`benchmarks/scale_agents.py`). Each job of 200 users runs for about a
second; a few hundred run at a time. The memory is that of the process of the scheduler. The last line is JSON. It ends when all
jobs have ended, or after so many seconds.
"""

import argparse
import gc
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster_scale import daemon_of, setup_of
from benchmarks.queue_load import resident_mb
from benchmarks.scale_agents import PipedHosts
from rota.errors import BusyError
from rota.live.driver import Driver
from rota.wire.spec import Spec
from rota.wire.submission import Submission

GPUS, NODES = 16, 32
WAITING, TOGETHER = 400, 200
"""Jobs beyond the GPUs that are kept unfinished, and how many are submitted in one call at most."""
USERS = 200
VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def run(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    hosts = PipedHosts(NODES, GPUS, 1)
    driver = Driver(folder, hosts, lease_grace_seconds=60.0, gone_after_seconds=390.0)
    failed: list[BaseException] = []
    daemon = daemon_of(folder, driver, setup_of(folder, driver, {"policy": "fifo"}), failed)
    samples: list[dict[str, float]] = []
    daemon.start()
    try:
        began_s, state, sent = time.monotonic(), daemon.scheduler.state, 0
        while not failed and time.monotonic() < began_s + asked.seconds:
            unfinished = len(state.jobs.row)
            if sent - unfinished >= len(samples) * asked.every:
                gc.collect()
                samples.append(_sample(sent - unfinished, began_s, folder))
                print(json.dumps(samples[-1]), flush=True)
            if sent == asked.jobs and not unfinished:
                break
            count = min(GPUS * NODES + WAITING - unfinished, TOGETHER, asked.jobs - sent)
            if count > 0:
                daemon.submit_many([_submission(sent + number) for number in range(count)])
                sent += count
            else:
                time.sleep(0.02)
    except BusyError:
        if not failed:
            raise
    finally:
        daemon.stop()
    if failed:
        raise failed[0]
    first, last = samples[min(1, len(samples) - 1)], samples[-1]
    grown = (last["mb"] - first["mb"]) * 1024 / max(last["ended"] - first["ended"], 1)
    return {
        "ended": sent - len(state.jobs.row),
        "kb_a_job": round(grown, 3),
        "restart_cpu_seconds": _restart_cpu_seconds(folder),
        "samples": samples,
        "load": round(os.getloadavg()[0], 1),
    }


def _restart_cpu_seconds(folder: Path) -> float:
    """Return the CPU time in which a scheduler reads its journal and is ready for its first turn."""
    driver = Driver(folder, PipedHosts(1, GPUS, 1), lease_grace_seconds=60.0, gone_after_seconds=390.0)
    setup, began_s = setup_of(folder, driver, {"policy": "fifo"}), time.process_time()
    daemon = daemon_of(folder, driver, setup, [])
    seconds = time.process_time() - began_s
    daemon.stop()
    return round(seconds, 1)


def _sample(ended: int, began_s: float, folder: Path) -> dict[str, float]:
    journal = sum(path.stat().st_size for path in folder.glob("journal.sqlite*"))
    return {
        "ended": ended,
        "mb": round(resident_mb(os.getpid()), 1),
        "journal_mb": round(journal / (1 << 20), 1),
        "seconds": round(time.monotonic() - began_s, 1),
    }


def _submission(number: int) -> Submission:
    spec = Spec(run=["python", "train.py", "--seed", str(number)], name=f"short-{number}", steps=1, progress=r"step (\d+)")
    return Submission(spec, f"user-{number % USERS}", "/data", dict(VARIABLES), f"key-{number}")


def main() -> None:
    parser = argparse.ArgumentParser(description="What a scheduler keeps in memory of jobs that have ended.")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=10_000, help="ended jobs between two samples of the memory")
    parser.add_argument("--seconds", type=float, default=1500.0, help="it stops after this time at the latest")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-ended-") as folder:
        print(json.dumps(run(asked, Path(folder))))


if __name__ == "__main__":
    main()
