"""The Unix user whose job an agent of root starts: groups, home folder, and how a process becomes that user for good.

A user is looked up on the node that runs the job, because nodes may have different user databases. Only the number travels.
"""

import os
from typing import NamedTuple

OVERFLOW_GID = 65534
"""Group of a user whose own group is unknown. Linux has it for this purpose."""
CLUSTER_NODE = "ROTA_NODE"
"""Variable of a job with the name of its node in the cluster. A job of a single machine has none."""


class UnknownUser(Exception):
    """The node has no such user, in words."""


class JobUser(NamedTuple):
    """A user of this machine, other than the agent's own."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    """All groups, the first one included."""
    name: str
    """Name, or the number as text if it has none here."""
    home: str

    def __str__(self) -> str:
        return f"user {self.name} (uid {self.uid})" if self.name != str(self.uid) else f"user {self.uid}"

    @property
    def variables(self) -> dict[str, str]:
        """Variables that a login would set. They give way to those of the submission."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def find_user(uid: int, *, must_have_name: bool = False) -> JobUser:
    """Return a user of this machine, with the groups that they have here. Raise UnknownUser.

    A user without a name has no groups but their own. A number that came from another machine must have a name here
    (`must_have_name`): it may be another person, or the user database may be out of reach.
    """
    import pwd

    host = os.uname().nodename
    try:
        known = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        if must_have_name or not 0 < uid < (1 << 32) - 1:
            raise UnknownUser(f"user {uid} does not exist on node {host}") from None
        gid = _own_group(uid)
        return JobUser(uid, gid, (gid,), str(uid), "/")
    groups = os.getgrouplist(known.pw_name, known.pw_gid)
    return JobUser(uid, known.pw_gid, tuple(dict.fromkeys((known.pw_gid, *groups))), known.pw_name, known.pw_dir or "/")


def _own_group(uid: int) -> int:
    """Return the group with the number of a user without a name, unless that number is a group of other people."""
    import grp

    try:
        grp.getgrgid(uid)
    except KeyError:
        return uid
    return OVERFLOW_GID


def become(user: JobUser) -> None:
    """Make this process one of the user, for good. Raise OSError if the machine has no such user or the process may not."""
    os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    if os.getresuid() != (user.uid,) * 3 or os.getresgid() != (user.gid,) * 3:
        raise PermissionError(f"this process is still of user {os.getuid()}")
