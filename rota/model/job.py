"""A job: what its owner asked for, and the phases it goes through."""

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from rota.errors import OptionError
from rota.model.cluster import canonical
from rota.model.units import MILLI, milligpus_of, width_of
from rota.model.value import keyword_value

LEAST_OF_MOST = 0.1
"""What a training job holds between two steps, of the most that it takes, where that was not measured (Gandiva, OSDI'18)."""


class Phase(IntEnum):
    """Where a job is in its life. `core/state/phases.py` holds the table of legal changes."""

    QUEUED = 0
    """Never ran, or has nothing to resume from."""
    STARTING = 1
    """A launch is on its way."""
    RUNNING = 2
    SUSPENDING = 3
    """Asked to stop and keep its state."""
    PARKED = 4
    """Its processes sleep on their node, memory on the host; dies with the node."""
    CHECKPOINTED = 5
    """Its state is on storage; free to go anywhere."""
    RESIZING = 6
    STOPPING = 7
    """Told to die: cancelled, or the rest of a gang that lost a part."""
    UNREACHABLE = 8
    """Its node is silent; nothing may replace it before its lease ends."""
    FINISHED = 9
    FAILED = 10
    CANCELLED = 11

    @property
    def ended(self) -> bool:
        return self >= Phase.FINISHED

    @property
    def word(self) -> str:
        """The word tables show: both kinds of suspension read `suspended`."""
        return "suspended" if self in (Phase.PARKED, Phase.CHECKPOINTED) else self.name.lower()


@dataclass(frozen=True, slots=True)
class Demand:
    """The sizes a job accepts: each of its GPU counts with each of its batch sizes."""

    gpus: float = 1
    """GPUs it asked for; less than 1: a part of one."""
    gpu_counts: tuple[int, ...] = ()
    """All counts it accepts, fewest first; empty: only what it asked for."""
    batch_size: int = 0
    """Examples per step that it asked for; 0: the job did not say."""
    batch_sizes: tuple[int, ...] = ()
    """All batch sizes it accepts, smallest first; empty: only what it asked for."""

    @property
    def elastic(self) -> bool:
        """It accepts more than one size."""
        return bool(self.gpu_counts or self.batch_sizes)

    @property
    def width(self) -> int:
        """GPUs it asked to run on, whole or not."""
        return width_of(self.gpus)

    @property
    def milligpus(self) -> int:
        return milligpus_of(self.gpus)

    def sizes(self) -> list[tuple[int, int]]:
        """Each size as (thousandths of GPUs, batch size), what was asked for first."""
        asked = (self.milligpus, self.batch_size)
        if not self.elastic:
            return [asked]
        counts = [count * MILLI for count in self.gpu_counts] or [self.milligpus]
        batches = self.batch_sizes or (self.batch_size,)
        return [asked, *((count, batch) for count in counts for batch in batches if (count, batch) != asked)]


@keyword_value
class JobSpec:
    """What a user asked for. It never changes."""

    name: str = ""
    """A name for people."""
    gpus: float = 1
    """How many it runs on: a whole number, or a part of one GPU in thousandths. Other jobs may take the rest of that one."""
    gpu_counts: tuple[int, ...] = ()
    """Other GPU counts it accepts; empty: only `gpus`."""
    batch_size: int = 0
    """Examples per step; 0: the job did not say."""
    batch_sizes: tuple[int, ...] = ()
    """Other batch sizes it accepts; empty: only `batch_size`."""
    can_resize: bool = False
    """It can change its size while it runs. If not, it is suspended and launched again with the other size."""
    steps: float = math.inf
    """Optimiser steps until it is done, counted at the batch size it asked for; infinite if unknown."""
    epoch_steps: float = 0.0
    """Steps of one pass over its data, counted likewise; 0: the job did not say."""
    profile: str = ""
    """Key into the table of rates; empty: it has no profile."""
    accelerators: tuple[str, ...] = ()
    """Accelerator types it accepts; empty: any."""
    weight: float = 1.0
    """Its weight under fair policies, within its tenant."""
    deadline_seconds: float = math.inf
    """It should be done this long after it was submitted; infinite if unknown."""
    slo: float = math.inf
    """The same as a multiple of its run time on V100s of its own."""
    tenant: str = ""
    """The tenant it belongs to, as a path: vision/pretraining."""
    user: str = ""
    """Who submitted it."""
    retries: int = 0
    """How many failures of its own it may have before it is given up."""
    saves: bool | None = True
    """It saves its state when it is told to stop, and goes on from there. If not, it is never suspended: it is parked, where that
    can be, or left running until it ends. None: it is not known to, and counts as one that does not until it is seen to."""
    preemptible: bool = False
    """It may be suspended though it does not save its state: it starts from scratch then."""
    can_park: bool = False
    """Its processes can sleep on the host and give their GPUs back."""
    parked_gib: float = 0.0
    """Host memory it takes while parked, over all its nodes; 0: what it holds on its GPUs."""
    gpu_gib: float = 0.0
    """The most memory it takes on each of its GPUs; 0: it is not known."""
    least_gib: float = 0.0
    """The least, between two steps: what has to be moved when it is stopped; 0: a tenth of the most."""

    def __post_init__(self) -> None:
        whole = self.gpus >= 1 and (type(self.gpus) is int or self.gpus % 1 == 0)
        if not whole and not (0 < self.gpus < 1 and abs(milligpus_of(self.gpus) - self.gpus * MILLI) < 1e-6):
            hint = "gpus=1, or gpus=0.5"
            raise OptionError(
                "must be a whole number from 1, or thousandths of one GPU.", field="gpus", value=self.gpus, hint=hint
            )
        if whole and type(self.gpus) is not int:
            object.__setattr__(self, "gpus", int(self.gpus))
        if self.gpu_counts or self.batch_sizes or self.batch_size:
            self._check_sizes()
        if not self.steps >= 0:
            raise OptionError("must be 0 or more.", field="steps", value=self.steps, hint="leave it out if nobody knows")
        if not 0 <= self.epoch_steps < math.inf:
            raise OptionError("must be 0 or more, and finite.", field="epoch_steps", value=self.epoch_steps, hint="leave it out")
        if not 0 < self.weight < math.inf:
            raise OptionError("must be more than 0, and finite.", field="weight", value=self.weight, hint="weight=1")
        if not self.deadline_seconds > 0:
            raise OptionError("must be more than 0.", field="deadline_seconds", value=self.deadline_seconds, hint="leave it out")
        if not self.slo > 0:
            raise OptionError("must be more than 0.", field="slo", value=self.slo, hint="leave it out")
        if self.gpu_gib or self.least_gib or self.parked_gib:
            self._check_memory()
        if self.tenant:
            object.__setattr__(self, "tenant", _tenant_path(self.tenant))
        if self.accelerators:
            object.__setattr__(self, "accelerators", tuple(canonical(name) for name in self.accelerators))

    def _check_memory(self) -> None:
        fine = 0 <= self.least_gib <= (self.gpu_gib or math.inf) and 0 <= self.gpu_gib < math.inf
        if not fine or not 0 <= self.parked_gib < math.inf or self.least_gib == math.inf:
            raise OptionError(
                "memory is 0 GiB or more, and the least is not more than the most.",
                field="gpu_gib",
                value=f"{self.gpu_gib:g}, least {self.least_gib:g}, parked {self.parked_gib:g}",
                hint="gpu_gib=10, least_gib=1",
            )

    def _check_sizes(self) -> None:
        """Put the sizes it accepts in order, what it asked for among them."""
        if self.gpu_counts and self.gpus < 1:
            raise OptionError(
                "a job that asks for a part of a GPU has no other counts.",
                field="gpu_counts",
                value=self.gpu_counts,
                hint="leave gpu_counts out",
            )
        if self.batch_sizes and not self.batch_size:
            raise OptionError(
                "needs batch_size, the one that steps are counted at.",
                field="batch_sizes",
                value=self.batch_sizes,
                hint="batch_size=64",
            )
        if type(self.batch_size) is not int or self.batch_size < 0:
            raise OptionError("must be a whole number.", field="batch_size", value=self.batch_size, hint="batch_size=64")
        for name, asked in (("gpu_counts", self.gpus), ("batch_sizes", self.batch_size)):
            given = getattr(self, name)
            if not given:
                continue
            if not all(type(each) is int and each >= 1 for each in given):
                raise OptionError("must be whole numbers from 1.", field=name, value=given, hint=f"{name}=(1, 2, 4)")
            sizes = tuple(sorted({*given, int(asked)}))
            object.__setattr__(self, name, sizes if len(sizes) > 1 else ())

    @property
    def demand(self) -> Demand:
        """The sizes it accepts."""
        return _demand(self.gpus, self.gpu_counts, self.batch_size, self.batch_sizes)

    @property
    def width(self) -> int:
        """GPUs it asked to run on, whole or not."""
        return width_of(self.gpus)

    @property
    def resident_gib(self) -> float:
        """Memory it holds on each of its GPUs between two steps; 0: it is not known."""
        return self.least_gib or LEAST_OF_MOST * self.gpu_gib

    @property
    def host_gib(self) -> float:
        """Host memory it takes while parked, over all its nodes."""
        return self.parked_gib or self.resident_gib * self.width

    @property
    def milli_per_gpu(self) -> int:
        """Thousandths that it takes of each of them."""
        return min(milligpus_of(self.gpus), MILLI)


_demand = lru_cache(maxsize=4096)(Demand)
"""Most jobs ask for what another has asked for."""


@lru_cache(maxsize=4096)
def _tenant_path(text: str) -> str:
    """The path without blanks around its names, and without empty names."""
    return "/".join(name for each in text.split("/") if (name := each.strip()))


class Arrival(NamedTuple):
    """One job of a workload: when it is submitted, and what it asks for."""

    submitted_s: float
    spec: JobSpec
