"""Copies of the input files of cells, on another machine.

The node gets the name and the digest of each file, and fetches the contents by the digest. A copy of `/data/jobs.csv` is
`ROOT/data/jobs.csv`, and the worker process runs in the copy of the folder that the run was started in. So a policy of the user
can open a file that its options name by a relative path. Rota itself reads inputs by their own names (`rota/files/inputs.py`).
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rota.errors import RotaError

PREFIX, LOCK = "rota-cells-", "lock"

Fetch = Callable[[str], bytes]
"""Function that returns the contents of a file, by its digest."""


class InputCopies:
    """Copies below the folder `root`, which is locked while a process that uses it is running. Creating one removes the folders
    that killed processes left behind."""

    def __init__(self, cwd: str, folder: Path | None = None) -> None:
        """`cwd`: folder of the other machine that the run was started in; `folder`: folder of this machine for the copies."""
        where = folder or Path(tempfile.gettempdir())
        remove_left(where)
        self.root, self.lock = _locked_folder(where)
        self.cwd = cwd
        self.place = self._inside(cwd)
        """Copy of `cwd`."""
        self.place.mkdir(parents=True, exist_ok=True)
        self._digests: dict[str, str] = {}

    def put(self, files: Mapping[str, str], fetch: Fetch) -> dict[str, str]:
        """Copy files that are not here yet. `files`: name -> digest. Return name -> path of the copy."""
        targets = {name: self._inside(str(Path(self.cwd, name))) for name in files}
        for name, digest in files.items():
            if self._digests.get(name) != digest:
                content = fetch(digest)
                if hashlib.sha256(content).hexdigest() != digest:
                    raise RotaError(f"The copy of {name} is damaged.", hint="the same command again")
                targets[name].parent.mkdir(parents=True, exist_ok=True)
                targets[name].write_bytes(content)
                self._digests[name] = digest
        return {name: str(target) for name, target in targets.items()}

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        os.close(self.lock)

    def _inside(self, path: str) -> Path:
        return self.root / os.path.normpath(path).lstrip("/")


def _locked_folder(where: Path) -> tuple[Path, int]:
    while True:
        root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=where))
        lock = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)  # `remove_left` of another process saw it before it was locked, and removes it
        else:
            return root, lock


def remove_left(where: Path) -> None:
    """Remove the folders of processes that were killed."""
    for root in where.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if root.is_symlink() or root.stat().st_uid != os.getuid():
                continue
            lock = os.open(root / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(root, ignore_errors=True)
            finally:
                os.close(lock)
