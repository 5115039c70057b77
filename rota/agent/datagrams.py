"""Datagrams between a daemon and its supervisors. They may get lost: everything that matters is in files, or is sent again.

A socket's address holds 107 bytes and the path of a home may be longer, so addresses go through an open folder.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

MAX_DATAGRAM_BYTES = 65_536
_SENDER = struct.Struct("=iII")
"""Process, user and group of the sender of a datagram, as the kernel states them."""


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
        return send_to(address, text)
    return False


def send_to(address: str, text: bytes) -> bool:
    """Send a datagram to the socket at this path. Return False if no process listens, or the box is full. Never wait."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
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


def receive_from(box: socket.socket, most: int, uid: int) -> list[bytes]:
    """Return the datagrams of one user that have arrived, out of at most this many. The box has SO_PASSCRED. Never wait.

    There is room for nothing but the sender, so the kernel drops open files that come along.
    """
    found: list[bytes] = []
    with contextlib.suppress(BlockingIOError):
        for _ in range(most):
            text, parts, _, _ = box.recvmsg(MAX_DATAGRAM_BYTES, socket.CMSG_SPACE(_SENDER.size))
            senders = [_SENDER.unpack(part[: _SENDER.size])[1] for _, kind, part in parts if kind == socket.SCM_CREDENTIALS]
            if senders == [uid]:
                found.append(text)
    return found
