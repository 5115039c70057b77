"""Jobs: what their users request, and the phases that they go through."""

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from rota.errors import OptionError
from rota.model.array_limit import ArrayLimit
from rota.model.cluster import canonical
from rota.model.dependency import Dependency
from rota.model.units import MILLI, milligpus_of, width_of
from rota.model.value import keyword_value

MAX_PRIORITY = 1000
"""Highest priority of a job, and with a minus the lowest."""
RESIDENT_FRACTION = 0.1
"""Fraction of its peak GPU memory that a training job holds between two steps, if this was not measured (Gandiva, OSDI'18)."""


class Phase(IntEnum):
    """Position of a job in its life cycle. `core/state/phases.py` holds the table of legal changes."""

    QUEUED = 0
    """The job never ran, or has no state to resume from."""
    STARTING = 1
    """A launch or a resume is in flight."""
    RUNNING = 2
    SUSPENDING = 3
    """The job is saving its state, or being parked."""
    PARKED = 4
    """The processes are stopped on their node and their memory is on the host. The state is lost if the node is lost."""
    CHECKPOINTED = 5
    """The state is on storage. The job can resume on any node."""
    RESIZING = 6
    STOPPING = 7
    """The job is being killed: it was cancelled, or its gang lost a node."""
    UNREACHABLE = 8
    """A node of the job does not answer. No job may get its GPUs before its lease expires."""
    FINISHED = 9
    FAILED = 10
    CANCELLED = 11

    @property
    def ended(self) -> bool:
        return self >= Phase.FINISHED

    @property
    def label(self) -> str:
        """Word shown in tables. Both ways to be suspended read `suspended`."""
        return "suspended" if self in (Phase.PARKED, Phase.CHECKPOINTED) else self.name.lower()


@dataclass(frozen=True, slots=True)
class Demand:
    """Sizes that a job accepts: each GPU count with each batch size."""

    gpus: float = 1
    """Requested GPUs; below 1 for a fraction of a GPU."""
    gpu_counts: tuple[int, ...] = ()
    """GPU counts that the job accepts, in ascending order; empty if only the requested one."""
    batch_size: int | None = None
    """Requested examples per step; None if unknown."""
    batch_sizes: tuple[int, ...] = ()
    """Batch sizes that the job accepts, in ascending order; empty if only the requested one."""

    @property
    def elastic(self) -> bool:
        """Whether the job accepts more than one size."""
        return bool(self.gpu_counts or self.batch_sizes)

    @property
    def width(self) -> int:
        """Number of GPUs that the requested size runs on. A fraction runs on one."""
        return width_of(self.gpus)

    @property
    def milligpus(self) -> int:
        return milligpus_of(self.gpus)

    def sizes(self) -> list[tuple[int, int]]:
        """Return each size as (thousandths of GPUs, batch size), as columns of options hold them: an unknown batch size is 0. The
        requested size comes first."""
        requested = (self.milligpus, self.batch_size or 0)
        if not self.elastic:
            return [requested]
        counts = [count * MILLI for count in self.gpu_counts] or [self.milligpus]
        batches = self.batch_sizes or (self.batch_size or 0,)
        return [requested, *((count, batch) for count in counts for batch in batches if (count, batch) != requested)]


@keyword_value
class JobSpec:
    """What a user requested. A change of a job is another spec."""

    name: str = ""
    """Job name, shown in tables."""
    gpus: float = 1
    """Requested GPUs: a whole number, or a fraction of one GPU in thousandths. Other jobs may use the rest of that GPU."""
    gpu_counts: tuple[int, ...] = ()
    """Other GPU counts that the job accepts; empty if only `gpus`."""
    batch_size: int | None = None
    """Examples per step; None if unknown."""
    batch_sizes: tuple[int, ...] = ()
    """Other batch sizes that the job accepts; empty if only `batch_size`."""
    can_resize: bool = False
    """Whether the job can change its size while it runs. If not, it is suspended and launched again with the other size."""
    steps: float | None = None
    """Optimiser steps from start to end, counted at the requested batch size; None if unknown."""
    epoch_steps: float | None = None
    """Steps of one pass over the training data, counted at the requested batch size; None if unknown."""
    profile: str | None = None
    """Key into the table of rates; None if the job has no profile."""
    accelerators: tuple[str, ...] = ()
    """Accelerator types that the job accepts; empty if it accepts all."""
    weight: float = 1.0
    """Weight of the job under fair policies, within its tenant."""
    deadline_seconds: float | None = None
    """Time from submission to the job's deadline, in seconds; None if it has none."""
    slo: float | None = None
    """Time from submission to the job's deadline, as a multiple of its run time on exclusive V100s; None if it has none."""
    tenant: str | None = None
    """Path of the tenant that the job belongs to, such as vision/pretraining; None if it has none."""
    user: str = ""
    """Name of the user who submitted the job. Jobs of a trace without users are of one user, whose name is empty."""
    retries: int = 0
    """How often the job is started again after it has failed."""
    priority: int = 0
    """Priority, from -1000 to 1000. Jobs of a higher priority come first under every policy."""
    after: tuple[Dependency, ...] = ()
    """Jobs that must have ended before this one starts."""
    array: ArrayLimit | None = None
    """Array of the job, if that limits how many of its tasks run at once; None otherwise."""
    max_run_seconds: float | None = None
    """Longest run time over all attempts, in seconds. Then the job is asked to save, and ends as failed. Time parked or suspended
    does not count; None if there is no limit."""
    saves: bool | None = True
    """Whether the job saves its state when it is asked to stop, and resumes from there. A job that does not is never suspended to
    storage, unless it is preemptible: it is parked if possible, or else runs until it ends. None if unknown, which counts as
    False until the job is seen to save."""
    preemptible: bool = False
    """Whether a job that does not save its state may be suspended. It then starts from scratch."""
    can_park: bool = False
    """Whether the job's processes can be parked on the host, so that their GPUs are free."""
    parked_gib: float | None = None
    """Host memory that the job takes while parked, over all its nodes, in GiB; None for the memory that it holds on its GPUs."""
    gpu_gib: float | None = None
    """Peak memory on each GPU of the job, in GiB; None if unknown."""
    least_gib: float | None = None
    """Memory on each GPU between two steps, in GiB: what must be moved when the job is parked; None for a tenth of the peak."""

    def __post_init__(self) -> None:
        whole = self.gpus >= 1 and (type(self.gpus) is int or self.gpus % 1 == 0)
        if not whole and not (0 < self.gpus < 1 and abs(milligpus_of(self.gpus) - self.gpus * MILLI) < 1e-6):
            hint = "gpus=1, or gpus=0.5"
            raise OptionError(
                "must be a whole number from 1, or thousandths of one GPU.", field="gpus", value=self.gpus, hint=hint
            )
        if whole and type(self.gpus) is not int:
            object.__setattr__(self, "gpus", int(self.gpus))
        if self.gpu_counts or self.batch_sizes or self.batch_size is not None:
            self._check_sizes()
        if self.steps is not None and not 0 <= self.steps < math.inf:
            hint = "leave it out if it is unknown"
            raise OptionError("must be 0 or more, and finite.", field="steps", value=self.steps, hint=hint)
        if not 0 < self.weight < math.inf:
            raise OptionError("must be more than 0, and finite.", field="weight", value=self.weight, hint="weight=1")
        for name in ("epoch_steps", "deadline_seconds", "max_run_seconds", "slo"):
            given = getattr(self, name)
            if given is not None and not 0 < given < math.inf:
                raise OptionError("must be more than 0, and finite.", field=name, value=given, hint="leave it out")
        if self.priority and (type(self.priority) is not int or not -MAX_PRIORITY <= self.priority <= MAX_PRIORITY):
            limits = f"must be a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}."
            raise OptionError(limits, field="priority", value=self.priority, hint="priority=0")
        if not (self.gpu_gib is None and self.least_gib is None and self.parked_gib is None):
            self._check_memory()
        if self.tenant is not None:
            object.__setattr__(self, "tenant", _tenant_path(self.tenant))
        if self.profile == "":  # an empty cell of a trace
            object.__setattr__(self, "profile", None)
        if self.accelerators:
            object.__setattr__(self, "accelerators", tuple(canonical(name) for name in self.accelerators))

    def _check_memory(self) -> None:
        for name, gib in (("gpu_gib", self.gpu_gib), ("least_gib", self.least_gib), ("parked_gib", self.parked_gib)):
            if gib is not None and not 0 < gib < math.inf:
                raise OptionError(
                    "must be more than 0 GiB, and finite.", field=name, value=gib, hint="leave it out if it is unknown"
                )
        if self.least_gib is not None and self.gpu_gib is not None and self.least_gib > self.gpu_gib:
            hint = f"least_gib={self.gpu_gib:g} or less"
            raise OptionError("must be at most gpu_gib.", field="least_gib", value=self.least_gib, hint=hint)

    def _check_sizes(self) -> None:
        """Sort the sizes that the job accepts, and include the requested one."""
        if self.gpu_counts and self.gpus < 1:
            raise OptionError(
                "cannot be combined with a fraction of a GPU.",
                field="gpu_counts",
                value=self.gpu_counts,
                hint="leave gpu_counts out",
            )
        if self.batch_sizes and self.batch_size is None:
            raise OptionError(
                "needs batch_size, the batch size at which steps are counted.",
                field="batch_sizes",
                value=self.batch_sizes,
                hint="batch_size=64",
            )
        if self.batch_size is not None and (type(self.batch_size) is not int or self.batch_size < 1):
            raise OptionError("must be a whole number from 1.", field="batch_size", value=self.batch_size, hint="batch_size=64")
        for name, requested in (("gpu_counts", self.gpus), ("batch_sizes", self.batch_size)):
            given = getattr(self, name)
            if not given or requested is None:
                continue
            if not all(type(each) is int and each >= 1 for each in given):
                raise OptionError("must be whole numbers from 1.", field=name, value=given, hint=f"{name}=(1, 2, 4)")
            sizes = tuple(sorted({*given, int(requested)}))
            object.__setattr__(self, name, sizes if len(sizes) > 1 else ())

    @property
    def demand(self) -> Demand:
        return _demand(self.gpus, self.gpu_counts, self.batch_size, self.batch_sizes)

    @property
    def width(self) -> int:
        """Number of GPUs that the requested size runs on. A fraction runs on one."""
        return width_of(self.gpus)

    @property
    def resident_gib(self) -> float | None:
        """Memory on each GPU of the job between two steps, in GiB; None if unknown."""
        if self.least_gib is not None or self.gpu_gib is None:
            return self.least_gib
        return RESIDENT_FRACTION * self.gpu_gib

    @property
    def host_gib(self) -> float | None:
        """Host memory that the job takes while parked, over all its nodes, in GiB; None if unknown."""
        resident_gib = self.resident_gib
        if self.parked_gib is not None or resident_gib is None:
            return self.parked_gib
        return resident_gib * self.width

    @property
    def milli_per_gpu(self) -> int:
        """Thousandths that the job takes of each of its GPUs."""
        return min(milligpus_of(self.gpus), MILLI)


_demand = lru_cache(maxsize=4096)(Demand)
"""Cached, since most jobs have the same demand as another."""


@lru_cache(maxsize=4096)
def _tenant_path(text: str) -> str | None:
    """Return the path without blanks around its names, and without empty names; None if no name is left."""
    return "/".join(name for each in text.split("/") if (name := each.strip())) or None


class Arrival(NamedTuple):
    """A job of a workload: its spec, and when it is submitted."""

    submitted_s: float
    spec: JobSpec
