"""Parking of one attempt in its supervisor: which processes have the hook, which of them are parked, and which owe a reply.

The supervisor sends a signal to every process that has reported its hook. The process confirms the signal, gets the request to
park, and reports when it is parked. The attempt is parked when all of them are. If one process can't be parked, or does not reply
in time, the parked ones are resumed and the supervisor continues as without parking. `rota/park/hook/rota_park_hook.py` is the
other side.

A job that is parked by the driver's checkpoint has no hook. A program beside the supervisor calls the driver, and reports the
result in the same format.
"""

import contextlib
import json
import os
import re
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from rota.agent.attempt_files import is_count, seconds
from rota.agent.checkpoint_program import CheckpointProgram
from rota.agent.constants import DAMAGED, HOOKED, LATER, PARK, PARK_SIGNAL, PARKED, PREPARE, RESUMED, RINGING, UNPARKABLE, WAKE
from rota.agent.job_folder import JobFolder
from rota.agent.processes import boot_s, open_files, uid_of

HEAR_SECONDS = 20.0
"""Time limit for a process to react to the park signal, in seconds. Python reacts between two bytecodes, and not during a call
into C."""
PARK_SECONDS = 300.0
"""Time limit for moving memory to the host, in seconds. The first time it takes 0.75 s for each GiB."""
WAKE_SECONDS = 300.0
RING_AGAIN_SECONDS = 1.0
MAX_REASON_CHARS = 300
MAX_HOOKS = 10_000
"""Maximum number of processes with a hook. Any process can claim to be many."""

_GPU = re.compile(r"/dev/nvidia\d+")

AWAKE, PARKING, ASLEEP, WAKING = "awake", "parking", "asleep", "waking"


class Parking:
    """Instants are on the clock that counts from boot."""

    def __init__(
        self, folder: JobFolder, living: Callable[[], Collection[int]], patience_seconds: float, *, by_driver: bool = False
    ) -> None:
        """`folder`: that of the job; `living`: returns the numbers of the job's processes; `patience_seconds`: limit on
        the time for reacting to the signal, if it is less than usual."""
        self.program = CheckpointProgram(folder.path, folder.uid) if by_driver else None
        self.folder, self._living = folder, living
        self._hear_seconds = min(HEAR_SECONDS, patience_seconds)
        self.hooked: set[int] = set()
        self.phase = AWAKE
        self.problem = ""
        """Why the last attempt to park it failed."""
        self.gib = 0.0
        """Memory that the last park moved to the host, in GiB."""
        self.damaged_mib: int | None = None
        """GPU memory that came back different from the host, in MiB; None if none did."""
        self._asleep: set[int] = set()
        self._waited_for: set[int] = set()
        """Processes that owe a reply."""
        self._heard: set[int] = set()
        """Processes in the handler. They have the request to park, and are parked or soon will be."""
        self._cuda: set[int] = set()
        self._prepared: set[int] = set()
        """Processes that have been asked to prepare, or are to be."""
        self._deadline_s = self._again_s = float("inf")

    def is_helper(self, pid: int) -> bool:
        """Return whether this process is the supervisor's, and not the job's."""
        return self.program is not None and self.program.pid == pid

    def close(self) -> None:
        if self.program is not None:
            self.program.close()

    @property
    def next_s(self) -> float:
        """When to look at the processes again."""
        return min(self._deadline_s, self._again_s) if self.phase in (PARKING, WAKING) else float("inf")

    def begin(self) -> None:
        """Send the signal to every process that has the hook."""
        self.problem, self.gib, self.phase = "", 0.0, PARKING
        self._asleep, self._heard, self._cuda = set(), set(), set()
        if self.program is not None:
            return self._begin_by_driver(self.program)
        self._waited_for = self.hooked & set(self._living())
        self._deadline_s = boot_s() + self._hear_seconds
        if not self._waited_for:
            return self._give_up("no process of it has the start-up hook: it is not Python, or its Python loads no sitecustomize")
        self._ring()

    def _begin_by_driver(self, program: CheckpointProgram) -> None:
        living = set(self._living()) - {program.pid}
        self._waited_for = {pid for pid in living if any(_GPU.fullmatch(path) for path in open_files(pid))}
        if len(self._waited_for) != 1:
            many, self._waited_for = len(self._waited_for), set()
            return self._give_up(f"{many} of its processes use a GPU, and one does in a job that can be parked")
        self._heard = set(self._waited_for)
        self._deadline_s, self._again_s = boot_s() + PARK_SECONDS, boot_s() + RING_AGAIN_SECONDS
        program.say(PARK, *self._waited_for)

    def prepare(self) -> None:
        """Have the processes with the hook get host memory ready, while they go on."""
        if self.program is not None or self.phase != AWAKE:
            return
        for pid in (self.hooked & set(self._living())) - self._prepared:
            self._prepared.add(pid)
            self._signal(pid)

    def wake(self) -> None:
        """Resume all parked processes. Without any, the attempt is awake at once."""
        self._waited_for = (self._asleep | self._heard) & set(self._living())
        self.phase = WAKING if self._waited_for else AWAKE
        self._deadline_s = boot_s() + WAKE_SECONDS
        self._say_wake(first=True)

    def hear(self, message: dict[str, Any]) -> None:
        """Take in a report of a hook. A process number in it gets a signal only if it is that of a process of the job."""
        op, pid = message.get("op"), message.get("pid")
        if not is_count(pid):
            return
        if op == HOOKED and len(self.hooked) < MAX_HOOKS:
            self.hooked.add(pid)
        elif op == RINGING:
            self._rang(pid)
        elif op == PARKED and self.phase == PARKING:
            self._fell_asleep(pid, message)
        elif op == PARKED and len(self._asleep) < MAX_HOOKS:  # too late
            self._asleep.add(pid)
            self._say(pid, WAKE)
        elif op == DAMAGED and pid in self.hooked:
            mib = message.get("mib")
            self.damaged_mib = mib if is_count(mib) else 1
        elif op == RESUMED:
            self._left(pid)
            self._settle()
        elif op == LATER and self.phase == PARKING:
            self._heard.discard(pid)
            self._again_s = boot_s() + RING_AGAIN_SECONDS
        elif op in (LATER, UNPARKABLE):
            wanted = self.phase == PARKING and pid in self._waited_for
            self._left(pid)
            if wanted:
                self._give_up(str(message.get("reason", ""))[:MAX_REASON_CHARS])
            self._settle()

    def look(self) -> None:
        """Handle processes that have ended, and processes that take too long."""
        now = boot_s()
        if self.phase not in (PARKING, WAKING) or now < self.next_s:
            return
        living = set(self._living())
        self._waited_for &= living
        self._asleep &= living
        self._heard &= living
        if self.phase == PARKING and not self._waited_for and not self._asleep:
            return self._give_up("the processes with the start-up hook have ended")
        self._settle()
        if self.phase == PARKING and now >= self._deadline_s:
            deaf = self._waited_for - self._heard
            self._give_up(
                f"it did not answer signal {PARK_SIGNAL} in {self._hear_seconds:.0f} s: a handler of its own, or a long call"
                if deaf
                else f"it took more than {PARK_SECONDS:.0f} s"
            )
        elif self.phase == PARKING:
            self._ring()
        elif self.phase == WAKING and now >= self._deadline_s:
            self.phase = AWAKE  # the supervisor goes on without the answer
        elif self.phase == WAKING:
            self._say_wake()

    # Changes of phase.

    def _left(self, pid: int) -> None:
        """Note that a process has left the handler."""
        for each in (self._asleep, self._heard, self._waited_for):
            each.discard(pid)

    def _rang(self, pid: int) -> None:
        """Reply to a process that got the signal and asks whether to park."""
        meant = self.phase == PARKING and pid in self._waited_for
        otherwise = PREPARE if pid in self._prepared else WAKE
        if self._say(pid, PARK if meant else otherwise) and meant:
            self._heard.add(pid)
            if self._waited_for <= self._heard:
                self._deadline_s = boot_s() + PARK_SECONDS

    def _fell_asleep(self, pid: int, message: dict[str, Any]) -> None:
        self._asleep.add(pid)
        self._waited_for.discard(pid)
        self.gib += seconds(message.get("gib")) or 0.0
        if message.get("cuda") is True:
            self._cuda.add(pid)
        if len(self._cuda) > 1:
            return self._give_up(f"{len(self._cuda)} of its processes use a GPU, and only one can be parked yet")
        self._settle()

    def _settle(self) -> None:
        """Change the phase if no process owes a reply."""
        if self._waited_for:
            return
        if self.phase == PARKING and self._asleep:
            self.phase = ASLEEP
        elif self.phase == WAKING:
            self.phase = AWAKE

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        self.wake()

    # Speaking to hooks.

    def _ring(self) -> None:
        """Send the signal to processes that have not confirmed it, unless one has no handler and would die."""
        self._again_s = boot_s() + RING_AGAIN_SECONDS
        if self.program is not None:
            return None if self.program.lives else self._give_up("the program that calls the driver's checkpoint has ended")
        for pid in self._waited_for - self._heard:
            if not self._signal(pid):
                return self._give_up(f"it has set signal {PARK_SIGNAL} back, which is what parks it")
        return None

    def _signal(self, pid: int) -> bool:
        """Send the signal to a process. Return False if it would die of it."""
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                if not _catches(pid):
                    return False
                if self.folder.uid in (None, uid_of(pid)):  # another may have the number by now
                    signal.pidfd_send_signal(handle, PARK_SIGNAL)
            finally:
                os.close(handle)
        return True

    def _say_wake(self, *, first: bool = False) -> None:
        """Ask processes to resume. Hooks get the request repeatedly. The program that calls the driver gets it once, and again if
        it has ended."""
        self._again_s = boot_s() + RING_AGAIN_SECONDS
        if self.program is None:
            for pid in self._asleep:
                self._say(pid, WAKE)
        elif first or not self.program.lives:
            for pid in self._waited_for:
                self.program.say(WAKE, pid)

    def _say(self, pid: int, op: str) -> bool:
        return self.folder.send(f"park-{pid}", json.dumps({"op": op}).encode())


def _catches(pid: int) -> bool:
    """Return whether a process has a handler for the park signal."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (PARK_SIGNAL - 1) & 1)
    except OSError:
        return True  # it has ended
    return False
