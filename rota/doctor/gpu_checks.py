"""Check NVML, the driver and the GPUs, the PyTorch of a job, and whether jobs can be parked, and colocated with MPS."""

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.agent.attempt_files import read_order
from rota.agent.constants import ATTEMPT_ID
from rota.agent.disk import RUN
from rota.agent.gpu_lock import holder_of
from rota.agent.gpu_readings import GpuReader
from rota.agent.gpus import Gpu, find_gpus, text
from rota.agent.host_memory import PARKING_FRACTION, available_gib, total_gib
from rota.agent.other_programs import OtherPrograms
from rota.agent.pages_library import with_pages_library
from rota.doctor.diagnosis import Diagnosis, fail, ok, warn
from rota.park.facts import package_folders, parking_facts, python_of, torch_cuda
from rota.park.park_method import EXIT, choose_park_method
from rota.wire.rows import NodeRow

PLAIN_JOB = ("python", "train.py")
MPS_PIPES = "/tmp/nvidia-mps"
"""Default pipe directory of the MPS control daemon, if CUDA_MPS_PIPE_DIRECTORY is not set."""
MPS_NAME = "nvidia-cuda-mps"
"""Name of the MPS control daemon's process, as the kernel truncates it."""


@dataclass(frozen=True)
class DriverFacts:
    """Facts about the machine from NVML."""

    problem: str = ""
    """Reason why NVML gives no facts; empty if it does."""
    driver: str = ""
    cuda: tuple[int, int] | None = None
    """Newest CUDA version that the driver can run; None if unknown."""
    gpus: list[Gpu] = field(default_factory=list)


def check_gpus(nodes: Sequence[NodeRow] | None, home: Path) -> Iterator[Diagnosis]:
    """Check the GPUs. `nodes` are the scheduler's nodes; None if it does not answer."""
    facts = driver_facts()
    yield _driver(facts)
    if nodes is not None:
        yield _same_gpus(facts.gpus, nodes)
    yield from _used_by_others(facts.gpus, home)
    yield _torch(facts)
    yield _parking(bool(facts.gpus))
    yield _host_memory(facts.gpus)
    yield _mps(bool(facts.gpus))


def driver_facts() -> DriverFacts:
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return DriverFacts("the package nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except Exception as problem:
        return DriverFacts(f"NVML does not answer: {problem}")
    driver, number = "", 0
    with contextlib.suppress(Exception):
        driver = text(nvml.nvmlSystemGetDriverVersion())
    with contextlib.suppress(Exception):
        number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
    with contextlib.suppress(Exception):
        nvml.nvmlShutdown()
    return DriverFacts("", driver, (number // 1000, number % 1000 // 10) if number else None, find_gpus())


def _driver(facts: DriverFacts) -> Diagnosis:
    devices = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    if facts.problem and (devices or "package" in facts.problem):
        there = f"; yet {', '.join(devices)} exist" if devices else ": Rota would not find GPUs of this machine"
        step = "pip install nvidia-ml-py" if "package" in facts.problem else "nvidia-smi; after an update of the driver: reboot"
        return fail("NVML", f"{facts.problem}{there}", step)
    if facts.problem:
        step = "if it has one, install NVIDIA's driver; without one rota up uses 4 pretend GPUs"
        return warn("NVML", f"{facts.problem}; no NVIDIA GPU was found on this machine", step)
    if not facts.gpus:
        return warn(
            "NVML", f"driver {facts.driver} is installed, but no GPU responds", "nvidia-smi -L; in a container: --gpus all"
        )
    cuda = f", CUDA up to {facts.cuda[0]}.{facts.cuda[1]}" if facts.cuda else ""
    kinds = [gpu.accelerator for gpu in facts.gpus]
    counts = " + ".join(f"{kinds.count(kind)}x{kind}" for kind in dict.fromkeys(kinds))
    return ok("NVML", f"driver {facts.driver}{cuda}; {counts}")


def _same_gpus(gpus: Sequence[Gpu], nodes: Sequence[NodeRow]) -> Diagnosis:
    """Check whether the scheduler has the GPUs of the machine."""
    there = {gpu.uuid: gpu for gpu in gpus}
    if all(node.pretend for node in nodes):
        if there:
            found = f"the scheduler uses pretend GPUs, and this machine has {len(there)} real ones"
            return warn("GPUs", found, "rota down, then rota up without --pretend")
        return ok("GPUs", "the scheduler uses pretend GPUs")
    known = {gpu.name: f"GPU {gpu.index} of {node.name}" for node in nodes for gpu in node.gpus}
    if lost := [f"{gpu} ({name})" for name, gpu in known.items() if name not in there]:
        step = "nvidia-smi -L and dmesg | grep -i xid; a GPU that fell off its bus needs a reboot; then rota down and rota up"
        return fail("GPUs", f"the scheduler counts on {', '.join(lost)}, which NVML does not see", step)
    if new := [f"GPU {gpu.index} ({gpu.product})" for uuid, gpu in there.items() if uuid not in known]:
        return warn("GPUs", f"the scheduler does not know {', '.join(new)}", "rota down, then rota up; jobs keep running")
    return ok("GPUs", f"the scheduler has all {len(there)}")


def _used_by_others(gpus: Sequence[Gpu], home: Path) -> Iterator[Diagnosis]:
    """Check for real GPUs that another scheduler has, or that programs use which are not jobs of this home."""
    if not gpus:
        return
    orders = [read_order(folder) for folder in (home / RUN).glob("[0-9]*/[0-9]*")]
    attempt_ids = {order.env.get(ATTEMPT_ID, "") for order in orders if order is not None}
    reader = GpuReader()
    others = OtherPrograms(home).look(reader.read(), attempt_ids)
    reader.close()
    for gpu in gpus:
        holder = holder_of(gpu.uuid)
        if holder is not None and not str(home).startswith(holder.home or "?"):
            yield warn("schedulers", f"GPU {gpu.index} is scheduled by {holder}", "use that scheduler: --home with its folder")
        if gpu.uuid in others:
            yield warn(
                "other programs", f"{others[gpu.uuid]} uses GPU {gpu.index}", "no job is put there until that program ends"
            )


def _torch(facts: DriverFacts) -> Diagnosis:
    """Check the PyTorch of the Python that a plain job would start."""
    python, _ = python_of(PLAIN_JOB, os.environ, str(Path.cwd()))
    if not python:
        found = "there is no `python` in PATH, which a job would start"
        return warn("PyTorch", found, "activate an environment before rota submit")
    there, major = torch_cuda([str(folder) for folder in package_folders(python, os.environ)])
    if not there:
        return warn("PyTorch", f"{python} has no PyTorch", "pip install torch in the environment that jobs are submitted from")
    if major is None:
        found = f"the PyTorch of {python} is without CUDA"
        return warn("PyTorch", found, "pip install torch, of a build with CUDA") if facts.gpus else ok("PyTorch", found)
    if facts.cuda is not None and major > facts.cuda[0]:
        newest = f"{facts.cuda[0]}.{facts.cuda[1]}"
        found = f"the PyTorch of {python} is for CUDA {major}, and driver {facts.driver} runs CUDA up to {newest}"
        return fail("PyTorch", found, f"a newer driver, or a PyTorch for CUDA {facts.cuda[0]}")
    return ok("PyTorch", f"that of {python} is for CUDA {major}")


def _parking(real_gpus: bool) -> Diagnosis:
    """Check how a plain job of one GPU would be parked."""
    facts = with_pages_library(parking_facts(PLAIN_JOB, os.environ, str(Path.cwd()), wanted=True, gpus=1, real_gpus=real_gpus))
    way, why = choose_park_method(facts)
    if way == EXIT:
        found = f"a plain `python` job is suspended by SIGTERM and must save its state itself: {why}"
        return warn("parking", found, "see `Parking` in docs/suspend.md; with PyTorch: pip install 'rota-scheduler[park]'")
    return ok("parking", f"a plain `python` job is parked in host memory ({way}): {why}")


def _host_memory(gpus: Sequence[Gpu]) -> Diagnosis:
    total, free = total_gib(), available_gib()
    if total is None:
        return warn("host memory", "cannot be read", "look at /proc/meminfo")
    memory = f"{total:,.0f} GiB" + (f", {free:,.0f} GiB of it free" if free is not None else "")
    largest = max((gpu.memory_gib for gpu in gpus), default=0.0)
    if gpus and PARKING_FRACTION * total < largest:
        found = f"{memory}: parked jobs may take {PARKING_FRACTION * total:,.0f} GiB, less than one GPU has ({largest:,.0f} GiB)"
        return warn(
            "host memory", found, "a larger memory limit for the container, or more memory; larger jobs are suspended by SIGTERM"
        )
    return ok("host memory", memory)


def _mps(real_gpus: bool) -> Diagnosis:
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or MPS_PIPES)
    running = any(_process_name(folder) == MPS_NAME for folder in Path("/proc").glob("[0-9]*"))
    if running:
        return ok("MPS", f"its control daemon runs; its pipes are in {pipes}")
    if pipes.exists():
        step = f"nvidia-cuda-mps-control -d; without MPS: rm -r {pipes}, or CUDA programs may wait for it"
        return warn("MPS", f"{pipes} exists, but no control daemon runs", step)
    return ok("MPS", "does not run: colocated jobs take turns on a GPU" if real_gpus else "not needed without a GPU")


def _process_name(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return ""
