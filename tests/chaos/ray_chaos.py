"""Chaos on a real Ray cluster: faults of many kinds at seeded moments. Nothing may get lost, run twice or end differently.

    python -m tests.chaos.ray_chaos --faults 20 --only raylet-killed --seed 1      # make ray-chaos

A head, three nodes with two pretend GPUs each, a gang on two of them and a job beside it. Each node has a network namespace, if
that is allowed here; else all are on loopback, and no network is cut. The journal is in PostgreSQL, if that is installed. After
each fault all has to be well again before the next. Ends with one line of JSON.
"""

import argparse
import contextlib
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.live.replay import replay
from tests.chaos.ray_crowd import ACCELERATOR, GPUS, NODES, Crowd, RaySite
from tests.chaos.ray_faults import Fault, Faults
from tests.live.harness import until
from tests.live.hurried import GRACE_SECONDS, SILENT_SECONDS, SLACK_SECONDS
from tests.live.network import Network, problem
from tests.live.ray_cluster import RayCluster
from tests.postgres import postgres_server

LEASE_SECONDS = 20.0

MUST_BE_ZERO = ("jobs_lost", "ran_twice", "behind_checkpoint", "other_result", "more_than_a_step_after_waking")


def run(
    folder: Path,
    faults: int,
    seed: int,
    say: Callable[[str], None] = lambda text: None,
    *,
    only: str = "",
    lease_seconds: float = LEASE_SECONDS,
    seconds: float = float("inf"),
) -> dict[str, Any]:
    """Break things and see what is left. `only`: parts of the names of the kinds that are wanted, with commas; `seconds`: no
    fault comes after so long."""
    end_s = time.monotonic() + seconds
    with _set_up(folder, seed, lease_seconds, say) as chaos:
        site, crowd = chaos.site, chaos.crowd
        site.up()
        chaos.until_well()
        say(f"all is well at first: {', '.join(chaos.kinds)}")
        happened: list[Fault] = []
        for number in range(1, faults + 1):
            if time.monotonic() > end_s:
                break
            fault = chaos.strike(number, only)
            happened.append(fault)
            still = [f"{job}: {seconds:.1f} s" for job in fault.hit if (seconds := _still(crowd, fault, job)) is not None]
            took = fault.well_s - fault.at_s
            say(f"{number} of {faults}: {fault.kind} ({fault.target}), stood still {', '.join(still)}; well after {took:.1f} s")
        crowd.hurry()
        until(lambda: all(row.ended for row in site.rows().values()), "all jobs end", 300.0)
        lost, inexact, late = crowd.lost(), crowd.inexact(), crowd.late_steps()
        site.down()
        _check_record(site)
        return {
            "faults": len(happened),
            "kinds": {kind: _kind(crowd, [fault for fault in happened if fault.kind == kind]) for kind in _names(happened)},
            "jobs": len(crowd.jobs),
            "starts": sum(len(crowd.starts(job)) for job in crowd.jobs),
            "jobs_lost": len(lost),
            "ran_twice": len(site.violations().splitlines()),
            "behind_checkpoint": len(crowd.behind_checkpoint()),
            "other_result": len(inexact),
            "steps_after_waking": sum(late.values()),
            "more_than_a_step_after_waking": sum(steps > 1 for steps in late.values()),
            "lease_seconds": lease_seconds,
            "grace_slack_silent_seconds": [GRACE_SECONDS, SLACK_SECONDS, SILENT_SECONDS],
            "namespaces": site.cluster.network is not None,
            "postgres": site.server is not None,
            "seed": seed,
        }


@contextlib.contextmanager
def _set_up(folder: Path, seed: int, lease_seconds: float, say: Callable[[str], None]) -> Iterator[Faults]:
    with contextlib.ExitStack() as stack:
        why = problem()
        if why:
            say(f"{why}: all nodes are on loopback, and no network is cut")
        network = None if why else stack.enter_context(Network())
        cluster = stack.enter_context(contextlib.closing(RayCluster(folder, network)))
        server = None
        try:
            server = stack.enter_context(postgres_server())
        except pytest.skip.Exception as missing:
            say(f"{missing}: the journal is a file, and PostgreSQL is not restarted")
        site = stack.enter_context(contextlib.closing(RaySite(folder, cluster, lease_seconds, server)))
        for name in NODES:
            cluster.start(name, GPUS, ACCELERATOR)
        for name in NODES:
            cluster.wait_for(name)
        yield Faults(site, Crowd(site, seed), seed, lease_seconds)


def _check_record(site: RaySite) -> None:
    """The journal replays to the same decisions."""
    journal = site.journal()
    for _, _, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
        assert difference is None, difference
    journal.close()


def _names(happened: Sequence[Fault]) -> list[str]:
    return sorted({fault.kind for fault in happened})


def _still(crowd: Crowd, fault: Fault, job: int) -> float | None:
    return crowd.stood_still(job, fault.at_s, fault.well_s)


def _kind(crowd: Crowd, happened: Sequence[Fault]) -> dict[str, Any]:
    """What faults of one kind did to the jobs they hit."""
    pairs = [(fault, job) for fault in happened for job in fault.hit]
    still = [seconds for fault, job in pairs if (seconds := _still(crowd, fault, job)) is not None]
    starts = [start for fault, job in pairs for start in crowd.starts(job) if fault.at_s < start.at_s <= fault.well_s]
    well = [fault.well_s - fault.at_s for fault in happened]
    return {
        "faults": len(happened),
        "jobs_hit": len(pairs),
        "started_anew": len(starts),
        "steps_lost_most": max((start.done_before - start.step for start in starts), default=0),
        **_quantiles("stood_still_seconds", still),
        **_quantiles("all_well_seconds", well),
    }


def _quantiles(name: str, seconds: list[float]) -> dict[str, float | None]:
    if len(seconds) < 2:
        return {f"{name}_p50": seconds[0] if seconds else None, f"{name}_p95": None}
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {f"{name}_p50": round(cuts[9], 2), f"{name}_p95": round(cuts[18], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Break a Ray cluster, its scheduler and its jobs; check that nothing is lost.")
    parser.add_argument("--faults", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts of names of kinds of faults, such as killed,partition")
    parser.add_argument("--lease-seconds", type=float, default=LEASE_SECONDS)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no fault comes after so long")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended too
    folder = Path(tempfile.mkdtemp(prefix="rota-ray-chaos-"))
    began_s = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began_s:7.1f} s  {text}\n")

    say(f"in {folder}, which stays if something does not hold")
    how = {"only": asked.only, "lease_seconds": asked.lease_seconds, "seconds": asked.seconds}
    found = run(folder, asked.faults, asked.seed, say, **how)
    print(json.dumps(found))
    if any(found[name] for name in MUST_BE_ZERO):
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
