"""A scheduler that serves all users of a machine, for tests as root: its socket, and what real Unix users do there."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rota.errors import ForbiddenError, RotaError, SpecError, UnknownNameError, UnreachableError
from rota.wire.client import Client
from tests.live.agent.users import ANA, LEO, PATH
from tests.live.harness import JOB, Site
from tests.waiting import until


class Shared(Site):
    """A scheduler that serves all users through a socket in a folder that all may enter."""

    def __init__(self, folder: Path, *, pretend: str = "4xV100", policy: str = "fifo") -> None:
        super().__init__(folder / "own", pretend=pretend, policy=policy)
        (folder / "own").chmod(0o700)
        self.socket = folder / "socket" / "rota.sock"
        self.flags |= {"--all-users": "", "--listen": f"unix:{self.socket}"}
        self.folders: dict[int, Path] = {}
        for user in (ANA, LEO):
            mine = folder / user.pw_name
            mine.mkdir(mode=0o700)
            os.chown(mine, user.pw_uid, user.pw_gid)
            self.folders[user.pw_uid] = mine

    def open_work(self, work: Path, *files: str) -> None:
        """Make this the folder where jobs leave their traces: every user may add files to it, and write to the named ones."""
        self.work = work
        work.mkdir()
        work.chmod(0o777)
        (work / "job.py").write_text(JOB)
        for name in ("violations", *files):
            (work / name).touch()
            (work / name).chmod(0o666)

    def shared_client(self) -> Client:
        return Client(f"unix:{self.socket}", None)

    def as_user(self, uid: int, act: Callable[[Client], Any]) -> Any:
        """Return what `act` returns in a process of this user, or the error that it raises, with a client of the socket."""
        self.shared_client().me()  # loads what the process could not read
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            found: dict[str, Any] = {"error": "", "message": "it died"}
            try:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
                os.chdir("/")
                found = {"value": act(self.shared_client())}
            except BaseException as problem:  # whatever it is, the test is to see it
                found = {"error": type(problem).__name__, "message": str(problem)}
            os.write(writing, json.dumps(found).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        found = json.loads(text)
        if "error" in found:
            kinds = (ForbiddenError, SpecError, UnknownNameError, UnreachableError, PermissionError, RotaError)
            kind = next((each for each in kinds if each.__name__ == found["error"]), RuntimeError)
            problem = kind.__new__(kind)
            problem.args = (found["message"],)
            raise problem
        return found["value"]

    def submit_as(self, uid: int, run: str, **spec: Any) -> int:
        def act(client: Client) -> int:
            sent = {"run": run, "env": {"PATH": PATH}, **spec}
            return client.submit_spec(sent, workdir=str(self.folders[uid])).id

        return int(self.as_user(uid, act))

    def output(self, job: int, *, follow: bool = True) -> str:
        """Return what a job wrote, without the scheduler's own lines: until it ended, or up to now."""
        text = "".join(piece.text for piece in self.client().log_pieces(job, follow=follow))
        return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("--- rota"))

    def ended(self, job: int) -> str:
        (row,) = self.client().ends([job])
        return row.phase

    def pid_of(self, job: int) -> int:
        """Return the process of a job whose first line of output is its number."""
        until(lambda: "\n" in self.output(job, follow=False), f"job {job} prints")
        return int(self.output(job, follow=False).split()[0])
