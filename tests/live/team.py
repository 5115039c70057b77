"""A team that shares a scheduler, and the commands that each of its users types.

There are two ways of being a user: with a token, then the jobs of all run as the user of the scheduler; or as a Unix user at
the socket of a scheduler that serves all users of the machine.
"""

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from rota.wire.find_scheduler import find_scheduler
from tests.live.agent.users import PATH, PYTHON
from tests.live.all_users import Shared
from tests.live.harness import PATIENCE, Site, until
from tests.second_user import everyones_packages, everyones_python

ROLES = {"ana": "user", "leo": "user", "guest": "user", "ops": "operator", "wall": "viewer"}
"""User -> role. `wall` is a screen that shows the jobs."""
UNIX_USERS = dict(zip(ROLES, ("bin", "lp", "games", "sync", "nobody"), strict=True))
"""As which Unix users these act. Every Linux has them, and they are not those of other tests, who may signal all of their own."""


class Person:
    """A user who types commands in a folder of their own."""

    def __init__(self, place: Site, name: str, folder: Path) -> None:
        """`name`: as the scheduler knows them."""
        self.place, self.name, self.folder = place, name, folder
        self.uid, self.groups = os.getuid(), {os.getgid(), *os.getgroups()}
        """As whom their jobs run."""
        self.job_python, self.rota = sys.executable, [sys.executable, "-m", "rota"]
        self.become: dict[str, Any] = {}
        """What makes a process one of this user."""
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self.env |= {"ROTA_CONFIG": os.devnull, "HOME": str(folder)}

    def knows(self, address: str, token: str) -> None:
        path = self.folder / "token"
        path.touch(mode=0o600)
        path.write_text(token + "\n")
        self.env |= {"ROTA_ADDRESS": address, "ROTA_TOKEN_FILE": str(path)}

    def acts_as(self, user: pwd.struct_passwd, address: str) -> None:
        """Be a Unix user from now on."""
        groups = os.getgrouplist(user.pw_name, user.pw_gid)
        self.name, self.uid, self.groups = user.pw_name, user.pw_uid, {user.pw_gid, *groups}
        self.job_python, self.rota = PYTHON, [everyones_python(), "-m", "rota"]
        self.become = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}
        self.env |= {"ROTA_ADDRESS": address, "PATH": PATH, "PYTHONPATH": everyones_packages()}

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `rota WORDS...` as this user."""
        how = {"cwd": self.folder, "env": self.env, "timeout": PATIENCE, **self.become}
        return subprocess.run([*self.rota, *words], capture_output=True, text=True, **how)

    def says(self, *words: str) -> str:
        """Return what a command that succeeds prints."""
        done = self.types(*words)
        assert done.returncode == 0, f"{self.name}: rota {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def gets(self, *words: str) -> Any:
        """Return the JSON that a command prints."""
        end = words.index("--") if "--" in words else len(words)
        return json.loads(self.says(*words[:end], "-o", "json", *words[end:]))

    def refused(self, *words: str) -> str:
        """Return the error of a command that is refused: what is wrong, then a line with the next step."""
        done = self.types(*words)
        assert done.returncode not in (0, None) and done.stdout == "", f"{self.name}: rota {' '.join(words)} was accepted"
        lines = done.stderr.strip().splitlines()
        assert "Traceback" not in done.stderr and lines[-1].startswith("Try: "), done.stderr
        return done.stderr

    # Submissions -------------------------------------------------------------------------------------------------

    def training(self, steps: int) -> list[str]:
        """Return the command of a job that saves when it is told to stop, and slows down until the team hurries."""
        work = str(self.place.work)
        return [self.job_python, "-S", f"{work}/job.py", work, str(steps), "0.1", "75", str(self.folder)]

    def submits_spec(self, name: str, *flags: str, steps: int, **fields: Any) -> int:
        spec = {"run": self.training(steps), "steps": steps, "progress": r"step (\d+)/(\d+)", **fields}
        spec["checkpoint"] = {"grace": 20, "saves": True}
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(spec))
        return int(self.gets("submit", path.name, *flags)["id"])

    def submits_script(self, name: str, *lines: str, steps: int) -> int:
        """Submit a script of bash with these lines below the first, without a flag."""
        path = self.folder / f"{name}.sh"
        directives = [*lines, f"#ROTA steps: {steps}", r"#ROTA progress: 'step (\d+)/(\d+)'"]
        directives += ["#ROTA checkpoint: {grace: 20, saves: true}"]
        path.write_text("\n".join(["#!/bin/bash", *directives, "exec " + " ".join(self.training(steps)), ""]))
        return int(self.gets("submit", path.name)["id"])

    # What this user sees -----------------------------------------------------------------------------------------

    def row(self, job: int) -> dict[str, Any]:
        found: dict[str, Any] = self.gets("show", str(job))
        return found

    def reasons(self, job: int) -> list[str]:
        return [each["code"] for each in self.gets("why", str(job))["reasons"]]


class Team:
    """Five users of one scheduler, and its owner."""

    def __init__(self, place: Site, folder: Path) -> None:
        self.place = place
        for name in (*ROLES, "owner"):
            (folder / name).mkdir()
        self.people = {name: Person(place, name, folder / name) for name in ROLES}
        self.owner = Person(place, "owner", folder / "owner")
        """Who started the scheduler."""
        self.owner.env["ROTA_HOME"] = str(place.home)

    def introduce(self) -> None:
        """Give each user a role and a way to the scheduler."""
        self.place.flags["--listen"] = self.address().removeprefix("http://")
        for name, role in ROLES.items():
            self.people[name].knows(self.address(), self.owner.gets("user", "add", name, "--role", role)["token"])

    def address(self) -> str:
        return find_scheduler(self.place.home).urls[0]

    def until_in(self, phase: str, *jobs: int) -> None:
        def there() -> bool:
            rows = self.place.rows()
            return all(rows[job].phase == phase for job in jobs)

        until(there, f"jobs {', '.join(map(str, jobs))} are {phase}")

    def until_steps(self, job: int, steps: int) -> None:
        until(lambda: (self.place.rows()[job].steps_done or 0) >= steps, f"job {job} has made {steps} steps")

    def step_saved(self, job: int) -> int:
        """Return the step that a job has saved in the folder of its user, as that user."""
        by = self.user_of(job)
        path = by.folder / f"{job}.step"
        assert (path.stat().st_uid, path.stat().st_gid in by.groups) == (by.uid, True)
        return int(path.read_text())

    def user_of(self, job: int) -> Person:
        name = self.place.rows()[job].user
        return next(person for person in self.people.values() if person.name == name)

    def life(self, job: int) -> list[list[str]]:
        """Return what a task or job has noted: when it started, saved because it was told to stop, and was done."""
        (path,) = (person.folder / f"{job}.life" for person in self.people.values() if (person.folder / f"{job}.life").exists())
        return [line.split() for line in path.read_text().splitlines()]


class UnixTeam(Team):
    """The same with five Unix users."""

    def __init__(self, place: Shared, folder: Path) -> None:
        super().__init__(place, folder)
        self._socket = place.socket

    def introduce(self) -> None:
        for name, role in ROLES.items():
            user, person = pwd.getpwnam(UNIX_USERS[name]), self.people[name]
            if role != "user":
                self.owner.gets("user", "add", user.pw_name, "--role", role, "--no-token")
            person.acts_as(user, f"unix:{self._socket}")
            person.folder.chmod(0o700)
            os.chown(person.folder, user.pw_uid, user.pw_gid)
