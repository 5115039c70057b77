"""The folder of another user's job, in place of the one in `job_folder.py`.

The folder of an attempt is closed to other users, so the folder of another user's job is below `JOBS`, which every user may pass
through and only root may read or change. It belongs to the user, who may put anything there at any moment. So root opens nothing
there by path: it makes new files, sends to sockets that it has opened and checked, and removes names. What remains at the end is
removed by a process of the user.
"""

import contextlib
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

from rota.agent import datagrams
from rota.agent.disk import REPORT_SOCKET, write_atomic
from rota.agent.job_folder import JobFolder
from rota.agent.job_user import JobUser
from rota.folders import open_folder

JOBS = Path("/var/lib/rota-jobs")
"""Folders of jobs of other users than the agent's own. It is on a disk, because users can fill what holds it."""
_PASSABLE = 0o711
"""Mode of a folder that every user can enter and only its owner can list."""
_GONE = "gone-"
"""Prefix of the name of a folder that is being removed."""


class OthersJobFolder(JobFolder):
    """The folder of another user's job. Only root makes one."""

    def __init__(self, attempt: Path, user: JobUser) -> None:
        super().__init__(attempt)
        self.path, self.user, self.uid = place_of(attempt), user, user.uid
        self._here = -1

    def open(self) -> socket.socket:
        """Make the folder with its socket, and then give both to the user."""
        _make_jobs()
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, JOBS / (_GONE + os.urandom(8).hex()))  # noqa: PTH104  of a home that was removed
        self.path.mkdir(mode=0o700)
        box = datagrams.listen(self.path, REPORT_SOCKET)
        box.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        os.chown(self.path / REPORT_SOCKET, self.user.uid, self.user.gid, follow_symlinks=False)
        self._here = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.fchown(self._here, self.user.uid, self.user.gid)
        return box

    def receive(self, box: socket.socket, most: int) -> list[bytes]:
        """Drop reports of processes of other users."""
        return datagrams.receive_from(box, most, self.user.uid)

    def write(self, name: str, text: bytes) -> None:
        new = f".{name}.{os.urandom(8).hex()}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._here)
        try:
            os.write(descriptor, text)
            os.fchown(descriptor, self.user.uid, self.user.gid)
        finally:
            os.close(descriptor)
        os.rename(new, name, src_dir_fd=self._here, dst_dir_fd=self._here)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._here)

    def send(self, name: str, text: bytes) -> bool:
        """Send only to a socket that the user made, and not through a link to one of root's."""
        try:
            found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._here)
        except OSError:
            return False
        try:
            facts = os.fstat(found)
            if not stat.S_ISSOCK(facts.st_mode) or facts.st_uid != self.user.uid:
                return False
            return datagrams.send_to(f"/proc/self/fd/{found}", text)
        finally:
            os.close(found)


def place_of(attempt: Path) -> Path:
    """Return where the folder of another user's job is. `attempt`: the folder of the attempt, of which there is only one."""
    import hashlib  # no supervisor needs it for jobs of its own user

    return JOBS / hashlib.sha256(os.fsencode(os.path.realpath(attempt))).hexdigest()[:32]


def _make_jobs() -> None:
    """Make the folder of all jobs, or check it. Raise NotYours if other users can change it."""
    here = open_folder(JOBS, create=True)
    try:
        os.chmod(f"/proc/self/fd/{here}", _PASSABLE)  # noqa: PTH101  not by its path again
    finally:
        os.close(here)


def public_copy(folder: Path, *more: Path) -> Path:
    """Return a folder with copies of our own Python files in a folder and of `more` files of ours. All users can read it, because
    they may not reach the files themselves."""
    import hashlib

    files = {path.name: path.read_bytes() for path in (*sorted(folder.glob("*.py")), *more)}
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:32]
    _make_jobs()
    copy = JOBS / f"{folder.name}-{digest}"
    if not copy.exists():
        new = JOBS / f"new-{os.urandom(8).hex()}"
        new.mkdir(mode=0o700)
        for name, text in files.items():
            write_atomic(new, name, text, durable=False)
            (new / name).chmod(0o644)
        new.chmod(0o755)
        with contextlib.suppress(OSError):  # another agent was first
            new.rename(copy)
    return copy


# Its end.


def discard(attempt: Path, started: Callable[["subprocess.Popen[bytes]"], None]) -> None:
    """Remove the folder of another user's job, if the attempt has one, without waiting for that: it may hold many files.
    `started` gets the process that removes them."""
    if os.geteuid() != 0:
        return
    place, gone = place_of(attempt), JOBS / (_GONE + os.urandom(8).hex())
    with contextlib.suppress(FileNotFoundError):
        os.rename(place, gone)  # noqa: PTH104  never follows a link
        clear_gone(started, only=gone)


def clear_gone(started: Callable[["subprocess.Popen[bytes]"], None], *, only: Path | None = None) -> None:
    """Remove folders that jobs have left and that are empty by now. The contents of the others, or of `only`, are removed by a
    process of their owner, which can do no harm outside."""
    if os.geteuid() != 0 or not JOBS.exists():
        return
    for folder in sorted(JOBS.glob(f"{_GONE}*")):
        with contextlib.suppress(OSError):
            folder.rmdir()
            continue
        if only in (None, folder):
            with contextlib.suppress(OSError):
                started(_remover(folder))


def _remover(folder: Path) -> "subprocess.Popen[bytes]":
    owner = folder.lstat()
    return subprocess.Popen(
        ["rm", "-rf", "--", str(folder)],
        user=owner.st_uid,
        group=owner.st_gid,
        extra_groups=[],
        env={"PATH": os.defpath},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
