"""Benchmarks: what the core and the simulator cost on one core. Prints a table, and JSON with `--json`.

    make bench                          everything but the million-job trace
    make bench ARGS="philly"            one of: decision, fork, philly, sweep, idle, solve, gavel, placement, elastic,
                                        shares, train, evolution, million
    make bench ARGS="--json"

Times are CPU seconds of this process, the best of several where that is cheap; ratios compare two things in one run.
"""

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import elastic
import evolution
import gavel
import numpy as np
import placement
import shares
import train_overhead

import rota
from rota.beliefs.rates import Rates
from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import grant
from rota.core.plan.order import expand_options, order_candidates
from rota.core.scheduler import Scheduler
from rota.model.cluster import Cluster
from rota.model.commands import CallPolicy, Launch
from rota.model.events import Allocated, Started, Submitted
from rota.model.job import JobSpec
from rota.model.units import MILLI
from rota.placers.packed import Packed
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from rota.traces.synthetic import synthetic

PHILLY = Path(__file__).resolve().parents[1].parent / "shared/data/philly/philly_82k_jobs.csv"
CLUSTERS = {"one type": "1250x(8xV100)", "three types": "500x(8xV100) + 500x(8xP100) + 250x(8xK80)"}


def cpu_seconds(act: Callable[[], Any], repeat: int = 1) -> tuple[float, Any]:
    best, value = float("inf"), None
    for _ in range(repeat):
        gc.collect()
        began = time.process_time()
        value = act()
        best = min(best, time.process_time() - began)
    return best, value


def crowd(cluster: str, jobs: int = 10_000) -> Scheduler:
    """A core with that many jobs submitted and none running."""
    rng = np.random.default_rng(0)
    core = Scheduler(Cluster.parse(cluster), Packed(), rates=Rates())
    widths = rng.choice([1, 1, 1, 2, 4, 8], jobs).tolist()
    lengths = rng.lognormal(8, 1, jobs).tolist()
    core.fold(0.0, [Submitted(i, JobSpec(gpus=g, steps=s), 0.0) for i, (g, s) in enumerate(zip(widths, lengths, strict=True))])
    return core


def decide_once(core: Scheduler, policy: Any, now_s: float, *events: Any, book: bool = True) -> Any:
    """From an event to commands: ask, answer, plan, place, reconcile; and, if asked for, book them."""
    commands = core.step(now_s, list(events))
    (solve,) = [c for c in commands if isinstance(c, CallPolicy)]
    core.fold(now_s, [Allocated(solve.ticket, policy.allocate(solve.view), now_s)])
    decided = core.decide()
    return core.commit(decided) if book else decided


def decision() -> list[dict[str, Any]]:
    rows = []
    for types, cluster in CLUSTERS.items():
        for policy in (Tiresias(), Srsf()):
            empty = crowd(cluster)
            asked, commands = cpu_seconds(lambda e=empty, p=policy: decide_once(e.fork(), p, 0.0, book=False), 7)
            booked, commands = cpu_seconds(lambda e=empty, p=policy: decide_once(e.fork(), p, 0.0), 7)
            launched = [c for c in commands if isinstance(c, Launch)]
            full = empty.fork()
            decide_once(full, policy, 0.0)
            full.step(1.0, [Started(c.job, c.attempt, c.sequence, 1.0) for c in launched])
            newcomer = Submitted(20_000, JobSpec(gpus=1, steps=5.0), 2.0)
            next_one, _ = cpu_seconds(lambda f=full, p=policy, n=newcomer: decide_once(f.fork(), p, 2.0, n), 15)
            fork, _ = cpu_seconds(full.fork, 30)
            name = f"10,000 jobs, 10,000 GPUs, {types}, {type(policy).__name__.lower()}"
            rows.append({"what": f"{name}: fill the empty cluster ({len(launched):,} launches)", "ms": (asked - fork) * 1e3})
            rows.append({"what": f"{name}: the same, and book the launches", "ms": (booked - fork) * 1e3})
            rows.append({"what": f"{name}: one more job arrives on the full cluster", "ms": (next_one - fork) * 1e3})
    rows.append(_against_the_plain_walk())
    return rows


def _against_the_plain_walk() -> dict[str, Any]:
    core = crowd(CLUSTERS["three types"])
    core.step(0.0, [])
    view = core.view()
    table = CandidateTable(core.state, core.state.jobs.rows, core.settings)
    candidates = expand_options(order_candidates(Srsf().allocate(view), table), table)
    fast, _ = cpu_seconds(lambda: grant(candidates, table, view.capacity), 7)

    def walk() -> set[int]:
        options, left, granted = view.options, (view.capacity * MILLI).tolist(), set[int]()
        pools, needs = options.pool.tolist(), options.milligpus.tolist()
        for job, option in zip(candidates.position.tolist(), candidates.option.tolist(), strict=True):
            if job not in granted and needs[option] <= left[pools[option]]:
                left[pools[option]] -= needs[option]
                granted.add(job)
        return granted

    slow, _ = cpu_seconds(walk, 7)
    return {"what": "granting 10,000 jobs: array passes against a plain loop", "ms": fast * 1e3, "ratio": slow / fast}


def fork() -> list[dict[str, Any]]:
    core = crowd(CLUSTERS["one type"])
    commands = decide_once(core, Srsf(), 0.0)
    core.step(1.0, [Started(c.job, c.attempt, c.sequence, 1.0) for c in commands if isinstance(c, Launch)])
    seconds, _ = cpu_seconds(core.fork, 50)
    return [{"what": "fork() with 10,000 jobs, 10,000 GPUs in use", "ms": seconds * 1e3}]


def philly() -> list[dict[str, Any]]:
    trace: Any = PHILLY if PHILLY.is_file() else synthetic(82_247, 0, load=0.73, gpus=512)
    name = "82,247 Philly jobs" if PHILLY.is_file() else "82,247 synthetic jobs"
    rows = []
    for policy in ("tiresias", "srsf", "fifo"):
        cost, result = cpu_seconds(
            lambda p=policy: rota.simulate(trace, policy=p, cluster="512xV100", preset="ideal", drop_oversized=True)
        )
        s = result.summary
        rows.append(
            {
                "what": f"{name}, 512 GPUs, {policy}, reading and bounds included",
                "seconds": cost,
                "decisions": s.decisions,
                "decisions_per_second": s.decisions / cost,
                "mean_jct_seconds": s.mean_jct_seconds,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    return rows


def million() -> list[dict[str, Any]]:
    trace = synthetic(1_000_000, 0, load=0.7, gpus=512)
    cost, result = cpu_seconds(lambda: rota.simulate(trace, policy="srsf", cluster="512xV100", preset="ideal"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    decisions = result.summary.decisions
    return [{"what": "a million synthetic jobs, 512 GPUs, srsf", "seconds": cost, "decisions": decisions, "peak_mb": peak}]


def sweep_speedup() -> list[dict[str, Any]]:
    """A sweep with two workers against two sweeps of half the grid each, side by side: same work, same machine, wall time."""
    seeds, repeats = 24, 3
    with tempfile.TemporaryDirectory() as folder:

        def start(name: str, workers: int, first: int, count: int) -> "subprocess.Popen[bytes]":
            grid = ["srsf", "--trace", "synthetic:jobs=3000,gpus=64,largest=16", "--cluster", "64xV100"]
            which = ["--seed", str(first), "--vary", f"trace.seed={'/'.join(str(n) for n in range(first, first + count))}"]
            command = [sys.executable, "-m", "rota", "sweep", *grid, *which, "--workers", str(workers), "-o", "json"]
            return subprocess.Popen([*command, "--out", f"{folder}/{name}"], stdout=subprocess.DEVNULL)

        def seconds(*started: "subprocess.Popen[bytes]") -> float:
            began = time.perf_counter()
            if any(process.wait() for process in started):
                raise SystemExit("a sweep failed")
            return time.perf_counter() - began

        rows = []
        for n in range(repeats):
            alone = seconds(start(f"one{n}", 1, 0, seeds))
            together = seconds(start(f"two{n}", 2, 0, seeds))
            apart = seconds(start(f"a{n}", 1, 0, seeds // 2), start(f"b{n}", 1, seeds // 2, seeds // 2))
            rows.append((alone / together, alone / apart, apart / together))
    ours, theirs, ratio = (float(np.median(column)) for column in zip(*rows, strict=True))
    return [
        {
            "what": f"rota sweep, {seeds} cells, 2 workers, median of {repeats}",
            "speedup": ours,
            "speedup_of_two_processes": theirs,
            "ratio": ratio,
        }
    ]


def idle() -> list[dict[str, Any]]:
    """A daemon with 1,000 queued jobs and nothing to do: what it costs, and how fast it answers."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rota", "up", "--home", folder, "--pretend", "4xV100", "--listen", "127.0.0.1:0"]
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert daemon.stdout is not None and daemon.stdout.readline().startswith("ready ")
            client = rota.connect(folder)
            holder = client.submit(run=["sleep", "3600"], gpus=4, name="holder")
            began = time.perf_counter()
            for number in range(1000):
                client.submit(run="python train.py", gpus=1 + number % 4, name=f"queued-{number}", steps=1000)
            submitting = time.perf_counter() - began
            time.sleep(5)
            worker = client.status().policy_worker_pid or 0
            before, at = _cpu(daemon.pid), time.perf_counter()
            time.sleep(30)
            share = (_cpu(daemon.pid) - before) / (time.perf_counter() - at)
            asks = sorted(_seconds(client.jobs) for _ in range(20))
            listing = [sys.executable, "-m", "rota", "jobs", "--home", folder, "-o", "json"]
            whole = sorted(_seconds(lambda: subprocess.run(listing, stdout=subprocess.DEVNULL, check=True)) for _ in range(9))
            row = {
                "what": "a daemon with 1,000 queued jobs",
                "cpu_percent": 100 * share,
                "daemon_mb": _rss_mb(daemon.pid),
                "worker_mb": _rss_mb(worker),
                "submissions_per_second": 1000 / submitting,
                "list_ms": 1e3 * asks[len(asks) // 2],
                "rota_jobs_ms": 1e3 * whole[len(whole) // 2],
            }
            holder.cancel()
            holder.wait(timeout=60)
            return [row]
        finally:
            daemon.terminate()
            daemon.wait()


def _seconds(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _cpu(pid: int) -> float:
    """Processor seconds a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines() if pid else []
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


PARTS = {
    "decision": decision,
    "fork": fork,
    "philly": philly,
    "sweep": sweep_speedup,
    "idle": idle,
    "solve": gavel.solves,
    "gavel": gavel.simulations,
    "placement": placement.placement,
    "elastic": elastic.elastic,
    "shares": shares.shares,
    "evolution": evolution.evolution,
    "train": train_overhead.train,
    "million": million,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Rota's benchmarks: CPU time on one core.")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="which parts; default: all but million")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = []
    for part in asked.parts or [name for name in PARTS if name != "million"]:
        for row in PARTS[part]():
            rows.append(row)
            if not asked.json:
                figures = "  ".join(
                    f"{k} {v:,.2f}" if isinstance(v, float) else f"{k} {v:,}" for k, v in row.items() if k != "what"
                )
                print(f"{row['what']:<100} {figures}", flush=True)
    if asked.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
