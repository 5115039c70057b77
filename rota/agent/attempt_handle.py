"""One attempt, as the agent of its machine knows it."""

import atexit
import contextlib
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

from rota.agent import datagrams
from rota.agent.attempt_files import AttemptStatus, LaunchOrder, read_order, read_status, starting, unix_s, write_order
from rota.agent.command_datagrams import encode_command
from rota.agent.constants import ENDED, LOST, PREPARE
from rota.agent.disk import COMPLAINTS, CONTROL, JOB_LOCK, STATUS, SUPERVISOR_LOCK, is_free, sync_folder
from rota.agent.lost import declare_lost, signs_of
from rota.agent.processes import Process, ProcessIdentity, boot_id, boot_s, holders
from rota.agent.rules import AgentCommand
from rota.folders import make_folder

PATIENCE_SECONDS = 10.0
"""Longest time in which a new supervisor comes up, in seconds."""

YOUNG_SECONDS = 2.0

PACKAGES = str(Path(__file__).resolve().parents[2])

_FORK = "import os, sys\nif os.fork():\n    os._exit(0)\nos.setsid()\nos.execv(sys.argv[1], sys.argv[1:])"
"""Program that starts another one and exits, so that the other one has no parent here."""
_NOT_HANDED_ON = ("RAY_", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
"""Prefixes of variables that are for the process that starts supervisors, and not for the supervisors."""

_children: "list[subprocess.Popen[bytes]]" = []
"""Supervisors that this process started and has not reaped, and programs that remove folders. They outlive the object that
started them."""


def reap() -> None:
    _children[:] = [child for child in _children if child.poll() is None]


def take_care_of(process: "subprocess.Popen[bytes]") -> None:
    """Reap a process when it has ended, without waiting for it."""
    _children.append(process)


@atexit.register
def _let_go() -> None:
    """Keep Python from warning about supervisors that outlive this process, as they should."""
    for child in _children:
        child.returncode = child.poll() or 0


class AttemptHandle:
    """Starts the supervisor of one attempt, reads what it wrote, and sends it datagrams."""

    def __init__(self, folder: Path, job: int, attempt: int, order: LaunchOrder | None = None, *, detached: bool = False) -> None:
        """`detached`: whether its supervisor has no parent, because the end of this process may end its children too."""
        self.folder, self.job, self.attempt, self._detached = folder, job, attempt, detached
        self.order = order or read_order(folder)
        self.status: AttemptStatus | None = None
        self.supervised = False
        """Whether the attempt had a supervisor at the last look."""
        self.problem = ""
        """Why the agent ended its supervisor; empty if it did not."""
        self._process: subprocess.Popen[bytes] | None = None
        self._launched_s = 0.0
        self._seen_s = 0.0
        self._stamp: tuple[int, int] | None = None
        self._unsent: list[dict[str, object]] = []

    @property
    def ended(self) -> bool:
        return self.status is not None and self.status.state == ENDED

    @property
    def _last(self) -> AttemptStatus:
        """Status as of the last look."""
        return self.status or starting(self.job, self.attempt, self.order)

    def to_status(self) -> AttemptStatus:
        """Return the status as drivers get it. A renewal changes only the file, and is not news."""
        return self._last._replace(lease_s=None, written_boot_s=0.0)

    # Starting it.

    def launch(self, order: LaunchOrder) -> None:
        """Write the order, then start the supervisor. `machine` explains why this sequence is safe."""
        self.order = order
        try:
            make_folder(self.folder)
            for lock in (self.folder.parent / JOB_LOCK, self.folder / SUPERVISOR_LOCK):
                lock.touch(mode=0o600)
            write_order(self.folder, order)
            sync_folder(self.folder.parent)
            sync_folder(self.folder.parent.parent)
            self._process = self._start()
        except OSError as error:
            # Nothing runs. If the order got to disk it is declared lost at the next look; else it ends here.
            with contextlib.suppress(OSError):
                (self.folder / COMPLAINTS).write_text(str(error), encoding="utf-8")
            if read_order(self.folder) is None:
                self.refuse(order, f"its order could not be written: {error}")
            return
        _children.append(self._process)
        self.supervised, self._launched_s = True, time.monotonic()

    def refuse(self, order: LaunchOrder, problem: str) -> None:
        """End the attempt as lost before any of its files exists."""
        self.order = order
        never = starting(self.job, self.attempt, order)
        self.status = never._replace(state=ENDED, outcome=LOST, problem=problem, ended_s=unix_s(order, boot_id()))

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the supervisor. Its Python has no site packages and no current folder: that is quick, and the same everywhere."""
        run = [sys.executable, "-S", "-P", "-m", "rota.agent.supervisor", str(self.folder)]
        env = {**os.environ, "PYTHONPATH": PACKAGES}
        if self._detached:
            run = [sys.executable, "-S", "-P", "-c", _FORK, *run]
            env = {name: value for name, value in env.items() if not name.startswith(_NOT_HANDED_ON)}
        with (self.folder / COMPLAINTS).open("ab") as complaints:
            return subprocess.Popen(
                run,
                stdin=subprocess.DEVNULL,
                stdout=complaints,
                stderr=complaints,
                cwd="/",
                env=env,
                start_new_session=True,
            )

    # Looking at it.

    def look(self) -> None:
        """Read what its supervisor wrote, and check whether the supervisor is running."""
        self.read()
        if self.ended:
            return
        now = boot_s()
        self.supervised = self._is_supervised()
        if self.supervised:
            if self.status is not None:
                self._seen_s = now
            self._send()

    def read(self) -> None:
        if self.ended:
            return
        with contextlib.suppress(OSError):
            found = (self.folder / STATUS).stat()
            stamp = (found.st_ino, found.st_mtime_ns)
            if stamp != self._stamp and (status := read_status(self.folder, self.order)) is not None:
                # Clocks of file systems are coarse: a young file may be replaced by one with the same stamp.
                if self.status is not None and status.pid != self.status.pid:  # it was started again, with another size
                    self.order = read_order(self.folder) or self.order
                    status = read_status(self.folder, self.order) or status
                self.status, self._stamp = status, stamp if time.time() - found.st_mtime > YOUNG_SECONDS else None

    def _is_supervised(self) -> bool:
        ours = self._process is not None and (self._detached or self._process.poll() is None)
        # Its lock is not looked at while it comes up: looking takes it for an instant, and the supervisor would leave.
        young = time.monotonic() - self._launched_s < PATIENCE_SECONDS
        if ours and (young and self.status is None if self._detached else young or self.status is not None):
            return True
        return not is_free(self.folder / SUPERVISOR_LOCK)

    def is_deserted(self) -> bool:
        """Return whether it has no supervisor. Do not call this while a supervisor comes up."""
        return is_free(self.folder / SUPERVISOR_LOCK)

    def declare_lost(self, *, job_lives_on: bool) -> None:
        """End the attempt if it has no supervisor. If the disk cannot take the end, the next look tries again."""
        with contextlib.suppress(OSError):
            lost = declare_lost(
                self.folder, self.order, self._last, seen_s=self._seen_s, job_lives_on=job_lives_on, problem=self.problem
            )
            self.status = lost or self.status

    # Its lease. Another thread calls these, and they change nothing.

    def gone_s(self, *, fresh: bool) -> float:
        """Return when its job has to be gone, on the clock that counts from boot. `fresh`: whether to read the file again."""
        order, status = self.order, read_status(self.folder) if fresh else self.status
        if order is None or (fresh and order.boot_id != boot_id()):
            return math.inf
        lease_s: float | None = order.written_boot_s + order.lease_seconds
        if status is not None:
            lease_s = status.lease_s if status.state != ENDED else None
        return math.inf if lease_s is None else lease_s + min(order.grace_seconds, order.lease_grace_seconds)

    def supervisors(self) -> list[Process]:
        """Return its supervisor, if it is running."""
        return holders(self.folder / SUPERVISOR_LOCK)

    def signs(self, ancestor: int) -> ProcessIdentity:
        """Return how its processes are recognised. `ancestor`: its supervisor."""
        last = read_status(self.folder, self.order) or self._last
        return signs_of(self.order, last, self._seen_s)._replace(ancestor=ancestor)

    # Speaking to it.

    def send(self, command: AgentCommand) -> bool:
        """Send a command. Return False if the attempt has ended. If its supervisor cannot take it now, the latest command of each
        kind is sent later."""
        self.read()
        if self.ended:
            return False
        self._add(encode_command(command))
        return True

    def prepare(self) -> None:
        """Ask for host memory, into which the attempt can be parked later."""
        self._add({"op": PREPARE})

    def _add(self, message: dict[str, object]) -> None:
        self._unsent = [*(other for other in self._unsent if other["op"] != message["op"]), message]
        self._send()

    def _send(self) -> None:
        while self._unsent and datagrams.send(self.folder, CONTROL, json.dumps(self._unsent[0]).encode()):
            del self._unsent[0]
