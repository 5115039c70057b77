"""Jobs that can never run here are refused."""

from collections.abc import Mapping

import pytest

from rota.agent.gpu_readings import GpuReading
from rota.errors import OptionError
from rota.live.possible import check_memory
from rota.model.cluster import Cluster
from rota.model.job import JobSpec


def memory(gib: float | None, cluster: str, read: Mapping[str, float | None] | None = None, types: tuple[str, ...] = ()) -> None:
    """`read`: what NVML says of real GPUs; None: they are pretend ones."""
    wanted = JobSpec(gpus=1, steps=1.0, gpu_gib=gib, accelerators=types)
    readings = {name: GpuReading(0.0, memory_gib=each) for name, each in (read or {}).items()}
    check_memory(wanted, Cluster.parse(cluster), lambda: readings, pretend=read is None)


def test_more_memory_than_any_gpu_has_is_refused() -> None:
    with pytest.raises(OptionError) as caught:
        memory(500, "4xV100 + 2xA100")
    assert caught.value.message == "gpu_memory: '500 GiB' — is more than the memory of any GPU that it accepts here: 40 GiB."
    assert caught.value.hint == "gpu_memory: 40 GiB, or less"
    with pytest.raises(OptionError, match="accepts here: 16 GiB"):
        memory(17, "4xV100 + 2xA100", types=("V100",))
    memory(40, "4xV100 + 2xA100")
    memory(None, "4xV100")


def test_real_gpus_are_as_large_as_they_say() -> None:
    memory(60, "2xA100", {"a": 80.0, "b": None})
    with pytest.raises(OptionError, match="accepts here: 80 GiB"):
        memory(81, "2xA100", {"a": 80.0, "b": 80.0})


def test_nothing_is_refused_where_nothing_is_known() -> None:
    memory(500, "2xA100", {})
    memory(500, "2xL20")
