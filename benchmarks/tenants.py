"""Fairness over time on real users: how unequal tenants fare, and whether it pays to ask for more than one needs.

    python -m benchmarks.tenants            credits, decaying usage and neither, beside no tenants at all
    python -m benchmarks.tenants --quick    the first 1,000 jobs after the quarter that sets the guarantees

It needs the reference data: 15,000 jobs of 136 users of Philly. The users are dealt to eight tenants. Their
use in the first quarter of the jobs sets the guarantees, and the rest is simulated. To ask for more than it needs, a tenant
submits each of its jobs twice; what counts is the mean JCT of the jobs that it needs.
"""

import argparse
import csv
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rota.api import simulate
from rota.model.job import Arrival, JobSpec
from rota.report.result import Result, plain_table
from rota.traces.trace import Trace

USERS = Path(__file__).resolve().parents[2] / "shared/data/users/philly_users.csv"
TENANTS = 8
LENT = 0.8
"""Part of the cluster that is guaranteed."""
LOAD = 1.5
"""GPUs that would be in use on average while jobs arrive, if there were enough, over those of the cluster."""
NODE = 8
JUNK = "junk"


class Row(NamedTuple):
    """A job of the file."""

    submitted_s: float
    user: str
    gpus: int
    seconds: float

    @property
    def gpu_seconds(self) -> float:
        return self.gpus * self.seconds


def read(path: Path) -> list[Row]:
    """Return the jobs of the file that ran, in the order of their submission."""
    at_s, rows = 0.0, []
    with path.open(encoding="utf-8") as file:
        for each in csv.DictReader(file):
            at_s += float(each["interval"])
            if int(each["gpu_num"]) > 0 and float(each["run_time"]) > 0:
                rows.append(Row(at_s, each["user"], int(each["gpu_num"]), float(each["run_time"])))
    return rows


def deal(rows: list[Row]) -> dict[str, str]:
    """Return user -> tenant: users by their use, one to each tenant in turn, so that tenants differ as groups of users do."""
    used: dict[str, float] = {}
    for row in rows:
        used[row.user] = used.get(row.user, 0.0) + row.gpu_seconds
    by_use = sorted(used, key=lambda user: (-used[user], user))
    return {user: f"t{number % TENANTS + 1}" for number, user in enumerate(by_use)}


def gpus_for(rows: list[Row], load: float) -> int:
    """Return the GPUs, in whole nodes, on which these jobs are the offered load."""
    end_s = rows[-1].submitted_s
    used = sum(row.gpus * min(row.seconds, end_s - row.submitted_s) for row in rows)
    need = used / (end_s - rows[0].submitted_s) / load
    return max(int(np.ceil(need / NODE)) * NODE, max(row.gpus for row in rows))


def guarantees(past: list[Row], tenant_of: dict[str, str], gpus: int) -> dict[str, int]:
    """Return the GPUs of each tenant by its use in the past, at least 1."""
    used = {f"t{number + 1}": 0.0 for number in range(TENANTS)}
    for row in past:
        used[tenant_of[row.user]] += row.gpu_seconds
    whole = sum(used.values())
    return {tenant: max(int(gpus * LENT * each / whole), 1) for tenant, each in used.items()}


def trace_of(rows: list[Row], tenant_of: dict[str, str], greedy: str = "") -> Trace:
    """Return the jobs; those of a greedy tenant twice."""
    arrivals = []
    for row in rows:
        tenant = tenant_of[row.user]
        spec = JobSpec(gpus=row.gpus, steps=row.seconds, user=row.user, tenant=tenant)
        arrivals.append(Arrival(row.submitted_s - rows[0].submitted_s, spec))
        if tenant == greedy:
            arrivals.append(Arrival(row.submitted_s - rows[0].submitted_s, JobSpec(**_plain(spec), name=JUNK)))
    return Trace.of("philly_users", "rota", arrivals)


def _plain(spec: JobSpec) -> dict[str, object]:
    return {"gpus": spec.gpus, "steps": spec.steps, "user": spec.user, "tenant": spec.tenant}


def mean_jct(result: Result, tenant: str) -> float:
    """Return the mean JCT of the jobs that a tenant needs, in seconds."""
    needed = [
        finished - arrival.submitted_s
        for arrival, finished in zip(result.arrivals, result.record.finished_s.tolist(), strict=True)
        if arrival.spec.tenant == tenant and arrival.spec.name != JUNK
    ]
    return float(np.mean(needed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first 1,000 jobs only")
    parser.add_argument("--users", type=Path, default=USERS, help="jobs with their users (default: beside the checkout)")
    parser.add_argument("--policy", default="srsf", help="policy within tenants (default: srsf)")
    parser.add_argument("--load", type=float, default=LOAD, help=f"offered load (default: {LOAD:g})")
    parser.add_argument("--greedy", type=int, default=3, help="number of tenants that ask for more, one at a time (default: 3)")
    chosen = parser.parse_args()
    if not chosen.users.exists():
        print(f"benchmarks.tenants: there is no {chosen.users}. Try: --users philly_users.csv", file=sys.stderr)
        return 1
    rows = read(chosen.users)
    tenant_of = deal(rows)
    quarter = len(rows) // 4
    past, jobs = rows[:quarter], rows[quarter : quarter + 1000] if chosen.quick else rows[quarter:]
    gpus = gpus_for(jobs, chosen.load)
    promised = guarantees(past, tenant_of, gpus)
    greedy = sorted(promised, key=lambda tenant: -promised[tenant])[:: max(TENANTS // max(chosen.greedy, 1), 1)][: chosen.greedy]
    cluster = f"{gpus // NODE}x({NODE}xV100)"
    print(
        f"{len(jobs):,} jobs, {len({row.user for row in jobs})} users, {cluster}, policy {chosen.policy}, guarantees {promised}"
    )
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for fairness in ("credits", "decay", "none"):
            file = Path(folder) / f"{fairness}.yaml"
            listed = "\n".join(f"  {tenant}: {{guarantee: {each}}}" for tenant, each in promised.items())
            file.write_text(f"tenants:\n{listed}\nfairness: {fairness}\n", encoding="utf-8")
            honest = simulate(trace_of(jobs, tenant_of), policy=chosen.policy, cluster=cluster, tenants=file)
            assert honest.tenants is not None
            gains = []
            for tenant in greedy:
                asked = simulate(trace_of(jobs, tenant_of, tenant), policy=chosen.policy, cluster=cluster, tenants=file)
                gains.append(mean_jct(honest, tenant) / mean_jct(asked, tenant) - 1.0)
            p99 = [each.start_seconds_p99 for each in honest.tenants.tenants if each.start_seconds_p99 is not None]
            table.append(
                (
                    fairness,
                    f"{honest.tenants.best_to_worst or 0.0:.2f}",
                    f"{min(each.welfare for each in honest.tenants.tenants if each.welfare):.2f}",
                    f"{(honest.summary.mean_jct_seconds or 0.0) / 3600:.2f} h",
                    f"{max(p99):.0f} s",
                    ", ".join(f"{gain:+.1%}" for gain in gains) or "-",
                )
            )
            print(table[-1], flush=True)
    free = simulate(trace_of(jobs, tenant_of), policy=chosen.policy, cluster=cluster)
    table.append(("no tenants", "-", "-", f"{(free.summary.mean_jct_seconds or 0.0) / 3600:.2f} h", "-", "-"))
    heads = ("fairness", "best / worst welfare", "worst welfare", "mean JCT", "slowest start p99", f"gain of {', '.join(greedy)}")
    print(plain_table(heads, table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
