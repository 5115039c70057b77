"""The control plane at scale: 1,000 agents, 4,000 GPUs and 2,000 jobs under max-min fairness in rounds.

    python -m benchmarks.cluster_scale [--rounds 200] [--agents 1000] [--jobs 2000] [--round-seconds 2.5] [--profile]

The driver, the daemon with its journal on disk, the core, the policy's worker and the placer are the real ones. Agents speak the
real protocol from a few processes (`benchmarks/scale_agents.py`); jobs are records in their memory.

A round lasts from the instant at which it is due until every command of its plan was carried out, acknowledged by its agents and
folded by the core: the policy is asked, jobs leave, others start in their places. Seconds are wall time. The last line is JSON.
`--profile` prints where the thread of the scheduler spends its time instead, which slows it down.
"""

import argparse
import cProfile
import json
import os
import pstats
import random
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.scale_agents import BEGIN_SECONDS, LEAVE_SECONDS, PipedHosts
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.compose.prepare_live import read_flags
from rota.core.selection import SelectionRules
from rota.core.state.state import State
from rota.live.daemon import Daemon
from rota.live.driver import Driver
from rota.live.driver_protocol import DriverCommand
from rota.live.home_setup import HomeSetup
from rota.model.commands import Launch, Suspend
from rota.model.events import External
from rota.server.serve import CheckedOptions, ServeOptions, home_setup
from rota.wire.spec import Spec
from rota.wire.submission import Submission

LIMIT_SECONDS = 2.0
SIZES = (1, 2, 4, 8)
WEIGHTS = (10, 10, 60, 20)
"""GPUs that jobs want, and how many of a hundred do. Eight take two nodes of four."""
STEPS = (200, 3000)
"""That jobs make if they finish, ten a second. For each that has finished another one is submitted."""
WARM_UP = 5
"""Rounds at the beginning that fill the empty cluster and are not counted."""


@dataclass
class Round:
    """One round, as the scheduler's thread saw it."""

    due_s: float
    left: int = 0
    started: int = 0
    seconds: float = 0.0
    """Until all of it was acknowledged and folded."""
    cpu_seconds: float = 0.0
    """Of the thread of the scheduler, from the last round on."""


class WatchedDriver(Driver):
    """Notes when rounds begin and end. The daemon's thread calls it in every turn, after the turn is booked."""

    state: State
    round_seconds: float
    rounds: list[Round]
    _plans = 0
    _open: Round | None = None
    _cpu_s = 0.0

    def carry_out(self, commands: Sequence[DriverCommand]) -> list[External]:
        if self._open is not None:
            self._open.left += sum(isinstance(command, Suspend) for command in commands)
            self._open.started += sum(isinstance(command, Launch) for command in commands)
        return super().carry_out(commands)

    def acknowledge(self) -> None:
        super().acknowledge()
        jobs, plans, now_s = self.state.jobs, self.state.cycle.plans, self._context.clock()
        if plans != self._plans:
            self._plans = plans
            if self._open is None:
                self._open = Round(now_s // self.round_seconds * self.round_seconds)
        if self._open is not None and not jobs.in_flight and not jobs.to_reconcile:
            self._open.seconds = now_s - self._open.due_s
            self._open.cpu_seconds, self._cpu_s = time.thread_time() - self._cpu_s, time.thread_time()
            self.rounds.append(self._open)
            self._open = None


def run(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Everything up, the rounds, everything down."""
    hosts = PipedHosts(asked.agents, asked.gpus, asked.processes)
    driver = WatchedDriver(folder, hosts, lease_grace_seconds=60.0, gone_after_seconds=390.0)
    driver.round_seconds, driver.rounds = asked.round_seconds, []
    setup = setup_of(folder, driver, {"policy": asked.policy, "decide": "rounds", "round_seconds": asked.round_seconds})
    # As in Gavel, shares are met round by round: by default Rota moves fewer jobs in rounds that are so short.
    setup = replace(setup, settings=replace(setup.settings, selection=SelectionRules(deficits_break_ties=True)))
    failed: list[BaseException] = []
    daemon = daemon_of(folder, driver, setup, failed)
    driver.state = daemon.scheduler.state
    profile = cProfile.Profile(time.thread_time) if asked.profile else None
    if profile is not None:
        daemon._thread._target = lambda: profile.runcall(daemon._run)  # type: ignore[attr-defined]
    daemon.start()
    try:
        draw = random.Random(asked.seed)
        submit(daemon, asked.jobs, draw, finish=asked.finish)
        shown, began, load = 0, None, os.getloadavg()[0]
        while len(driver.rounds) < WARM_UP + asked.rounds and not failed:
            time.sleep(0.2)
            submit(daemon, asked.jobs - len(driver.state.jobs.row), draw, finish=asked.finish)
            for each in driver.rounds[shown:]:
                print(f"{each.seconds:6.2f} s  {each.cpu_seconds:5.2f} CPU  {each.left} left  {each.started} started", flush=True)
            shown = len(driver.rounds)
            if began is None and shown >= WARM_UP:
                began = cpu_seconds(daemon, hosts)
        assert began is not None
        used = [round((now - then) / asked.rounds, 2) for now, then in zip(cpu_seconds(daemon, hosts), began, strict=True)]
    finally:
        daemon.stop()
    if failed:
        raise failed[0]
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
        pstats.Stats(profile).sort_stats("cumtime").print_stats(60)
    cpu = dict(zip(("scheduler", "policy", "agents"), used, strict=True))
    loads = [round(load, 1), round(os.getloadavg()[0], 1)]
    return figures(driver.rounds[WARM_UP:], folder) | {"cpu_s_a_round": cpu, "load_before_and_after": loads}


def setup_of(folder: Path, driver: Driver, given: dict[str, Any]) -> HomeSetup:
    """As that of `rota up` with these flags."""
    flags = read_flags(given, driver.discover_cluster(), [name for names in driver.devices() for name in names])
    options = ServeOptions(home=folder, given=given, ray="pipes")
    return home_setup(options, given["policy"], "packed", CheckedOptions(driver, True, flags, ()), flags.given)


def daemon_of(folder: Path, driver: Driver, setup: HomeSetup, failed: list[BaseException]) -> Daemon:
    """A daemon in this process. Its failure goes to `failed`."""
    return Daemon(
        folder,
        make_scheduler,
        JOURNAL_CODEC,
        driver,
        worker=lambda policy: [sys.executable, "-m", "rota.server.policy_worker", policy],
        setup=setup,
        on_failure=failed.append,
    )


def cpu_seconds(daemon: Daemon, hosts: PipedHosts) -> tuple[float, float, float]:
    """What the processes of the scheduler, the policy and the agents have used so far."""
    worker = daemon.status().policy_worker_pid
    return time.process_time(), _used(worker) if worker is not None else 0.0, sum(map(_used, hosts.pids))


def _used(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def submit(daemon: Daemon, jobs: int, draw: random.Random, *, finish: bool) -> None:
    """So many jobs, by several clients at a time. `finish`: they end some time; otherwise they outlast the benchmark."""
    if jobs <= 0:
        return
    run = ["python", "train.py", "--epochs", "90"]
    specs = [
        Spec(run=run, gpus=size, steps=draw.randint(*STEPS) if finish else None, progress=r"step (\d+)")
        for size in draw.choices(SIZES, WEIGHTS, k=jobs)
    ]
    with ThreadPoolExecutor(min(jobs, 16)) as clients:
        list(clients.map(lambda spec: daemon.submit(Submission(spec, "ana", "/", {"PATH": "/usr/bin:/bin"})), specs))


def figures(rounds: Sequence[Round], folder: Path) -> dict[str, Any]:
    seconds = sorted(each.seconds for each in rounds)
    count = len(rounds)

    def at(share: float) -> float:
        return round(seconds[min(int(share * count), count - 1)], 2)

    def median(some: Sequence[float]) -> float:
        return round(sorted(some)[len(some) // 2], 2)

    return {
        "rounds": count,
        "under_2_s": sum(each < LIMIT_SECONDS for each in seconds),
        "p50_s": at(0.5),
        "p95_s": at(0.95),
        "most_s": round(seconds[-1], 2),
        "first_50_p50_s": median([each.seconds for each in rounds[:50]]),
        "last_50_p50_s": median([each.seconds for each in rounds[-50:]]),
        "scheduler_cpu_p50_s": median([each.cpu_seconds for each in rounds]),
        "left_p50": median([each.left for each in rounds]),
        "started_p50": median([each.started for each in rounds]),
        "pretend_start_and_stop_s": BEGIN_SECONDS + LEAVE_SECONDS,
        "journal_mb": round(sum(path.stat().st_size for path in folder.glob("journal.sqlite*")) / (1 << 20), 1),
        "daemon_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The control plane at scale: how long a round takes.")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--gpus", type=int, default=4, help="of each node")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2, help="that the agents live in")
    parser.add_argument("--round-seconds", type=float, default=2.5)
    parser.add_argument("--policy", default="max-min-fairness")
    parser.add_argument("--finish", action="store_true", help="jobs finish, and others are submitted for them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", action="store_true", help="print where the scheduler's thread spends its time")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(asked, Path(folder))))


if __name__ == "__main__":
    main()
