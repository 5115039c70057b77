"""A daemon with real GPUs, as NVML reports them: measurements of jobs become the scheduler's beliefs."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rota.agent import other_programs
from rota.agent.gpus import find_gpus
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, read_setup
from rota.live.daemon import Daemon
from rota.live.driver import Driver
from rota.live.local_channel import LocalChannel
from rota.model.cluster import HOST_GIB_PER_GPU, Cluster, Node
from rota.park.park_environment import HOOK_FOLDER
from rota.wire.client import user_name
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.live.scheduler.test_daemon import PATIENCE, configuration, running
from tests.unit.agent.test_gpu_readings import fake

STEPS = """
import time
for step in range(1, 100000):
    print(f"step {step}", flush=True)
    time.sleep(0.02)
"""


def nvml(**changes: Any) -> SimpleNamespace:
    names = {0: "Tesla V100-SXM2-16GB", 2: "NVIDIA H200 NVL"}
    calls: dict[str, Any] = {
        "nvmlDeviceGetName": lambda handle: names[handle],
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [],
    }
    return fake(**{**calls, **changes})


def daemon_of(home: Path) -> Daemon:
    gpus = find_gpus()
    nodes = [Node(f"box-{gpu.accelerator.lower()}", gpu.accelerator, 1, host_gib=50.0) for gpu in gpus]
    cluster = Cluster.of(nodes, "1x(1xV100) + 1x(1xH200)")
    plain = [[node.name, node.accelerator, node.gpus, node.rack, node.host_gib] for node in nodes]
    return Daemon(
        home,
        make_scheduler,
        JOURNAL_CODEC,
        Driver(home, LocalChannel(home, cluster, [[gpu] for gpu in gpus]), lease_grace_seconds=5.0),
        worker=lambda named: [sys.executable, "-m", "rota.server.policy_worker", named],
        setup=read_setup({**configuration(str(cluster)), "nodes": plain, "pretend": False}),
    )


def test_what_nvml_tells_reaches_the_scheduler_and_the_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    daemon = daemon_of(tmp_path)
    daemon.start()
    try:
        spec = Spec(run=[sys.executable, "-c", STEPS], progress=r"step (\d+)", accelerators=["H200"])
        job = daemon.submit(Submission(spec, "ana", str(tmp_path), {})).id
        table, row, end = daemon.scheduler.state.jobs.table, daemon.scheduler.state.jobs.row[job], time.monotonic() + PATIENCE
        while not table.alone_rate[row] > 0:
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        assert table.utilization[row] == 0.93 and table.peak_gib[row] == 20.0
        shown = daemon.job(str(job))
        assert (shown.utilization, shown.peak_gib) == (0.93, 20.0)
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
        job = daemon.submit(Submission(spec, "ana", str(tmp_path), {})).id
        table, row, end = daemon.scheduler.state.jobs.table, daemon.scheduler.state.jobs.row[job], time.monotonic() + PATIENCE
        while not table.alone_rate[row] > 0:
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        assert table.utilization[row] != table.utilization[row] and table.peak_gib[row] != table.peak_gib[row]
        assert all(gpu.utilization is None for node in daemon.nodes() for gpu in node.gpus)
        daemon.cancel(job)
    finally:
        daemon.stop()


SLEEPER = """
import json, os, signal, socket, sys, time
sys.path.insert(0, os.environ["HOOK"])
import rota_park_hook
class Told(rota_park_hook.Hook):
    def tell(self, op, **more):
        super().tell(op, **{**more, **({"gib": 12.5} if op == "parked" else {})})
Told(os.environ["ROTA_RUN_DIR"], "sleep", "").install()
for step in range(1, 100000):
    print(f"step {step}", flush=True)
    time.sleep(0.02)
"""


def test_what_a_job_took_of_the_host_when_it_was_parked_is_counted(tmp_path: Path) -> None:
    """The script of a shell starts a Python without our hook: it has one of its own, which tells of memory."""
    (tmp_path / "job.py").write_text(SLEEPER)
    (tmp_path / "run.sh").write_text(f"exec {sys.executable} -S job.py\n")
    with running(tmp_path, cluster="1xV100", policy="srsf") as daemon:
        spec = Spec(run=["bash", "run.sh"], progress=r"step (\d+)", steps=100_000, env={"HOOK": HOOK_FOLDER})
        job = daemon.submit(Submission(spec, "ana", str(tmp_path), {"PATH": os.environ["PATH"]})).id
        state, end = daemon.scheduler.state, time.monotonic() + PATIENCE
        while daemon.job(str(job)).phase != "running":
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        other = daemon.submit(
            Submission(Spec(run=["sleep", "600"], steps=1), "ana", str(tmp_path), {"PATH": os.environ["PATH"]})
        ).id
        while daemon.job(str(job)).phase != "parked":
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        assert state.jobs.attempts[job].host_gib == 12.5
        assert state.nodes.host_gib.tolist() == [HOST_GIB_PER_GPU - 12.5]
        daemon.cancel(other)
        while daemon.job(str(job)).phase != "running":
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        assert state.nodes.host_gib.tolist() == [HOST_GIB_PER_GPU], "a job that only sleeps keeps nothing"
        daemon.cancel(job)


def test_a_gpu_that_another_program_uses_is_out_of_service_until_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real process that is no job: NVML says that it computes on the H200."""
    monkeypatch.setattr(other_programs, "reports_own_numbers", lambda: True)
    other = subprocess.Popen(["sleep", "600"])
    stays = [SimpleNamespace(pid=other.pid, usedGpuMemory=2**30)]
    busy = {0: [], 2: stays}
    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlDeviceGetComputeRunningProcesses=lambda handle: busy[handle]))
    daemon = daemon_of(tmp_path)
    daemon.start()
    try:
        spec = Spec(run=[sys.executable, "-c", STEPS], progress=r"step (\d+)", accelerators=["H200"])
        job = daemon.submit(Submission(spec, "ana", str(tmp_path), {})).id
        end = time.monotonic() + PATIENCE
        while daemon.job(str(job)).reason != "NO_FREE_GPUS":
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        who = f"process {other.pid} (sleep) of {user_name()}"
        assert any(f"GPU 0 of box-h200 is out of service: {who} uses it." in each.sentence for each in daemon.why(job).reasons)
        assert daemon.status().slow_gpus == [f"GPU 0 of box-h200 is out of service: {who} uses it."]
        first, second = daemon.nodes()
        assert (first.gpus[0].taken_by, second.gpus[0].taken_by) == (None, who)
        other.kill()
        other.wait()
        stays.clear()
        while daemon.job(str(job)).phase != "running":
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        assert daemon.status().slow_gpus == []
        daemon.cancel(job)
    finally:
        other.kill()
        other.wait()
        daemon.stop()


def test_a_job_of_its_own_is_no_other_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML names the very process of the job, and a child of it."""
    monkeypatch.setattr(other_programs, "reports_own_numbers", lambda: True)
    pids: list[int] = []
    listed = nvml(
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=pid, usedGpuMemory=2**30) for pid in pids]
    )
    monkeypatch.setitem(sys.modules, "pynvml", listed)
    daemon = daemon_of(tmp_path)
    daemon.start()
    try:
        job = daemon.submit(Submission(Spec(run="echo $$; env -i sleep 600 & echo $!; wait"), "ana", str(tmp_path), {})).id
        end = time.monotonic() + PATIENCE
        while len(said := [line for line in daemon.logs(job, 0, 10_000).text.split() if line.isdecimal()]) < 2:
            assert time.monotonic() < end, daemon.job(str(job))
            time.sleep(0.05)
        pids += map(int, said)
        watch, seen = daemon.driver._channel._agent._watch, 0
        while seen < 5:  # readings later, it would have been told
            assert time.monotonic() < end
            before = watch.latest()
            time.sleep(0.3)
            seen += watch.latest() is not before
        assert daemon.status().slow_gpus == []
        daemon.cancel(job)
    finally:
        daemon.stop()
