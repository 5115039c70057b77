"""Health checks: an operator's command, run on a node before jobs start there. It is a child of the agent's process.

Each check has a thread that waits for it, so the agent never does. The command leads a process group of its own. When it ends, or
when its time is over, the group is killed. The kernel kills the command if the agent is killed.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rota.agent.processes import boot_s

NODE, GPUS = "ROTA_NODE", "ROTA_NODE_GPUS"
"""Variables of a check: name of the node, and CUDA's numbers of its GPUs, separated by commas."""
TAIL_BYTES = 4096
"""Bytes kept of the output."""
LINE_LENGTH = 200
"""Longest last line in a reason, in characters."""


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """A request to run a health check on a node."""

    node: str
    number: int
    """Number of the request, which its result bears."""
    argv: tuple[str, ...]
    seconds: float
    """Time limit of the check, in seconds."""
    gpus: tuple[int, ...]
    """CUDA's numbers of the GPUs of the node."""


class HealthResult(NamedTuple):
    """Result of a health check."""

    node: str
    number: int
    """Number of the request."""
    passed: bool
    text: str
    """Last line of the output, or why the check has failed if it printed nothing; empty if it passed."""


class HealthChecks:
    """The health checks of an agent, at most one at a time for each node."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called, in another thread, when a check has ended."""
        self._wake = wake
        self._lock = threading.Lock()
        self._running: dict[str, CheckHealth] = {}
        """Latest request for each node whose check is running."""
        self._results: dict[str, HealthResult] = {}
        """Last result of each node."""
        self._groups: set[int] = set()
        self._closed = False

    def request(self, asked: CheckHealth) -> None:
        """Run a check. If one is running on this node, its result is for this request too. A repeat does nothing."""
        with self._lock:
            last, running = self._results.get(asked.node), asked.node in self._running
            if self._closed or (last is not None and last.number == asked.number):
                return
            self._running[asked.node] = asked
        if not running:
            threading.Thread(target=self._run, args=(asked,), name=f"health of {asked.node}", daemon=True).start()

    def results(self) -> list[list[Any]]:
        """Return the last result of each node, as plain data."""
        with self._lock:
            return [list(result) for _, result in sorted(self._results.items())]

    def close(self) -> None:
        """Kill the checks that run."""
        with self._lock:
            self._closed = True
            for group in self._groups:
                _kill_group(group)

    def _run(self, asked: CheckHealth) -> None:
        problem = self._problem(asked)
        with self._lock:
            latest = self._running.pop(asked.node)
            self._results[asked.node] = HealthResult(asked.node, latest.number, problem is None, problem or "")
        self._wake()

    def _problem(self, asked: CheckHealth) -> str | None:
        """Run the command. Return why the node is not healthy, or None if it is."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "rota.agent.health_program", str(os.getpid()), *asked.argv],
                env={**os.environ, NODE: asked.node, GPUS: ",".join(map(str, asked.gpus))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"the check cannot be started: {error.strerror}"
        with self._lock:
            self._groups.add(process.pid)
            if self._closed:
                _kill_group(process.pid)
        assert process.stdout is not None
        with process.stdout as output:
            tail, in_time = _read_until_exit(process.pid, output.fileno(), asked.seconds)
        with self._lock:
            _kill_group(process.pid)  # before it is reaped: until then its number is its own
            self._groups.discard(process.pid)
        code = process.wait()
        last = _last_line(tail)
        if not in_time:
            return f"no result within {asked.seconds:g} s" + (f"; last line: {last}" if last else "")
        return None if code == 0 else last or _how_it_ended(code)


def _read_until_exit(pid: int, output: int, seconds: float) -> tuple[bytes, bool]:
    """Read the output of a process until it exits or its time is over. Return the end of the output, and whether it exited."""
    os.set_blocking(output, False)
    end_s, kept, size = boot_s() + seconds, deque[bytes](), 0
    exits = os.pidfd_open(pid)
    watched = [exits, output]
    try:
        exited = False
        while not exited and (left := end_s - boot_s()) > 0:
            ready, _, _ = select.select(watched, [], [], left)
            exited = exits in ready
            while output in watched and boot_s() < end_s:
                try:
                    piece = os.read(output, TAIL_BYTES)
                except BlockingIOError:
                    break
                if not piece:
                    watched.remove(output)
                    break
                kept.append(piece)
                size += len(piece)
                while size - len(kept[0]) >= TAIL_BYTES:
                    size -= len(kept.popleft())
        return b"".join(kept)[-TAIL_BYTES:], exited
    finally:
        os.close(exits)


def _last_line(tail: bytes) -> str:
    lines = [line.strip() for line in tail.decode(errors="replace").splitlines() if line.strip()]
    text = "".join(each if each.isprintable() else " " for each in lines[-1]) if lines else ""
    return text if len(text) <= LINE_LENGTH else f"{text[:LINE_LENGTH]}..."


def _how_it_ended(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"ended by signal {-code}"


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def checks_of(plain: Sequence[Sequence[Any]]) -> list[HealthResult]:
    """Return results from plain data. Fields of a later version are ignored."""
    return [HealthResult(*each[:4]) for each in plain]
