"""Many takeovers: two schedulers that a service manager would keep running, and faults at seeded moments.

python -m tests.chaos.takeovers --faults 20 --seed 0

Each fault hits the leader (killed, or stopped for longer than it may be silent), its session at PostgreSQL, the standby, or
PostgreSQL itself. Jobs come all the time, and hold locks for themselves and their GPUs. The last line of the output is JSON: how
often each fault happened, and what must be zero.
"""

import argparse
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rota.errors import RotaError
from rota.live.election import HEARTBEAT_SECONDS, LEADER_TIMEOUT_SECONDS, Election, Leader
from rota.live.journal_place import PostgresLocation, find_journal
from tests.live.harness import check_record, until
from tests.live.test_standby import Led, Standby
from tests.postgres import PostgresServer, postgres_server

FAULTS = ("leader killed", "leader stopped", "session ended", "standby killed", "server crashed")
BUSY = 4
"""So many jobs are kept unfinished."""


class Pair:
    """Two schedulers, started again when they end."""

    def __init__(self, place: Led) -> None:
        self._place = place
        self._started = 0
        self.members: list[Standby] = []
        self.codes: Counter[int] = Counter()
        """With which exit codes they ended by themselves."""
        self._killed: set[int] = set()
        self.look()

    def look(self) -> None:
        for member in [each for each in self.members if each.process.poll() is not None]:
            self.members.remove(member)
            if member.process.pid not in self._killed:
                self.codes[int(member.process.returncode)] += 1
        while len(self.members) < 2:
            self._started += 1
            self.members.append(self._place.stand_by(self._started))

    def signal(self, pid: int, number: int) -> None:
        for member in self.members:
            if member.process.pid == pid:
                member.process.send_signal(number)
                if number == signal.SIGKILL:
                    self._killed.add(pid)
                    member.process.wait()

    def other(self, pid: int) -> int:
        return next(member.process.pid for member in self.members if member.process.pid != pid)


def leader(place: PostgresLocation, pair: Pair) -> Leader:
    """One that lives and serves."""
    end = time.monotonic() + 180.0
    while True:
        pair.look()
        with contextlib.suppress(RotaError), contextlib.closing(Election(place)) as election:
            found = election.leader()
            serving = {member.process.pid for member in pair.members if "ready " in member.said()}
            if found is not None and election.is_led() and found.pid in serving:
                return found
        assert time.monotonic() < end, "a scheduler leads"
        time.sleep(0.1)


def hit(fault: str, server: PostgresServer, place: PostgresLocation, pair: Pair, draw: random.Random) -> None:
    now = leader(place, pair)
    if fault == "leader killed":
        pair.signal(now.pid, signal.SIGKILL)
    elif fault == "standby killed":
        pair.signal(pair.other(now.pid), signal.SIGKILL)
    elif fault == "leader stopped":
        pair.signal(now.pid, signal.SIGSTOP)
        time.sleep(LEADER_TIMEOUT_SECONDS + HEARTBEAT_SECONDS + draw.uniform(0.0, 4.0))
        pair.signal(now.pid, signal.SIGCONT)
    elif fault == "session ended":
        server.query(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()"
        )
    else:
        server.crash()
        time.sleep(draw.uniform(0.0, 3.0))
        server.start()


def submitted(place: Led, wanted: int) -> list[int]:
    """Submit until so many are unfinished. What is not answered may have been taken, and counts as such once it is seen."""
    made = []
    with contextlib.suppress(RotaError, OSError):
        unfinished = sum(not row.ended for row in place.rows().values())
        for _ in range(wanted - unfinished):
            made.append(place.submit(1, 60, 0.1))
    return made


@contextlib.contextmanager
def _home(folder: Path, server: PostgresServer) -> Iterator[Led]:
    with contextlib.closing(Led(folder, server)) as place:
        place.home.mkdir(parents=True, exist_ok=True)
        yield place


def run(faults: int, seed: int) -> int:
    draw, happened, acknowledged = random.Random(seed), Counter[str](), list[int]()
    with tempfile.TemporaryDirectory() as folder, postgres_server() as server, _home(Path(folder), server) as home:
        pair = Pair(home)
        until(lambda: any("ready " in member.said() for member in pair.members), "one leads")
        place = find_journal(home.home)
        assert isinstance(place, PostgresLocation)
        for number in range(faults):
            leader(place, pair)
            acknowledged += submitted(home, BUSY)
            time.sleep(draw.uniform(0.5, 2.5))
            fault = FAULTS[number % len(FAULTS)] if number < len(FAULTS) else draw.choice(FAULTS)
            hit(fault, server, place, pair, draw)
            happened[fault] += 1
            print(f"{number + 1}/{faults} {fault}: epoch {leader(place, pair).epoch}", flush=True)
        end = time.monotonic() + 600.0
        while True:
            leader(place, pair)
            with contextlib.suppress(RotaError, OSError):
                rows = home.rows()
                if all(row.ended for row in rows.values()):
                    break
            assert time.monotonic() < end, "all jobs end"
            time.sleep(0.2)
        check_record(home, waits=0)
        told = {
            "faults": dict(happened),
            "jobs": len(rows),
            "epochs": leader(place, pair).epoch,
            "ended_by_themselves": {str(code): count for code, count in pair.codes.items()},
            "jobs_lost": len(set(acknowledged) - {row.id for row in rows.values() if row.phase == "finished"}),
            "not_finished": sum(row.phase != "finished" for row in rows.values()),
            "started_again": sum(home.lives(job) != 1 for job in rows),
            "ran_twice": len(home.violations().splitlines()),
        }
    print(json.dumps(told))
    zeros = [told[name] for name in ("jobs_lost", "not_finished", "started_again", "ran_twice")]
    return int(any(zeros) or bool(set(pair.codes) - {1}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    sys.exit(run(asked.faults, asked.seed))


if __name__ == "__main__":
    main()
