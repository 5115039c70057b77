"""Check for folders on network file systems, which may ignore locks and may stop responding."""

import re
from collections.abc import Iterator
from pathlib import Path

from rota.doctor.diagnosis import Diagnosis, warn
from rota.folders import file_system

_NETWORK = re.compile(r"nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|lustre|glusterfs|beegfs|gpfs|fuse|fuse\..+")
_LOCAL = ("fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.ntfs", "fuse.ntfs-3g")
"""Local FUSE file systems: of containers, and of Windows disks."""


def check_mounts(home: Path, node_folder: Path) -> Iterator[Diagnosis]:
    """Check whether the home, and the folder for sockets and locks of a cluster's agents, are on local disks."""
    if kind := network_file_system(home):
        found = f"{home} is on a network file system ({kind}): locks may not work, and while its server does not "
        found += "respond, the scheduler and the logs of jobs stop"
        yield warn("mount", found, "--home on a local disk; on a cluster, which needs a shared one, --journal with PostgreSQL")
    if node_folder.exists() and (kind := network_file_system(node_folder)):
        found = f"{node_folder} is on a network file system ({kind}): it has the sockets and locks of jobs on a cluster"
        yield warn("mount", found, "rota up --ray with --node-dir on a local disk of each node")


def network_file_system(folder: Path) -> str:
    """Return the type of the network file system of a folder, which need not exist yet; an empty text if it is not on one."""
    there = next((each for each in (folder, *folder.parents) if each.exists()), Path("/"))
    kind = file_system(there)
    return kind if _NETWORK.fullmatch(kind) and kind not in _LOCAL else ""
