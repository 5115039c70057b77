"""Check that something listens at the address of a Ray cluster. Ray itself tries for two minutes before it gives up."""

import contextlib
import socket

from rota.errors import OptionError

ANSWER_SECONDS = 5.0


def check_port(address: str) -> None:
    """Raise OptionError if nothing listens at HOST:PORT."""
    host, port = read_address(address)
    try:
        answers(host, port)
    except OSError as problem:
        raise OptionError(
            f"nothing listens there ({problem.strerror or problem}).",
            field="--ray",
            value=address,
            hint="ray start --head --port 6379 there, or another address; auto finds the cluster of this machine",
        ) from None


def read_address(address: str) -> tuple[str, int]:
    """Return the host and the port."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise OptionError("is not HOST:PORT.", field="--ray", value=address, hint="--ray 10.0.0.1:6379, or --ray auto")
    return host.removeprefix("[").removesuffix("]"), int(port)


def answers(host: str, port: int) -> None:
    """Raise OSError if nothing accepts a connection there."""
    with contextlib.closing(socket.create_connection((host, port), timeout=ANSWER_SECONDS)):
        pass
