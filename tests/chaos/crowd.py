"""The jobs of chaos: a crowd that never gets smaller while faults go on, and what is left of each in the end."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import rota
from rota.live.home_id import home_id
from tests.live.harness import Site

SCRIPT = Path(__file__).with_name("chaos_job.py")
PACKAGES = str(Path(rota.__file__).parents[1])
PACE, STEPS = 0.04, (40, 50, 60, 70)
"""Seconds of a step, and how many there are: jobs take longer than a turn, and some longer than two."""
SAVED = "saved"
"""The folder of checkpoints, below the working directory."""

CLUSTER = "1xV100 + 1xP100 + 2xK80"
SORTS: dict[str, tuple[str, dict[str, Any]]] = {
    "parked": ("session", {"progress": "session", "accelerators": ["V100"]}),
    "parked too": ("session", {"progress": "session", "accelerators": ["V100"]}),
    "bare": ("bare", {"progress": r"step (\d+)/(\d+)", "accelerators": ["V100"]}),
    "leaves": ("session", {"progress": "session", "accelerators": ["P100"], "park": False}),
    "leaves too": ("session", {"progress": "session", "accelerators": ["P100"], "park": False}),
    "wide": ("session", {"progress": "session", "accelerators": ["K80"], "gpus": 2}),
    "plain": ("plain", {"progress": r"step (\d+)/(\d+)", "accelerators": ["K80"]}),
}
"""The crowd: what each trains by, and its spec. The first three take turns on one GPU, asleep in between: there is no other that
one could be moved to. The others save and leave."""


class Asked(NamedTuple):
    """What a job was submitted as."""

    place: str
    """Of which in the crowd it took the place."""
    sort: str
    seed: str
    steps: int
    ends: str = "finished"
    """The phase that it should end in."""
    after: tuple[tuple[int, str], ...] = ()
    """Jobs for which it waits, and how each must end: ok, failed or ended."""


class Hit(NamedTuple):
    """A fault that may cost a job the steps since its last checkpoint."""

    job: int | None
    """None: any job."""
    from_s: float
    to_s: float


class Crowd:
    """Submits jobs, and reads what they noted."""

    def __init__(self, site: Site, seed: int, sorts: Mapping[str, tuple[str, dict[str, Any]]] = SORTS) -> None:
        self.site, self._draw, self._sorts = site, random.Random(f"{seed} jobs"), sorts
        self.jobs: dict[int, Asked] = {}
        self._tidied: set[int] = set()
        (site.work / "job.py").write_text(SCRIPT.read_text())
        (site.work / SAVED).mkdir()

    def keep_busy(self) -> None:
        """One of each sort that has not ended. Checkpoints of those that have are removed."""
        rows = self.site.rows()
        there = {asked.place for job, asked in self.jobs.items() if job in rows and not rows[job].ended}
        for job in (job for job, row in rows.items() if row.ended and job not in self._tidied):
            self._tidied.add(job)
            shutil.rmtree(self.checkpoints(job), ignore_errors=True)
        for place in self._sorts:
            if place not in there:
                self.submit(place)

    def wind_up(self) -> None:
        """Bring to an end what would not end by itself: no fault comes any more."""

    def submit(self, place: str, *, grace: float = 60, steps: int = 0) -> int:
        """`steps`: of a job that takes longer than others."""
        sort, spec = self._sorts[place]
        asked = Asked(place, sort, str(self._draw.randrange(3)), steps or self._draw.choice(STEPS))
        work, flags = str(self.site.work), ["-S"] if sort == "plain" else []
        job = self._send(
            place,
            {
                "run": [sys.executable, *flags, f"{work}/job.py", work, sort, asked.seed, str(asked.steps), str(PACE)],
                "steps": asked.steps,
                "env": {"PATH": os.environ["PATH"], "PYTHONPATH": PACKAGES},
                "workdir": work,
                "checkpoint": {"dir": SAVED, "grace": grace},
                "retries": 1000,
                **spec,
            },
        )
        self.jobs[job] = asked
        return job

    def _send(self, place: str, spec: dict[str, Any]) -> int:
        """Submit a job for this place in the crowd."""
        return self.site.client().submit_spec(spec).id

    def as_another_user(self) -> list[int]:
        """Return the jobs of which some start ran as another user than it should."""
        return [job for job in self.jobs if any(line[0] == "start" and int(line[6]) != self._uid(job) for line in self.life(job))]

    def _uid(self, job: int) -> int:
        """Return the Unix user as whom a job is to run."""
        return os.getuid()

    def checkpoints(self, job: int) -> Path:
        return self.site.work / SAVED / f"rota-{home_id(self.site.home)}-{job}"

    def life(self, job: int) -> list[list[str]]:
        return [line.split() for line in self.notes(f"{job}.life")]

    def notes(self, name: str) -> list[str]:
        path = self.site.work / name
        return path.read_text().splitlines() if path.exists() else []

    def count(self, what: str) -> int:
        """How often any job noted this."""
        return sum(line[0] == what for job in self.jobs for line in self.life(job))

    # In the end.

    def lost(self) -> list[int]:
        """Acknowledged jobs that are not there, or did not end as they should."""
        rows = self.site.rows()
        return [job for job, asked in self.jobs.items() if job not in rows or rows[job].phase != asked.ends]

    def started_too_early(self) -> list[int]:
        """Jobs that started before a job for which they wait had ended, or though it ended in another way than it must."""
        return [
            job for job, asked in self.jobs.items() if self.life(job) and not all(self._met(job, *each) for each in asked.after)
        ]

    def _met(self, job: int, awaited: int, when: str) -> bool:
        begins, asked, lines = float(self.life(job)[0][1]), self.jobs[awaited], self.life(awaited)
        as_required = when == "ended" or asked.ends == {"ok": "finished", "failed": "failed"}[when]
        return as_required and all(float(line[1]) < begins for line in lines) and bool(lines or asked.ends != "finished")

    def inexact(self) -> list[int]:
        """Jobs that did not come to what an uninterrupted run comes to."""
        alone: dict[tuple[str, int], list[str]] = {}
        wrong = []
        for job, asked in self.jobs.items():
            if asked.ends != "finished":
                continue
            if (asked.seed, asked.steps) not in alone:
                alone[asked.seed, asked.steps] = self._alone(asked)
            came_to = [line[2:] for line in self.life(job) if line[0] == "done"]
            # One that is killed between its last line and its end comes to it once more.
            if not came_to or any(each != alone[asked.seed, asked.steps] for each in came_to):
                wrong.append(job)
        return wrong

    def _alone(self, asked: Asked) -> list[str]:
        run = [sys.executable, str(self.site.work / "job.py"), "/", "session", asked.seed, str(asked.steps), "0"]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": PACKAGES}
        said = subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout
        return said.split()[1:]

    def steps_lost(self, hits: Iterable[Hit]) -> "StepsLost":
        """At every start of every job: what it had done and has to do again, against its last checkpoint."""
        worst = starts = 0
        beyond, unexplained = [], []
        for job in self.jobs:
            saved, before_s, failed = 0, 0.0, False
            for what, at_s, step, *more in self.life(job):
                if what == "saved":
                    saved = int(step)
                elif what == "failed":  # its own doing; it is started again if it was just being suspended
                    failed = True
                elif what == "start":
                    lost, since_checkpoint = int(more[0]) - int(step), int(more[0]) - saved
                    starts += 1
                    worst = max(worst, lost)
                    if lost > since_checkpoint:
                        beyond.append(job)
                    if lost > 0 and not failed and not any(_explains(hit, job, before_s, float(at_s)) for hit in hits):
                        unexplained.append(job)
                    before_s, failed = float(at_s), False
        return StepsLost(starts, worst, beyond, unexplained)

    def started_after(self, job: int, at_s: float) -> float | None:
        """The first time that it starts after this."""
        return next((float(line[1]) for line in self.life(job) if line[0] == "start" and float(line[1]) > at_s), None)


class StepsLost(NamedTuple):
    starts: int
    most: int
    beyond_checkpoint: list[int]
    """Jobs that lost more than the steps since their last checkpoint."""
    unexplained: list[int]
    """Jobs that lost steps though no fault had hit them."""


def _explains(hit: Hit, job: int, from_s: float, to_s: float) -> bool:
    return hit.job in (job, None) and hit.from_s <= to_s and hit.to_s >= from_s
