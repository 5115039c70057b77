"""NVML's readings of GPUs in use: all of them, some, none, and a driver that never answers."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from rota.agent import gpu_readings
from rota.agent.gpu_readings import GpuReader, GpuReading, GpuWatch
from tests.unit.agent.test_gpus import NVMLError, fails

GIB = 2**30


def fake(**changes: Any) -> SimpleNamespace:
    """A V100 and an H200; between them one that has fallen off its bus."""

    def handle(index: int) -> int:
        if index == 1:
            raise NVMLError("GPU is lost")
        return index

    def memory(handle: int, version: int | None = None) -> SimpleNamespace:
        return SimpleNamespace(total=(16, 0, 140)[handle] * GIB, used=(4, 0, 20)[handle] * GIB)

    calls: dict[str, Any] = {
        "NVMLError": NVMLError,
        "nvmlMemory_v2": 0x02000028,
        "NVML_CLOCK_SM": 1,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 3,
        "nvmlDeviceGetHandleByIndex": handle,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}".encode(),
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=93, memory=40),
        "nvmlDeviceGetClockInfo": lambda handle, which: 1290,
        "nvmlDeviceGetMaxClockInfo": lambda handle, which: 1530,
        "nvmlDeviceGetTemperature": lambda handle, which: 61,
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [
            SimpleNamespace(pid=7, usedGpuMemory=3 * GIB),
            SimpleNamespace(pid=8, usedGpuMemory=None),
        ],
    }
    return SimpleNamespace(**{**calls, **changes})


def read(monkeypatch: pytest.MonkeyPatch, nvml: SimpleNamespace | None) -> dict[str, GpuReading]:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return GpuReader().read()


def test_everything_of_every_gpu_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, fake())
    assert sorted(found) == ["GPU-0", "GPU-2"]
    first = found["GPU-0"]
    assert (first.memory_gib, first.used_gib, first.utilization) == (16.0, 4.0, 0.93)
    assert (first.clock_mhz, first.max_clock_mhz, first.temperature_c) == (1290, 1530, 61)
    assert first.processes == {7: 3.0, 8: None}
    assert found["GPU-2"].memory_gib == 140.0


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        ("nvmlDeviceGetMemoryInfo", ("memory_gib", "used_gib")),
        ("nvmlDeviceGetUtilizationRates", ("utilization",)),
        ("nvmlDeviceGetClockInfo", ("clock_mhz",)),
        ("nvmlDeviceGetMaxClockInfo", ("max_clock_mhz",)),
        ("nvmlDeviceGetTemperature", ("temperature_c",)),
        ("nvmlDeviceGetComputeRunningProcesses", ("processes",)),
    ],
)
def test_what_fails_is_not_known_and_the_rest_is(monkeypatch: pytest.MonkeyPatch, call: str, fields: tuple[str, ...]) -> None:
    found = read(monkeypatch, fake(**{call: fails}))["GPU-2"]
    every = GpuReading.__dataclass_fields__
    assert {name for name in every if getattr(found, name) is None} == set(fields)


def test_an_older_driver_tells_memory_in_the_old_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def old(handle: int, version: int | None = None) -> SimpleNamespace:
        if version is not None:
            raise NVMLError("function not found")
        return SimpleNamespace(total=16 * GIB, used=5 * GIB)

    assert read(monkeypatch, fake(nvmlDeviceGetMemoryInfo=old))["GPU-0"].used_gib == 5.0


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount"])
def test_a_broken_nvml_tells_nothing_and_is_set_up_again(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    reader, working, inits = GpuReader(), fake(), []
    working.nvmlInit = lambda: inits.append(1)
    monkeypatch.setitem(sys.modules, "pynvml", fake(**{broken: fails, "nvmlShutdown": fails}))
    assert reader.read() == {}
    monkeypatch.setitem(sys.modules, "pynvml", working)
    assert len(reader.read()) == len(reader.read()) == 2 and inits == [1]


def test_without_the_package_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, None) == {}


class Counted(GpuReader):
    """Counts readings, and waits in one for as long as it is held up."""

    def __init__(self) -> None:
        super().__init__()
        self.readings, self.go, self.called = 0, threading.Event(), threading.Event()

    def read(self) -> dict[str, GpuReading]:
        self.readings += 1
        self.called.set()
        assert self.go.wait(60)
        return {"GPU-0": GpuReading(at_s=float(self.readings))}


def test_nobody_waits_for_a_driver_that_does_not_answer() -> None:
    reader = Counted()
    watch = GpuWatch(reader)
    try:
        assert watch.latest() == {}
        assert reader.called.wait(60)
        assert watch.latest(wait_seconds=0.01) == {}, "it is still held up"
        reader.go.set()
        assert watch.latest(wait_seconds=60)["GPU-0"].at_s == 1.0
    finally:
        reader.go.set()
        watch.close()


def test_however_often_it_is_asked_it_reads_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(gpu_readings.time, "monotonic", lambda: now[0])
    reader = Counted()
    reader.go.set()
    watch = GpuWatch(reader)
    try:
        for _ in range(50):
            assert watch.latest(wait_seconds=60)["GPU-0"].at_s == 1.0
        assert reader.readings == 1
        now[0] += gpu_readings.SAMPLE_SECONDS
        assert watch.latest(wait_seconds=60)["GPU-0"].at_s == 2.0
    finally:
        watch.close()


def test_an_old_reading_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(gpu_readings.time, "monotonic", lambda: now[0])
    reader = Counted()
    reader.go.set()
    watch = GpuWatch(reader)
    try:
        assert watch.latest(wait_seconds=60)
        reader.go.clear()
        now[0] += gpu_readings.STALE_SECONDS
        assert watch.latest() == {}
    finally:
        reader.go.set()
        watch.close()
