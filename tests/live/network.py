"""Networks of machines on this one, for tests: each node has a network namespace, which a cable joins to a bridge. Cables can be
pulled out. The bridge has an address as well: what is in no namespace reaches all nodes by it.

It takes root, and a kernel that allows it. `problem` says what is in the way.
"""

import contextlib
import itertools
import os
import secrets
import shutil
import socket
import subprocess
from typing import Self

LOOPBACK = "127.0.0.1"


def problem() -> str:
    """Why no network can be made here; empty: one can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip"
    try:
        with Network() as network:
            network.add("n1")
            network.cut("n1")
            network.mend("n1")
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        return f"network namespaces are not allowed here: {said.decode(errors='replace').strip()}"
    return ""


class Network:
    """Addresses are 10.X.Y.1 for the bridge, and 10.X.Y.2 and up for nodes."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(2)
        self._bridge = f"rota{self._token}"
        self._nodes: dict[str, int] = {}
        for _ in range(20):
            self._prefix = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(256)}"
            if _is_free(f"{self._prefix}.1"):
                break
        _ip("link", "add", self._bridge, "type", "bridge")
        try:
            _ip("addr", "add", f"{self._prefix}.1/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def outside(self) -> str:
        """The address of all that is in no namespace."""
        return f"{self._prefix}.1"

    def add(self, name: str) -> None:
        """A namespace with a cable. One that is there stays."""
        if name in self._nodes:
            return
        self._nodes[name] = number = len(self._nodes) + 2
        space, cable = self._space(name), self._cable(name)
        _ip("netns", "add", space)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", cable, "master", self._bridge, "up")
        _ip("-n", space, "addr", "add", f"{self._prefix}.{number}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "link", "set", "lo", "up")

    def address(self, name: str) -> str:
        return f"{self._prefix}.{self._nodes[name]}"

    def inside(self, name: str) -> list[str]:
        """The words before a command that is to run there."""
        return ["ip", "netns", "exec", self._space(name)]

    def cut(self, name: str) -> None:
        """Nothing gets to it any more, or from it."""
        _ip("link", "set", self._cable(name), "down")

    def mend(self, name: str) -> None:
        _ip("link", "set", self._cable(name), "up")

    def close(self) -> None:
        """What runs in the namespaces must have ended."""
        for words in itertools.chain(
            (("link", "del", self._cable(name)) for name in self._nodes),
            (("netns", "del", self._space(name)) for name in self._nodes),
            [("link", "del", self._bridge)],
        ):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip(*words)
        self._nodes.clear()

    def _space(self, name: str) -> str:
        return f"rota-{self._token}-{name}"

    def _cable(self, name: str) -> str:
        return f"r{self._token}-{name}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _is_free(address: str) -> bool:
    """Whether this machine has no such address yet."""
    with socket.socket() as box:
        try:
            box.bind((address, 0))
        except OSError:
            return True
    return False
