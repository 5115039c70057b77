"""Programs on the GPUs of this machine that are no jobs of this home: another user's notebook, a job of another scheduler.

NVML lists the processes that compute on a GPU. A process is ours if it, or a process above it, carries the id of one of our
attempts or is the supervisor of one: so are the children of a job, whatever they do to their environment. Servers of MPS compute
for others and do not count. In a container NVML's numbers are those of the host, and nothing is known.
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from rota.agent.disk import RUN
from rota.agent.gpu_readings import Readings
from rota.agent.processes import PROC, attempt_id_of, parent_of
from rota.wire.home import user_of

STAYS_SECONDS = 3.0
"""A process that has just appeared may be one of ours that ends: it counts when it is seen for this long."""
MPS_NAME = "nvidia-cuda-mps"
"""What the kernel keeps of the names of MPS's processes."""
SUPERVISOR = b"rota.agent.supervisor"
_FIRST_NAMESPACE = 0xEFFFFFFC
"""Linux's number of the process namespace of a machine, outside of containers."""


class OtherPrograms:
    """Programs on the GPUs of one home that are not its jobs, by the UUID of the GPU."""

    def __init__(self, home: Path) -> None:
        self._run = os.fsencode(home / RUN) + b"/"
        self._since_s: dict[str, float] = {}
        """When other programs were first seen on a GPU, of those that have them."""
        self._read_s = -1.0
        self.found: Mapping[str, str] = {}
        """Who uses a GPU, in words."""

    def look(self, readings: Readings, attempt_ids: Collection[str]) -> Mapping[str, str]:
        """`attempt_ids`: those of all attempts of this home. What is there at the first look counts at once."""
        read_s = max((reading.at_s for reading in readings.values()), default=self._read_s)
        if read_s <= self._read_s:
            return self.found  # nothing was read since
        first, self._read_s = self._read_s < 0, read_s
        seen = {uuid: pids for uuid, each in readings.items() if (pids := self._others(each.processes or (), attempt_ids))}
        self._since_s = {uuid: self._since_s.get(uuid, read_s) for uuid in seen}
        self.found = {uuid: _words(pids) for uuid, pids in seen.items() if first or read_s - self._since_s[uuid] >= STAYS_SECONDS}
        return self.found

    def _others(self, pids: Iterable[int], attempt_ids: Collection[str]) -> list[int]:
        if not reports_own_numbers():
            return []
        others = (pid for pid in sorted(pids) if _lives(pid) and not _name(pid).startswith(MPS_NAME))
        return [pid for pid in others if not self._is_ours(pid, attempt_ids)]

    def _is_ours(self, pid: int, attempt_ids: Collection[str]) -> bool:
        above: int | None = pid
        while above is not None and above > 1:
            if ((attempt_id := attempt_id_of(above)) and attempt_id in attempt_ids) or self._is_supervisor(above):
                return True
            above = parent_of(above)
        return False

    def _is_supervisor(self, pid: int) -> bool:
        """Whether it is one of this home."""
        with contextlib.suppress(OSError):
            if (PROC / str(pid)).stat().st_uid != os.geteuid():
                return False  # any program can look like one
            words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
            return SUPERVISOR in words and any(word.startswith(self._run) for word in words)
        return False


def reports_own_numbers() -> bool:
    """Whether NVML's numbers of processes are those of this process's own view of the machine."""
    with contextlib.suppress(OSError):
        return (PROC / "self/ns/pid").stat().st_ino == _FIRST_NAMESPACE
    return False


def _lives(pid: int) -> bool:
    """Also of a process that is hidden from us."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _words(pids: list[int]) -> str:
    """`process 4242 (python) of ana`."""
    pid, more = pids[0], len(pids) - 1
    name, user = "".join(sign if sign.isprintable() else "?" for sign in _name(pid)), "another user"
    with contextlib.suppress(OSError):
        user = user_of((PROC / str(pid)).stat().st_uid)
    return f"process {pid}" + (f" ({name})" if name else "") + f" of {user}" + (f" and {more} more" if more else "")
