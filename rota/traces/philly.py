"""The Philly trace (Jeon et al., ATC'19) as a flat file: `timestamp,duration,num_gpus,gpu_time,cluster`.

`timestamp` is local time without a zone, `YYYY-MM-DD HH:MM:SS`; `duration` is seconds of run time, failed and killed jobs
included. `cluster` is the hash of a virtual cluster and becomes the tenant. `gpu_time` is duration times GPUs and is not read.
Durations come without a model, so a job has one step per second of its duration and no profile.
"""

import re
from datetime import datetime

from rota.files.rows import Row
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
_ORIGIN = datetime(2000, 1, 1)
"""Any fixed date: the reader counts from the first arrival."""


def arrival(row: Row) -> Arrival:
    spec = JobSpec(
        name=f"philly-{row.line}",
        gpus=row.whole("num_gpus", least=1),
        steps=row.number("duration"),
        tenant=row.text("cluster"),
    )
    return Arrival(_instant(row), spec)


def _instant(row: Row) -> float:
    cell = row.cells["timestamp"]
    # fromisoformat alone would also take week dates and zones.
    if _TIMESTAMP.fullmatch(cell):
        try:
            return (datetime.fromisoformat(cell) - _ORIGIN).total_seconds()
        except ValueError as error:
            raise row.wrong("timestamp", f"is no date: {error}.", hint="write it like 2017-10-09 07:01:55") from None
    raise row.wrong("timestamp", "is not YYYY-MM-DD HH:MM:SS.", hint="write it like 2017-10-09 07:01:55")


PHILLY = Format("philly", required=("timestamp", "duration", "num_gpus"), arrival=arrival, wall_clock=True)
