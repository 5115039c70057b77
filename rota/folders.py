"""Open folders and files that only this user and root can change.

A path is walked one name at a time, each opened below the one before, and checked as it was opened: no other user can put a
folder or a link of their own into the way, neither before nor meanwhile. A link is followed if root or this user made it, as
with `/home -> /data/home`. A folder that everyone can write, such as `/tmp`, may be on the way if it is sticky: only the owner
of what is in it can rename or remove that.

Standard library only: supervisors load this, and are to be up in a moment.
"""

import contextlib
import errno
import os
import stat
from functools import cache
from pathlib import Path

from rota.errors import NotYours

PRIVATE = 0o700
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
MOST_LINKS = 40
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""O_PATH: a folder on the way may be closed to readers, as `/home` sometimes is."""
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""O_NONBLOCK: a pipe in place of a file must not hold this process up."""
_LOCAL = frozenset(("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"))
_ACCESS_LIST = "system.posix_acl_access"


def state_folder() -> Path:
    """Where programs of this user keep their state on this machine: $XDG_STATE_HOME, or ~/.local/state."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path("~/.local/state").expanduser()


def make_folder(path: Path, *, instead: str = "") -> None:
    """Make a folder that only this user can enter, if it is not there, and check it. Raise NotYours if others can change it;
    `instead`: what to try if only its owner could mend that."""
    os.close(open_folder(path, create=True, instead=instead))


def check_folder(path: Path, *, instead: str = "") -> None:
    """Raise NotYours if others can change it, OSError if it is not there."""
    os.close(open_folder(path, instead=instead))


def enter_folder(path: Path) -> None:
    """Work in this folder from now on. Raise NotYours if others can change it."""
    descriptor = open_folder(path)
    os.fchdir(descriptor)
    os.close(descriptor)


def open_folder(path: Path, *, create: bool = False, shared: bool = False, instead: str = "") -> int:
    """A descriptor of a folder, for `dir_fd` and `/proc/self/fd`. `shared`: it may be root's, or sticky as `/tmp` is."""
    ahead = list(reversed(path.absolute().parts[1:]))
    links, seen = 0, Path("/")
    here = os.open("/", _FOLDER)
    try:
        while ahead:
            name = ahead.pop()
            seen = seen / name
            try:
                facts = os.stat(name, dir_fd=here, follow_symlinks=False)
            except FileNotFoundError:
                if not create:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, PRIVATE, dir_fd=here)
                facts = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISLNK(facts.st_mode):
                links += 1
                if not _is_trusted(facts.st_uid):
                    raise NotYours(
                        f"is a link that {_user(facts.st_uid)} made.", where=str(seen), hint=instead or "another folder"
                    )
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                target = Path(os.readlink(name, dir_fd=here))
                ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
                seen = Path("/") if target.is_absolute() else seen.parent
                following = "/" if target.is_absolute() else "."
            else:
                following = name
            try:
                below = os.open(following, _FOLDER, dir_fd=here)
            except OSError as problem:
                raise OSError(problem.errno, problem.strerror, str(seen)) from None
            os.close(here)
            here = below
            if not ahead or following == name:
                _check(here, str(seen), last=not ahead and not shared, instead=instead)
        if not shared and path.absolute() == Path("/"):
            _check(here, "/", last=True, instead=instead)
        return here
    except BaseException:
        os.close(here)
        raise


def _check(descriptor: int, path: str, *, last: bool, instead: str) -> None:
    """`last`: it is what was asked for, and no folder on the way."""
    facts = os.fstat(descriptor)
    if facts.st_uid != os.geteuid() and (last or not _is_trusted(facts.st_uid)):
        whose = f"belongs to {_user(facts.st_uid)}, not to {_user(os.geteuid())}."
        raise NotYours(whose, where=path, hint=instead or "another folder")
    sticky = facts.st_mode & stat.S_ISVTX and not last
    if others_write(facts, f"/proc/self/fd/{descriptor}") and not sticky:
        raise _written_by_others(facts, path, instead)


def open_file(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of a plain file of this user in a folder that was checked. Raise NotYours if it is anything else."""
    try:
        descriptor = os.open(path, flags | _FILE, mode)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENXIO):
            raise NotYours("is not a plain file.", where=str(path), hint=f"look at it, then rm {path}") from None
        raise
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise NotYours("is not a plain file.", where=str(path), hint=f"look at it, then rm {path}")
        if not _is_trusted(facts.st_uid):
            whose = f"belongs to {_user(facts.st_uid)}, not to {_user(os.geteuid())}."
            raise NotYours(whose, where=str(path), hint=f"look at it, then rm {path}")
        if others_write(facts, f"/proc/self/fd/{descriptor}"):
            raise _written_by_others(facts, str(path), "")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_file(path: Path, most_bytes: int = -1) -> bytes:
    """What is in a plain file of this user."""
    with os.fdopen(open_file(path), "rb") as file:
        return file.read(most_bytes)


def check_file(path: Path) -> None:
    """Raise NotYours unless there is a plain file of this user, or nothing."""
    with contextlib.suppress(FileNotFoundError):
        os.close(open_file(path))


def others_write(facts: os.stat_result, path: str) -> bool:
    """Whether users other than its owner and root can write it. A group that has this user alone is not others, unless a list of
    further users is attached: the bits of the group tell of that list then."""
    if facts.st_mode & stat.S_IWOTH:
        return True
    return bool(facts.st_mode & stat.S_IWGRP) and (not _is_own_group(facts.st_gid) or _has_list(path))


def _has_list(path: str) -> bool:
    try:
        return bool(os.getxattr(path, _ACCESS_LIST))
    except OSError:
        return False


def _written_by_others(facts: os.stat_result, path: str, instead: str) -> NotYours:
    problem = f"other users can write here (mode {stat.S_IMODE(facts.st_mode):03o})."
    mine = facts.st_uid == os.geteuid()
    return NotYours(problem, where=path, hint=f"chmod go-w {path}, after a look at what is in it" if mine else instead)


def is_local(path: Path) -> bool:
    """Whether a path is on a file system that no other machine can see."""
    return file_system(path) in _LOCAL


def file_system(path: Path) -> str:
    """The type of the file system that a path is on, such as ext4 or nfs4; empty: not known."""
    try:
        device = path.stat().st_dev
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = [line for line in lines if line.split()[2] == wanted]
    return found[-1].partition(" - ")[2].split()[0] if found else ""


def _is_trusted(uid: int) -> bool:
    """Root, or this user, or who stands for root."""
    return uid in (os.geteuid(), 0, _stand_in_for_root())


@cache
def _stand_in_for_root() -> int:
    """The number that files of the machine's root show in a container whose users do not include that root."""
    try:
        shown = int(Path("/proc/sys/kernel/overflowuid").read_text())
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        known = [(int(first), int(outside), int(count)) for first, outside, count in map(str.split, lines)]
    except (OSError, ValueError):
        return 0
    is_known = any(outside == 0 or first <= shown < first + count for first, outside, count in known)
    return 0 if is_known else shown


@cache
def _is_own_group(gid: int) -> bool:
    """Whether the group is this user's own: it has the user's name, and no other members."""
    import grp
    import pwd

    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return me.pw_gid == gid and group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name}


def _user(uid: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
