"""The built-in catalogue: computed rates of real models on real accelerators, so that everything works without a file.

A profile key names a workload, and optionally its batch:

| key | meaning |
|---|---|
| `resnet50` | the usual batch on each GPU |
| `resnet50/bs64` | 64 examples on each GPU: a step of the gang handles 64 x GPUs |
| `resnet50/global256` | 256 examples over the whole gang; what does not fit at once is accumulated over several passes |
| `ResNet-50 (batch size 64)` | Gavel's name for it (OSDI'20). Gavel adds up the steps of all workers, so the rate is that sum |
| `cifar10`, `imagenet` | Pollux's names (OSDI'21), with `/bs` or `/global`; Pollux's other names are also names here |
| `elasticflow/bert` | ElasticFlow's models where their input differs from ours (ASPLOS'23) |
| `pal/vgg19` | an iteration takes as long as PAL published it on a V100 (SC'24), on any number of GPUs |
| `ones/resnet50/global512` | a step takes as long as ONES published it on RTX 5000s (SC'21), see `ones_models.py` |
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from rota.beliefs.roofline import Workload, fits, room, step_seconds
from rota.model.accelerators import ACCELERATORS, BETWEEN_NODES_GB_S, REFERENCE, Accelerator
from rota.profiles.ones_models import ACCELERATOR as ONES_TYPE
from rota.profiles.ones_models import STEP_TIMES
from rota.profiles.workloads import WORKLOADS

SPREAD = 0.25
"""Typical relative error against measured tables, as `rota profile error` prints it."""
UNKNOWN_SPREAD = 0.5
"""Relative error for an accelerator type without a data sheet here, which counts as a V100."""

ALIASES: Mapping[str, str] = {
    "cifar10": "resnet18",
    "imagenet": "resnet50-amp",
    "elasticflow/bert": "bert-cola",
    "elasticflow/deepspeech2": "deepspeech2-libri",
    "elasticflow/gpt2": "gpt2-imdb",
    "elasticflow/resnet50_cifar10": "resnet50-cifar",
}
GAVEL: Mapping[str, str] = {
    "ResNet-18": "resnet18",
    "ResNet-50": "resnet50",
    "Transformer": "transformer",
    "LM": "lm",
    "Recommendation": "recommendation",
    "A3C": "a3c",
    "CycleGAN": "cyclegan",
}
PAL_SECONDS: Mapping[str, float] = {
    "bert": 0.179,
    "dcgan": 0.0469266931,
    "gpt2": 3.5714,
    "pointnet": 0.28125,
    "resnet50": 0.17540429367763434,
    "vgg19": 0.300610341,
}
"""Seconds per iteration on a V100 (Jain et al., PAL, SC'24, the workloads of its artifact)."""

_BATCH = re.compile(r"(?P<name>.+?)(?:/(?P<of>bs|global)(?P<batch>[1-9]\d{0,6}))?")
_GAVEL = re.compile(r"(?P<name>[\w-]+)(?: \(batch size (?P<batch>[1-9]\d{0,6})\))?")


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """The meaning of a profile key."""

    workload: Workload
    batch: int
    of_gang: bool = False
    """Whether the batch is that of the whole gang, not of each GPU."""
    summed: bool = False
    """Whether steps are those of all workers together."""
    published_seconds: float = 0.0
    """Published time of an iteration on a V100, in seconds; 0 if the rate is modelled."""


@lru_cache(maxsize=4096)
def read_key(profile: str) -> ParsedKey | None:
    """Parse a profile key; None if the catalogue does not know it."""
    if profile.startswith("pal/"):
        name = profile.removeprefix("pal/")
        seconds = PAL_SECONDS.get(name)
        return (
            ParsedKey(WORKLOADS[name], WORKLOADS[name].default_batch, published_seconds=seconds) if seconds is not None else None
        )
    match = _GAVEL.fullmatch(profile)
    if match is not None and match["name"] in GAVEL:
        workload = WORKLOADS[GAVEL[match["name"]]]
        return ParsedKey(workload, int(match["batch"] or workload.default_batch), summed=True)
    match = _BATCH.fullmatch(profile)
    known = WORKLOADS.get(ALIASES.get(match["name"], match["name"])) if match is not None else None
    if match is None or known is None:
        return None
    return ParsedKey(known, int(match["batch"] or known.default_batch), of_gang=match["of"] == "global")


@dataclass(frozen=True)
class Catalogue:
    """Modelled rates on clusters with these links. Answers are cached, since the simulator asks at every launch."""

    intra_node_gb_s: Mapping[str, float] = field(default_factory=dict)
    """Accelerator type -> speed of an all-reduce inside a node, for types where it is not the usual one."""
    inter_node_gb_s: float = BETWEEN_NODES_GB_S
    inter_rack_gb_s: tuple[float, ...] = ()
    """Speed of links between racks, and further out. Further levels are like the last one."""
    _answers: dict[tuple[str, str, int, int], tuple[float, float] | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def rate(self, profile: str, accelerator: str, gpus: int, levels: int = 0) -> tuple[float, float] | None:
        """Return (optimiser steps per second of the gang, relative spread). The rate is 0 if the profile does not fit in memory;
        None if the profile is unknown."""
        levels = min(levels, 1 + len(self.inter_rack_gb_s))
        key = (profile, accelerator, gpus, levels)
        if key not in self._answers and profile.startswith("ones/"):
            self._answers[key] = ones_rate(profile, accelerator, gpus, levels)
        elif key not in self._answers:
            reading = read_key(profile)
            spread = SPREAD if accelerator in ACCELERATORS else UNKNOWN_SPREAD
            self._answers[key] = None if reading is None else (self._rate(reading, accelerator, gpus, levels), spread)
        return self._answers[key]

    def skew(self, profile: str) -> float | None:
        """Return the largest tensor's fraction of all parameters; None if unknown."""
        reading = read_key(profile)
        return None if reading is None else reading.workload.skew

    def _rate(self, reading: ParsedKey, accelerator: str, gpus: int, levels: int) -> float:
        card = ACCELERATORS.get(accelerator, ACCELERATORS[REFERENCE])
        workload = reading.workload
        if reading.published_seconds:
            reference = step_seconds(workload, ACCELERATORS[REFERENCE], reading.batch)
            return reference / step_seconds(workload, card, reading.batch) / reading.published_seconds
        batch, passes = share(reading, card, gpus)
        if not fits(workload, card, math.ceil(batch / passes), gpus):
            return 0.0
        seconds = step_seconds(
            workload,
            card,
            batch,
            gpus,
            1 + levels,
            intra_node_gb_s=self.intra_node_gb_s.get(accelerator),
            inter_node_gb_s=min((self.inter_node_gb_s, *self.inter_rack_gb_s[: max(levels - 1, 0)])),
            passes=passes,
        )
        return (gpus if reading.summed else 1) / seconds


def ones_rate(profile: str, accelerator: str, gpus: int, levels: int) -> tuple[float, float] | None:
    """Return the rate of a model of ONES. On another accelerator type it is scaled by memory bandwidth."""
    match = _BATCH.fullmatch(profile.removeprefix("ones/"))
    known = STEP_TIMES.get(match["name"]) if match is not None else None
    if match is None or known is None or match["batch"] is None:
        return None
    batch = int(match["batch"]) * (gpus if match["of"] == "bs" else 1)
    rate = 1 / known.seconds(gpus, batch, levels > 0)
    if accelerator == ONES_TYPE:
        return rate, 0.0
    card = ACCELERATORS.get(accelerator, ACCELERATORS[REFERENCE])
    return rate * card.bandwidth_gb_s / ACCELERATORS[ONES_TYPE].bandwidth_gb_s, UNKNOWN_SPREAD


def share(reading: ParsedKey, card: Accelerator, gpus: int) -> tuple[int, int]:
    """Return the number of examples that each GPU has in a step, and in how many passes it processes them."""
    if not reading.of_gang:
        return reading.batch, 1
    batch = math.ceil(reading.batch / gpus)
    return batch, math.ceil(batch / max(1, room(reading.workload, card, gpus)))
