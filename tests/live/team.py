"""A team that shares a scheduler: its users with their tokens, and the commands that each of them types."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from rota.wire.find_scheduler import find_scheduler
from tests.live.harness import PATIENCE, Site, until

ROLES = {"ana": "user", "leo": "user", "guest": "user", "ops": "operator", "wall": "viewer"}
"""User -> role. `wall` is a screen that shows the jobs."""


class Person:
    """A user who types commands somewhere else than in the scheduler's home."""

    def __init__(self, place: Site, name: str, folder: Path) -> None:
        self.place, self.name, self.folder = place, name, folder
        folder.mkdir()
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self.env |= {"ROTA_CONFIG": os.devnull, "HOME": str(folder)}

    def knows(self, address: str, token: str) -> None:
        path = self.folder / "token"
        path.touch(mode=0o600)
        path.write_text(token + "\n")
        self.env |= {"ROTA_ADDRESS": address, "ROTA_TOKEN_FILE": str(path)}

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `rota WORDS...` as this user."""
        command = [sys.executable, "-m", "rota", *words]
        return subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=PATIENCE)

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
        return [sys.executable, "-S", str(self.place.work / "job.py"), str(self.place.work), str(steps), "0.1", "75"]

    def submits_spec(self, name: str, *flags: str, steps: int, **fields: Any) -> int:
        spec = {"run": self.training(steps), "steps": steps, "progress": r"step (\d+)/(\d+)", **fields}
        spec["checkpoint"] = {"grace": 20, "saves": True}
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(spec))
        return int(self.gets("submit", f"{name}.yaml", *flags)["id"])

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
    """Five users of one scheduler."""

    def __init__(self, place: Site, folder: Path) -> None:
        self.place = place
        self.people = {name: Person(place, name, folder / name) for name in ROLES}

    def introduce(self) -> None:
        """Give each user a token and the address."""
        for name, role in ROLES.items():
            command = [sys.executable, "-m", "rota", "user", "add", name, "--role", role, "--home", str(self.place.home)]
            made = subprocess.run([*command, "-o", "json"], capture_output=True, check=True, timeout=PATIENCE)
            self.people[name].knows(self.address(), json.loads(made.stdout)["token"])

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
        return int((self.place.work / f"{job}.step").read_text())
