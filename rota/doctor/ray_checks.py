"""Check the Ray clusters on this machine: whether they require a token, and whether the token is private."""

from collections.abc import Iterator
from importlib.util import find_spec

from rota.doctor.diagnosis import Diagnosis, fail, ok, warn
from rota.errors import InputError
from rota.ray.authentication import MAKE_TOKEN, USE_TOKEN, look_at_door, readable_token
from rota.ray.find import clusters_here
from rota.ray.knock import REFUSED
from rota.ray.port import check_port


def check_ray() -> Iterator[Diagnosis]:
    if find_spec("ray") is None:
        return
    for address in clusters_here():
        yield _cluster(address)
    readable = readable_token()
    if readable is not None:
        yield fail(
            "Ray token", f"other users can read {readable}, and run code on the nodes of its cluster", f"chmod 600 {readable}"
        )


def _cluster(address: str) -> Diagnosis:
    try:
        check_port(address)
    except InputError:
        return warn(
            "Ray", f"processes of a cluster run here, but its head {address} does not listen", "ray stop, or start the head"
        )
    door = look_at_door(address)
    if door.open:
        found = f"the cluster at {address} asks for no token: every user who can reach it can run code on its nodes"
        return fail("Ray", found, f"{MAKE_TOKEN}; then on every node: ray stop; {USE_TOKEN}; ray start as before")
    if not door.known:
        return warn(
            "Ray", f"it is unknown whether the cluster at {address} requires a token ({door.without_token})", "ray status"
        )
    if door.with_ours == REFUSED:
        found = f"the cluster at {address} requires a token, which this user does not have"
        return warn("Ray", found, "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=FILE, if the cluster is yours")
    return ok("Ray", f"the cluster at {address} requires a token, and yours is right")
