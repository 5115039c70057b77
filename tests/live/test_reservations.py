"""An operator reserves a node for a tenant under real jobs: the others leave in time and without losing work."""

import sys
import time
from pathlib import Path

from tests.live.harness import Site, check_record, site
from tests.waiting import until


def runs_on(place: Site, job: int) -> str | None:
    row = place.client().job(job)
    return row.placement.split(":")[0] if row.phase == "running" and row.placement else None


def why(place: Site, job: int) -> str:
    return " ".join(reason.sentence for reason in place.client().why(job).reasons)


def test_a_node_is_the_tenants_from_the_beginning_to_the_end_and_kill_9_changes_nothing(tmp_path: Path) -> None:
    with site(tmp_path, pretend="2x(2xV100)", policy="fifo:backfill=true") as place:
        client = place.client()
        run = [sys.executable, "-S", str(place.work / "job.py"), str(place.work), "10000", "0.05", "75"]
        spec = {"steps": 10_000, "progress": r"step (\d+)/(\d+)"}
        stranger = int(client.submit(run=run, gpus=2, checkpoint={"grace": 20, "saves": True}, **spec).id)
        until(lambda: runs_on(place, stranger) and (client.job(stranger).steps_done or 0) > 3, "the job has made some steps")
        first = runs_on(place, stranger) or ""
        row = client.reserve([first], time.time() + 6.0, seconds=3600.0, tenants=["vision"], reason="deadline")
        assert (row.tenants, row.users, row.leaving, row.staying, row.begun) == (["vision"], [], [stranger], [], False)
        second = client.reserve([each.name for each in client.nodes() if each.name != first], time.time() + 900.0, seconds=60.0)
        short = int(client.submit(run=["sleep", "1"], gpus=2, checkpoint={"saves": False}, max_run_time="5m").id)
        until(lambda: client.job(short).phase == "finished", "a job that ends before the maintenance runs")
        long = int(client.submit(run=["sleep", "300"], gpus=2, checkpoint={"saves": False}).id)
        until(lambda: "has no max_run_time" in why(place, long), "a job that might not end before waits, with the reason")
        client.unreserve(second.id)
        until(lambda: runs_on(place, long) not in (None, first), "it runs when there is no maintenance any more")
        mine = int(client.submit(run=["sleep", "300"], gpus=2, tenant="vision", checkpoint={"saves": False}).id)
        until(lambda: runs_on(place, mine) == first, "the tenant's job runs when its reservation begins")
        assert f"{first} is reserved for tenant vision by {row.by} (deadline)" in place.said()
        until(lambda: f"reservation {row.id}" in why(place, stranger), "the stranger waits for the end of the reservation")
        place.kill()
        place.up()
        until(lambda: runs_on(place, mine) == first, "the tenant's job is still there")
        client = place.client()
        client.cancel_many([mine])
        until(lambda: client.job(mine).phase == "cancelled", "it has ended")
        assert client.job(stranger).phase != "running" and f"reservation {row.id}" in why(place, stranger)
        assert client.unreserve(row.id) == []
        until(lambda: runs_on(place, stranger) == first, "the GPUs are for all again")
        assert any("are reserved for others" in each.text for each in client.events(stranger))
        job = client.job(stranger)
        assert job.suspensions == 1 and job.lost_steps == 0
        client.cancel_many([stranger, long])
        until(lambda: not client.jobs(), "all have ended")
        check_record(place, waits=0)
