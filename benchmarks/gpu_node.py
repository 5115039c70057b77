"""A phase of `park_gpu`: the agent of a cluster's node parks and wakes an unmodified job, and tells how its GPU is.

The driver (`Driver`) and one agent (`NodeAgent`) are in this process, with nothing but JSON texts between them; on a
cluster Ray carries these. Supervisors and the job are processes of their own, as always.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.gpu_bench import ENDLESS, Bench, gpu_mib, step_times
from rota.agent.gpu_readings import GpuReading, Readings
from rota.agent.node_agent import NodeAgent, NodeFacts, cluster_agent
from rota.agent.processes import boot_s
from rota.live.driver import HEARTBEAT_SECONDS, Driver
from rota.live.driver_protocol import DriverContext
from rota.live.node_channel import HostReply, ReachableHost
from rota.model.commands import Kill, Launch, Resume, Suspend, SuspendKind
from rota.model.events import Exited, External, NodeReported, Started, Suspended
from rota.park.park_method import can_sleep
from rota.wire.spec import Spec
from rota.wire.submission import Submission

LEASE_SECONDS = 900.0
HOST = "host-n1"


class OneHost:
    """A `NodeChannel` to a cluster of one node, whose agent is asked in this process."""

    nodes_can_leave = True

    def __init__(self, agent: NodeAgent) -> None:
        self.agent = agent
        self._answers: list[HostReply] = []

    def open(self, wake: Callable[[], None]) -> None: ...

    def close(self) -> None: ...

    def nodes(self) -> Mapping[str, ReachableHost]:
        return {HOST: ReachableHost(self.agent.facts)}

    def send(self, host: str, text: str) -> None:
        self._answers.append(HostReply(host, self.agent.exchange(text), boot_s()))

    def replies(self) -> list[HostReply]:
        found, self._answers = self._answers, []
        return found

    def changed(self, host: str, facts: NodeFacts) -> None: ...

    def notes(self) -> list[str]:
        return []

    def read_gpus(self) -> Readings:
        return {}

    def rang(self) -> set[str]:
        return {HOST} if self.agent.wait(0.0) else set()


def on_a_node(bench: Bench, gib: int = 2, times: int = 10) -> dict[str, Any]:
    """Seconds out and back, from the command to the event that answers it, and what is read of the GPU in between."""
    bench.home = bench.folder / "home-node"
    pretend = 1 if bench.rehearsal else 0
    agent = cluster_agent(bench.folder / "node", "n1", "127.0.0.1", accelerator="V100", pretend_gpus=pretend)
    driver = Driver(bench.home, OneHost(agent), lease_grace_seconds=1.0, gone_after_seconds=LEASE_SECONDS)
    if not driver.discover_cluster().nodes:
        raise RuntimeError("the agent found no GPU")
    cluster, devices = driver.discover_cluster(), [name for names in driver.devices() for name in names]
    name = f"node-{gib}"
    spec = Spec(run=bench.command(gib, ENDLESS, 0.0, name), progress=r"step (\d+)/(\d+)")
    job = Submission(spec, "me", str(bench.folder), bench.variables())
    driver.open(DriverContext(lambda: None, lambda number: job, time.time, lambda: cluster, lambda gpu: devices[gpu]))
    told: list[External] = []

    def answered(kind: type[Started] | type[Suspended], sequence: int) -> bool:
        told.extend(driver.events())
        driver.acknowledge()
        ends = [event for event in told if isinstance(event, Exited)]
        if ends or any(isinstance(event, Suspended) and event.kind is SuspendKind.CHECKPOINT for event in told):
            tail = (bench.home / "logs/1.log").read_text(errors="replace")[-500:]
            raise RuntimeError(f"it was not parked: {driver.inventory()} {ends} {tail}")
        return any(isinstance(event, kind) and event.sequence == sequence for event in told)

    def await_step() -> None:
        path, begin = bench.folder / f"{name}.steps", time.time()
        bench.until(lambda: any(moment > begin for moment in step_times(path)[-1:]), "a step", 60.0, 0.01)

    def read() -> dict[str, Any]:
        """As `rota nodes` shows it: not older than a heartbeat."""
        begin = time.time()

        def fresh() -> bool:
            told.extend(driver.events())
            return any(reading.at_s > begin for reading in driver.readings().values())

        if bench.rehearsal:
            return {}
        bench.until(fresh, "a reading of the GPU", 3 * HEARTBEAT_SECONDS)
        return {gpu: _shown(reading) for gpu, reading in driver.readings().items()}

    try:
        boots = (agent.facts.boot,)
        bench.until(lambda: any(isinstance(event, NodeReported) for event in driver.events()), "the agent answers", 30.0)
        told.extend(driver.carry_out([Launch(1, 1, 1, 0, np.array([0]), (0,), boots, 0.0, time.time() + LEASE_SECONDS)]))
        bench.until(lambda: answered(Started, 1), "its first step", 150.0, 0.005)
        (status,) = driver.inventory()
        found: dict[str, Any] = {"way": status.park_method, "why": status.park_reason, "host_gib": agent.facts.host_gib}
        if not can_sleep(status.park_method):
            raise RuntimeError(f"it can't be parked here: {status.park_reason}")
        await_step()
        found["running"] = read()
        found["gpu_mib_running"] = gpu_mib()
        out, back, steps = [], [], []
        for number in range(times):
            park, wake = 2 + 2 * number, 3 + 2 * number
            began = time.monotonic()
            told.extend(driver.carry_out([Suspend(1, 1, park, (0,), SuspendKind.PARK)]))
            bench.until(lambda park=park: answered(Suspended, park), "it is parked", 150.0, 0.002)
            out.append(time.monotonic() - began)
            if number == 0:
                found["gpu_mib_parked"] = gpu_mib()
                found["parked"] = read()
            began = time.monotonic()
            told.extend(driver.carry_out([Resume(1, 1, wake, (0,), time.time() + LEASE_SECONDS)]))
            bench.until(lambda wake=wake: answered(Started, wake), "it is woken", 150.0, 0.002)
            back.append(time.monotonic() - began)
            await_step()
            steps.append(time.monotonic() - began)
        parked = [event for event in told if isinstance(event, Suspended)]
        return found | {
            "times": times,
            "first_out_seconds": round(out[0], 3),
            "out_seconds": round(statistics.median(out[1:]), 3),
            "longest_out_seconds": round(max(out[1:]), 3),
            "back_seconds": round(statistics.median(back), 3),
            "longest_back_seconds": round(max(back), 3),
            "back_to_a_step_seconds": round(statistics.median(steps), 3),
            "parked_gib": round(parked[-1].host_gib, 2),
            "keeps_host_memory": parked[-1].keeps_host_memory,
            "launches": (bench.home / "logs/1.log").read_text(errors="replace").count("(attempt "),
        }
    finally:
        driver.carry_out([Kill(1, 1, 1 << 40, (0,))])
        driver.events()
        agent.close()
        bench.end_supervisors()


def _shown(reading: GpuReading) -> dict[str, Any]:
    plain = asdict(reading)
    return {field: plain[field] for field in plain if field not in ("at_s", "processes")}
