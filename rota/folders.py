"""Open folders and files that only this user and root can change.

A path is opened one name at a time, each below the one before, and each is checked after it was opened. So no other user can
insert a folder or a link, neither before nor during the walk. A link is followed if root or this user made it, such as
`/home -> /data/home`. A folder that everyone can write, such as `/tmp`, is allowed on the path if it is sticky: then only the
owner of an entry can rename or remove it.

Only the standard library is used, because supervisors load this module and must start fast.
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
MAX_LINKS = 40
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags to open a folder. O_PATH: a folder on the path may be unreadable, as `/home` sometimes is."""
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags to open a file. O_NONBLOCK: a pipe in place of a file must not block this process."""
_LOCAL = frozenset(("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"))
_ACCESS_LIST = "system.posix_acl_access"


def state_folder() -> Path:
    """Return the folder for program state of this user on this machine: $XDG_STATE_HOME, or ~/.local/state."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path("~/.local/state").expanduser()


def make_folder(path: Path, *, instead: str = "") -> None:
    """Make a folder that only this user can enter, unless it exists, and check it. Raise NotYours if other users can change it;
    `instead` is the next step if only its owner can fix that."""
    os.close(open_folder(path, create=True, instead=instead))


def check_folder(path: Path, *, instead: str = "") -> None:
    """Check a folder. Raise NotYours if other users can change it, OSError if it does not exist."""
    os.close(open_folder(path, instead=instead))


def enter_folder(path: Path) -> None:
    """Make this folder the working directory. Raise NotYours if other users can change it."""
    descriptor = open_folder(path)
    os.fchdir(descriptor)
    os.close(descriptor)


def open_folder(path: Path, *, create: bool = False, shared: bool = False, instead: str = "") -> int:
    """Return a descriptor of a folder, for `dir_fd` and `/proc/self/fd`. With `shared`, the folder may belong to root, or be
    sticky as `/tmp` is."""
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
                if not trusts(facts.st_uid):
                    raise NotYours(
                        f"is a link that {_user(facts.st_uid)} made.", where=str(seen), hint=instead or "another folder"
                    )
                if links > MAX_LINKS:
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
    """Check an opened folder. `last` states that it is the requested folder, not one on the path to it."""
    facts = os.fstat(descriptor)
    if facts.st_uid != os.geteuid() and (last or not trusts(facts.st_uid)):
        whose = f"belongs to {_user(facts.st_uid)}, not to {_user(os.geteuid())}."
        raise NotYours(whose, where=path, hint=instead or "another folder")
    sticky = facts.st_mode & stat.S_ISVTX and not last
    if others_write(facts, f"/proc/self/fd/{descriptor}") and not sticky:
        raise _written_by_others(facts, path, instead)


def open_file(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Return a descriptor of a plain file of this user, in a folder that is checked. Raise NotYours if it is anything else."""
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
        if not trusts(facts.st_uid):
            whose = f"belongs to {_user(facts.st_uid)}, not to {_user(os.geteuid())}."
            raise NotYours(whose, where=str(path), hint=f"look at it, then rm {path}")
        if others_write(facts, f"/proc/self/fd/{descriptor}"):
            raise _written_by_others(facts, str(path), "")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_file(path: Path, most_bytes: int = -1) -> bytes:
    """Return the contents of a plain file of this user."""
    with os.fdopen(open_file(path), "rb") as file:
        return file.read(most_bytes)


def check_file(path: Path) -> None:
    """Raise NotYours if the path exists and is not a plain file of this user."""
    with contextlib.suppress(FileNotFoundError):
        os.close(open_file(path))


def others_write(facts: os.stat_result, path: str) -> bool:
    """Return whether users other than the owner and root can write it. A group with only this user does not count, unless an
    access list is attached: then the group bits describe that list."""
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
    return NotYours(problem, where=path, hint=f"chmod go-w {path}, after checking its contents" if mine else instead)


def is_local(path: Path) -> bool:
    """Return whether a path is on a local file system."""
    return file_system(path) in _LOCAL


def file_system(path: Path) -> str:
    """Return the type of a path's file system, such as ext4 or nfs4; an empty text if unknown."""
    try:
        device = path.stat().st_dev
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = [line for line in lines if line.split()[2] == wanted]
    return found[-1].partition(" - ")[2].split()[0] if found else ""


def trusts(uid: int) -> bool:
    """Return whether a user is root, this user, or the user that stands for root in a container."""
    return uid in (os.geteuid(), 0, _stand_in_for_root())


@cache
def _stand_in_for_root() -> int:
    """Return the user number that the machine's root has in a container whose users do not include root."""
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
    """Return whether the group is this user's own: it has the user's name and no other members."""
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
