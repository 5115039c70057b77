"""A day of a team on a shared scheduler: two tenants, five users with tokens, and the commands that they type."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.live.harness import Site, check_record, until
from tests.live.team import Team

TENANTS = """
tenants:
  vision: {guarantee: 2, cap: 3}
  speech: {guarantee: 2}
unknown: refuse
fairness: credits
"""
OUTCOMES = ("finished", "failed", "cancelled")
ENDLESS = 5_000
"""Steps of a job that runs until the team hurries or a user ends it."""


def test_a_day_of_a_team(tmp_path: Path) -> None:
    tenants = tmp_path / "tenants.yaml"
    tenants.write_text(TENANTS)
    place = Site(tmp_path, pretend="2x(2xV100)", policy="fifo:backfill=true")
    try:
        place.up(tenants=str(tenants))
        day = Day(Team(place, tmp_path))
        place.flags["--listen"] = day.team.address().removeprefix("http://")
        day.team.introduce()
        day.in_the_morning()
        day.an_owner_comes_back()
        day.jobs_are_controlled()
        day.a_node_is_drained()
        day.the_scheduler_dies()
        day.jobs_end()
        day.books_are_right()
        day.a_viewer_reads()
        place.down()
        day.books_are_right()
        check_record(place, waits=0)
        assert place.violations() == "", "nothing ran twice"
    finally:
        place.close()


class Day:
    """What happens, in this order."""

    def __init__(self, team: Team) -> None:
        self.team, self.place = team, team.place
        self.ana, self.leo, self.guest, self.ops, self.wall = team.people.values()
        self.jobs: dict[str, int] = {}
        self.ends: dict[str, str] = {}
        """Name of a job -> the phase in which it should end."""

    def add(self, name: str, job: int, ends: str = "finished") -> int:
        self.jobs[name], self.ends[name] = job, ends
        return job

    def in_the_morning(self) -> None:
        """Jobs come from scripts and specs; one borrows, one is held back by a cap."""
        lines = ("#SBATCH --job-name=net --gpus=2", "#SBATCH --account=vision", "#SBATCH --mem=8G")
        net = self.add("net", self.ana.submits_script("net", *lines, steps=ENDLESS))
        self.team.until_in("running", net)
        assert (self.ana.row(net)["user"], self.ana.row(net)["tenant"]) == ("ana", "vision")
        borrower = self.add("borrower", self.guest.submits_spec("borrower", steps=ENDLESS, gpus=1, tenant="vision"))
        self.team.until_in("running", borrower)
        late = self.add("late", self.guest.submits_spec("late", "--tenant", "vision", steps=10))
        until(lambda: "OVER_QUOTA" in self.guest.reasons(late), "the cap of vision is reached")
        assert "vision" in self.guest.says("why", str(late))
        assert self.tenant("vision")["borrowed"] == 1.0
        assert "more than the cap" in self.guest.refused("submit", "--tenant", "vision", "--gpus", "4", "--", "true")
        assert "not a tenant" in self.guest.refused("submit", "--tenant", "music", "--", "true")
        assert "belongs to guest" in self.ana.refused("hold", str(late))
        assert [row["id"] for row in self.guest.gets("hold", "late")] == [late]
        assert "HELD" in self.guest.reasons(late)

    def an_owner_comes_back(self) -> None:
        """What speech has lent comes back, and the borrower has saved."""
        net, borrower = self.jobs["net"], self.jobs["borrower"]
        self.team.until_steps(borrower, 3)
        owner = self.add("owner", self.leo.submits_spec("owner", steps=ENDLESS, gpus=2, tenant="speech"))
        self.team.until_in("running", owner)
        row = self.guest.row(borrower)
        assert (row["phase"], row["suspensions"], row["lost_steps"]) == ("checkpointed", 1, 0.0)
        assert row["steps_done"] == self.team.step_saved(borrower) >= 3, "it saved when it was told to stop"
        until(lambda: self.guest.reasons(borrower)[0] == "RECLAIMED", "the borrower knows why it waits")
        until(lambda: self.tenant("speech")["start_seconds_p99"] is not None, "the reclaim is measured")
        assert 0 < self.tenant("speech")["start_seconds_p99"] < 300
        kinds = [event["kind"] for event in self.guest.gets("history", "borrower")]
        assert kinds[:3] == ["submitted", "started", "suspended"]
        assert self.place.rows()[net].phase == "running"

    def jobs_are_controlled(self) -> None:
        """Users control their own jobs; the operator controls priorities."""
        net, borrower = self.jobs["net"], self.jobs["borrower"]
        self.guest.says("release", "late")
        assert "belongs to ana" in self.guest.refused("change", "net", "--priority", "-5")
        assert "only an operator" in self.guest.refused("change", "late", "--priority", "5")
        assert self.ops.gets("change", "late", "--priority", "5")["priority"] == 5
        self.add(
            "report", self.ana.gets("submit", "--after", "net", "--tenant", "vision", "--name", "report", "--", "true")["id"]
        )
        words = ("submit", "--after", "failed:net", "--tenant", "vision", "--name", "alarm", "--", "true")
        self.add("alarm", self.ana.gets(*words)["id"], "cancelled")
        assert self.ana.reasons(self.jobs["report"]) == ["DEPENDENCY"]
        late = self.jobs["late"]
        until(lambda: self.place.rows()[late].ended, "the job of the higher priority takes a GPU of net, and ends")
        self.ana.says("suspend", "net")
        self.team.until_in("running", borrower)
        assert "HELD" in self.ana.reasons(net)
        self.ana.says("resume", "net")
        self.guest.says("suspend", "borrower")
        self.team.until_in("running", net)
        self.guest.says("resume", "borrower")
        self.team.until_in("checkpointed", borrower)

    def a_node_is_drained(self) -> None:
        """A node is drained until it is empty, and put back. Another one is to be maintained next week."""
        assert "Only an operator" in self.leo.refused("drain", "n2")
        self.ops.says("drain", "n2", "--reason", "a fan", "--for", "2h", "--wait")
        node = next(node for node in self.wall.gets("nodes") if node["name"] == "n2")
        assert "a fan" in json.dumps(node)
        rows = [row for row in self.place.rows().values() if row.phase == "running"]
        assert rows and all("n2" not in (row.placement or "") for row in rows)
        self.ops.says("undrain", "n2")
        self.team.until_in("running", self.jobs["net"], self.jobs["owner"])
        begins = (datetime.now() + timedelta(days=7)).strftime("%Y-%m-%dT%H:%M")
        window = self.ops.gets("reserve", "n1", "--from", begins, "--for", "2h", "--reason", "new disks")
        assert [each["id"] for each in self.wall.gets("reservations")] == [window["id"]]
        self.ops.says("unreserve", str(window["id"]))
        assert self.wall.gets("reservations") == []

    def the_scheduler_dies(self) -> None:
        """The scheduler is killed and started again; its jobs run on, and no job is missing."""
        before = {job: row.phase for job, row in self.place.rows().items()}
        self.place.kill()
        assert "not" in self.ana.refused("jobs")
        self.place.up()
        self.team.until_in("running", *(job for job, phase in before.items() if phase == "running"))
        assert self.place.rows().keys() == before.keys()

    def jobs_end(self) -> None:
        """A limit ends a job after it has saved, the job is requeued without a limit, and the rest is done in a hurry."""
        self.leo.says("suspend", "owner")
        flags = ("--tenant", "speech", "--max-run-time", "1s")
        limited = self.add("limited", self.leo.submits_spec("limited", *flags, steps=ENDLESS), "failed")
        self.team.until_in("failed", limited)
        row = self.leo.row(limited)
        assert "max_run_time" in row["last_change"] and row["lost_steps"] == 0.0
        assert self.team.step_saved(limited) == row["steps_done"]
        (again,) = self.leo.gets("requeue", "limited", "--max-run-time", "24h")
        self.add("again", again["id"], "cancelled")
        self.team.until_in("running", again["id"])
        self.leo.says("cancel", str(again["id"]))
        self.leo.says("resume", "owner")
        self.place.hurry()
        assert self.ana.types("wait", "net", "owner", "borrower", "report", "late").returncode == 0
        until(lambda: all(row.ended for row in self.place.rows().values()), "all jobs have ended")
        assert {name: self.place.rows()[job].phase for name, job in self.jobs.items()} == self.ends

    def books_are_right(self) -> None:
        """The report has the same sums by everything, and they are those of the jobs."""
        jobs = self.owner_gets("export", "--last", "2d")
        assert {row["name"]: row["phase"] for row in jobs if row["id"] != self.jobs["again"]} == {
            name: phase for name, phase in self.ends.items() if name != "again"
        }
        assert all(row["lost_steps"] == row["lost_seconds"] == 0.0 for row in jobs), "nothing was lost"
        ends = list(self.ends.values())
        reports = {by: self.owner_gets("report", "--last", "2d", "--by", by) for by in ("user", "tenant", "type", "day")}
        for by, report in reports.items():
            total, groups = report["total"], report["groups"]
            assert [total[phase] for phase in OUTCOMES] == [ends.count(phase) for phase in OUTCOMES], by
            assert total["submitted"] == len(jobs) and total["preempted_seconds"] == total["broken_seconds"] == 0.0
            for amount in ("submitted", "attempts", "preemptions", *OUTCOMES):
                assert sum(each[amount] for each in groups) == total[amount], (by, amount)
            for amount in ("gpu_seconds", "work_seconds"):
                assert sum(each[amount] for each in groups) == pytest.approx(total[amount]), (by, amount)
                assert sum(row[amount] for row in jobs) == pytest.approx(total[amount]), (by, amount)
        for by in ("user", "tenant"):
            for each in reports[by]["groups"]:
                mine = [row for row in jobs if row[by] == each["name"]]
                assert each["submitted"] == len(mine) and each["preemptions"] == sum(row["suspensions"] for row in mine), each
                assert each["gpu_seconds"] == pytest.approx(sum(row["gpu_seconds"] for row in mine)), each
        assert {each["name"] for each in reports["user"]["groups"]} == {"ana", "leo", "guest"}

    def owner_gets(self, *words: str) -> Any:
        """Return what the owner of the home gets, who also reads it while the scheduler is stopped."""
        return self.ops.gets(*words, "--home", str(self.place.home))

    def a_viewer_reads(self) -> None:
        """A viewer sees every job, and is refused whatever would change something."""
        assert self.wall.gets("user", "whoami")["role"] == "viewer"
        assert {row["id"] for row in self.wall.gets("jobs", "--all")} == set(self.jobs.values())
        assert self.wall.gets("report")["total"]["submitted"] == len(self.jobs)
        before = self.place.rows()
        for words in (
            ("submit", "--tenant", "vision", "--", "true"),
            *((verb, "net") for verb in ("cancel", "hold", "release", "suspend", "resume", "requeue")),
            ("change", "net", "--priority", "-1"),
            ("drain", "n1"),
            ("undrain", "n1"),
            ("remove", "n1"),
            ("reserve", "n1", "--for", "1h"),
            ("unreserve", "1"),
            ("policy", "set", "las"),
        ):
            assert "you are wall, a viewer" in self.wall.refused(*words)
        assert self.place.rows() == before

    def tenant(self, name: str) -> dict[str, Any]:
        return next(row for row in self.wall.gets("tenants") if row["tenant"] == name)
