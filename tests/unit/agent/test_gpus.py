"""Accelerator types from product names, and NVML that is present, absent or broken."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from rota.agent.gpus import Gpu, accelerator_type, find_gpus

PRODUCTS = {
    "NVIDIA H200 NVL": "H200",
    "NVIDIA H200": "H200",
    "NVIDIA H100 80GB HBM3": "H100",
    "NVIDIA H100 PCIe": "H100",
    "NVIDIA GH200 480GB": "GH200",
    "NVIDIA B200": "B200",
    "NVIDIA GB200": "GB200",
    "NVIDIA A100-SXM4-40GB": "A100",
    "NVIDIA A100 80GB PCIe": "A100",
    "NVIDIA A100-SXM4-80GB MIG 1g.10gb": "A100",
    "A100-PCIE-40GB": "A100",
    "GRID A100-10C": "A100",
    "NVIDIA A10G": "A10G",
    "NVIDIA A10": "A10",
    "NVIDIA L40S": "L40S",
    "NVIDIA L4": "L4",
    "Tesla V100-SXM2-16GB": "V100",
    "Tesla V100-PCIE-32GB": "V100",
    "Tesla P100-PCIE-16GB": "P100",
    "Tesla K80": "K80",
    "Tesla M60": "M60",
    "Tesla T4": "T4",
    "Quadro RTX 5000": "RTX5000",
    "NVIDIA RTX A6000": "A6000",
    "NVIDIA RTX 6000 Ada Generation": "RTX6000ADA",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTXPRO6000",
    "NVIDIA GeForce RTX 3090": "RTX3090",
    "NVIDIA GeForce RTX 2080 Ti": "RTX2080TI",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "RTX4070TISUPER",
    "GeForce GTX 1080 Ti": "GTX1080TI",
    "NVIDIA TITAN RTX": "TITANRTX",
    "NVIDIA TITAN V": "TITANV",
    "NVIDIA Graphics Device": "DEVICE",
    "": "GPU",
}


@pytest.mark.parametrize(("product", "accelerator"), PRODUCTS.items())
def test_accelerator_type(product: str, accelerator: str) -> None:
    assert accelerator_type(product) == accelerator


class NVMLError(Exception):
    pass


def fake(**changes: Any) -> SimpleNamespace:
    """Three GPUs, the second of which has fallen off its bus."""

    def handle(index: int) -> int:
        if index == 1:
            raise NVMLError("GPU is lost")
        return index

    calls: dict[str, Any] = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 3,
        "nvmlDeviceGetHandleByIndex": handle,
        "nvmlDeviceGetName": lambda handle: b"Tesla V100-SXM2-16GB" if handle == 0 else "NVIDIA H200 NVL",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=16 * 2**30),
    }
    return SimpleNamespace(**{**calls, **changes})


def fails(*_: Any) -> None:
    raise NVMLError("no driver")


def test_found_by_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake())
    assert find_gpus() == [
        Gpu(0, "V100", "Tesla V100-SXM2-16GB", 16.0, "GPU-0"),
        Gpu(2, "H200", "NVIDIA H200 NVL", 16.0, "GPU-2"),
    ]


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo"])
def test_a_broken_nvml_finds_none(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake(**{broken: fails, "nvmlShutdown": fails}))
    assert find_gpus() == []


def test_without_the_package_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert find_gpus() == []
