"""Jobs of other Unix users than the agent's, for tests: the users, and a bench that starts their jobs. Only root can do that."""

import contextlib
import grp
import os
import pwd
import shutil
import subprocess
from pathlib import Path

from rota.agent.attempt_files import read_order
from rota.agent.attempt_handle import PACKAGES
from rota.agent.constants import ATTEMPT_ID
from rota.agent.machine import LaunchOrder
from rota.agent.others_job_folder import clear_gone, discard, place_of
from rota.agent.processes import ProcessIdentity, end_all
from tests.live.agent.bench import Bench
from tests.waiting import LONG_SECONDS

ANA, LEO = pwd.getpwnam("daemon"), pwd.getpwnam("mail")
"""Users that every Linux has. Nothing else of theirs runs."""
NAMELESS = 2_000_017
"""A user without a name here."""
PATH = "/usr/local/bin:/usr/bin:/bin"
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or "python3"
"""A Python that every user may run."""


TRIED = """
import ctypes, json, os, signal, socket, stat, sys
def tried(what, act):
    try:
        act()
    except OSError as error:
        print("refused", what, error.strerror, flush=True)
    else:
        print("DONE", what, flush=True)
"""
"""Beginning of a script that calls `tried(what, act)` for each attempt."""


def with_groups() -> pwd.struct_passwd:
    """Return a user with more groups than one if there is such a user, else ana."""
    found = [name for group in grp.getgrall() if group.gr_gid for name in group.gr_mem]
    for name in found:
        with contextlib.suppress(KeyError):
            if pwd.getpwnam(name).pw_uid:
                return pwd.getpwnam(name)
    return ANA


def clean_after_users(homes: Path) -> None:
    """End the jobs of other users whose homes are below a folder, and remove what is outside of these homes."""
    removers: list[subprocess.Popen[bytes]] = []
    for launch in homes.rglob("run/*/*/launch.json"):
        order = read_order(launch.parent)
        if order is not None and order.uid is not None:
            end_all(ProcessIdentity(order.env[ATTEMPT_ID], 0.0, uid=order.uid), seconds=LONG_SECONDS)
        discard(launch.parent, removers.append)
    for remover in removers:
        remover.wait(LONG_SECONDS)
    clear_gone(removers.append)
    for remover in removers:
        remover.wait(LONG_SECONDS)


def readable_packages(copy: Path) -> Path:
    """Return a copy of Rota's packages in this folder that every user can read."""
    if not copy.exists():
        shutil.copytree(Path(PACKAGES) / "rota", copy / "rota", ignore=shutil.ignore_patterns("__pycache__", "sim", "papers"))
        subprocess.run(["chmod", "-R", "a+rX", str(copy)], check=True)
    return copy


class UserBench(Bench):
    """A bench whose `work` folder holds a folder for each user, which only that user can enter."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.work = home.parent / "work"
        self.work.mkdir()
        self.work.chmod(0o711)

    def clean(self) -> None:
        super().clean()
        clean_after_users(self.home)

    def folder_of(self, user: int) -> Path:
        """Return the folder that is this user's own."""
        folder = self.work / str(user)
        if not folder.exists():
            folder.mkdir(mode=0o700)
            os.chown(folder, user, user)
        return folder

    def python(self, script: str, user: int, *, env: dict[str, str] | None = None, **how: object) -> LaunchOrder:
        """Return the order for a Python script of a user."""
        how.setdefault("workdir", str(self.folder_of(user)))
        mine = {"PATH": PATH, "PYTHONPATH": str(self.packages()), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        return self.order(PYTHON, "-c", script, env=mine, **how)._replace(uid=user)  # type: ignore[arg-type]

    def shell(self, script: str, user: int, **how: object) -> LaunchOrder:
        """Return the order for a shell script of a user."""
        how.setdefault("workdir", str(self.folder_of(user)))
        return self.sh(script, **{"env": {"PATH": PATH}, **how})._replace(uid=user)

    def packages(self) -> Path:
        """Return a copy of Rota's packages that every user can read."""
        return readable_packages(self.work / "packages")

    def run_folder(self, job: int = 1, attempt: int = 1) -> Path:
        """Return the folder of another user's job."""
        return place_of(self.folder(job, attempt))

    def pid(self, job: int = 1, attempt: int = 1) -> int:
        """Return the number of the main process of a job that runs."""
        found = self.wait(job, attempt, "running").pid
        assert found is not None
        return found
