"""How many moves shares cost: suspensions of max-min fairness beside those of `las`, on the same jobs.

make bench ARGS=shares
"""

from typing import Any

from rota.api import simulate

CLUSTER = "9x(4xV100) + 9x(4xP100) + 9x(4xK80)"
TRACES = ("gavel:jobs=400,load=0.8,multi=true,seed=0", "gavel:jobs=400,load=0.9,multi=true,seed=0")
POLICIES = ("max-min-fairness", "max-min-fairness:face=vertex")


def shares() -> list[dict[str, Any]]:
    """400 of Gavel's jobs on 108 GPUs, with measured costs: a row for each trace and policy."""
    rows = []
    for trace in TRACES:
        las = simulate(trace, policy="las", cluster=CLUSTER).summary
        for policy in POLICIES:
            found = simulate(trace, policy=policy, cluster=CLUSTER).summary
            rows.append(
                {
                    "what": f"{policy} on {trace}",
                    "suspensions": found.suspensions,
                    "times_las": found.suspensions / max(las.suspensions, 1),
                    "mean_jct_h": (found.mean_jct_seconds or 0.0) / 3600,
                    "rho_p95": found.finish_time_fairness_p95 or 0.0,
                }
            )
    return rows
