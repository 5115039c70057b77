"""Presets: named sets of physics, mechanism, policy and placer options, nothing else. An explicit flag wins."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.beliefs.rates import Rates
from rota.core.decision_timing import AtEvents, AtRounds, WholeSteps
from rota.core.selection import SelectionRules
from rota.errors import UnknownNameError
from rota.model.accelerators import REFERENCE
from rota.profiles.catalogue import Catalogue


@dataclass(frozen=True)
class Preset:
    """Options that a preset's name stands for."""

    about: str
    physics: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Options of policies and placers, by name."""
    dollars_per_hour: Mapping[str, float] = field(default_factory=dict)
    """Prices of accelerator types; the prices of a cluster file win."""


MEASURED = Preset(
    "Costs of a training process on a current GPU: launch 5 s, save 6 s, load 3 s, a save every half hour; speeds by type.",
    physics={
        "rates": Rates(model=Catalogue()),
        "launch_seconds": 5.0,
        "checkpoint_seconds": 6.0,
        "restore_seconds": 3.0,
        "checkpoint_every_seconds": 1800.0,
    },
)
"""Preset that is used if none is named. From measurements with PyTorch on an H200: importing it and opening a CUDA context takes
about 5 s, writing 4 GiB of state about 6 s, reading it about 3 s. The interval between saves only matters if nodes fail."""

PRESETS: Mapping[str, Preset] = {
    "ideal": Preset(
        "Decisions at events, zero overhead, GPUs pooled, run time is the trace's duration.",
        physics={"rates": Rates(speeds={}, model=Catalogue(), everywhere=REFERENCE), "spread_penalty": 1.0},
        settings={"decide": AtEvents()},
    ),
    "measured": MEASURED,
    "gavel": Preset(
        "Gavel's simulator: rounds of 360 s, shares at most every 1920 s, whole steps, free moves, its prices.",
        physics={"rates": Rates(model=Catalogue()), "spread_penalty": 1.0, "whole_steps_seconds": 360.0},
        settings={
            "decide": WholeSteps(round_seconds=360.0, solve_every_seconds=1920.0),
            "selection": SelectionRules(deficits_break_ties=True, steady=True, upgrades=True),
        },
        dollars_per_hour={"V100": 0.74, "P100": 0.43, "K80": 0.135},
    ),
    "blox": Preset(
        "The simulator of PAL: rounds of 360 s at which jobs end, no backfill, free moves, 1.7 across nodes.",
        physics={
            "rates": Rates(speeds={}, model=Catalogue(), everywhere=REFERENCE),
            "spread_penalty": 1.7,
            "completion_poll_seconds": 360.0,
        },
        settings={"decide": AtRounds(round_seconds=360.0), "selection": SelectionRules(backfill=False)},
        options={
            "pal": {"sticky": "false"},
            "pm-first": {"sticky": "false"},
            "packed": {"by_size": "false"},
            "las": {"service": "seconds"},
            "srtf": {"remaining": "nominal"},
        },
    ),
}


def preset(name: str | None) -> Preset:
    if name is None:
        return MEASURED
    if name in PRESETS:
        return PRESETS[name]
    raise UnknownNameError("preset", name, PRESETS, hint="rota sim --help")
