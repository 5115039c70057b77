"""The site and the jobs of chaos on a cluster: a gang over two nodes and another job, and the result of each in the end."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import rota
from rota.compose.live_scheduler import JOURNAL_CODEC
from rota.errors import RotaError
from rota.live.journal import Journal
from rota.live.journal_place import find_journal, open_journal
from tests.live import hurried
from tests.live.harness import Site
from tests.live.ray_cluster import SETTINGS, RayCluster, end_supervisors
from tests.postgres import PostgresServer

SCRIPT, HURRIED = Path(__file__).with_name("ray_chaos_job.py"), Path(hurried.__file__)
PACKAGES = str(Path(rota.__file__).parents[1])
NODES, GPUS, ACCELERATOR = ("n1", "n2", "n3"), 2, "V100"
SIZES = {"gang": 3, "single": 1}
"""GPUs of each job. If one node is gone, the others have just enough."""
PACE, STEPS = 0.1, (200, 300, 400)


class Asked(NamedTuple):
    """What a job was submitted as."""

    place: str
    seed: str
    steps: int


class Part(NamedTuple):
    """The process of one rank."""

    job: int
    attempt: int
    rank: int
    node: str
    pid: int


class Start(NamedTuple):
    """The first rank of a job began."""

    at_s: float
    step: int
    done_before: int
    """Steps that were done by then,"""
    saved_before: int
    """and those that were safe."""


class RaySite(Site):
    """A home whose jobs run on a Ray cluster."""

    def __init__(self, folder: Path, cluster: RayCluster, lease_seconds: float, server: PostgresServer | None = None) -> None:
        """`server`: has the journal; None: it is a file in the home."""
        super().__init__(folder, policy="fifo", lease_seconds=lease_seconds)
        self.cluster, self.nodes, self.server = cluster, folder / "nodes", server
        del self.flags["--pretend"]
        self.env = dict(SETTINGS)
        self.python = [sys.executable, str(HURRIED)]
        self.flags |= {"--ray": cluster.address, "--node-dir": str(self.nodes)}
        self.flags |= {"--journal": server.url} if server is not None else {}

    def up_nodes(self) -> set[str]:
        """Nodes that the scheduler has and hears of."""
        return {row.name for row in self.client().nodes() if row.up}

    def journal(self) -> Journal:
        return open_journal(find_journal(self.home), JOURNAL_CODEC)

    def close(self) -> None:
        super().close()
        end_supervisors(self.nodes)


class Crowd:
    """Submits jobs, and reads what they noted."""

    def __init__(self, site: RaySite, seed: int) -> None:
        self.site, self._draw = site, random.Random(f"{seed} jobs")
        self.jobs: dict[int, Asked] = {}
        (site.work / "job.py").write_text(SCRIPT.read_text())
        (site.work / "saved").mkdir()

    def keep_busy(self) -> None:
        """One of each that has not ended."""
        rows = self.site.rows()
        there = {asked.place for job, asked in self.jobs.items() if job in rows and not rows[job].ended}
        for place in SIZES:
            if place not in there:
                try:
                    self._submit(place)
                except RotaError as refused:  # while the journal is away; another try comes soon
                    if not refused.message.startswith("Not taken"):
                        raise

    def _submit(self, place: str) -> None:
        asked = Asked(place, str(self._draw.randrange(3)), self._draw.choice(STEPS))
        work = str(self.site.work)
        job = self.site.client().submit(
            run=[sys.executable, f"{work}/job.py", work, asked.seed, str(asked.steps), str(PACE)],
            gpus=SIZES[place],
            steps=asked.steps,
            progress="session",
            env={"PATH": os.environ["PATH"], "PYTHONPATH": PACKAGES},
            workdir=work,
            checkpoint={"dir": "saved", "grace": 60},
            retries=1000,
        )
        self.jobs[int(job.id)] = asked

    def hurry(self) -> None:
        """Steps take no time from now on: all come to their ends."""
        (self.site.work / "hurry").touch()

    # What they noted.

    def _lines(self, name: str) -> list[list[str]]:
        path = self.site.work / name
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def parts(self) -> list[Part]:
        """Of the newest attempt of each job that has not come to its end, those that have begun."""
        found = []
        for job in self.jobs:
            lines = self._lines(f"{job}.life")
            began = [Part(job, int(line[4]), int(line[6]), line[7], int(line[5])) for line in lines if line[0] == "start"]
            newest = max((part.attempt for part in began), default=0)
            if not any(line[0] == "done" for line in lines):
                found += [part for part in began if part.attempt == newest]
        return found

    def steps(self, job: int) -> list[float]:
        """When each was done."""
        return [float(line[0]) for line in self._lines(f"{job}.steps")]

    def began(self, job: int, after_s: float) -> bool:
        """Whether it was started anew since then."""
        return any(line[0] == "start" and float(line[1]) > after_s for line in self._lines(f"{job}.life"))

    def starts(self, job: int) -> list[Start]:
        saved, found = 0, []
        for line in self._lines(f"{job}.life"):
            if line[0] == "saved":
                saved = int(line[2])
            elif line[0] == "start" and line[6] == "0":
                found.append(Start(float(line[1]), int(line[2]), int(line[3]), saved))
        return found

    def stood_still(self, job: int, from_s: float, to_s: float) -> float | None:
        """For how long it made no step, at most: from this moment, or a step after it, to the next step. None: it has come to its
        end before."""
        after = [at_s for at_s in self.steps(job) if from_s < at_s <= to_s]
        return max((later - earlier for earlier, later in zip([from_s, *after], after, strict=False)), default=None)

    # In the end.

    def lost(self) -> list[int]:
        """Acknowledged jobs that are not there, or did not finish."""
        rows = self.site.rows()
        return [job for job in self.jobs if job not in rows or rows[job].phase != "finished"]

    def inexact(self) -> list[int]:
        """Jobs that did not come to what an uninterrupted run comes to."""
        alone: dict[tuple[str, int], list[str]] = {}
        wrong = []
        for job, asked in self.jobs.items():
            if (asked.seed, asked.steps) not in alone:
                alone[asked.seed, asked.steps] = self._alone(asked)
            came_to = [line[2:] for line in self._lines(f"{job}.life") if line[0] == "done"]
            if not came_to or any(each != alone[asked.seed, asked.steps] for each in came_to):
                wrong.append(job)
        return wrong

    def _alone(self, asked: Asked) -> list[str]:
        run = [sys.executable, str(self.site.work / "job.py"), "/", asked.seed, str(asked.steps), "0"]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": PACKAGES}
        return subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout.split()[1:]

    def behind_checkpoint(self) -> list[int]:
        """Jobs that once began behind their last checkpoint."""
        return [job for job in self.jobs if any(start.step < start.saved_before for start in self.starts(job))]

    def late_steps(self) -> dict[str, int]:
        """Steps that processes made after they had woken up, beside another attempt: by job, attempt and rank."""
        found: dict[str, int] = {}
        for job in self.jobs:
            for _, _, attempt, rank, _ in self._lines(f"{job}.late"):
                key = f"{job}.{attempt}.{rank}"
                found[key] = found.get(key, 0) + 1
        return found
