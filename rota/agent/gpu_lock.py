"""A lock for each real GPU, so that two schedulers of one machine never schedule the same one, whichever users run them.

It is an abstract Unix socket with the UUID in its name. That needs no file which two users would have to share, and goes with the
process. A second one, beside it, says by its name who has the lock. The names belong to the network namespace: schedulers in
containers with networks of their own don't see each other's, and notice each other's jobs by NVML (`other_programs.py`).
"""

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rota.errors import RotaError
from rota.wire.home import user_of

LOCK, HOLDER = "rota-gpu/", "rota-by/"
MAX_NAME_BYTES = 107
"""Bytes of a name that the kernel takes."""
NAMES = Path("/proc/net/unix")


class LockHolder(NamedTuple):
    """The scheduler that has a GPU."""

    pid: int
    home: str
    """Cut off if it is long; empty: not known."""

    def __str__(self) -> str:
        user = "another user"
        with contextlib.suppress(OSError):
            user = user_of(Path(f"/proc/{self.pid}").stat().st_uid)
        return f"process {self.pid} of {user}" + (f", home {self.home}" if self.home else "")


@contextlib.contextmanager
def hold_gpus(uuids: Sequence[str], home: Path) -> Iterator[None]:
    """Inside, no other scheduler gets these GPUs. Raise if one has."""
    with contextlib.ExitStack() as held:
        for uuid in uuids:
            try:
                held.enter_context(_bound(LOCK + uuid))
            except OSError:
                holder = holder_of(uuid)
                by = f"by {holder}" if holder is not None else "by another scheduler"
                hint = "rota down there; or use that scheduler: rota jobs --home HOME"
                raise RotaError(f"GPU {uuid} is scheduled already, {by}.", hint=hint) from None
            with contextlib.suppress(OSError):  # only a word for others
                held.enter_context(_bound(f"{HOLDER}{uuid}/{os.getpid()}{home}"))
        yield


def holder_of(uuid: str) -> LockHolder | None:
    """As it says itself. None: none says so."""
    prefix = f"@{HOLDER}{uuid}/"
    with contextlib.suppress(OSError):
        for line in NAMES.read_text(encoding="utf-8", errors="replace").splitlines():
            _, found, rest = line.partition(prefix)
            pid, slash, home = rest.partition("/")
            if found and pid.isdecimal():
                return LockHolder(int(pid), slash + home)
    return None


def _bound(name: str) -> socket.socket:
    box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        box.bind(b"\0" + os.fsencode(name)[:MAX_NAME_BYTES])
    except BaseException:
        box.close()
        raise
    return box
