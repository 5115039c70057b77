"""The folder that a job may write to, and finds as ROTA_RUN_DIR: sockets for reports and for parking, and the granted size."""

import socket
from pathlib import Path

from rota.agent import datagrams
from rota.agent.disk import JOB_FOLDER, REPORT_SOCKET, write_atomic


class JobFolder:
    """The folder of a job of the agent's own user."""

    def __init__(self, attempt: Path) -> None:
        """`attempt`: the folder of the attempt."""
        self.path = attempt / JOB_FOLDER
        self.uid: int | None = None
        """User of the job; None if it is the agent's own."""
        self.limits_problem: str | None = None
        """Which limits of that user could not be read; None if all were."""

    def open(self) -> socket.socket:
        """Make the folder, and return the socket for reports of the job."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        return datagrams.listen(self.path, REPORT_SOCKET)

    def receive(self, box: socket.socket, most: int) -> list[bytes]:
        """Return reports that have arrived, at most this many."""
        return datagrams.receive(box, most)

    def write(self, name: str, text: bytes) -> None:
        """Replace a file atomically."""
        write_atomic(self.path, name, text, durable=False)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        (self.path / name).unlink(missing_ok=True)

    def send(self, name: str, text: bytes) -> bool:
        """Send a datagram to a socket of the job. Return False if no process listens. Never wait."""
        return datagrams.send(self.path, name, text)
