"""Cells as tasks of a Ray cluster: the `RemoteBackend` of `rota sweep --ray` and `rota reproduce --ray`.

Ray starts a task on any node with a free CPU, also on a node that joined later, and starts it again if its node is lost. That is
safe, because a cell depends on nothing but what is sent with it. Cells and answers are text. Input files are objects of Ray, one
for each digest.
"""

import contextlib
import functools
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from rota.experiments.node_runner import NodeRunner
from rota.experiments.worker_pool import WorkerReply
from rota.ray.channel import start_ray
from rota.ray.find import checked_cluster
from rota.ray.port import answers, read_address
from rota.ray.probe import node_name, probe, usable

MORE = 2
"""Number of cells submitted to Ray beyond its CPUs, so that no CPU waits. An autoscaler adds nodes for them."""
RETRIES = 5
"""Number of times that Ray runs a cell again after its node or process is lost."""
LOOK_SECONDS = 2.0
"""Interval between two looks at the nodes of the cluster, in seconds."""
SILENT_SECONDS = 10.0
"""Time without an answer after which the head counts as away, in seconds."""
NODE_LABEL = "ray.io/node-id"
SETTINGS = {"RAY_gcs_rpc_server_reconnect_timeout_s": "3600"}
"""Settings of Ray in this process: how long it waits for the head. A sweep does not use the keepalive of `channel.py`: if a call
returns nothing for half a minute, a node closes a connection with frequent keepalives, and Ray then ends the cell."""


@functools.cache
def _runner() -> NodeRunner:
    """Return the runner of this process, which is a Ray worker on a node and serves one run."""
    return NodeRunner()


def run_cell(text: str, digests: Sequence[str], kept: Sequence[Any]) -> str:
    """Run one cell on a node. `kept` has a reference to the contents of each digest."""
    import ray

    where = dict(zip(digests, kept, strict=True))
    answer = _runner().run(text, lambda digest: bytes(ray.get(where[digest])))
    return json.dumps({**answer, "node": ray.get_runtime_context().get_node_id()})


class RaySweepBackend:
    """`RemoteBackend` on a Ray cluster."""

    def __init__(self, address: str, note: Callable[[str], None], *, insecure: bool = False) -> None:
        """`note` is called with messages for the user; `insecure` accepts a cluster that requires no token."""
        self._note = note
        address = checked_cluster(address, insecure=insecure, say=note)
        os.environ.pop("RAY_grpc_client_keepalive_time_ms", None)
        self._ray = start_ray(address, "rota-sweep", SETTINGS)
        self._head = read_address(self._ray.get_runtime_context().gcs_address)
        self._nodes: dict[str, Mapping[str, Any]] = {}
        self._left_out: set[str] = set()
        try:
            self._left_out = probe(self._ray, address)
            self._look()
        except BaseException:
            self._ray.shutdown()
            raise
        for number in self._left_out & self._nodes.keys():
            note(f"{node_name(self._nodes[number])} does not answer and is left out")
        self._task = self._ray.remote(run_cell)
        self._kept: dict[str, Any] = {}
        self._sent: dict[int, tuple[str, Sequence[str]]] = {}
        self._running: dict[int, Any] = {}
        self._answers: queue.SimpleQueue[tuple[int, str | None, str]] = queue.SimpleQueue()
        self._seen_s = time.monotonic()
        self._away = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rota-ray", daemon=True)
        self._thread.start()

    # RemoteBackend.

    def keep(self, digest: str, content: bytes) -> None:
        self._kept[digest] = self._ray.put(content)

    def room(self) -> int:
        return self.cpus + MORE - len(self._running)

    def send(self, number: int, text: str, digests: Sequence[str]) -> None:
        self._sent[number] = text, digests
        self._start(number)

    def receive(self, seconds: float) -> list[tuple[int, WorkerReply]]:
        self._say_away()
        found = []
        with contextlib.suppress(queue.Empty):
            came = self._answers.get(timeout=seconds)
            while True:
                answer = self._answer(*came)
                if answer is not None:
                    found.append((came[0], answer))
                came = self._answers.get_nowait()
        return found

    def close(self) -> None:
        self._stopping.set()
        for ref in self._running.values():
            with contextlib.suppress(Exception):  # the task or its node may be gone; Ray ends the rest with this process
                self._ray.cancel(ref, force=True)
        self._thread.join(LOOK_SECONDS)
        self._ray.shutdown()

    # The progress line.

    @property
    def cpus(self) -> int:
        return sum(int(node["Resources"]["CPU"]) for number, node in self._nodes.items() if number not in self._left_out)

    def __str__(self) -> str:
        count = len(self._nodes.keys() - self._left_out)
        size = f"{count} node{'' if count == 1 else 's'}, {self.cpus} CPU{'' if self.cpus == 1 else 's'}"
        return f"{size}; Ray's head is away" if self._away else size

    # Tasks.

    def _start(self, number: int) -> None:
        text, digests = self._sent[number]
        elsewhere = {NODE_LABEL: f"!in({','.join(sorted(self._left_out))})"} if self._left_out else None
        task = self._task.options(num_cpus=1, max_retries=RETRIES, name="rota-cell", label_selector=elsewhere)
        ref = self._running[number] = task.remote(text, list(digests), [self._kept[digest] for digest in digests])

        def came(done: "Future[Any]") -> None:
            problem = None if done.cancelled() else done.exception()
            if done.cancelled() or problem is not None:
                self._answers.put((number, None, _first_line(problem)))
            else:
                self._answers.put((number, done.result(), ""))

        ref.future().add_done_callback(came)

    def _answer(self, number: int, text: str | None, problem: str) -> WorkerReply | None:
        """Return the answer of a task; None if the cell was sent to another node instead."""
        self._running.pop(number, None)
        if text is None:
            del self._sent[number]
            return {"error": f"Ray could not run it: {problem}.", "hint": "ray status, then the same command", "died": True}
        answer: WorkerReply = json.loads(text)
        node = answer.pop("node")
        if "other" in answer:  # from a node that joined after the start
            if node not in self._left_out:
                if node not in self._nodes:
                    self._look()
                name = node_name(self._nodes[node]) if node in self._nodes else f"node {node}"
                self._note(f"{name} has {', '.join(answer['other'])} and is left out")
                self._left_out = self._left_out | {node}
            self._start(number)
            return None
        del self._sent[number]
        return answer

    # The cluster is watched by a thread, because calls of Ray take seconds or longer while its head is away.

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            with contextlib.suppress(Exception):
                answers(*self._head)
                if not self._stopping.is_set():
                    self._look()
                self._seen_s = time.monotonic()

    def _look(self) -> None:
        self._nodes = usable(self._ray.nodes())

    def _say_away(self) -> None:
        away = time.monotonic() - self._seen_s > SILENT_SECONDS
        if away != self._away:
            self._away = away
            self._note("Ray's head does not answer: waiting for it" if away else "Ray's head is back")


def _first_line(problem: BaseException | None) -> str:
    lines = str(problem).strip().splitlines() if problem is not None else []
    return f"{type(problem).__name__}: {lines[0].rstrip('.')}" if lines else "it was cancelled"
