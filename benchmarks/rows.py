"""The reference runs, each as one line: did a change leave every result as it was, to the bit?

    python -m benchmarks.rows --save before.json          before a change
    python -m benchmarks.rows --compare before.json       after it

It needs the reference data beside the checkout. A digest covers when each job finished, on which GPUs, and how often it moved.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rota.api import simulate

SHARED = Path(__file__).resolve().parents[2] / "shared"
GAVEL = SHARED / "expected" / "gavel"
GAVEL_RUNS = {
    "single_s2_l3600_n120": "12xV100 + 12xP100 + 12xK80",
    "multi_s0_l7200_n150": "9x(4xV100) + 9x(4xP100) + 9x(4xK80)",
}
GAVEL_POLICIES = (
    "fifo",
    "sjf",
    "isolated",
    "allox",
    "max-min-fairness",
    "max-min-fairness:type_aware=false",
    "max-min-fairness:water_filling=true",
    "max-min-fairness:colocation=true",
    "finish-time-fairness",
    "makespan",
    "max-throughput",
    "min-cost:slo=true",
)
PAL_PLACERS = ("pal:wide=false", "pal", "pm-first", "packed:sticky=false", "packed", "random:sticky=false")


def runs(quick: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """A name and what `simulate` is given."""
    philly: dict[str, Any] = {"trace": SHARED / "data/philly/philly_82k_jobs.csv", "preset": "ideal", "drop_oversized": True}
    for policy in ("fifo", "srsf", "tiresias", "gittins", "las", "srtf"):
        for trace in sorted((SHARED / "expected/traces").glob("*.csv")):
            yield f"{trace.stem} {policy}", {"trace": trace, "policy": policy, "preset": "ideal", "cluster": "64xV100"}
            costs: dict[str, Any] = {"trace": trace, "policy": policy, "cluster": "8x(8xV100) + 8x(4xP100)"}
            yield f"{trace.stem} {policy} measured", costs
    first = 3000 if quick else 20000
    for policy in ("srsf", "tiresias"):
        yield f"philly first {first} {policy}", {**philly, "policy": policy, "cluster": "512xV100", "first": first}
    for name, cluster in GAVEL_RUNS.items():
        for policy in GAVEL_POLICIES:
            if quick and (policy not in GAVEL_POLICIES[:5] or name.startswith("multi")):
                continue
            yield (
                f"{name} {policy}",
                {
                    "trace": GAVEL / "traces" / f"{name}.trace",
                    "policy": policy,
                    "cluster": cluster,
                    "preset": "gavel",
                    "profile": SHARED / "data/gavel/simulation_throughputs.json",
                    "format": "gavel",
                },
            )
    for workload in (1,) if quick else (1, 2, 3):
        for policy in ("fifo", "las", "srtf"):
            for placer in PAL_PLACERS:
                yield (
                    f"workload-{workload} {policy}+{placer}",
                    {
                        "trace": SHARED / f"data/pal_variability/traces/workload-{workload}.csv",
                        "policy": policy,
                        "placer": placer,
                        "cluster": "16x(4xV100)",
                        "preset": "blox",
                        "variability": SHARED / "expected/pal/pm_scores_64gpu_seed42.csv",
                        "seed": 42,
                        "format": "pal",
                    },
                )
    for policy in ("fifo", "las", "tiresias", "gittins", "srsf", "max-min-fairness", "finish-time-fairness", "makespan"):
        for placer in ("packed", "spread", "pal"):
            yield f"demo {policy}+{placer}", {"trace": "demo", "policy": policy, "placer": placer}


def digest(record: Any) -> str:
    found = hashlib.sha256()
    for column in (record.finished_s, record.first_run_s, record.occupied_gpu_seconds, record.suspensions, record.migrations):
        found.update(np.ascontiguousarray(column).tobytes())
    found.update(record.gpu_intervals.gpus.tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", metavar="FILE", help="write the digests")
    parser.add_argument("--compare", metavar="FILE", help="compare with digests that were written")
    parser.add_argument("--quick", action="store_true", help="a part of the runs")
    asked = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"rows: the reference data is not at {SHARED.name}/ beside the checkout")
    before = json.loads(Path(asked.compare).read_text()) if asked.compare else {}
    found: dict[str, Any] = {}
    differ = 0
    for name, given in runs(asked.quick):
        began = time.process_time()
        result = simulate(**given)
        found[name] = {"digest": digest(result.record), "mean_jct_seconds": result.summary.mean_jct_seconds}
        line = f"{found[name]['digest']}  {result.summary.mean_jct_seconds:14.4f}  {time.process_time() - began:6.2f} s  {name}"
        if name in before and before[name]["digest"] != found[name]["digest"]:
            differ += 1
            line += f"   DIFFERS: mean JCT was {before[name]['mean_jct_seconds']:.4f}"
        print(line, flush=True)
    if asked.save:
        Path(asked.save).write_text(json.dumps(found, indent=1))
    if before:
        print(f"{differ} of {len(set(found) & set(before))} runs differ")
        sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
