"""What an operator gave a scheduler to believe, from the flags that its home keeps.

A home keeps a flag as it was given, with the contents of the file that it names. So a restart, a recovery or a replay reads no
file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rota.beliefs.efficiency import Efficiency
from rota.beliefs.locality import Locality
from rota.beliefs.move_costs import MemoryCosts, MoveCosts
from rota.beliefs.rates import SPEEDS, Rates
from rota.beliefs.skews import Skews
from rota.beliefs.variability import Variability
from rota.core.setup import GivenBeliefs
from rota.core.snapshot import make_codec
from rota.model.codec import Plain
from rota.model.tenants import Tenants
from rota.profiles.catalogue import Catalogue
from rota.profiles.curves import published_efficiency
from rota.profiles.scaling import SOURCES, StepTimes

LAUNCH_SECONDS = 1.0
"""Assumed cost of starting a process before any was started, in seconds."""

_CODEC = make_codec(*SOURCES)


@dataclass(frozen=True)
class GivenFlag:
    """A flag that a home keeps."""

    text: Plain
    """Value of the flag, as text or as a number; true for a flag without a value; for a file its path."""
    value: Plain = None
    """Contents of the file; None if the flag names none."""


GivenFlags = Mapping[str, GivenFlag]


def given_beliefs(flags: GivenFlags, context_gib: float, devices: Sequence[str]) -> GivenBeliefs:
    """Return the beliefs that flags give. `devices`: names of the GPUs by number, for which scores are looked up."""
    values = {name: flag.text for name, flag in flags.items()}
    return GivenBeliefs(
        rates=given_rates(flags),
        costs=MoveCosts(
            values.get("launch_seconds", LAUNCH_SECONDS),
            values.get("checkpoint_seconds", 0.0),
            values.get("restore_seconds", 0.0),
            values.get("resize_seconds", 0.0),
            MemoryCosts(context_gib=context_gib),
        ),
        skews=Skews(flags["tensors"].value if "tensors" in flags else {}, Catalogue()),
        scores=_numbered(flags["variability"].value, devices) if "variability" in flags else None,
    )


def given_rates(flags: GivenFlags) -> Rates:
    """Return the rates of the profile that was given, with those of the catalogue for everything else."""
    measured = _CODEC.decode(flags["profile"].value) if "profile" in flags else Rates()
    penalty = Locality.of(flags["spread_penalty"].text) if "spread_penalty" in flags else None
    model = measured.model if measured.model is not None else Catalogue()
    return replace(measured, speeds=SPEEDS, model=model, spread_penalty=penalty, efficiency=published_efficiency().modelled())


def plain_rates(measured: Rates) -> Plain:
    """Return the rates of a file as a home keeps them."""
    model = measured.model.fitted() if isinstance(measured.model, StepTimes) else None
    return _CODEC.encode(replace(measured, speeds={}, model=model, spread_penalty=None, efficiency=Efficiency()))


def plain_tenants(tenants: Tenants) -> Plain:
    """Return tenants as plain data, for a home and for the policy's worker."""
    return _CODEC.encode(tenants)


def read_plain_tenants(plain: Plain) -> Tenants:
    """Return tenants from plain data."""
    tenants: Tenants = _CODEC.decode(plain)
    return tenants


def given_tenants(flags: GivenFlags) -> Tenants | None:
    """Return the tenants of the file that was given; None if there was none."""
    return read_plain_tenants(flags["tenants"].value) if "tenants" in flags else None


def plain_scores(scores: Variability, devices: Sequence[str]) -> Plain:
    """Return scores by the names of the GPUs. Numbers change when GPUs come and go."""
    by_name = {name: [scores.scores[:, i].tolist(), scores.uncertainty[:, i].tolist()] for i, name in enumerate(devices)}
    return {"classes": list(scores.classes), "class_of": dict(scores.class_of), "gpus": by_name}


def scored_devices(devices: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of all GPUs by number, from those of each node. A GPU that left and joined again has a new number, and its
    old number has no name."""
    names = [name for node in devices for name in node]
    last = {name: number for number, name in enumerate(names)}
    return [name if last[name] == number else "" for number, name in enumerate(names)]


def _numbered(plain: Plain, names: Sequence[str]) -> Variability:
    """Return scores by number. GPUs without a score count as the median."""
    classes = tuple(plain["classes"])
    usual = [[1.0] * len(classes), [0.0] * len(classes)]
    found = np.array([plain["gpus"].get(name, usual) for name in names], dtype=np.float64).reshape(len(names), 2, len(classes))
    return Variability(classes, found[:, 0].T, found[:, 1].T, plain["class_of"])
