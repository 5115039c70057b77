"""The driver of a cluster, with real agents: what NVML says about the GPUs of a node reaches the scheduler."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rota.agent import node_agent, other_programs
from rota.live.driver import HEARTBEAT_SECONDS
from rota.model.commands import Kill
from rota.model.events import GpusTaken, Measured
from rota.wire.client import user_name
from tests.live.scheduler.driver_bench import Bench, parkable, started
from tests.live.scheduler.test_real_gpus import STEPS, nvml
from tests.waiting import until


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Two nodes, each with the V100 that NVML tells of, and 125 GiB of memory."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    monkeypatch.setattr(node_agent, "total_gib", lambda: 125.0)
    with contextlib.closing(Bench(tmp_path, pretend_gpus=0)) as made:
        made.events()
        yield made


def test_what_nvml_tells_on_a_node_reaches_the_scheduler(real: Bench) -> None:
    assert real.driver.devices() == (("a/GPU-0",), ("b/GPU-0",))
    assert [node.host_gib for node in real.driver.discover_cluster().nodes] == [50.0, 50.0], (
        "of two GPUs one is the node's, and 80%"
    )

    def read() -> bool:
        real.ahead_s += HEARTBEAT_SECONDS
        real.events()
        return set(real.driver.readings()) == {"a/GPU-0", "b/GPU-0"}

    until(read, "readings of both nodes")
    reading = real.driver.readings()["b/GPU-0"]
    assert (reading.memory_gib, reading.used_gib, reading.utilization, reading.temperature_c) == (16.0, 4.0, 0.93, 61)
    assert abs(reading.at_s - time.time() - real.ahead_s) < 60.0, "on the clock of the scheduler"
    real.hosts.away.add("b")
    real.events()
    assert set(real.driver.readings()) == {"a/GPU-0"}


def test_a_gpu_of_a_node_that_another_program_uses_is_told_once_and_when_it_is_free(
    real: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real process that is no job: NVML says that it computes on the GPU of both nodes, which are one machine here."""
    monkeypatch.setattr(other_programs, "reports_own_numbers", lambda: True)
    other = subprocess.Popen(["sleep", "600"])
    stays = [SimpleNamespace(pid=other.pid, usedGpuMemory=2**30)]
    monkeypatch.setattr(sys.modules["pynvml"], "nvmlDeviceGetComputeRunningProcesses", lambda handle: stays)
    seen: list[GpusTaken] = []

    def told(count: int) -> bool:
        real.ahead_s += HEARTBEAT_SECONDS
        seen.extend(event for event in real.events() if isinstance(event, GpusTaken))
        return len(seen) >= count

    try:
        until(lambda: told(2), "both nodes tell of it")
        words = (f"process {other.pid} (sleep) of {user_name()}",)
        assert sorted((event.node, event.gpus, event.by) for event in seen) == [(0, (0,), words), (1, (1,), words)]
    finally:
        other.kill()
        other.wait()
    stays.clear()
    until(lambda: told(4), "both nodes tell that it is gone")
    assert sorted((event.node, event.gpus, event.by) for event in seen[2:]) == [(0, (), ()), (1, (), ())]


def test_gpus_are_read_with_heartbeats_and_not_with_every_message(real: Bench) -> None:
    real.stopped_s = time.time() + HEARTBEAT_SECONDS
    real.events()
    asked, sent = real.hosts.asked_gpus, real.hosts.sent
    for sequence in range(1, 5):
        real.carry_out([Kill(9, 1, sequence, (0, 1))])
        real.events()
    assert (real.hosts.asked_gpus, real.hosts.sent) == (asked, sent + 8)
    real.ahead_s += HEARTBEAT_SECONDS
    real.events()
    assert real.hosts.asked_gpus == asked + 2


def test_how_a_job_uses_its_gpu_is_measured(real: Bench) -> None:
    parkable(real, STEPS)
    real.carry_out([real.launch_one()])
    real.heard(started(0))
    found: list[Measured] = []

    def measured() -> bool:
        real.ahead_s += HEARTBEAT_SECONDS
        found.extend(event for event in real.events() if isinstance(event, Measured))
        return any(event.peak_gib.tolist() == [4.0] for event in found)

    until(measured, "what it takes on its GPU")
    assert real.driver.readings()["a/GPU-0"].utilization == 0.93
