"""Datagrams between a daemon and its supervisors. Best effort: what matters is in files, or is sent again.

A socket's address holds 107 bytes and a home may be deeper than that, so addresses go through an open folder.
"""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST = 65_536


@contextlib.contextmanager
def _address(folder: Path, name: str) -> Iterator[str]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def listen(folder: Path, name: str) -> socket.socket:
    """A socket that takes datagrams under this name; one that an earlier process left there is replaced."""
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
    """Whether it was taken: False when no process listens, or the box is full. Never waits."""
    with contextlib.suppress(OSError), _address(folder, name) as address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(text, address)
        return True
    return False


def receive(box: socket.socket, most: int) -> list[bytes]:
    """What has come, up to so many datagrams. Never waits."""
    found: list[bytes] = []
    with contextlib.suppress(BlockingIOError):
        while len(found) < most:
            found.append(box.recv(LONGEST))
    return found


def message(datagram: bytes) -> dict[str, Any]:
    """What a datagram says; nothing, if it is none of ours."""
    try:
        found = json.loads(datagram)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
