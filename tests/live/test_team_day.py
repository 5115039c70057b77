"""A day of a team on a shared scheduler: two tenants, five users with tokens or Unix users, and the commands that they type."""

import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.live.agent.users import clean_after_users
from tests.live.all_users import Shared
from tests.live.harness import Site, check_record, until
from tests.live.team import Team, UnixTeam
from tests.second_user import everyones_python
from tests.stranger import root_only

CLUSTER = {"pretend": "2x(2xV100)", "policy": "fifo:backfill=true"}
GPUS = 4

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


@contextlib.contextmanager
def with_tokens(folder: Path) -> Iterator[Team]:
    """Users with tokens: all jobs run as the user of the scheduler."""
    place = Site(folder, **CLUSTER)
    with contextlib.closing(place):
        yield Team(place, folder)


@contextlib.contextmanager
def as_unix_users(folder: Path) -> Iterator[Team]:
    """Unix users at the socket: each job runs as its user."""
    everyones_python()
    place = Shared(folder, **CLUSTER)
    place.open_work(folder / "work", *(f"gpu-{gpu}.lock" for gpu in range(GPUS)))
    try:
        yield UnixTeam(place, folder)
    finally:
        place.close()
        clean_after_users(place.home)


WAYS = pytest.mark.parametrize(
    "way", [pytest.param(with_tokens, id="tokens"), pytest.param(as_unix_users, id="unix-users", marks=root_only)]
)
Way = Callable[[Path], contextlib.AbstractContextManager[Team]]


@pytest.mark.nightly
@WAYS
def test_a_day_of_a_team(public: Path, way: Way) -> None:
    with begun(public, way) as day:
        day.arrays_take_turns()
        day.in_the_morning()
        day.an_owner_comes_back()
        day.jobs_are_controlled()
        day.a_node_is_drained()
        day.the_scheduler_dies()
        day.a_limit_ends_a_job()
        day.jobs_end()
        day.books_are_right()
        day.a_viewer_reads()
        day.is_over()


@WAYS
def test_a_morning_of_a_team(public: Path, way: Way) -> None:
    with begun(public, way) as day:
        day.arrays_take_turns()
        day.in_the_morning()
        day.an_owner_comes_back()
        day.jobs_end()
        day.books_are_right()
        day.is_over()


@contextlib.contextmanager
def begun(folder: Path, way: Way) -> Iterator["Day"]:
    """Yield the day of a team whose scheduler runs."""
    tenants = folder / "tenants.yaml"
    tenants.write_text(TENANTS)
    with way(folder) as team:
        team.place.up(tenants=str(tenants))
        team.introduce()
        yield Day(team)


class Day:
    """What happens, in this order."""

    def __init__(self, team: Team) -> None:
        self.team, self.place = team, team.place
        self.ana, self.leo, self.guest, self.ops, self.wall = team.people.values()
        self.jobs: dict[str, int] = {}
        self.ends: dict[str, str] = {}
        """Name of a job or an array -> the phase in which it should end."""
        self.tasks: dict[str, int] = {}
        """Name of an array -> how many tasks it has."""

    def add(self, name: str, job: int, ends: str = "finished") -> int:
        self.jobs[name], self.ends[name] = job, ends
        return job

    def add_array(self, name: str, tasks: int, at_once: int, steps: int, ends: str = "finished") -> int:
        """Submit an array of ana's."""
        flags = ("--array", f"0-{tasks - 1}%{at_once}")
        self.tasks[name] = tasks
        return self.add(name, self.ana.submits_spec(name, *flags, steps=steps, gpus=1, tenant="vision"), ends)

    def array(self, name: str) -> dict[str, int]:
        """Return how many tasks of an array are in each phase."""
        phases: dict[str, int] = self.ana.row(self.jobs[name])["array"]["phases"]
        return phases

    def all_ends(self) -> dict[str, str]:
        """Return how each job should end, each task of an array among them."""
        tasks = {f"{name}[{index}]": self.ends[name] for name, count in self.tasks.items() for index in range(count)}
        return {name: phase for name, phase in self.ends.items() if name not in self.tasks} | tasks

    def arrays_take_turns(self) -> None:
        """No more tasks run than an array's limit, one request cancels it whole, and jobs wait for all tasks."""
        sift = self.add_array("sift", 3, 2, steps=4)
        night = self.add_array("night", 4, 1, steps=ENDLESS, ends="cancelled")
        after = ("--tenant", "vision", "--after")
        digest = self.add("digest", self.ana.submits_spec("digest", *after, "sift", steps=1, gpus=1))
        never = self.add("never", self.ana.submits_spec("never", *after, "night", steps=1, gpus=1), "cancelled")
        until(lambda: self.array("night") == {"running": 1, "queued": 3}, "one task runs")
        assert self.ana.reasons(never) == ["DEPENDENCY"]
        last = night + self.tasks["night"]
        assert self.ana.reasons(last)[0] == "OVER_QUOTA" and "at most 1 task at once" in self.ana.says("why", str(last))
        assert f"belongs to {self.ana.name}" in self.guest.refused("cancel", str(night))
        assert [row["id"] for row in self.ana.gets("hold", "night")] == [night]
        assert self.ana.reasons(last)[0] == "HELD" and self.array("night") == {"running": 1, "queued": 3}
        self.ana.says("release", "night")
        assert self.ana.reasons(last)[0] == "OVER_QUOTA"
        assert [row["id"] for row in self.ana.gets("cancel", "night")] == [night]
        until(lambda: self.array("night") == {"cancelled": 4}, "the array is cancelled")
        assert self.ana.types("wait", "sift", "digest").returncode == 0
        lives = [self.team.life(task) for task in range(sift + 1, sift + 1 + self.tasks["sift"])]
        assert self.most_at_once(lives) <= 2, lives
        assert all(life[-1][0] == "done" and float(life[-1][1]) < float(self.team.life(digest)[0][1]) for life in lives), lives

    @staticmethod
    def most_at_once(lives: list[list[list[str]]]) -> int:
        """Return how many tasks ran at the same time."""
        changes = sorted((float(line[1]), 1 if line[0] == "start" else -1) for life in lives for line in life)
        return max(sum(each for _, each in changes[:number]) for number in range(1, len(changes) + 1))

    def in_the_morning(self) -> None:
        """Jobs come from scripts and specs. One borrows, one is held back by a cap."""
        lines = ("#SBATCH --job-name=net --gpus=2", "#SBATCH --account=vision", "#SBATCH --mem=8G")
        net = self.add("net", self.ana.submits_script("net", *lines, steps=ENDLESS))
        self.team.until_in("running", net)
        assert (self.ana.row(net)["user"], self.ana.row(net)["tenant"]) == (self.ana.name, "vision")
        borrower = self.add("borrower", self.guest.submits_spec("borrower", steps=ENDLESS, gpus=1, tenant="vision"))
        self.team.until_in("running", borrower)
        late = self.add("late", self.guest.submits_spec("late", "--tenant", "vision", steps=10))
        until(lambda: "OVER_QUOTA" in self.guest.reasons(late), "the cap of vision is reached")
        assert "vision" in self.guest.says("why", str(late))
        assert self.tenant("vision")["borrowed"] == 1.0
        assert "more than the cap" in self.guest.refused("submit", "--tenant", "vision", "--gpus", "4", "--", "true")
        assert "not a tenant" in self.guest.refused("submit", "--tenant", "music", "--", "true")
        assert f"belongs to {self.guest.name}" in self.ana.refused("hold", str(late))
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
        self.guest.says("release", "late")

    def jobs_are_controlled(self) -> None:
        """Users control their own jobs; the operator controls priorities."""
        net, borrower = self.jobs["net"], self.jobs["borrower"]
        assert f"belongs to {self.ana.name}" in self.guest.refused("change", "net", "--priority", "-5")
        assert "only an operator" in self.guest.refused("change", "late", "--priority", "5")
        assert self.ops.gets("change", "late", "--priority", "5")["priority"] == 5
        words = ("submit", "--after", "net", "--tenant", "vision", "--name", "report", "--", "sh", "-c", "id -u; id -G")
        self.add("report", self.ana.gets(*words)["id"])
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

    def a_limit_ends_a_job(self) -> None:
        """A limit ends a job after it has saved, and the job is requeued without a limit."""
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

    def jobs_end(self) -> None:
        """The rest is done in a hurry."""
        self.place.hurry()
        assert self.ana.types("wait", "net", "owner", "borrower", "late").returncode == 0
        until(lambda: all(row.ended for row in self.place.rows().values()), "all jobs have ended")
        assert {name: self.place.rows()[job].phase for name, job in self.jobs.items()} == self.ends
        for name in ("net", "owner", "borrower", "digest"):
            self.team.step_saved(self.jobs[name])
        if "report" in self.jobs:
            lines = [line for line in self.ana.says("logs", "report").splitlines() if not line.startswith("--- rota")]
            assert int(lines[0]) == self.ana.uid and {*map(int, lines[1].split())} == self.ana.groups, lines

    def books_are_right(self) -> None:
        """The report has the same sums by everything, and they are those of the jobs."""
        jobs = self.team.owner.gets("export", "--last", "2d")
        again, expected = self.jobs.get("again"), self.all_ends()
        ends = list(expected.values())
        expected.pop("again", None)
        assert {row["name"]: row["phase"] for row in jobs if row["id"] != again} == expected
        kept = [row for row in jobs if row["phase"] != "cancelled"]
        assert all(row["lost_steps"] == row["lost_seconds"] == 0.0 for row in kept), "nothing was lost"
        reports = {by: self.team.owner.gets("report", "--last", "2d", "--by", by) for by in ("user", "tenant", "type", "day")}
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
        assert {each["name"] for each in reports["user"]["groups"]} == {self.ana.name, self.leo.name, self.guest.name}

    def is_over(self) -> None:
        """The scheduler stops, and the books are the same."""
        self.place.down()
        self.books_are_right()
        check_record(self.place, waits=0)
        assert self.place.violations() == "", "nothing ran twice"

    def a_viewer_reads(self) -> None:
        """A viewer sees every job, and is refused whatever would change something."""
        assert self.wall.gets("user", "whoami")["role"] == "viewer"
        assert {row["id"] for row in self.wall.gets("jobs", "--all")} == set(self.jobs.values())
        assert self.wall.gets("report")["total"]["submitted"] == len(self.all_ends())
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
            assert f"you are {self.wall.name}, a viewer" in self.wall.refused(*words)
        assert self.place.rows() == before

    def tenant(self, name: str) -> dict[str, Any]:
        return next(row for row in self.wall.gets("tenants") if row["tenant"] == name)
