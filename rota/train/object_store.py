"""A store of objects below a URL, such as an S3 bucket: values by key, each replaced as a whole.

Rota asks no more of a store. There is no rename, lock or append, because stores have none. Stores are accessed through fsspec,
which is imported only here, and only if a URL is given.

Every problem of a store is raised as OSError. FileNotFoundError means that the object does not exist.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rota.agent.constants import URL_MARK
from rota.agent.disk import sync_folder, write_atomic
from rota.errors import OptionError

PACKAGES = {
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "gcs": "gcsfs",
    "gs": "gcsfs",
    "s3": "s3fs",
    "s3a": "s3fs",
    "sftp": "paramiko",
    "ssh": "paramiko",
}
"""Package that fsspec needs for a protocol. For other protocols, the error of fsspec names it."""


class ObjectStore:
    """Objects below one URL. Keys contain slashes, like paths."""

    def __init__(self, url: str, files: Any, base: str) -> None:
        self.url, self._files, self._base = url, files, base.rstrip("/")

    def put(self, key: str, data: bytes) -> None:
        """Write an object. A reader sees the old object or this one, because stores replace objects as a whole."""
        with _as_os_errors():
            self._files.pipe_file(self._path(key), data)

    def get(self, key: str) -> bytes:
        with _as_os_errors():
            return bytes(self._files.cat_file(self._path(key)))

    def upload(self, path: Path, key: str) -> None:
        """Write an object from a file, and check its size afterwards."""
        with _as_os_errors():
            self._put_file(path, key)
            size, arrived = path.stat().st_size, self._files.info(self._path(key))["size"]
        if arrived is not None and arrived != size:
            raise OSError(f"{key} has {arrived} bytes there and should have {size}")

    def _put_file(self, path: Path, key: str) -> None:
        self._files.put_file(str(path), self._path(key))

    def download(self, key: str, path: Path) -> None:
        with _as_os_errors():
            self._files.get_file(self._path(key), str(path))

    def names(self) -> list[str]:
        """Return the first parts of all keys. An unreachable store raises, so it never looks like an empty one."""
        with _as_os_errors():
            self._files.invalidate_cache()  # other processes write here too
            try:
                found = self._files.ls(self._base, detail=False)
            except FileNotFoundError:
                return []
        return sorted({str(path).rstrip("/").rpartition("/")[2] for path in found})

    def delete(self, name: str) -> None:
        """Delete an object, or all objects below this name, if there are any."""
        with contextlib.suppress(FileNotFoundError), _as_os_errors():
            self._files.invalidate_cache()
            self._files.rm(self._path(name), recursive=True)

    def _path(self, key: str) -> str:
        return f"{self._base}/{key}"


class FolderObjectStore(ObjectStore):
    """Objects of a `file://` URL. Unlike a store, a file system does not replace files atomically or flush them to disk by
    itself."""

    def put(self, key: str, data: bytes) -> None:
        path = Path(self._path(key))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path.parent, path.name, data, durable=True)

    def delete(self, name: str) -> None:
        super().delete(name)
        super().delete(f"{name}.new")  # left by a process that was killed while it wrote

    def _put_file(self, path: Path, key: str) -> None:
        new = Path(self._path(key))
        new.parent.mkdir(parents=True, exist_ok=True)
        super()._put_file(path, key)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        for folder in (each for each in new.parents if each.is_relative_to(self._base)):
            sync_folder(folder)


def open_object_store(url: str) -> ObjectStore:
    """Return the store of a URL."""
    protocol = url.partition(URL_MARK)[0].rpartition("::")[2]
    install = f"pip install {' '.join(filter(None, ('fsspec', PACKAGES.get(protocol))))}"
    try:
        import fsspec.core
        from fsspec.implementations.local import LocalFileSystem
    except ImportError as error:
        problem = "is a URL, which takes the package fsspec, and that is not installed here."
        raise OptionError(problem, field="checkpoint.dir", value=url, hint=install) from error
    try:
        files, base = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise OptionError(f"can't be reached: {error}.", field="checkpoint.dir", value=url, hint=install) from error
    except Exception as error:
        hint = "a folder, or a URL that fsspec knows: s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, file:///FOLDER"
        raise OptionError(f"can't be opened: {error}.", field="checkpoint.dir", value=url, hint=hint) from error
    return (FolderObjectStore if isinstance(files, LocalFileSystem) else ObjectStore)(url, files, base)


@contextlib.contextmanager
def _as_os_errors() -> Iterator[None]:
    """Turn the exceptions of a store's library into OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
