"""Folders on network file systems, on which locks may not be kept and which may stop answering."""

import re
from collections.abc import Iterator
from pathlib import Path

from rota.doctor.diagnosis import Diagnosis, warn
from rota.folders import file_system

_NETWORK = re.compile(r"nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|lustre|glusterfs|beegfs|gpfs|fuse|fuse\..+")
_LOCAL = ("fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.ntfs", "fuse.ntfs-3g")
"""Kinds of FUSE that are local: those of containers, and of disks of Windows."""


def check_mounts(home: Path, node_folder: Path) -> Iterator[Diagnosis]:
    """Whether the home, and the folder in which agents of a cluster keep sockets and locks here, are on local disks."""
    if kind := network_file_system(home):
        found = f"{home} is on a network file system ({kind}): locks may not be kept there, and while its server does not "
        found += "answer, the scheduler and the logs of jobs stand still"
        yield warn("mount", found, "--home on a local disk; on a cluster, which needs a shared one, --journal with PostgreSQL")
    if node_folder.exists() and (kind := network_file_system(node_folder)):
        found = f"{node_folder} is on a network file system ({kind}): sockets and locks of jobs on a cluster are there"
        yield warn("mount", found, "rota up --ray with --node-folder on a local disk of each node")


def network_file_system(folder: Path) -> str:
    """The type of the network file system that a folder is on, or will be on once it is made; empty: none is known."""
    there = next((each for each in (folder, *folder.parents) if each.exists()), Path("/"))
    kind = file_system(there)
    return kind if _NETWORK.fullmatch(kind) and kind not in _LOCAL else ""
