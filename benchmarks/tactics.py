"""What moves gain: mean JCT with `--tactics defragment,migrate` beside the same policy without.

    python -m benchmarks.tactics            all traces, three costs of a launch each
    python -m benchmarks.tactics --quick    shorter traces, one cost, under three minutes
    python -m benchmarks.tactics philly     those whose name begins so

It needs the reference data beside the checkout. In most traces a few gangs run for days, and when one of them starts decides the
mean: it may change by several percent if a launch takes half a second longer. So each row is a mean over three costs, and one row
over forty, where a tenth of a second may change it by 12%.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from rota.api import simulate

SHARED = Path(__file__).resolve().parents[2] / "shared"
DATA = SHARED / "data"
POLICIES = ("srsf", "tiresias", "max-min-fairness")
TACTICS = "defragment,migrate"
LAUNCH_SECONDS = (4.5, 5.0, 5.5)


def runs(quick: bool) -> dict[str, list[dict[str, Any]]]:
    """A name, and what `simulate` is given: traces with gangs, then others."""
    nodes, first = (16, 500) if quick else (64, 2000)
    philly = {"trace": DATA / "philly/philly_82k_jobs.csv", "cluster": f"{nodes}x(8xV100)", "first": first}
    pal = [DATA / f"pal_variability/traces/workload-{number}.csv" for number in ((1,) if quick else (1, 2, 3))]
    pals: list[dict[str, Any]] = [{"trace": path, "format": "pal", "cluster": "16x(4xV100)"} for path in pal]
    gavel = {
        "trace": SHARED / "expected/gavel/traces/multi_s0_l7200_n150.trace",
        "format": "gavel",
        "cluster": "3x(4xV100) + 3x(4xP100) + 3x(4xK80)",
        "profile": DATA / "gavel/simulation_throughputs.json",
    }
    few = {"first": 500} if quick else {}
    cells = [SHARED / f"expected/traces/philly_{name}_1500.csv" for name in ("6c71a0", "b436b2")]
    return {
        f"philly, {nodes} nodes of 8, jobs wait for places": [{**philly, "wait_for_locality": True}],
        f"philly, {nodes} nodes of 8": [philly],
        "pal, 16 nodes of 4": pals,
        "pal, 16 nodes of 4, jobs wait for places": [{**each, "wait_for_locality": True} for each in pals],
        "first of pal, 8 nodes of 8, jobs wait": [
            {**pals[0], "cluster": "8x(8xV100)", "wait_for_locality": True, "launch_seconds": float(seconds)}
            for seconds in np.linspace(3.0, 8.0, 8 if quick else 40)
        ],
        "gavel, 9 nodes of 3 types": [gavel],
        "kalos, 40 nodes of 8": [{"trace": DATA / "acme_kalos_sample/converted_kalos_trace.csv", "cluster": "40x(8xA100)"}],
        "6c71a0, 8 nodes of 8": [{"trace": cells[0], "cluster": "8x(8xV100)", **few}],
        "b436b2, 16 nodes of 4, jobs wait": [{"trace": cells[1], "cluster": "16x(4xV100)", "wait_for_locality": True, **few}],
    }


def mean_jct(studies: list[dict[str, Any]], policy: str, tactics: str, launches: tuple[float, ...]) -> tuple[float, int]:
    """Geometric mean over the studies, and how often jobs migrated."""
    found, moves = [], 0
    for study in studies:
        for launch_seconds in (study["launch_seconds"],) if "launch_seconds" in study else launches:
            given = {"spread_penalty": 1.5, "drop_oversized": True, "launch_seconds": launch_seconds, **study}
            result = simulate(policy=policy, tactics=tactics, **given)
            assert result.summary.mean_jct_seconds is not None
            found.append(result.summary.mean_jct_seconds)
            moves += int(result.record.migrations.sum())
    return float(np.exp(np.log(found).mean())), moves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="", help="only traces whose name begins so")
    parser.add_argument("--quick", action="store_true", help="shorter traces, one cost of a launch")
    asked = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"tactics: the reference data is not at {SHARED.name}/ beside the checkout")
    launches = LAUNCH_SECONDS[1:2] if asked.quick else LAUNCH_SECONDS
    print(f"{'trace':46}{'policy':18}{'without':>12}{'with':>12}{'margin':>9}{'migrations':>14}")
    for name, studies in runs(asked.quick).items():
        if not name.startswith(asked.name):
            continue
        for policy in POLICIES:
            without, moved = mean_jct(studies, policy, "", launches)
            found, more = mean_jct(studies, policy, TACTICS, launches)
            margin = f"{100 * (found / without - 1):+.2f}%"
            print(f"{name:46}{policy:18}{without:12,.0f}{found:12,.0f}{margin:>9}{moved:>7}{more:>7}", flush=True)


if __name__ == "__main__":
    main()
