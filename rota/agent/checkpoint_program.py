"""The program beside a supervisor that calls the driver's checkpoint (`driver_checkpoint.py`), as its supervisor sees it."""

import contextlib
import subprocess
import sys
from pathlib import Path


class CheckpointProgram:
    """Handle of the program. The program is started with its first request, and again if it has ended."""

    def __init__(self, folder: Path, uid: int | None = None) -> None:
        """`folder`: where the program reports the result; `uid`: user as whom it acts, None for that of
        this process."""
        self._folder, self._uid = folder, uid
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def say(self, word: str, pid: int) -> None:
        """What can't be said now is said again: the supervisor looks whether it lives."""
        if not self.lives:
            self.close()
            run = [sys.executable, "-m", "rota.agent.driver_checkpoint", str(self._folder.absolute())]
            run += [str(self._uid)] if self._uid is not None else []
            self._process = subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{word} {pid}\n".encode())
            self._process.stdin.flush()

    def close(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process = None
