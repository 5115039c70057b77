"""The batch size that Rota grants while a job runs: a file in the run folder that the supervisor replaces atomically."""

import json
from pathlib import Path

from rota.agent.disk import SIZE


class SizeFile:
    """The file of the batch size. It is checked about twice a second; without a folder the size never changes."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / SIZE if folder is not None else None
        self._seen = (0, 0)

    def look(self) -> int:
        """Return the batch size if the file has changed since the last look; 0 otherwise."""
        if self._path is None:
            return 0
        try:
            found = self._path.stat()
            if (found.st_ino, found.st_mtime_ns) == self._seen:
                return 0
            self._seen = found.st_ino, found.st_mtime_ns
            return int(json.loads(self._path.read_bytes())["batch_size"])
        except FileNotFoundError:
            return 0
