"""Descriptions of the catalogue's models, of a profile key over GPUs, and of a file of rates."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.beliefs.roofline import memory_gib
from rota.errors import UnknownNameError
from rota.model.accelerators import ACCELERATORS
from rota.profiles.catalogue import ALIASES, GAVEL, PAL_SECONDS, Catalogue, read_key, share
from rota.profiles.measured_rates import read_measured
from rota.profiles.workloads import WORKLOADS

TYPES = ("K80", "P100", "V100", "T4", "A100", "H100", "H200", "B200")
"""Accelerator types that a list has room for. `ProfileDescription` has all types."""
COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A model of the catalogue with its usual batch on one GPU."""

    name: str
    title: str
    params: float
    batch: int
    memory_gib: float
    steps_per_second: Mapping[str, float]
    """Rate by accelerator type; 0 if the model does not fit in memory."""


@dataclass(frozen=True, slots=True)
class ProfileOnGpus:
    """A profile on some GPUs of one node."""

    accelerator: str
    gpus: int
    steps_per_second: float
    memory_gib: float
    """Memory on each GPU, in GiB."""
    fits: bool


@dataclass(frozen=True, slots=True)
class ProfileDescription:
    """A profile key, as the catalogue reads it."""

    profile: str
    title: str
    params: float
    batch: int
    batch_of: str
    """`GPU` or `gang`: whose batch `batch` is."""
    skew: float | None
    """The largest tensor's fraction of all parameters; None if unknown."""
    rates: tuple[ProfileOnGpus, ...]


@dataclass(frozen=True, slots=True)
class RatesFileSummary:
    """Summary of a file of measured rates."""

    path: str
    profiles: tuple[str, ...]
    accelerators: tuple[str, ...]
    gpus: tuple[int, ...]
    alone: int
    across_nodes: int
    """Number of rates of gangs over several nodes."""
    pairs: int
    """Number of pairs of profiles on the same GPUs. The order does not count."""
    never: int
    """Number of rates of 0."""
    unknown: tuple[str, ...]
    """Profiles that the catalogue does not know."""
    rates: tuple[dict[str, Any], ...]
    """Exclusive rates: profile, accelerator, gpus, nodes (one or several), steps_per_second."""


def entries() -> list[CatalogueEntry]:
    """Return the models of the catalogue by name."""
    catalogue = Catalogue()
    return [
        CatalogueEntry(
            name,
            workload.title,
            workload.params,
            workload.default_batch,
            memory_gib(workload, workload.default_batch),
            {kind: (catalogue.rate(name, kind, 1) or (0.0, 0.0))[0] for kind in TYPES},
        )
        for name, workload in sorted(WORKLOADS.items())
    ]


def describe(profile: str) -> ProfileDescription:
    """Describe a profile key over accelerator types and GPU counts."""
    reading = read_key(profile)
    if reading is None:
        known = [*WORKLOADS, *ALIASES, *GAVEL, *(f"pal/{name}" for name in PAL_SECONDS)]
        raise UnknownNameError("profile", profile, known, hint="rota profile list; a batch is written resnet50/bs64")
    catalogue, ways = Catalogue(), []
    for kind, card in ACCELERATORS.items():
        for gpus in COUNTS:
            batch, passes = share(reading, card, gpus)
            rate = (catalogue.rate(profile, kind, gpus) or (0.0, 0.0))[0]
            ways.append(ProfileOnGpus(kind, gpus, rate, memory_gib(reading.workload, math.ceil(batch / passes), gpus), rate > 0))
    of = "gang" if reading.of_gang else "GPU"
    workload = reading.workload
    return ProfileDescription(profile, workload.title, workload.params, reading.batch, of, workload.skew, tuple(ways))


def describe_file(path: Path | str) -> RatesFileSummary:
    """Summarise a file of measured rates."""
    rates = read_measured(path)
    keys = (*rates.table, *rates.across_nodes)
    profiles = tuple(sorted({profile for profile, _, _ in keys}))
    return RatesFileSummary(
        str(path),
        profiles,
        tuple(sorted({accelerator for _, accelerator, _ in keys})),
        tuple(sorted({gpus for _, _, gpus in keys})),
        alone=len(rates.table),
        across_nodes=len(rates.across_nodes),
        pairs=len({(*sorted((first, second)), kind, gpus) for first, second, kind, gpus in rates.pairs}),
        never=sum(rate == 0 for rate in rates.table.values()),
        unknown=tuple(profile for profile in profiles if read_key(profile) is None),
        rates=tuple(
            {"profile": profile, "accelerator": kind, "gpus": gpus, "nodes": where, "steps_per_second": rate}
            for where, table in (("one", rates.table), ("several", rates.across_nodes))
            for (profile, kind, gpus), rate in sorted(table.items())
        ),
    )
