"""A thread that wakes the agent when a supervisor has news."""

import os
import select
import threading
from collections.abc import Callable
from pathlib import Path

from rota.agent import datagrams
from rota.agent.disk import NOTIFY


class Listener:
    def __init__(self, folder: Path, wake: Callable[[], None]) -> None:
        self._box = datagrams.listen(folder, NOTIFY)
        self._stopped, self._stop = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wake = wake
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name="rota-notify", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # Not select(): a daemon may have more files open than that can name.
        waiting = select.poll()
        waiting.register(self._box, select.POLLIN)
        waiting.register(self._stopped, select.POLLIN)
        while self._stopped not in {descriptor for descriptor, _ in waiting.poll()}:
            if datagrams.receive(self._box, 256):
                self._wake()

    def close(self) -> None:
        """Stop the thread. The socket's name stays, because another daemon may have it by now."""
        if self._thread is None:
            return
        os.write(self._stop, b".")
        self._thread.join()
        self._thread = None
        self._box.close()
        os.close(self._stopped)
        os.close(self._stop)
