"""A unix socket for `--listen unix:FILE`. An existing file is removed only if it is a socket that a scheduler of this user left
behind."""

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rota.errors import NotYours, OptionError
from rota.folders import open_folder

HINT = "--listen unix:FILE with the path of a file that does not exist, or --listen 127.0.0.1:7070"
WAITING = 128
"""Maximum number of connections that wait to be accepted."""


@contextmanager
def listening_on_file(listen: str, *, all_users: bool = False) -> Iterator[tuple[socket.socket, str]]:
    """Yield a listening socket and its address as clients write it. `listen` is `unix:FILE`. With `all_users`, every user of the
    machine can connect if they can enter the folder; otherwise only this user."""
    path = Path(listen.removeprefix("unix:")).absolute()
    if not path.name:
        raise OptionError("is not the path of a file.", field="--listen", value=listen, hint=HINT)
    try:
        folder = open_folder(path.parent, shared=True, instead=HINT)
    except NotYours:
        raise
    except OSError as problem:
        raise OptionError(f"{problem.strerror or problem}.", field="--listen", value=listen, hint=HINT) from None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        address = (
            f"/proc/self/fd/{folder}/{path.name}"  # the checked folder; an address is limited to 107 bytes and a path is not
        )
        try:
            _make_room(folder, path.name, address, listen)
            os.fchmod(listener.fileno(), 0o666 if all_users else 0o600)  # before listening, so other users can never connect
            with _mode_as_it_is():
                listener.bind(address)
            made = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except OptionError:
            raise
        except OSError as problem:
            raise OptionError(f"{problem.strerror or problem}.", field="--listen", value=listen, hint=HINT) from None
        listener.listen(WAITING)
        try:
            yield listener, f"unix:{path}"
        finally:
            with contextlib.suppress(OSError):
                if os.path.samestat(made, os.stat(path.name, dir_fd=folder, follow_symlinks=False)):
                    os.unlink(path.name, dir_fd=folder)
    finally:
        listener.close()
        os.close(folder)


@contextmanager
def _mode_as_it_is() -> Iterator[None]:
    """Give a socket the mode that it has, whatever the umask of this process is."""
    umask = os.umask(0)
    try:
        yield
    finally:
        os.umask(umask)


def _make_room(folder: int, name: str, address: str, listen: str) -> None:
    """Remove the socket of a killed scheduler of this user."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    problem = ""
    if not stat.S_ISSOCK(facts.st_mode):
        problem = "is not a socket and was not changed."
    elif facts.st_uid != os.geteuid():
        problem = "is a socket of another user."
    elif _is_answered(address):
        problem = "is the socket of a process that is running."
    if problem:
        raise OptionError(problem, field="--listen", value=listen, hint=HINT)
    os.unlink(name, dir_fd=folder)


def _is_answered(address: str) -> bool:
    """Return whether a process listens on a socket, even if it is too busy to accept connections."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as client:
            client.setblocking(False)
            try:
                client.connect(address)
                return True
            except ConnectionRefusedError:
                return False
            except BlockingIOError:
                return True
            except OSError:  # a socket of another type
                continue
    return True
