"""`rota up` that measures its own turns, for `benchmarks/many_users.py`.

    python -m benchmarks.watched_up FILE UP-ARGUMENTS...

For each turn of the scheduler it notes when the turn began, how long it, its decision and its snapshot took, and by how much a
timer was late. It writes them as JSON lines to the file when the scheduler stops.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rota.cli.main import main
from rota.live.daemon import Daemon
from rota.live.queued_requests import Item
from rota.live.upkeep import JournalUpkeep
from rota.model.events import Decided


class Watch:
    """Replaces methods of the daemon by ones that take the time."""

    def __init__(self) -> None:
        self.turns: list[dict[str, Any]] = []
        self._decide_seconds = self._snapshot_seconds = 0.0
        self._turn, self._decide, self._save = Daemon._turn, Daemon._decide, JournalUpkeep._save

    def turn(self, daemon: Daemon, items: Sequence[Item]) -> None:
        began_s, late = time.monotonic(), daemon.clock() - daemon._wake_s
        cpu_s, self._decide_seconds, self._snapshot_seconds = time.thread_time(), 0.0, 0.0
        self._turn(daemon, items)
        self.turns.append(
            {
                "at_s": began_s,
                "turn": time.monotonic() - began_s,
                "turn_cpu": time.thread_time() - cpu_s,
                "decide": self._decide_seconds,
                "snapshot": self._snapshot_seconds or None,
                "late": max(late, 0.0) if late >= 0.0 else None,
            }
        )

    def decide(self, daemon: Daemon) -> Decided | None:
        began_s = time.monotonic()
        try:
            return self._decide(daemon)
        finally:
            self._decide_seconds = time.monotonic() - began_s

    def save(self, upkeep: JournalUpkeep) -> None:
        began_s = time.monotonic()
        self._save(upkeep)
        self._snapshot_seconds = time.monotonic() - began_s


def watched(file: Path) -> None:
    watch = Watch()
    Daemon._turn = lambda daemon, items: watch.turn(daemon, items)  # type: ignore[method-assign]
    Daemon._decide = lambda daemon: watch.decide(daemon)  # type: ignore[method-assign]
    JournalUpkeep._save = lambda upkeep: watch.save(upkeep)  # type: ignore[method-assign]
    try:
        main()
    finally:
        file.write_text("".join(json.dumps(turn) + "\n" for turn in watch.turns))


if __name__ == "__main__":
    found = Path(sys.argv[1])
    sys.argv = ["rota", "up", *sys.argv[2:]]
    watched(found)
