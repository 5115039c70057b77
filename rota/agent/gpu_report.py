"""What a node tells of its GPUs: how they are, and how jobs use them. As plain data, because it goes to the scheduler's machine.

It has ages in seconds instead of moments, because the clocks of two machines differ.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from rota.agent.gpu_readings import GpuReading, Readings
from rota.agent.gpu_use import AttemptKey, GpuUse

_TOLD = tuple(each.name for each in fields(GpuReading) if each.name not in ("at_s", "processes"))
"""Processes say nothing on another machine."""


class GpuReport(NamedTuple):
    """Moments are of the clock of the one who reads it."""

    readings: Readings = {}  # noqa: RUF012  a named tuple has no factories; it is never changed
    """By the GPU's name in the cluster."""
    uses: Mapping[AttemptKey, GpuUse] = {}
    taken: Mapping[str, str] = {}
    """Who uses a GPU that is no job of this cluster, in words, by the GPU's name in the cluster."""


def plain_report(report: GpuReport, now_s: float) -> dict[str, Any]:
    """As JSON can carry it: what is not a number is told as nothing."""
    readings = {}
    for name, reading in report.readings.items():
        plain = asdict(reading)
        readings[name] = {"age_s": now_s - reading.at_s, **{each: plain[each] for each in _TOLD}}
    uses = [[*key, now_s - use.at_s, _or_none(use.utilisation), _or_none(use.gib)] for key, use in report.uses.items()]
    return {"readings": readings, "uses": uses, "taken": dict(report.taken)}


def read_report(plain: Mapping[str, Any], now_s: float) -> GpuReport:
    """`now_s`: when it was told. An agent of a later version may tell more than this one knows."""
    readings = {
        name: GpuReading(now_s - each["age_s"], **{field: each[field] for field in _TOLD if field in each})
        for name, each in plain["readings"].items()
    }
    uses = {(job, attempt): GpuUse(now_s - age, _or_nan(busy), _or_nan(gib)) for job, attempt, age, busy, gib in plain["uses"]}
    return GpuReport(readings, uses, plain.get("taken", {}))


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


def _or_nan(number: float | None) -> float:
    return math.nan if number is None else number
