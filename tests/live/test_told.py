"""Profiles of a home: kept across restarts, replaced by others, replayed without their files. With real processes."""

import sys
from pathlib import Path

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.core.validate import validate
from rota.live.replay import replay
from tests.live.harness import Site, check_record, until

HEADER = "profile,accelerator,gpus,steps_per_second\n"
V100_FASTER = HEADER + "net,V100,1,40\nnet,K80,1,2\n"
K80_FASTER = HEADER + "net,V100,1,2\nnet,K80,1,40\n"


def submit(place: Site, name: str, steps: int = 100_000) -> int:
    run = [sys.executable, "-S", str(place.work / "job.py"), str(place.work), str(steps), "0.05", "75"]
    client = place.client()
    job = client.submit(
        run=run, gpus=1, steps=steps, name=name, profile="net", progress=r"step (\d+)/(\d+)", checkpoint={"grace": 20}
    )
    return int(job.id)


def says(place: Site, line: str) -> None:
    until(lambda: line in place.said().splitlines(), line)


def keeps(place: Site, flag: str) -> None:
    """The start says that it goes by this flag of an earlier start, among others."""

    def kept() -> list[str]:
        lines = [line for line in place.said().splitlines() if line.startswith("as before: ")]
        return [each for line in lines for each in line.removeprefix("as before: ").split(", ")]

    until(lambda: flag in kept(), f"as before: {flag}")


def runs_on(place: Site, job: int, accelerator: str) -> bool:
    row = place.rows()[job]
    return row.phase == "running" and row.accelerator == accelerator


def believed(place: Site, job: int) -> list[str]:
    """The pools of a job's options as the journal has them, the fastest first."""
    journal = place.journal()
    scheduler = [each for _, each, _ in replay(journal, JOURNAL_CODEC, make_scheduler)][-1]
    journal.close()
    state = scheduler.state
    kind = state.jobs.table.kind.item(state.jobs.row[job])
    options = state.beliefs.options
    mine = [row for row in options.rows() if row.kind == kind]
    return [state.nodes.cluster.pools[row.pool] for row in sorted(mine, key=lambda row: -row.rate)]


def test_a_profile_decides_where_jobs_run_is_kept_and_can_be_replaced(tmp_path: Path) -> None:
    profile, other = tmp_path / "rates.csv", tmp_path / "other.csv"
    profile.write_text(K80_FASTER)
    other.write_text(V100_FASTER)
    place = Site(tmp_path, pretend="1xV100 + 1xK80", policy="las")
    try:
        place.up(profile=str(profile))
        says(place, f"new: --profile {profile}")
        first = submit(place, "first")
        until(lambda: runs_on(place, first, "K80"), "it runs where the profile says it is fast")
        place.down()

        del place.flags["--profile"]
        profile.unlink()
        place.up()
        keeps(place, f"--profile {profile}")
        until(lambda: runs_on(place, first, "K80"), "it stays there, and the file is not needed")
        place.client().cancel(str(first))
        until(lambda: place.rows()[first].phase == "cancelled", "its GPU is free")
        second = submit(place, "second")
        until(lambda: runs_on(place, second, "K80"), "new jobs go there too")
        place.kill()

        place.up(profile=str(other))
        says(place, f"changed: --profile {other}, before {profile}")
        until(lambda: runs_on(place, second, "V100"), "it moves to where the other profile says it is fast")
        place.kill()
        assert believed(place, second) == ["V100", "K80"]

        del place.flags["--profile"]
        other.unlink()
        place.up(round_seconds="1")
        keeps(place, f"--profile {other}")
        says(place, "new: --round-seconds 1")
        place.down()

        del place.flags["--round-seconds"]
        place.up(unset="profile")
        keeps(place, "--round-seconds 1")
        says(place, f"no longer: --profile {other}")
        until(lambda: runs_on(place, second, "V100"), "to the built-in figures a V100 is the faster type")
        place.down()
        assert place.violations() == ""
        journal = place.journal()
        for _, scheduler, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
            assert difference is None, difference
            validate(scheduler.state)
        journal.close()
    finally:
        place.close()


def test_a_home_that_was_told_something_else_before_anything_happened_replays(tmp_path: Path) -> None:
    place = Site(tmp_path, pretend="1xV100", policy="fifo")
    try:
        place.up()
        place.down()
        place.up(decide="both", round_seconds="3")
        job = place.submit(1, 5, 0.1)
        until(lambda: place.rows()[job].phase == "finished", "it ends")
        place.down()
        place.up(decide="events")
        later = place.submit(1, 5, 0.1)
        until(lambda: place.rows()[later].phase == "finished", "it ends")
        place.down()
        check_record(place, waits=0)
    finally:
        place.close()
