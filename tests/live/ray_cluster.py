"""A Ray cluster of several nodes on this machine, for tests: nodes can be started, killed with -9, frozen and removed."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.live.harness import until
from tests.live.network import LOOPBACK, Network

SETTINGS = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_worker_niceness": "0",
    "RAY_worker_oom_score_adjustment": "0",
    "RAY_kill_child_processes_on_worker_exit": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}
"""Of all processes of Ray, and of who connects to it: as `docs/run-on-ray.md` starts it, with a token."""
OPEN = {name: value for name, value in SETTINGS.items() if name != "RAY_AUTH_TOKEN"} | {"RAY_AUTH_MODE": "disabled"}
"""The same without a token."""
START = [
    "--num-cpus=1",
    "--disable-usage-stats",
    "--include-log-monitor=false",
    "--object-store-memory=80000000",
]


PATIENCE = 300.0
MARK = "CHAOS_MACHINE"
"""A variable of everything that runs on a node, but jobs: they are below the supervisors, which have it."""


class RayCluster:
    """A head without GPUs, and nodes with pretend ones."""

    def __init__(
        self, folder: Path, network: Network | None = None, *, settings: Mapping[str, str] = SETTINGS, storage: bool = True
    ) -> None:
        """`network`: nodes are in its namespaces; None: all is on loopback. `storage`: the head keeps its state on disk."""
        self.folder, self.network, self._settings, self._storage = folder, network, settings, storage
        self._token = secrets.token_hex(4)
        # Sockets of Ray are in here, and their names may have 107 bytes.
        self._sockets = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str]] = {}
        """What starts Ray on each of them."""
        self._env: dict[str, dict[str, str]] = {}
        """Variables of their own."""
        self._gcs: list[subprocess.Popen[bytes]] = []
        host = network.outside if network is not None else LOOPBACK
        with socket.socket() as box:
            box.bind((host, 0))
            self.address = f"{host}:{box.getsockname()[1]}"
        port = self.address.partition(":")[2]
        here = [f"--node-ip-address={host}", f"--temp-dir={self._sockets}"]
        self._start("head", [], "--head", f"--port={port}", "--num-gpus=0", "--include-dashboard=false", *here)
        self.wait_for("head")

    def _start(self, name: str, before: list[str], *words: str) -> None:
        """The head is not blocked on: else all of Ray that is with it would end with its GCS."""
        ray = Path(sys.executable).parent / "ray"
        block = [] if name == "head" else ["--block"]
        self._commands[name] = [*before, str(ray), "start", *block, *START, *words]
        self._run(name)

    def _run(self, name: str) -> None:
        storage = (
            {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(self._sockets / "gcs")}
            if name == "head" and self._storage
            else {}
        )
        with self._said(name).open("wb") as out:
            self._nodes[name] = subprocess.Popen(
                self._commands[name],
                stdout=out,
                stderr=out,
                env={**os.environ, **self._settings, **storage, **self._env.get(name, {}), MARK: self._mark(name)},
                start_new_session=True,
            )

    def _said(self, name: str) -> Path:
        return self.folder / f"{name}.out"

    def _mark(self, name: str) -> str:
        return f"{self._token}-{name}"

    def wait_for(self, name: str) -> None:
        """Until Ray is up on this node. On a busy machine it gives up after half a minute, and is started again."""

        def came() -> bool:
            if not self.is_up(name) and self._nodes[name].poll() not in (None, 0):
                self._run(name)
            return self.is_up(name)

        until(came, f"{name} is up: {self._said(name)}", PATIENCE)

    def is_up(self, name: str) -> bool:
        """Whether Ray has come up on it since it was last started."""
        return "Ray runtime started" in self._said(name).read_text(errors="replace")

    def start(self, key: str, gpus: int, accelerator: str, *, name: str = "") -> None:
        """Start Ray on a node, and wait for nothing. `name`: as which it joins, if not as `key`."""
        labels = f"rota/node={name or key},rota/pretend=true,ray.io/accelerator-type={accelerator}"
        address, before = LOOPBACK, list[str]()
        if self.network is not None:
            self.network.add(key)
            address, before = self.network.address(key), self.network.inside(key)
        # A folder of its own: else nodes that start at the same time take the same names for their sockets.
        here = [f"--node-ip-address={address}", f"--temp-dir={self._sockets / key}"]
        self._start(key, before, f"--address={self.address}", f"--num-gpus={gpus}", f"--labels={labels}", *here)

    def add(self, name: str, gpus: int, accelerator: str, env: Mapping[str, str] | None = None) -> None:
        """`env`: variables of all its processes, on top of ours."""
        self._env[name] = dict(env or {})
        self.start(name, gpus, accelerator)
        self.wait_for(name)

    def processes(self, name: str) -> list[int]:
        """All that runs below a node."""
        return _below(self._nodes[name].pid)

    def runs(self, name: str) -> bool:
        """Whether Ray runs on this node, as far as its own processes say: they end together."""
        return name in self._nodes and self._nodes[name].poll() is None

    def raylet(self, name: str) -> int:
        """The number of its raylet."""
        for pid in _below(self._nodes[name].pid):
            with contextlib.suppress(OSError):
                if _program(pid).endswith(b"/raylet"):
                    return pid
        raise AssertionError(f"{name} has no raylet")

    def agent(self, name: str) -> int | None:
        """The number of the process of its agent, if it has one."""
        for pid in _below(self._nodes[name].pid) if name in self._nodes else ():
            with contextlib.suppress(OSError):
                if b"AgentActor" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        return None

    def kill(self, name: str) -> None:
        """All of Ray that is on this node, with -9. What jobs it has lives on."""
        process = self._nodes.pop(name)
        for pid in [*_below(process.pid), process.pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def machine(self, name: str) -> list[int]:
        """All processes of a node: Ray's, supervisors, and jobs."""
        found = dict.fromkeys(_marked(self._mark(name)))
        for pid in list(found):
            found |= dict.fromkeys(_below(pid))
        return list(found)

    def crash(self, name: str) -> None:
        """All processes of a node, with -9: its machine has lost power."""
        end = time.monotonic() + 60.0
        while left := self.machine(name):
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < end, left
            self.reap(name)
            time.sleep(0.02)

    def reap(self, name: str) -> None:
        """Wait for Ray on a node that has ended, or is about to."""
        if name in self._nodes:
            self._nodes.pop(name).wait(60.0)

    def gcs(self) -> int:
        """The number of the process in which the head keeps what it knows."""
        (found,) = [pid for pid in _marked(self._mark("head")) if _program(pid).endswith(b"/gcs_server")]
        return found

    def restart_gcs(self, pause_seconds: float) -> None:
        """Kill it with -9, and start it again with its storage, as whoever looks after a head does."""
        pid = self.gcs()
        words = [word.decode() for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]]
        pairs = [word.decode().partition("=") for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if word]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{pid}").exists() or not _program(pid), "the GCS is gone")
        time.sleep(pause_seconds)
        with (self.folder / "gcs.out").open("ab") as out:
            env = {name: value for name, _, value in pairs}
            self._gcs.append(subprocess.Popen(words, stdout=out, stderr=out, env=env, start_new_session=True))

    def close(self) -> None:
        for name in list(self._nodes):
            if name != "head":
                self.kill(name)
        self.crash("head")
        for process in self._gcs:
            process.wait()
        shutil.rmtree(self._sockets, ignore_errors=True)


def _below(pid: int) -> list[int]:
    """Its children and theirs."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_below(int(child))]
    return found


def _program(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return b""


def _marked(mark: str) -> list[int]:
    """Processes that were started with this mark, and are not gone."""
    found, wanted = [], f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def end_supervisors(folder: Path) -> None:
    """A machine that dies takes its supervisors along, and each of these its job."""
    end = time.monotonic() + 60.0
    while left := list(_supervisors(folder)):
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        assert time.monotonic() < end
        time.sleep(0.05)


def _supervisors(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0") if entry.name.isdecimal() else []
            if "rota.agent.supervisor" in words and any(word.startswith(str(folder)) for word in words):
                yield int(entry.name)
