"""A Ray cluster of several nodes on this machine, for tests: nodes can be started, killed with -9, frozen and taken away."""

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
"""Of all processes of Ray, and of who connects to it."""
START = [
    "--block",
    "--node-ip-address=127.0.0.1",
    "--num-cpus=1",
    "--disable-usage-stats",
    "--include-log-monitor=false",
    "--object-store-memory=80000000",
]


class RayCluster:
    """A head without GPUs, and nodes with pretend ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Sockets of Ray are in here, and their names may have 107 bytes.
        self._sockets = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as box:
            box.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{box.getsockname()[1]}"
        port = self.address.partition(":")[2]
        self._start(
            "head", "--head", f"--port={port}", "--num-gpus=0", "--include-dashboard=false", f"--temp-dir={self._sockets}"
        )

    def _start(self, name: str, *words: str, env: Mapping[str, str] | None = None) -> None:
        ray = Path(sys.executable).parent / "ray"
        said = self.folder / f"{name}.out"
        before = said.read_text(errors="replace").count("Ray runtime started") if said.exists() else 0
        with said.open("ab") as out:
            self._nodes[name] = subprocess.Popen(
                [str(ray), "start", *START, *words],
                stdout=out,
                stderr=out,
                env={**os.environ, **SETTINGS, **(env or {})},
                start_new_session=True,
            )
        until(lambda: said.read_text(errors="replace").count("Ray runtime started") > before, f"{name} is up: {said}")

    def add(self, name: str, gpus: int, accelerator: str, env: Mapping[str, str] | None = None) -> None:
        """`env`: variables of all its processes, on top of ours."""
        labels = f"rota/node={name},rota/pretend=true,ray.io/accelerator-type={accelerator}"
        self._start(name, f"--address={self.address}", f"--num-gpus={gpus}", f"--labels={labels}", env=env)

    def processes(self, name: str) -> list[int]:
        """All that runs below a node."""
        return _below(self._nodes[name].pid)

    def raylet(self, name: str) -> int:
        """The number of its raylet."""
        for pid in _below(self._nodes[name].pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/raylet"):
                    return pid
        raise AssertionError(f"{name} has no raylet")

    def agent(self, name: str, node_folder: Path) -> int:
        """The number of the process of its agent: the one that listens in its folder."""
        for pid in _below(self._nodes[name].pid):
            with contextlib.suppress(OSError):
                if b"AgentActor" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        raise AssertionError(f"{name} has no agent")

    def kill(self, name: str) -> None:
        """All of Ray that is on this node, with -9. What jobs it has lives on."""
        process = self._nodes.pop(name)
        for pid in [*_below(process.pid), process.pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for name in list(self._nodes):
            self.kill(name)
        shutil.rmtree(self._sockets, ignore_errors=True)


def _below(pid: int) -> list[int]:
    """Its children and theirs."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_below(int(child))]
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
