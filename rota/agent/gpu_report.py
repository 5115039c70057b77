"""A node's report on its GPUs: their readings, and how each job uses them.

On the way to the scheduler it is plain data with ages in seconds instead of instants, because the clocks of two machines differ.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from rota.agent.gpu_readings import GpuReading, Readings
from rota.agent.gpu_use import AttemptKey, GpuUse

_REPORTED = tuple(each.name for each in fields(GpuReading) if each.name not in ("at_s", "processes"))
"""Fields of a reading that mean something on another machine. Process numbers do not."""


class GpuReport(NamedTuple):
    """Readings and use. Instants are on the reader's clock."""

    readings: Readings = {}  # noqa: RUF012  a named tuple has no factories; it is never changed
    """Readings by the GPU's name in the cluster."""
    uses: Mapping[AttemptKey, GpuUse] = {}
    taken: Mapping[str, str] = {}
    """GPU's name in the cluster -> user of the GPU that is not a job of this cluster, in words."""


def plain_report(report: GpuReport, now_s: float) -> dict[str, Any]:
    """Return the report as JSON can carry it, with null for unknown numbers."""
    readings = {}
    for name, reading in report.readings.items():
        plain = asdict(reading)
        readings[name] = {"age_s": now_s - reading.at_s, **{each: plain[each] for each in _REPORTED}}
    uses = [[*key, now_s - use.at_s, _or_none(use.utilization), _or_none(use.gib)] for key, use in report.uses.items()]
    return {"readings": readings, "uses": uses, "taken": dict(report.taken)}


def read_report(plain: Mapping[str, Any], now_s: float) -> GpuReport:
    """Return a report that was made at `now_s`. Fields of a later version are ignored."""
    readings = {
        name: GpuReading(now_s - each["age_s"], **{field: each[field] for field in _REPORTED if field in each})
        for name, each in plain["readings"].items()
    }
    uses = {(job, attempt): GpuUse(now_s - age, _or_nan(busy), _or_nan(gib)) for job, attempt, age, busy, gib in plain["uses"]}
    return GpuReport(readings, uses, plain.get("taken", {}))


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


def _or_nan(number: float | None) -> float:
    return math.nan if number is None else number
