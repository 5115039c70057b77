"""Chaos with real processes: faults of thirteen kinds at seeded moments. Nothing may be lost, run twice or end otherwise.

    python -m tests.chaos.chaos --faults 240 --seed 1      # make chaos; with --users jobs of two Unix users (users.py)

Daemon, supervisors and jobs are killed with -9: at any moment, while a checkpoint is written, while a job resumes from one, while
it is being parked, parked, and woken. Checkpoints and the journal find no room, a folder is read-only, the wall clock jumps, the
disk of the logs hangs, a supervisor is stopped, a copy of the home is started. What is done to whom is drawn from the
seed; when it can be done is waited for. Ends with one line of JSON.
"""

import argparse
import contextlib
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.live.replay import replay
from tests.chaos.crowd import CLUSTER, Crowd
from tests.chaos.faults import Fault, Faults
from tests.chaos.users import UsersCrowd, UsersFaults, UsersSite
from tests.live.harness import Site, until

MUST_BE_ZERO = (
    "jobs_lost",
    "ran_twice",
    "beyond_array_limit",
    "started_too_early",
    "beyond_last_checkpoint",
    "steps_lost_without_a_fault",
    "other_result",
    "as_another_user",
    "told_at_another_time",
    "outlived_their_lease",
)

LEASE_MARGIN_SECONDS = 30.0
"""How long after lease and grace the scheduler gives the GPUs of a job away (`rota.server.serve.LEASE_SLACK_SECONDS`)."""
LATE_SECONDS = 300.0
"""After this, an event that is told at once happened at another time: clocks jump by more."""


def run(
    folder: Path,
    faults: int,
    seed: int,
    say: Callable[[str], None] = lambda text: None,
    *,
    only: str = "",
    users: bool = False,
    seconds: float = float("inf"),
) -> dict[str, Any]:
    """Break things and see what is left. `only`: a part of the names of the kinds that are wanted; `users`: whether the jobs are
    those of two Unix users; `seconds`: no fault comes after so long."""
    end_s = time.monotonic() + seconds
    with _set_up(folder, seed, users=users) as chaos:
        site, crowd = chaos.site, chaos.crowd
        happened: list[Fault] = []
        for number in range(1, faults + 1):
            began_s = time.monotonic()
            if began_s > end_s:
                break
            crowd.keep_busy()
            fault = chaos.strike(number, only)
            happened.append(fault)
            say(f"{number} of {faults}: {fault.kind} ({fault.target}, job {fault.job}), {time.monotonic() - began_s:.1f} s")
        crowd.wind_up()
        until(lambda: all(row.ended for row in site.rows().values()), "all jobs end", 600.0)
        lost, inexact = crowd.lost(), crowd.inexact()
        site.down()
        wrong_times = _check_record(site)
        steps = crowd.steps_lost(chaos.hits)
        killed = [fault for fault in happened if fault.target in ("supervisor", "job") and fault.job is not None]
        gaps = [at_s - fault.at_s for fault in killed if (at_s := crowd.started_after(fault.job or 0, fault.at_s)) is not None]
        return {
            "faults": len(happened),
            "kinds": {
                kind: dict(sorted(Counter(fault.target for fault in happened if fault.kind == kind).items()))
                for kind in sorted({fault.kind for fault in happened})
            },
            "jobs": len(crowd.jobs),
            "starts": steps.starts,
            "jobs_lost": len(lost),
            "ran_twice": len(site.violations().splitlines()),
            "beyond_array_limit": len(crowd.notes("over_limit")),
            "started_too_early": len(crowd.started_too_early()),
            "beyond_last_checkpoint": len(steps.beyond_checkpoint),
            "steps_lost_without_a_fault": len(steps.unexplained),
            "other_result": len(inexact),
            "as_another_user": len(crowd.as_another_user()),
            "told_at_another_time": wrong_times,
            "outlived_their_lease": sum(each >= LEASE_MARGIN_SECONDS for each in chaos.standstill.beyond_seconds),
            "beyond_lease_seconds_most": round(max(chaos.standstill.beyond_seconds, default=0.0), 2),
            "log_disk_was_frozen": chaos.standstill.own_disk,
            "steps_lost_most": steps.most,
            **_quantiles("job_runs_again_seconds", gaps),
            **_quantiles("daemon_is_back_seconds", chaos.up_seconds),
            "seed": seed,
        }


@contextlib.contextmanager
def _set_up(folder: Path, seed: int, *, users: bool) -> Iterator[Faults]:
    """Seven jobs, or those of two users, take turns of a second on four GPUs."""
    chaos: Faults
    if users:
        shared = UsersSite(folder)
        chaos = UsersFaults(shared, UsersCrowd(shared, seed), seed)
    else:
        site = Site(folder, pretend=CLUSTER, policy="las")
        chaos = Faults(site, Crowd(site, seed), seed)
    site = chaos.site
    chaos.set_up()
    try:
        site.up(decide="rounds", round_seconds="1")
        yield chaos
    finally:
        site.close()
        chaos.tear_down()


def _check_record(site: Site) -> int:
    """The journal replays to the same decisions. How many events did not happen when they were told to, give or take a while."""
    journal, wrong = site.journal(), 0
    for entry, _, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
        assert difference is None, difference
        wrong += sum(abs(entry.now_s - getattr(event, "at_s", entry.now_s)) > LATE_SECONDS for event in entry.events)
    journal.close()
    return wrong


def _quantiles(name: str, seconds: list[float]) -> dict[str, float | None]:
    if len(seconds) < 2:
        return {f"{name}_p50": None, f"{name}_p95": None}
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {f"{name}_p50": round(cuts[9], 2), f"{name}_p95": round(cuts[18], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Break daemon, supervisors, jobs, disks and clocks; check that nothing is lost.")
    parser.add_argument("--faults", type=int, default=260)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--users", action="store_true", help="jobs of two Unix users; needs root")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no fault comes after so long")
    parser.add_argument("--only", default="", help="a part of the name of a kind of fault, such as parked or room")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rota-chaos-"))
    sys.stderr.write(f"in {folder}, which stays if something does not hold\n")
    if asked.users:
        folder.chmod(0o755)  # both users go through it
    how = {"only": asked.only, "users": asked.users, "seconds": asked.seconds}
    found = run(folder, asked.faults, asked.seed, lambda text: sys.stderr.write(f"{text}\n") and None, **how)
    print(json.dumps(found))
    if any(found[name] for name in MUST_BE_ZERO):
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
