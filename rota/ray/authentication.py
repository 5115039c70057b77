"""Check whether a Ray cluster asks for a token. A cluster that does not ask runs the code of everyone who can reach its ports, as
the user who started it.

The environment of this process does not show that: a cluster without authentication accepts clients with a token as well. So two
processes ask the head for its name, the first without a token and the second with ours. Ray's nodes need no separate check:
without the token they cannot join, and with it they ask for it.
"""

import importlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.errors import OptionError
from rota.ray.knock import ACCEPTED, REFUSED

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
KNOCK_SECONDS = 60.0
"""Time limit of one request to the head, in seconds. Ray itself gives up after 40 seconds."""
MAKE_TOKEN, USE_TOKEN = "(umask 077; ray get-auth-token --generate)", "export RAY_AUTH_MODE=token"
"""The two commands that switch token authentication on."""
FIX = (
    f"{MAKE_TOKEN}   # once; copy ~/.ray/auth_token to every node, mode 600\n"
    f"     {USE_TOKEN}                   # before ray start on every node, and before rota"
)


@dataclass(frozen=True)
class Door:
    """The answers of a cluster to clients without a token and with ours."""

    without_token: str
    """`accepted`, `refused`, or the problem."""
    with_ours: str
    """`accepted`, `refused`, or the problem; empty if it was not tried, because no token is needed."""

    @property
    def open(self) -> bool:
        """Whether the cluster accepts clients without a token."""
        return self.without_token == ACCEPTED

    @property
    def known(self) -> bool:
        return self.without_token in (ACCEPTED, REFUSED)


def look_at_door(address: str) -> Door:
    """Ask the listening head at HOST:PORT without a token, and if it refuses, with ours."""
    plain = {name: value for name, value in os.environ.items() if name not in (TOKEN, TOKEN_PATH)} | {MODE: "disabled"}
    without = _knock(address, plain)
    return Door(without, _knock(address, dict(os.environ)) if without == REFUSED else "")


def _knock(address: str, env: Mapping[str, str]) -> str:
    command = [sys.executable, "-m", "rota.ray.knock", address]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=KNOCK_SECONDS)
    except subprocess.TimeoutExpired:
        return f"the head did not answer within {KNOCK_SECONDS:.0f} s"
    said = done.stdout.strip() or done.stderr.strip() or "no answer"
    return said.splitlines()[-1]


def check_authentication(address: str, *, insecure: bool, say: Callable[[str], None]) -> None:
    """Raise OptionError unless the cluster at HOST:PORT asks for a token, and ours is right and private. With `insecure` a
    cluster without authentication is accepted, and `say` gets a warning."""
    door = look_at_door(address)
    if door.open and insecure:
        say(f"WARNING: the Ray cluster at {address} asks for no token: every user who can reach it can run code on its nodes")
        return
    if door.open:
        raise _refused(
            "this Ray cluster asks for no token: every user who can reach it can run code on its nodes. Nothing was started.",
            address,
            f"{FIX}\n     On a private test machine: --insecure-ray",
        )
    if not door.known:
        raise _refused(f"it is unknown whether this Ray cluster asks for a token ({door.without_token}).", address, "ray status")
    if door.with_ours == REFUSED:
        problem = "this Ray cluster asks for a token, and the one given here is missing or wrong."
        raise _refused(
            problem, address, "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=FILE, with the token that Ray was started with"
        )
    if door.with_ours != ACCEPTED:
        raise _refused(f"this Ray cluster does not answer ({door.with_ours}).", address, "ray status")
    readable = readable_token()
    if readable is not None and not insecure:
        raise _refused(
            f"other users can read the token of this Ray cluster in {readable}, and run code on its nodes. Nothing was started.",
            address,
            f"chmod 600 {readable}; make another token if others may have read it",
        )


def readable_token() -> Path | None:
    """Return the file with our token if users other than its owner can read it."""
    if os.environ.get(TOKEN):
        return None
    path = Path(os.environ.get(TOKEN_PATH) or Path.home() / ".ray" / "auth_token")
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    return path if mode & (stat.S_IRWXG | stat.S_IRWXO) and _reachable(path) else None


def _reachable(path: Path) -> bool:
    """Return whether other users may enter all folders on the way."""
    return all(folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for folder in path.resolve().parents)


def _refused(problem: str, address: str, hint: str) -> OptionError:
    return OptionError(problem, field="--ray", value=address, hint=hint)


def use_our_token() -> None:
    """Let Ray send our token even if RAY_AUTH_MODE is not set. Call this before Ray is started in this process."""
    setup: Any = importlib.import_module("ray._private.authentication.authentication_token_setup")
    loader = setup.AuthenticationTokenLoader.instance()
    if MODE not in os.environ and loader.has_token(ignore_auth_mode=True):
        setup._enable_token_auth()
