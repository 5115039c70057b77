"""Chaos with two real Unix users at one scheduler: it, supervisors and jobs are killed, and each job must run as its user.

    python -m tests.chaos.chaos --users --faults 200 --seed 1      # make chaos USERS=1, as root

Only faults that kill something: the others are about disks, clocks and parking, and don't depend on whose the jobs are.
"""

import os
from pathlib import Path
from typing import Any

from rota.live.home_id import home_id
from tests.chaos.crowd import CLUSTER, SAVED, Crowd
from tests.chaos.faults import Faults
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
KINDS = ("killed at any moment", "killed while it writes a checkpoint", "killed while it resumes from a checkpoint")


class UsersSite(Shared):
    """A folder where jobs of both users leave their traces, beside one that only root can enter."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, pretend=CLUSTER, policy="las")
        self.work = folder / "work"
        self.work.mkdir()
        self.work.chmod(0o777)
        for name in ("violations", *(f"gpu-{gpu}.lock" for gpu in range(GPUS))):  # both users write these
            (self.work / name).touch()
            (self.work / name).chmod(0o666)
        self.packages = readable_packages(folder / "packages")

    def close(self) -> None:
        super().close()
        clean_after_users(self.home)


class UsersCrowd(Crowd):
    """Submits each job as its user, at the socket."""

    def __init__(self, site: UsersSite, seed: int) -> None:
        super().__init__(site, seed, SORTS)
        self._shared = site

    def _send(self, place: str, spec: dict[str, Any]) -> int:
        uid = _user(place)
        _, *words = spec["run"]
        sent = {
            **spec,
            "run": [PYTHON, *words],
            "env": {"PATH": os.defpath, "PYTHONPATH": str(self._shared.packages), "PYTHONDONTWRITEBYTECODE": "1"},
            "workdir": str(self._shared.folders[uid]),
        }
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
