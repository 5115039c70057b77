"""The doctor's findings about drivers, GPUs, PyTorch and memory, on imitated machines."""

import os
import secrets
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rota.agent import other_programs
from rota.agent.gpu_lock import hold_gpus
from rota.agent.gpus import Gpu
from rota.doctor import gpu_checks
from rota.doctor.diagnosis import Diagnosis
from rota.doctor.gpu_checks import DriverFacts, check_gpus, driver_facts
from rota.wire.rows import NodeRow
from tests.unit.agent.test_gpu_readings import fake
from tests.unit.agent.test_gpus import fails
from tests.unit.server.standin import Standin

NAMES = {0: "Tesla V100-SXM2-16GB", 2: "NVIDIA H200 NVL"}


def machine(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """A V100 and an H200, and a driver that can run CUDA 12.4."""
    calls = {
        "nvmlDeviceGetName": lambda handle: NAMES[handle],
        "nvmlSystemGetDriverVersion": lambda: b"550.54",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12040,
    }
    monkeypatch.setitem(sys.modules, "pynvml", fake(**{**calls, **changes}))


def python_with_torch(folder: Path, monkeypatch: pytest.MonkeyPatch, cuda: str) -> None:
    """An environment in PATH whose PyTorch is of this CUDA."""
    packages = folder / "lib" / "python3.11" / "site-packages" / "torch"
    packages.mkdir(parents=True)
    (packages / "version.py").write_text(f"cuda: Optional[str] = {cuda}\n")
    (folder / "pyvenv.cfg").write_text("")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.delenv("PYTHONPATH", raising=False)


def told(check: str, nodes: list[NodeRow] | None = None) -> Diagnosis:
    (found,) = (each for each in check_gpus(nodes, Path("/nonexistent")) if each.check == check)
    return found


def test_driver_and_gpus_of_two_types(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch)
    found = told("NVML")
    assert found.state == "ok" and found.found == "driver 550.54, CUDA up to 12.4; 1xV100 + 1xH200"


def test_a_driver_that_tells_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, nvmlSystemGetDriverVersion=fails, nvmlSystemGetCudaDriverVersion_v2=fails, nvmlShutdown=fails)
    facts = driver_facts()
    assert (facts.problem, facts.driver, facts.cuda, len(facts.gpus)) == ("", "", None, 2)


def test_a_driver_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, nvmlDeviceGetCount=lambda: 0)
    assert "no GPU responds" in told("NVML").found and "--gpus all" in told("NVML").next


@pytest.mark.parametrize(
    ("cuda", "state", "expected"),
    [("'12.1'", "ok", "for CUDA 12"), ("'13.0'", "fail", "runs CUDA up to 12.4"), ("None", "warn", "is without CUDA")],
)
def test_pytorch_and_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cuda: str, state: str, expected: str) -> None:
    machine(monkeypatch)
    python_with_torch(tmp_path, monkeypatch, cuda)
    found = told("PyTorch")
    assert found.state == state and expected in found.found


def test_what_is_missing_for_parking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine(monkeypatch)
    python_with_torch(tmp_path, monkeypatch, "'12.1'")
    found = told("parking")
    assert found.state == "warn" and "torch_memory_saver for CUDA 12 is not installed" in found.found
    assert "pip install 'rota-scheduler[park]'" in found.next


def test_no_python_in_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no `python` in PATH" in told("PyTorch").found


def test_a_host_with_less_memory_than_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch)
    monkeypatch.setattr(gpu_checks, "total_gib", lambda: 100.0)
    found = told("host memory")
    assert found.state == "warn" and "parked jobs may take 80 GiB, less than one GPU has (140 GiB)" in found.found
    monkeypatch.setattr(gpu_checks, "total_gib", lambda: 1000.0)
    assert told("host memory").state == "ok"
    monkeypatch.setattr(gpu_checks, "total_gib", lambda: None)
    assert told("host memory").state == "warn"


def test_pipes_of_an_mps_that_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert told("MPS").state == "warn" and "nvidia-cuda-mps-control -d" in told("MPS").next
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "absent"))
    assert told("MPS").state == "ok"


def test_gpus_that_the_scheduler_counts_on_and_nvml_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    (node,) = Standin().nodes()
    node = replace(node, gpus=[replace(gpu, name=f"GPU-{gpu.index}") for gpu in node.gpus])
    there = [Gpu(i, "V100", "Tesla V100", 16.0, f"GPU-{i}") for i in range(4)]

    def seen(gpus: list[Gpu], known: NodeRow = node) -> Diagnosis:
        monkeypatch.setattr(gpu_checks, "driver_facts", lambda: DriverFacts(driver="1", gpus=gpus))
        return told("GPUs", [known])

    assert seen(there).state == "ok"
    lost = seen(there[:3])
    assert lost.state == "fail" and "GPU 3 of n1 (GPU-3), which NVML does not see" in lost.found
    new = seen([*there, replace(there[0], index=4, uuid="GPU-4")])
    assert new.state == "warn" and "does not know GPU 4" in new.found
    assert seen(there, replace(node, pretend=True)).state == "warn"


def test_programs_and_schedulers_of_others_on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(other_programs, "reports_own_numbers", lambda: True)
    uuid = f"GPU-test-{secrets.token_hex(8)}"
    own = [SimpleNamespace(pid=os.getpid(), usedGpuMemory=None)]
    machine(
        monkeypatch,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetUUID=lambda handle: uuid,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: own,
    )
    with hold_gpus([uuid], Path("/srv/ana")):
        found = {each.check: each for each in check_gpus(None, tmp_path)}
        assert found["schedulers"].found.endswith(", home /srv/ana") and f"process {os.getpid()}" in found["schedulers"].found
        assert (
            found["other programs"].found.startswith(f"process {os.getpid()} (") and "uses GPU 0" in found["other programs"].found
        )
        assert "schedulers" not in {each.check for each in check_gpus(None, Path("/srv/ana"))}, "its own"
    own.clear()
    assert {"schedulers", "other programs"}.isdisjoint(each.check for each in check_gpus(None, tmp_path))
