"""The GPUs of this machine, from NVIDIA's management library; none without the package `nvidia-ml-py`.

The index is NVML's, by position on the bus. CUDA numbers GPUs fastest first by default, and NVML ignores
CUDA_VISIBLE_DEVICES, so code that hands a GPU to a job names it by `uuid`, or sets CUDA_DEVICE_ORDER=PCI_BUS_ID.
"""

import contextlib
import importlib
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Gpu:
    index: int
    accelerator: str
    """Accelerator type, such as H200."""
    product: str
    """What its maker calls it, such as NVIDIA H200 NVL."""
    memory_gib: float
    uuid: str


_MAKERS = re.compile(r"\b(NVIDIA|TESLA|GEFORCE|QUADRO|GRID|GRAPHICS|GENERATION)\b")
_DESKTOP = re.compile(r"\b(RTX|GTX) ?(PRO )?(\d{3,4})(?: ?(TI|SUPER|ADA))?(?: ?(SUPER))?\b")
_TITAN = re.compile(r"\bTITAN ?(RTX|XP|X|V)\b")
_DATA_CENTRE = re.compile(r"\b[A-Z]{1,2}\d{1,4}[A-Z]?\b")


def accelerator_type(product: str) -> str:
    """The type out of a product's name: `Tesla V100-SXM2-16GB` is a V100, `NVIDIA GeForce RTX 2080 Ti` an RTX2080TI."""
    name = " ".join(_MAKERS.sub(" ", product.upper()).split())
    for family in (_DESKTOP, _TITAN, _DATA_CENTRE):
        if found := family.search(name):
            return found.group().replace(" ", "")
    return re.sub(r"[^\w.-]+", "", name) or "GPU"


def find_gpus() -> list[Gpu]:
    """Every GPU that answers. Empty without the package, without a driver, and without a GPU."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # Whatever is wrong with it, this machine has no GPU that we could use.
        return []
    try:
        return [gpu for index in range(nvml.nvmlDeviceGetCount()) if (gpu := _gpu(nvml, index))]
    except nvml.NVMLError:
        return []
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> Gpu | None:
    """None for one that has fallen off its bus: the others are still good."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        product, uuid = (text(value) for value in (nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetUUID(handle)))
        memory_gib = nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30
    except nvml.NVMLError:
        return None
    return Gpu(index, accelerator_type(product), product, memory_gib, uuid)


def text(value: str | bytes) -> str:
    """Older versions of the package answer in bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
