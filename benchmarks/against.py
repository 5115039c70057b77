"""Four simulations here and in another checkout, in turns: the ratio of their CPU seconds.

    git worktree add ../before e16bfae
    .venv/bin/python -m benchmarks.against ../before

The least of several rounds counts, since other work on the machine only ever adds time. It needs the reference data beside the
checkout. Both trees run with the same interpreter and the same packages.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
PHILLY = {
    "trace": str(SHARED / "data/philly/philly_82k_jobs.csv"),
    "preset": "ideal",
    "drop_oversized": True,
    "cluster": "512xV100",
}
RUNS = {
    "Philly, 15,000 jobs, srsf": {**PHILLY, "policy": "srsf", "first": 15_000},
    "Philly, 15,000 jobs, tiresias": {**PHILLY, "policy": "tiresias", "first": 15_000},
    "Gavel, 120 jobs, max-min-fairness": {
        "trace": str(SHARED / "expected/gavel/traces/single_s2_l3600_n120.trace"),
        "policy": "max-min-fairness",
        "cluster": "12xV100 + 12xP100 + 12xK80",
        "preset": "gavel",
        "profile": str(SHARED / "data/gavel/simulation_throughputs.json"),
        "format": "gavel",
    },
    "all of Philly, srsf": {**PHILLY, "policy": "srsf"},
}
MEASURE = """
import json, sys, time
from rota.api import simulate
options = json.loads(sys.argv[1])
trace = options.pop("trace")
simulate("synthetic:jobs=20,gpus=8,largest=2", policy="fifo", cluster="8xV100")
began = time.process_time()
simulate(trace, **options)
print(time.process_time() - began)
"""
"""A small run first, so that imports do not count."""


def cpu_seconds(tree: Path, options: dict[str, object]) -> float:
    """CPU seconds of one simulation by the code of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", MEASURE, json.dumps(options)]
    done = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("other", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=3, help="how often each tree runs each simulation")
    parser.add_argument("--only", type=int, default=len(RUNS), help="how many of the four simulations to run")
    given = parser.parse_args()
    print(f"{'simulation':36} {'there':>8} {'here':>8} {'ratio':>6}")
    for name, options in list(RUNS.items())[: given.only]:
        rounds = [(cpu_seconds(given.other.resolve(), options), cpu_seconds(ROOT, options)) for _ in range(given.rounds)]
        there, here = min(each[0] for each in rounds), min(each[1] for each in rounds)
        print(f"{name:36} {there:7.2f}s {here:7.2f}s {here / there:6.2f}", flush=True)


if __name__ == "__main__":
    main()
