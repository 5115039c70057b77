"""An analytic model of one training step: a roofline for each GPU, launches that no GPU can shorten, and a ring between the GPUs.

    busy  = max(FLOPs / usable peak, bytes / usable bandwidth, input pipeline)
    step  = busy + launches x seconds per launch + max(0, ring - OVERLAP x busy)

It saturates by itself: with a small batch the launches dominate, and a larger GPU is not faster. The constants are fitted to all
tables of measurements at once; docs/profiles.md has the remaining error. The numbers of a workload come from its architecture.
"""

from dataclasses import dataclass
from typing import Literal

from rota.model.accelerators import BETWEEN_NODES_GB_S, Accelerator

PLAIN_EFFICIENCY = 0.43
"""Share of the peak of the plain units that whole training steps reach."""
TENSOR_EFFICIENCY = 0.24
"""Share of the peak of tensor cores that whole training steps reach. They wait for data more often than plain units."""
WIDE_TENSOR_EFFICIENCY = 0.4
"""Share of the peak of tensor cores in layers thousands of units wide, as published for large language models; not fitted."""
MEMORY_EFFICIENCY = 0.4
"""Share of the peak bandwidth that a chain of small unfused kernels reaches."""
LAUNCH_SECONDS = 26e-6
"""Host time per kernel launch of an eager framework, including its share of the Python code around it, in seconds; for hosts and
software up to 2021."""
MODERN_LAUNCH_SECONDS = 6e-6
"""Host time per kernel launch with accelerators from `MODERN_YEAR` on, in seconds. Their hosts are faster and their frameworks
fuse the optimiser."""
MODERN_YEAR = 2022
OVERLAP = 0.3
"""Share of the busy time behind which the ring can hide: most of the backward pass."""

RUNTIME_GIB = 0.7
"""Memory that a process holds before the first tensor, in GiB: context, libraries, workspaces."""
USABLE_MEMORY = 0.95
"""Usable fraction of GPU memory. The rest is lost to error correction and fragmentation."""

_GIGA, _TERA, _GIB = 1e9, 1e12, 2.0**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One model and its input, as far as a step depends on them."""

    name: str
    title: str
    flops_per_example: float
    """FLOPs per example, forward and backward. A multiplication and an addition count as two."""
    bytes_per_example: float
    """Activations moved through memory per example, forward and backward, in bytes."""
    params: float
    activation_bytes_per_example: float
    """Activations kept for the backward pass per example, in bytes."""
    launches: int
    """Kernels per step: forward, backward and optimiser."""
    default_batch: int
    """Examples per GPU in the usual batch."""
    precision: Literal["fp32", "half"] = "fp32"
    wide: bool = False
    """Whether the model's products are large enough to fill tensor cores well."""
    bytes_per_param_state: float = 12.0
    """Weight, gradient and optimiser state of a trained parameter, in bytes."""
    trained_params: float = 0.0
    """Number of trained parameters; 0 if all are. Frozen parameters only take memory, two bytes each."""
    largest_params: float = 0.0
    """Parameters of the largest trained tensor; 0 if unknown."""
    synced_bytes_per_param: float = 4.0
    """Data that the GPUs exchange for each trained parameter, in bytes."""
    host_seconds_per_example: float = 0.0
    """Time of the input pipeline, or of an environment, per example on the host, in seconds."""
    sharded: bool = False
    """Whether the GPUs of the gang share the state among them (ZeRO, FSDP)."""

    @property
    def trained(self) -> float:
        return self.trained_params or self.params

    @property
    def skew(self) -> float | None:
        """Fraction of the trained parameters that is in the largest tensor; None if unknown."""
        return self.largest_params / self.trained if self.largest_params else None


def state_bytes(workload: Workload, gpus: int = 1) -> float:
    """Return the weights, gradients and optimiser state on each GPU, in bytes."""
    frozen = 2.0 * (workload.params - workload.trained)
    return (frozen + workload.bytes_per_param_state * workload.trained) / (gpus if workload.sharded else 1)


def memory_gib(workload: Workload, batch: float, gpus: int = 1) -> float:
    """Return the memory that a batch takes on each GPU of a gang."""
    return RUNTIME_GIB + (state_bytes(workload, gpus) + workload.activation_bytes_per_example * batch) / _GIB


def room(workload: Workload, accelerator: Accelerator, gpus: int = 1) -> int:
    """Return the number of examples that fit on each GPU at once; 0 if the model alone is too large."""
    free = USABLE_MEMORY * accelerator.memory_gib - memory_gib(workload, 0, gpus)
    return max(0, int(free * _GIB / workload.activation_bytes_per_example))


def fits(workload: Workload, accelerator: Accelerator, batch: int, gpus: int = 1) -> bool:
    return batch <= room(workload, accelerator, gpus)


def usable_tflops(workload: Workload, accelerator: Accelerator) -> float:
    tensor = accelerator.half_tflops if workload.precision == "half" else accelerator.tf32_tflops
    # Without tensor cores, their rate is that of the plain units, which then win.
    return max(
        accelerator.fp32_tflops * PLAIN_EFFICIENCY, tensor * (WIDE_TENSOR_EFFICIENCY if workload.wide else TENSOR_EFFICIENCY)
    )


def busy_seconds(workload: Workload, accelerator: Accelerator, batch: float, gpus: int = 1) -> float:
    """Return the seconds of a pass over the batch on one GPU without launches: the slowest of arithmetic, memory and input."""
    compute = workload.flops_per_example * batch / (usable_tflops(workload, accelerator) * _TERA)
    # The optimiser reads and writes its state once a step.
    moved = workload.bytes_per_example * batch + 2.0 * state_bytes(workload, gpus)
    memory = moved / (accelerator.bandwidth_gb_s * MEMORY_EFFICIENCY * _GIGA)
    return max(compute, memory, workload.host_seconds_per_example * batch)


def overhead_seconds(workload: Workload, accelerator: Accelerator) -> float:
    """Return the seconds that a pass takes on a GPU of infinite speed, without the input pipeline."""
    return workload.launches * (MODERN_LAUNCH_SECONDS if accelerator.year >= MODERN_YEAR else LAUNCH_SECONDS)


def ring_seconds(workload: Workload, gpus: int, link_gb_s: float) -> float:
    """Return the seconds of an all-reduce. It moves nearly every gradient twice; sharded weights are gathered twice and their
    gradients reduced once."""
    share = (gpus - 1) / gpus
    return (3.0 if workload.sharded else 2.0) * share * workload.trained * workload.synced_bytes_per_param / (link_gb_s * _GIGA)


def step_seconds(
    workload: Workload,
    accelerator: Accelerator,
    batch: float,
    gpus: int = 1,
    nodes: int = 1,
    *,
    intra_node_gb_s: float | None = None,
    inter_node_gb_s: float = BETWEEN_NODES_GB_S,
    passes: int = 1,
) -> float:
    """Return the seconds of one optimiser step of a gang with `batch` examples per GPU, accumulated over this many passes."""
    inside = accelerator.link_gb_s if intra_node_gb_s is None else intra_node_gb_s
    busy = busy_seconds(workload, accelerator, batch / passes, gpus)
    alone = passes * (busy + overhead_seconds(workload, accelerator))
    if gpus == 1:
        return alone
    # A ring is as fast as its slowest link.
    ring = ring_seconds(workload, gpus, min(inside, inter_node_gb_s) if nodes > 1 else inside)
    return alone + max(0.0, ring - OVERLAP * busy)
