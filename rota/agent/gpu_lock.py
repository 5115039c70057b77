"""A lock for each real GPU, so that two schedulers of one machine never schedule the same one, whichever users run them.

It is an abstract Unix socket with the UUID in its name. That needs no file which two users would have to share, and goes with the
process. A second one, beside it, says by its name who has the lock. The names belong to the network namespace: schedulers in
containers with networks of their own don't see each other's, and notice each other's jobs by NVML (`other_programs.py`).

Every user of the machine can take such a name and keep root's scheduler from starting. So schedulers of root lock files of root
too, and take a GPU whose name a process of another user has.
"""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rota.errors import NotYours, RotaError
from rota.folders import make_folder, open_file
from rota.wire.home import user_of

LOCK, HOLDER = "rota-gpu/", "rota-by/"
MAX_NAME_BYTES = 107
"""Bytes of a name that the kernel takes."""
NAMES = Path("/proc/net/unix")
ROOT_LOCKS = Path("/run/rota-gpus")
"""Folder with the files that schedulers of root lock."""
_DIAG = struct.Struct("=IHHIIBBHIIIII")
"""A netlink header, and a request for the facts about one Unix socket (unix_diag_req in linux/unix_diag.h)."""
_BY_FAMILY, _REQUEST, _SHOW_UID, _ANY, _UID, _FACTS_BYTES = 20, 1, 0x40, 0xFFFFFFFF, 7, 32


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
def hold_gpus(uuids: Sequence[str], home: Path, tell: Callable[[str], None] = lambda line: None) -> Iterator[None]:
    """Inside, no other scheduler gets these GPUs. Raise if one has. Root takes a GPU whose name another user has;
    `tell` gets a line."""
    with contextlib.ExitStack() as held:
        for uuid in uuids:
            if os.geteuid() == 0:
                held.enter_context(_locked(uuid))
            try:
                held.enter_context(_bound(LOCK + uuid))
            except OSError:
                whose = _user_of_name(LOCK + uuid) if os.geteuid() == 0 else None
                if not whose:
                    raise _taken(uuid) from None
                tell(f"GPU {uuid} is also claimed by a process of {user_of(whose)}, which root's scheduler does not heed")
            with contextlib.suppress(OSError):  # only a word for others
                held.enter_context(_bound(f"{HOLDER}{uuid}/{os.getpid()}{home}"))
        yield


def _taken(uuid: str) -> RotaError:
    holder = holder_of(uuid)
    by = f"by {holder}" if holder is not None else "by another scheduler"
    return RotaError(
        f"GPU {uuid} is scheduled already, {by}.", hint="rota down there; or use that scheduler: rota jobs --home HOME"
    )


@contextlib.contextmanager
def _locked(uuid: str) -> Iterator[None]:
    """Inside, no other scheduler of root gets this GPU. On a machine without the folder, its name alone is the lock."""
    try:
        make_folder(ROOT_LOCKS)
        file = open_file(ROOT_LOCKS / uuid.replace("/", "_"), os.O_RDWR | os.O_CREAT)
    except NotYours:
        raise
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(uuid) from None
        yield
    finally:
        os.close(file)


def _user_of_name(name: str) -> int | None:
    """Return the user who has made the socket with an abstract name, as the kernel states it; root if root has one of several,
    None if it is not known."""
    found: list[int | None] = []
    with contextlib.suppress(OSError, ValueError, struct.error):
        for line in NAMES.read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split(None, 7)
            if words[7:] == [f"@{name}"]:  # so is the name of a file that begins with @
                found.append(_user_of_socket(int(words[6])))
    users = [each for each in found if each is not None]
    return min(users) if found and len(users) == len(found) else None


def _user_of_socket(inode: int) -> int | None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as asked:  # NETLINK_SOCK_DIAG
        asked.settimeout(5.0)
        ask = (_DIAG.size, _BY_FAMILY, _REQUEST, 1, 0, socket.AF_UNIX, 0, 0, _ANY, inode, _SHOW_UID, _ANY, _ANY)
        asked.send(_DIAG.pack(*ask))
        found = asked.recv(65_536)
    length, kind = struct.unpack_from("=IH", found)
    at = _FACTS_BYTES
    while kind == _BY_FAMILY and at < length:
        size, what = struct.unpack_from("=HH", found, at)
        if what == _UID:
            return int(struct.unpack_from("=I", found, at + 4)[0])
        at += max((size + 3) & ~3, 4)
    return None


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
