"""Chaos with two real Unix users at one scheduler: it, supervisors and jobs are killed, and each job must run as its user.

    python -m tests.chaos.chaos --users --faults 200 --seed 1      # make chaos USERS=1, as root

Only faults that kill something: the others are about disks, clocks and parking, and don't depend on whose the jobs are.
"""

import os
import random
from pathlib import Path
from typing import Any

from rota.live.home_id import home_id
from rota.wire.client import Client
from rota.wire.rows import JobRow
from tests.chaos.crowd import CLUSTER, SAVED, Crowd
from tests.chaos.faults import Faults
from tests.chaos.flows import Flow
from tests.live.agent.users import ANA, LEO, PYTHON, clean_after_users, readable_packages
from tests.live.all_users import Shared
from tests.waiting import until

GPUS = 4
USERS = {"ana": ANA, "leo": LEO}
TRAINS: dict[str, tuple[str, dict[str, Any]]] = {
    "leaves": ("session", {"progress": "session", "accelerators": ["P100"], "park": False}),
    "leaves too": ("session", {"progress": "session", "accelerators": ["V100"], "park": False}),
    "wide": ("session", {"progress": "session", "accelerators": ["K80"], "gpus": 2, "park": False}),
    "plain": ("plain", {"progress": r"step (\d+)/(\d+)", "accelerators": ["V100"], "park": False}),
}
SORTS = {f"{name}: {place}": sort for place, sort in TRAINS.items() for name in USERS}
"""The crowd: each sort once for each user. Jobs of both take turns on the same GPUs."""
FLOW = "flow"
"""The place in the crowd of the arrays of a user, and of jobs that wait for other jobs."""
KINDS = ("killed at any moment", "killed while it writes a checkpoint", "killed while it resumes from a checkpoint")


class UsersSite(Shared):
    """A folder where jobs of both users leave their traces, beside one that only root can enter."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, pretend=CLUSTER, policy="las")
        self.open_work(folder / "work", "over_limit", *(f"gpu-{gpu}.lock" for gpu in range(GPUS)))
        self.packages = readable_packages(folder / "packages")

    def rows(self) -> dict[int, JobRow]:
        """Return the row of each job; a task of an array is a job."""
        return {row.id: row for row in self.client().jobs(everything=True, tasks=True)}

    def close(self) -> None:
        super().close()
        clean_after_users(self.home)


class UsersCrowd(Crowd):
    """Submits each job as its user, at the socket."""

    def __init__(self, site: UsersSite, seed: int) -> None:
        super().__init__(site, seed, SORTS)
        self._shared = site
        self.flows = {name: Flow(f"{name}: {FLOW}", site.work, random.Random(f"{seed} {name}")) for name in USERS}

    def keep_busy(self) -> None:
        """A flow of each user too. What the users give up is cancelled once some of it runs."""
        super().keep_busy()
        rows = self.site.rows()
        for name, flow in self.flows.items():
            if all(row.ended for job, row in rows.items() if self.jobs[job].place == flow.place):
                self._begin(name)
            elif any(rows[job].phase == "running" for job in flow.given_up):
                self._give_up(name)

    def wind_up(self) -> None:
        for name in USERS:
            self._give_up(name)

    def _begin(self, name: str) -> None:
        """Submit all jobs of a flow, in one request."""
        flow, uid = self.flows[name], USERS[name].pw_uid
        specs = [self._of(uid, spec) for spec in flow.specs()]

        def act(client: Client) -> list[list[int]]:
            taken = [job.id for job in client.submit_many(specs, workdir="/")]
            rows = client.jobs(everything=True, tasks=True)
            return [[row.id for row in rows if number in (row.id, row.array_id)] for number in taken]

        self.jobs |= flow.submitted(self._shared.as_user(uid, act))

    def _give_up(self, name: str) -> None:
        """Cancel the array of a flow that is given up, with one request."""
        flow = self.flows[name]
        if flow.given_up:
            array = self.site.client().job(flow.given_up[0]).array_id
            self._shared.as_user(USERS[name].pw_uid, lambda client: client.cancel(array).id)
            flow.given_up = []

    def _of(self, uid: int, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a spec as a user submits it, who has another Python and other packages."""
        _, *words = spec["run"]
        packages = {"PATH": os.defpath, "PYTHONPATH": str(self._shared.packages), "PYTHONDONTWRITEBYTECODE": "1"}
        return {**spec, "run": [PYTHON, *words], "env": spec["env"] | packages, "workdir": str(self._shared.folders[uid])}

    def _send(self, place: str, spec: dict[str, Any]) -> int:
        uid = _user(place)
        sent = self._of(uid, spec)
        return int(self._shared.as_user(uid, lambda client: client.submit_spec(sent).id))

    def _uid(self, job: int) -> int:
        return _user(self.jobs[job].place)

    def checkpoints(self, job: int) -> Path:
        return self._shared.folders[self._uid(job)] / SAVED / f"rota-{home_id(self.site.home)}-{job}"


class UsersFaults(Faults):
    """Faults that kill something."""

    def __init__(self, site: UsersSite, crowd: UsersCrowd, seed: int) -> None:
        super().__init__(site, crowd, seed)
        self.kinds = {kind: self.kinds[kind] for kind in KINDS}

    def set_up(self) -> None:
        """Do nothing: no disk and no clock is changed."""

    def tear_down(self) -> None:
        until(lambda: not self.site.supervisors(), "all supervisors have ended")


def _user(place: str) -> int:
    return USERS[place.partition(":")[0]].pw_uid
