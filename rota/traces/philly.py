"""The Philly trace (Jeon et al., ATC'19) as a flat file: `timestamp,duration,num_gpus,gpu_time,cluster`.

`timestamp` is local time without a zone, `YYYY-MM-DD HH:MM:SS`; `duration` is seconds of run time, including failed and killed
jobs. `cluster` is the hash of a virtual cluster and becomes the tenant. `gpu_time` is duration times GPUs and is not read.
Durations come without a model, so a job has one step per second of its duration and no profile.
"""

from rota.files.csv_table import CsvRow
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import instant


def arrival(row: CsvRow) -> Arrival:
    spec = JobSpec(
        name=f"philly-{row.line}",
        gpus=row.whole("num_gpus", least=1),
        steps=row.number("duration"),
        tenant=row.text("cluster"),
    )
    return Arrival(instant(row, "timestamp"), spec)


PHILLY = Format("philly", arrival, required=("timestamp", "duration", "num_gpus"), wall_clock=True)
