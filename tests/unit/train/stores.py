"""Object stores that fail like real ones, for tests. Scripts of tests import this too."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem


class LibraryError(Exception):
    """As the libraries of stores raise: it is no OSError."""


class SmallStore(MemoryFileSystem):
    """Takes so many bytes in all, and can't be reached while it is down."""

    protocol = "small"
    store: dict[str, Any] = {}  # noqa: RUF012  fsspec has it so
    pseudo_dirs = [""]  # noqa: RUF012
    room = 1 << 40
    down: Exception | None = None

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(MemoryFileSystem._strip_protocol(str(path).removeprefix("small://")))

    def _check(self, size: int = 0) -> None:
        if self.down is not None:
            raise self.down
        if sum(each.size for each in self.store.values()) + size > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self._check(len(value))
        super().pipe_file(path, value, mode, **options)

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        self._check(Path(lpath).stat().st_size)
        super().put_file(lpath, rpath, **options)

    def get_file(self, rpath: str, lpath: str, **options: Any) -> None:
        self._check()
        super().get_file(rpath, lpath, **options)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._check()
        return super().ls(path, detail, **options)

    def cat_file(self, path: str, **options: Any) -> Any:
        self._check()
        return super().cat_file(path, **options)


class DeadlyStore(DirFileSystem):
    """A folder. Its process is killed in the middle of the object whose number ROTA_TEST_KILL_AT is."""

    protocol = "deadly"
    written = 0

    def __init__(self, **options: Any) -> None:
        super().__init__(path="/", fs=LocalFileSystem(auto_mkdir=True), **options)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("deadly://").rstrip("/")

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self._write(path, bytes(value))

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        self._write(rpath, Path(lpath).read_bytes())

    def _write(self, path: str, data: bytes) -> None:
        DeadlyStore.written += 1
        dies = DeadlyStore.written == int(os.environ.get("ROTA_TEST_KILL_AT", "0"))
        self.fs.pipe_file(path, data[: len(data) // 2] if dies else data)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


fsspec.register_implementation("small", SmallStore, clobber=True)
fsspec.register_implementation("deadly", DeadlyStore, clobber=True)
