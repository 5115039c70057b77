"""The addresses on which a scheduler listens: loopback, other addresses with TLS, and Unix sockets."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from rota.errors import OptionError
from rota.folders import open_folder
from rota.server.unix_socket import listening_on_file
from rota.wire.find_scheduler import LOOPBACK, SHARED_SOCKET

LOCAL_ADDRESS = "127.0.0.1:7070"
HOME_SOCKET = "rota.sock"
"""Socket in the home for the owner's clients when TCP uses TLS."""
WAITING = 128
"""Maximum number of connections that wait to be accepted."""


class ListeningSocket(NamedTuple):
    """One address on which a scheduler listens."""

    socket: socket.socket
    url: str
    """Address as clients write it."""
    tls: bool


def check_listen(listen: Sequence[str], *, all_users: bool, tls: bool) -> None:
    """Raise OptionError for the first address that cannot be used."""
    if all_users and os.geteuid() != 0:
        hint = "sudo rota up --all-users, or rota up for your own jobs"
        raise OptionError("needs root, since each job runs as the user who submitted it.", field="--all-users", hint=hint)
    for address in listen:
        if not address.startswith("unix:"):
            _host_and_port(address, tls=tls)


@contextmanager
def listening(listen: Sequence[str], home: Path, *, all_users: bool, tls: bool) -> Iterator[list[ListeningSocket]]:
    """Yield bound sockets: of the given addresses, or of the defaults. One of them is always without TLS, for clients that read
    the address in the home."""
    addresses = list(listen) or ([f"unix:{SHARED_SOCKET}"] if all_users else []) + [LOCAL_ADDRESS]
    with ExitStack() as stack:
        found = []
        for address in addresses:
            if address.startswith("unix:"):
                if all_users:
                    _make_shared_folder(Path(address.removeprefix("unix:")).absolute().parent)
                found.append(ListeningSocket(*stack.enter_context(listening_on_file(address, all_users=all_users)), tls=False))
            else:
                found.append(stack.enter_context(_listening_on_port(address, tls=tls)))
        if all(each.tls for each in found):
            found.append(ListeningSocket(*stack.enter_context(listening_on_file(f"unix:{home / HOME_SOCKET}")), tls=False))
        yield found


def _make_shared_folder(folder: Path) -> None:
    """Make a folder that every user can enter and only root can change, unless it exists. Its parent is checked."""
    if not folder.exists():
        parent = open_folder(folder.parent, shared=True)
        try:
            os.mkdir(folder.name, 0o700, dir_fd=parent)
            os.chmod(folder.name, 0o755, dir_fd=parent)
        finally:
            os.close(parent)


def _host_and_port(listen: str, *, tls: bool) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise OptionError("is not HOST:PORT.", field="--listen", value=listen, hint=f"--listen {LOCAL_ADDRESS}")
    if host not in LOOPBACK and not tls:
        hint = f"--tls-cert CHAIN.pem --tls-key KEY.pem, or --listen {LOCAL_ADDRESS}"
        raise OptionError(
            "is not a loopback address, and others are served with TLS only.", field="--listen", value=listen, hint=hint
        )
    return host, int(port)


@contextmanager
def _listening_on_port(listen: str, *, tls: bool) -> Iterator[ListeningSocket]:
    host, port = _host_and_port(listen, tls=tls)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # IPPROTO_TCP must be explicit, or the event loop would leave Nagle's algorithm on, which delays responses by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            listener.bind((host, port))
        except OSError as problem:
            hint = "--listen 127.0.0.1:0 takes any free port"
            raise OptionError(f"{problem.strerror or problem}.", field="--listen", value=listen, hint=hint) from None
        listener.listen(WAITING)
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        yield ListeningSocket(listener, f"{'https' if tls else 'http'}://{shown}:{listener.getsockname()[1]}", tls)
