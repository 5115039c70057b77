"""Copies of the files that the cells of a sweep name, on another machine.

They stand in a folder of their own, under the paths that they have on the machine of the sweep: `/data/jobs.csv` is
`ROOT/data/jobs.csv`, and a cell runs in `ROOT` + the folder that the sweep was started in. Texts that name an absolute path get
`ROOT` in front on their way in, and `ROOT` is taken out of everything on its way out. So the result of a cell has the bytes that
it has on the machine of the sweep.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rota.errors import RotaError

PREFIX, LOCK = "rota-cells-", "lock"

FIELDS = ("trace", "policy", "cluster", "placer", "profile", "tensors", "variability")
"""Fields of a study that may name files."""

_ABSOLUTE = re.compile(r"(^|[:=,+|])(?=/)")
"""Where an absolute path begins in the text of a field."""

Fetch = Callable[[str], bytes]
"""The contents of a file, by its digest."""


class Copies:
    """The folder `root`. It is locked while a process that uses it lives. Making another removes those left behind."""

    def __init__(self, cwd: str, folder: Path | None = None) -> None:
        """`cwd`: the folder that the sweep was started in; `folder`: on this machine, where copies may be."""
        where = folder or Path(tempfile.gettempdir())
        remove_left(where)
        self.root, self.lock = _locked_folder(where)
        self.cwd = cwd
        self.place = self._inside(cwd)
        """The copy of `cwd`."""
        self.place.mkdir(parents=True, exist_ok=True)
        self._there: dict[str, str] = {}

    def put(self, files: Mapping[str, str], fetch: Fetch) -> None:
        """Have these files: path, as the sweep names it, to digest."""
        for path, digest in files.items():
            if self._there.get(path) != digest:
                content = fetch(digest)
                if hashlib.sha256(content).hexdigest() != digest:
                    raise RotaError(f"The copy of {path} is damaged.", hint="the same command again")
                target = self._inside(str(Path(self.cwd, path)))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._listing(content, files) if content.lstrip()[:1] == b"{" else content)
                self._there[path] = digest

    def rooted(self, study: Mapping[str, Any]) -> dict[str, Any]:
        """The study with its absolute paths below `root`."""
        return {name: self._rooted(value) if name in FIELDS else value for name, value in study.items()}

    def unrooted(self, text: str) -> str:
        """A JSON text as it reads on the machine of the sweep."""
        return text.replace(json.dumps(str(self.root))[1:-1], "")

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        os.close(self.lock)

    def _rooted(self, value: Any) -> Any:
        return _ABSOLUTE.sub(lambda found: f"{found[1]}{self.root}", value) if isinstance(value, str) else value

    def _listing(self, content: bytes, files: Mapping[str, str]) -> bytes:
        """A JSON file that may list files by absolute paths, as one of runs of GPUs does: it lists their copies."""
        for path in files:
            if path.startswith("/"):
                content = content.replace(json.dumps(path).encode(), json.dumps(f"{self.root}{path}").encode())
        return content

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
    """Remove folders of processes that were killed."""
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
