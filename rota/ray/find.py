"""Finding the Ray cluster that `--ray` names: HOST:PORT of its head."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterable

from rota.errors import OptionError
from rota.ray.authentication import check_authentication
from rota.ray.port import check_port, read_address

AUTO = "auto"
ADDRESS = "RAY_ADDRESS"


def checked_cluster(address: str, *, insecure: bool, say: Callable[[str], None]) -> str:
    """Return HOST:PORT of a cluster that may be used: its head listens, and it asks for the token that we have. `say` gets the
    messages for the user: which cluster `auto` found, and that a cluster without a token is used."""
    if "://" in address:
        problem = "is not the address of Ray's head. Start the command on a node of the cluster."
        raise OptionError(problem, field="--ray", value=address, hint="--ray auto, there")
    if address != AUTO:
        check_port(address)
    _check_installed(address)
    found = _found_here() if address == AUTO else address
    if address == AUTO:
        check_port(found)
        say(f"--ray auto: the Ray cluster at {found}")
    check_authentication(found, insecure=insecure, say=say)
    return found


def _check_installed(address: str) -> None:
    try:
        import ray  # noqa: F401
    except ImportError:
        raise OptionError(
            "needs Ray, which is not installed.", field="--ray", value=address, hint="pip install 'rota-scheduler[ray]'"
        ) from None


def clusters_here() -> list[str]:
    """Return HOST:PORT of each Ray cluster that has a process on this machine, of any user."""
    from ray._private.services import find_gcs_addresses

    return distinct(find_gcs_addresses())


def distinct(addresses: Iterable[str]) -> list[str]:
    """Leave out addresses of the same place as another one, such as localhost and 127.0.0.1."""
    found: dict[tuple[str, int], str] = {}
    for address in sorted(addresses):
        host, port = read_address(address)
        with contextlib.suppress(OSError):
            host = socket.gethostbyname(host)
        found.setdefault((host, port), address)
    return list(found.values())


def _found_here() -> str:
    """Return the cluster of RAY_ADDRESS, or else the only cluster of this machine."""
    from ray._private.services import canonicalize_bootstrap_address

    here = clusters_here() if os.environ.get(ADDRESS) in (None, "", AUTO) else []
    if len(here) > 1:
        raise OptionError(
            f"{len(here)} Ray clusters run on this machine: {', '.join(here)}.",
            field="--ray",
            value=AUTO,
            hint=f"--ray {here[0]}, or another of them",
        )
    try:
        found = here[0] if here else canonicalize_bootstrap_address(AUTO)
    except (ConnectionError, ValueError):
        found = None
    if found is None:
        problem = "no Ray cluster runs on this machine."
        raise OptionError(problem, field="--ray", value=AUTO, hint="ray start --head, or --ray HOST:6379")
    return str(found)
