"""A flow of jobs for chaos with users: arrays that limit their tasks, and jobs that wait for others to end in some way.

One request submits all of it: an array, a job after all its tasks, a job that fails, one after its failure, one that can never
start because it waits for the success of that job, one after both ends, and an array that its user gives up.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.crowd import PACE, Asked

STEPS = (10, 20)
ENDLESS = 100_000
"""Steps of the array that is given up."""

AFTER: dict[str, list[tuple[str, str]]] = {
    "array": [],
    "after all tasks": [("array", "ok")],
    "fails": [],
    "after a failure": [("fails", "failed")],
    "never": [("fails", "ok")],
    "last": [("never", "ended"), ("after all tasks", "ended"), ("after a failure", "ok")],
    "given up": [],
}
"""The parts of a flow: for which others each waits, and how those must end."""
ENDS = {"fails": "failed", "never": "cancelled", "given up": "cancelled"}
"""How parts end that do not finish."""
ARRAYS = ("array", "given up")


class Flow:
    """Makes the specs of a flow, again and again, and knows what each job of it must come to."""

    def __init__(self, place: str, work: Path, draw: random.Random) -> None:
        self.place, self._work, self._draw = place, str(work), draw
        self._asked: dict[str, Asked] = {}
        self.given_up: list[int] = []
        """Tasks of the array that is to be given up, and has not been."""

    def specs(self) -> list[dict[str, Any]]:
        """Draw the next flow, and return the specs of its parts."""
        self._asked = {part: self._asked_of(part) for part in AFTER}
        return list(self._specs())

    def _asked_of(self, part: str) -> Asked:
        sort = "fails" if part == "fails" else "plain"
        steps = ENDLESS if part == "given up" else self._draw.choice(STEPS)
        return Asked(self.place, sort, str(self._draw.randrange(3)), steps, ENDS.get(part, "finished"))

    def _specs(self) -> Iterator[dict[str, Any]]:
        index = {part: number for number, part in enumerate(AFTER)}
        for part, asked in self._asked.items():
            spec: dict[str, Any] = {
                "run": ["python", "-S", f"{self._work}/job.py", self._work, asked.sort, asked.seed, str(asked.steps), str(PACE)],
                "steps": asked.steps,
                "progress": r"step (\d+)/(\d+)",
                "checkpoint": {"grace": 60},
                "retries": 0 if part == "fails" else 1000,
                "after": [{"index": index[other], "when": when} for other, when in AFTER[part]],
                "park": False,
                "env": {},
            }
            if part in ARRAYS:
                tasks = self._draw.randint(3, 4)
                most = self._draw.randint(1, tasks - 1)
                spec |= {"array": {"indices": f"0-{tasks - 1}", "at_once": most}, "env": {"CHAOS_AT_ONCE": str(most)}}
            yield spec

    def submitted(self, numbers: Sequence[Sequence[int]]) -> dict[int, Asked]:
        """Return what each job of the flow was submitted as. `numbers`: the jobs of each part, of an array its tasks."""
        jobs = dict(zip(AFTER, numbers, strict=True))
        self.given_up = list(jobs["given up"])
        return {
            job: self._asked[part]._replace(after=tuple((other, when) for name, when in AFTER[part] for other in jobs[name]))
            for part, mine in jobs.items()
            for job in mine
        }
