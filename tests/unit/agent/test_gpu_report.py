"""A node's report of its GPUs, encoded and decoded: times by the clock of the reader, and no unknown values."""

import json
import math

from rota.agent.gpu_readings import GpuReading
from rota.agent.gpu_report import GpuReport, plain_report, read_report
from rota.agent.gpu_use import GpuUse

READING = GpuReading(100.0, 140.0, 20.0, 0.5, 1500, 1980, 61, {7: 3.0})


def carried(report: GpuReport, there_s: float, here_s: float) -> GpuReport:
    return read_report(json.loads(json.dumps(plain_report(report, there_s), allow_nan=False)), here_s)


def test_moments_are_by_the_clock_of_the_reader() -> None:
    report = GpuReport({"n1/GPU-2": READING}, {(3, 1): GpuUse(98.0, 0.5, 20.0)}, {"n1/GPU-2": "process 7 of ana"})
    found = carried(report, there_s=101.0, here_s=5000.0)
    assert found.taken == {"n1/GPU-2": "process 7 of ana"}
    assert found.readings == {"n1/GPU-2": GpuReading(4999.0, 140.0, 20.0, 0.5, 1500, 1980, 61, None)}, "processes stay there"
    assert found.uses == {(3, 1): GpuUse(4997.0, 0.5, 20.0)}


def test_what_is_not_known_stays_so() -> None:
    found = carried(GpuReport({"n1/GPU-0": GpuReading(100.0)}, {(3, 1): GpuUse(100.0, math.nan, math.nan)}), 100.0, 7.0)
    assert found.readings == {"n1/GPU-0": GpuReading(7.0)}
    assert math.isnan(found.uses[3, 1].utilization) and math.isnan(found.uses[3, 1].gib)
    assert carried(GpuReport(), 100.0, 7.0) == GpuReport()


def test_a_later_version_may_tell_more_and_an_earlier_one_less() -> None:
    plain = plain_report(GpuReport({"n1/GPU-0": READING}), 100.0)
    plain["readings"]["n1/GPU-0"]["watts"] = 700
    del plain["readings"]["n1/GPU-0"]["temperature_c"], plain["taken"]
    assert read_report(plain, 100.0).readings == {"n1/GPU-0": GpuReading(100.0, 140.0, 20.0, 0.5, 1500, 1980)}
