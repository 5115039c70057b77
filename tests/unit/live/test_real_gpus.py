"""A daemon with real GPUs, as NVML tells of them: what a job does there becomes what the scheduler knows."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rota.agent.gpus import find_gpus
from rota.compose.live_scheduler import WORDS, make_scheduler
from rota.live.daemon import Daemon
from rota.live.local import Local
from rota.model.cluster import Cluster, Node
from rota.wire.spec import Spec
from tests.unit.agent.test_gpu_readings import fake
from tests.unit.live.test_daemon import PATIENCE, configuration

STEPS = """
import time
for step in range(1, 100000):
    print(f"step {step}", flush=True)
    time.sleep(0.02)
"""


def nvml(**changes: Any) -> SimpleNamespace:
    names = {0: "Tesla V100-SXM2-16GB", 2: "NVIDIA H200 NVL"}
    return fake(nvmlDeviceGetName=lambda handle: names[handle], nvmlDeviceGetComputeRunningProcesses=lambda handle: [], **changes)


def daemon_of(home: Path) -> Daemon:
    gpus = find_gpus()
    nodes = [Node(f"box-{gpu.accelerator.lower()}", gpu.accelerator, 1, host_gib=50.0) for gpu in gpus]
    cluster = Cluster.of(nodes, "1x(1xV100) + 1x(1xH200)")
    plain = [[node.name, node.accelerator, node.gpus, node.rack, node.host_gib] for node in nodes]
    return Daemon(
        home,
        make_scheduler,
        WORDS,
        Local(home, cluster, lease_grace_seconds=5.0, gpus=[[gpu] for gpu in gpus]),
        worker=lambda named: [sys.executable, "-m", "rota.server.worker", named],
        configuration={**configuration(str(cluster)), "nodes": plain, "pretend": False},
    )


def test_what_nvml_tells_reaches_the_scheduler_and_the_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    daemon = daemon_of(tmp_path)
    daemon.start()
    try:
        spec = Spec(run=[sys.executable, "-c", STEPS], progress=r"step (\d+)", accelerators=["H200"])
        job = daemon.submit(spec, "ana", str(tmp_path), {}).id
        table, row, end = daemon.scheduler.state.jobs.table, daemon.scheduler.state.jobs.row[job], time.monotonic() + PATIENCE
        while not table.alone_rate[row] > 0:
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        assert table.utilisation[row] == 0.93 and table.peak_gib[row] == 20.0
        first, second = daemon.nodes()
        assert (first.name, first.gpus[0].jobs, first.gpus[0].used_gib, first.host_gib) == ("box-v100", [], 4.0, 50.0)
        gpu = second.gpus[0]
        assert (gpu.jobs, gpu.name, gpu.memory_gib, gpu.temperature_c) == ([job], "GPU-2", 140.0, 61)
        daemon.cancel(job)
    finally:
        daemon.stop()


def test_an_nvml_that_breaks_while_a_job_runs_leaves_figures_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    daemon = daemon_of(tmp_path)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    daemon.start()
    try:
        spec = Spec(run=[sys.executable, "-c", STEPS], progress=r"step (\d+)")
        job = daemon.submit(spec, "ana", str(tmp_path), {}).id
        table, row, end = daemon.scheduler.state.jobs.table, daemon.scheduler.state.jobs.row[job], time.monotonic() + PATIENCE
        while not table.alone_rate[row] > 0:
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        assert table.utilisation[row] != table.utilisation[row] and table.peak_gib[row] != table.peak_gib[row]
        assert all(gpu.utilisation is None for node in daemon.nodes() for gpu in node.gpus)
        daemon.cancel(job)
    finally:
        daemon.stop()
