"""Datagrams between a daemon and its supervisors. They may get lost: everything that matters is in files, or is sent again.

A socket's address holds 107 bytes and the path of a home may be longer, so addresses go through an open folder.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

MAX_DATAGRAM_BYTES = 65_536


@contextlib.contextmanager
def _address(folder: Path, name: str) -> Iterator[str]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def listen(folder: Path, name: str) -> socket.socket:
    """Return a socket that takes datagrams under this name. It replaces the socket of an earlier process."""
    (folder / name).unlink(missing_ok=True)
    box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        with _address(folder, name) as address:
            box.bind(address)
        (folder / name).chmod(0o600)
        box.setblocking(False)
    except BaseException:
        box.close()
        raise
    return box


def send(folder: Path, name: str, text: bytes) -> bool:
    """Send a datagram. Return False if no process listens, or the box is full. Never wait."""
    with contextlib.suppress(OSError), _address(folder, name) as address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(text, address)
        return True
    return False


def receive(box: socket.socket, most: int) -> list[bytes]:
    """Return the datagrams that have arrived, at most this many. Never wait."""
    found: list[bytes] = []
    with contextlib.suppress(BlockingIOError):
        while len(found) < most:
            found.append(box.recv(MAX_DATAGRAM_BYTES))
    return found
