"""Clients that submit while their scheduler is killed and restarted: each job exists once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rota
from rota.errors import UnreachableError
from tests.live.harness import PATIENCE, site, until

pytestmark = pytest.mark.slow

CLIENTS, EACH = 4, 15


def test_a_scheduler_that_is_killed_takes_each_job_once(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1xV100", policy="fifo") as place:
        place.client().submit(["sleep", "600"], name="first")
        taken, done = [], threading.Event()

        def submit(name: str) -> int:
            while True:
                try:
                    job = rota.connect(place.home).submit("true", name=name, key=name)
                    taken.append(name)
                    return job.id
                except UnreachableError:  # nothing was sent
                    assert not done.wait(0.05)

        with ThreadPoolExecutor(CLIENTS) as pool:
            try:
                found = pool.map(submit, [f"job-{number}-x" for number in range(CLIENTS * EACH)], timeout=PATIENCE)
                for count in (5, 25):
                    until(lambda count=count: len(taken) > count, "some are taken")
                    place.kill()
                    place.up()
                numbers = list(found)
            finally:
                done.set()
        rows = place.rows()
        assert sorted(row.name for row in rows.values()) == sorted(["first", *(f"job-{n}-x" for n in range(CLIENTS * EACH))])
        assert sorted(numbers) == sorted(set(rows) - {1}) == list(range(2, CLIENTS * EACH + 2))
        for row in rows.values():
            place.client().cancel(row.id)
        until(lambda: all(row.ended for row in place.rows().values()), "all are cancelled")


def test_a_scheduler_that_is_killed_takes_an_array_whole_or_not_at_all(tmp_path: Path) -> None:
    with site(tmp_path, pretend="1xV100", policy="fifo") as place:
        place.client().submit(["sleep", "600"], name="first")
        for number in range(6):
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(rota.connect(place.home).submit, "true", name=f"a{number}", key=f"k{number}", array="1-2000")
                threading.Event().wait(0.03 * number)
                place.kill()
                place.up()
                job = asked.result(timeout=PATIENCE)  # sent again with its key
            found = place.client().jobs(tasks=True)
            assert [row.array_index for row in found if row.array_id == job.id] == list(range(1, 2001))
            assert sum(row.name.startswith(f"a{number}[") for row in found) == 2000
        for row in place.client().jobs():
            place.client().cancel(row.id)
        until(lambda: all(row.ended for row in place.rows().values()), "all are cancelled")
