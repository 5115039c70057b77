"""Requests of operators about machines, in a daemon."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rota.errors import ConflictError
from tests.live.scheduler.test_daemon import running
from tests.waiting import until


def test_of_two_reservations_that_come_together_the_second_is_checked_against_the_first(tmp_path: Path) -> None:
    with running(tmp_path, "2x(2xV100)") as daemon, ThreadPoolExecutor(4) as pool:
        with daemon._lock:  # the loop stands in a turn, so that what comes meanwhile is for one turn
            first = pool.submit(daemon.machines.drain, ["n2"], users=["eva"])
            until(lambda: daemon.machines._last == 1, "the loop has taken the first")
            others = [pool.submit(daemon.machines.drain, ["n1"], users=[user]) for user in ("ana", "leo")]
            until(lambda: daemon._items.qsize() == 2, "both wait for the next turn")
        (error,) = [error for each in others if (error := each.exception()) is not None]
        assert first.result().places == ["n2"] and len(daemon.machines.list()) == 2
        assert isinstance(error, ConflictError) and "reservation 2 has n1 at this time" in str(error)
