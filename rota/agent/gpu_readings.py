"""Readings of working GPUs from NVIDIA's management library: memory, utilization, clocks, temperature, processes.

A driver in trouble may block a call for minutes, or make it fail. So a thread of its own makes the calls, at most once a second
and only on request. A caller never waits longer than it wants to. What can't be read is unknown.
"""

import contextlib
import importlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rota.agent.gpus import text

SAMPLE_SECONDS = 1.0
"""Readings are at least so far apart."""
STALE_SECONDS = 10.0
"""An older reading says nothing any more."""
GIB = 2**30


@dataclass(frozen=True)
class GpuReading:
    """What was read of one GPU. None: it is not known."""

    at_s: float
    """When, in Unix time."""
    memory_gib: float | None = None
    used_gib: float | None = None
    utilization: float | None = None
    """The part of the last moments in which something ran on it, from 0 to 1."""
    clock_mhz: int | None = None
    max_clock_mhz: int | None = None
    temperature_c: int | None = None
    processes: Mapping[int, float | None] | None = None
    """Numbers of the processes that compute on it, and the GiB that each has there. In a container they may be missing, or be
    those of the host."""


Readings = Mapping[str, GpuReading]
"""By the GPU's UUID."""


class GpuReader:
    """Reads all GPUs once. Whatever fails is not known, and NVML is set up again at the next reading."""

    def __init__(self) -> None:
        self._nvml: Any = None

    def read(self) -> dict[str, GpuReading]:
        found: dict[str, GpuReading] = {}
        try:
            if self._nvml is None:
                nvml: Any = importlib.import_module("pynvml")
                nvml.nvmlInit()
                self._nvml = nvml
            for index in range(self._nvml.nvmlDeviceGetCount()):
                with contextlib.suppress(Exception):  # it has fallen off its bus: the others are still good
                    handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                    found[text(self._nvml.nvmlDeviceGetUUID(handle))] = _reading(self._nvml, handle)
        except Exception:  # the package is missing, or broken, or the driver is
            found = {}
        if not found:
            self.close()
        return found

    def close(self) -> None:
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            with contextlib.suppress(Exception):
                nvml.nvmlShutdown()


def _reading(nvml: Any, handle: Any) -> GpuReading:
    at_s = time.time()
    memory = _read_or_none(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)) or _read_or_none(
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle)  # of an older driver: its own share counts as used
    )
    return GpuReading(
        at_s=at_s,
        memory_gib=None if memory is None else memory.total / GIB,
        used_gib=None if memory is None else memory.used / GIB,
        utilization=_read_or_none(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100.0),
        clock_mhz=_read_or_none(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
        max_clock_mhz=_read_or_none(lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))),
        temperature_c=_read_or_none(lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
        processes=_read_or_none(lambda: _processes(nvml, handle)),
    )


def _processes(nvml: Any, handle: Any) -> dict[int, float | None]:
    """Return the GPU memory of each process in GiB, by process; None for a process whose memory is unknown."""
    found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return {int(each.pid): None if each.usedGpuMemory is None else each.usedGpuMemory / GIB for each in found}


def _read_or_none(ask: Callable[[], Any]) -> Any:
    """Call NVML; None if this GPU or driver does not support the query."""
    try:
        return ask()
    except Exception:
        return None


class GpuWatch:
    """Keeps the latest readings. Its methods may be called from any thread."""

    def __init__(self, reader: GpuReader | None = None) -> None:
        self._reader = reader or GpuReader()
        self._news = threading.Condition()
        self._asked = self._closed = False
        self._readings: dict[str, GpuReading] = {}
        self._read_s = float("-inf")
        """When they were read, on a clock that never goes back."""
        self._thread = threading.Thread(target=self._run, name="rota-gpus", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Have the GPUs read, unless that was done a moment ago. Never waits."""
        with self._news:
            if time.monotonic() - self._read_s >= SAMPLE_SECONDS:
                self._asked = True
                self._news.notify_all()

    def latest(self, wait_seconds: float = 0.0) -> Readings:
        """Return the latest readings; empty if there are none or they are too old. Wait this long for newer ones, in seconds."""
        self.ask()
        with self._news:
            if wait_seconds > 0:
                self._news.wait_for(lambda: self._closed or not self._asked, wait_seconds)
            return self._readings if time.monotonic() - self._read_s < STALE_SECONDS else {}

    def close(self) -> None:
        """The thread ends by itself, unless the driver keeps it: then it ends with the process."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._asked or self._closed)
                if self._closed:
                    break
            readings = self._reader.read()
            with self._news:
                self._readings, self._read_s, self._asked = readings, time.monotonic(), False
                self._news.notify_all()
        self._reader.close()
