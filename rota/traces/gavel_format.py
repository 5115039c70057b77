"""The traces of Gavel (Narayanan et al., OSDI'20) and of Shockwave (Zheng et al., NSDI'23): tabs between the cells, no header.

The number of cells decides the variant:

- 10, Gavel's: `job_type`, `command`, `working_dir`, `num_steps_arg`, `needs_data_dir`, `total_steps`, `scale_factor`,
  `priority_weight`, `slo`, `arrival_time`
- 7, older: `job_type`, `command`, `num_steps_arg`, `needs_data_dir`, `total_steps`, `arrival_time`, `scale_factor`
- 12, Shockwave's: the ten, with `mode` after `scale_factor` and `duration` before `arrival_time`

`--where` takes these names. `job_type`, such as `ResNet-18 (batch size 16)`, is the profile, unchanged; `scale_factor` is the
number of GPUs, `arrival_time` is in seconds; `slo` is the deadline as a multiple of the job's run time on exclusive V100s (0 or
less: no deadline). Names are `gavel-LINE`. The job types of the published traces are random draws.

Not read: the command and its arguments (it is never run); `mode`, Shockwave's rule by which the batch size changes during
training (`static`: it does not); and Shockwave's `duration`, the seconds that the steps took on exclusive GPUs of its authors.
The notes count the jobs that lose such a rule.
"""

from collections.abc import Iterator

from rota.files.csv_table import CsvRow
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import filled, weight

_HEAD = ("job_type", "command", "working_dir", "num_steps_arg", "needs_data_dir", "total_steps", "scale_factor")
TEN = (*_HEAD, "priority_weight", "slo", "arrival_time")
SEVEN = ("job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps", "arrival_time", "scale_factor")
TWELVE = (*_HEAD, "mode", "priority_weight", "slo", "duration", "arrival_time")


def arrival(row: CsvRow) -> Arrival:
    spec = JobSpec(
        name=f"gavel-{row.line}",
        gpus=row.whole("scale_factor", least=1),
        steps=row.number("total_steps"),
        profile=filled(row, "job_type"),
        weight=weight(row, "priority_weight"),
        slo=_slo(row),
    )
    return Arrival(row.number("arrival_time"), spec)


def _slo(row: CsvRow) -> float | None:
    """Return the deadline as a multiple of the run time; None if it is empty, 0 or negative."""
    text = row.text("slo").strip()
    return (row.number("slo") or None) if text and not text.startswith("-") else None


def remarks(row: CsvRow) -> Iterator[str]:
    if row.text("mode") not in ("", "static"):
        yield "had a batch size that changes in training; here it stays at its first value"


GAVEL = Format("gavel", arrival, layouts=(SEVEN, TEN, TWELVE), remarks=remarks)
