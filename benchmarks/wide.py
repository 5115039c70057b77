"""PAL with `wide=true` against `wide=false` on PAL's own workloads, moves costing what they cost, for several starts of rounds.

python -m benchmarks.wide FOLDER      # with traces/workload-*.csv and profiles.json, as PAL publishes them
"""

import sys
from dataclasses import replace
from pathlib import Path

from rota.api import simulate
from rota.model.job import Arrival
from rota.traces.synthetic import open_trace
from rota.traces.trace import Trace

SHIFTS = (0, 60, 120, 180, 240, 300, 359)
"""Seconds by which all jobs come later: that is what moves the rounds, and nothing else."""
COSTS = {"launch_seconds": 5.0, "checkpoint_seconds": 6.0, "restore_seconds": 3.0}


def main(folder: Path) -> None:
    for policy in ("fifo", "srtf", "las"):
        for path in sorted((folder / "traces").glob("workload-*.csv")):
            trace = open_trace(path, format="pal")
            ours, theirs = (
                [_mean_jct(_later(trace, shift), policy, placer, folder) for shift in SHIFTS]
                for placer in ("pal", "pal:wide=false")
            )
            ratios = [one / other - 1 for one, other in zip(ours, theirs, strict=True)]
            mean = sum(ours) / sum(theirs) - 1
            print(f"{policy:5} {path.stem:12} {mean:+.1%}  ({min(ratios):+.1%} to {max(ratios):+.1%})", flush=True)


def _later(trace: Trace, seconds: float) -> Trace:
    return replace(trace, arrivals=tuple(Arrival(each.submitted_s + seconds, each.spec) for each in trace.arrivals))


def _mean_jct(trace: Trace, policy: str, placer: str, folder: Path) -> float:
    done = simulate(
        trace, policy=policy, placer=placer, cluster="16x(4xV100)", preset="blox", variability=folder, seed=42, **COSTS
    )
    return float(done.summary.mean_jct_seconds or 0.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
