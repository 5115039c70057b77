"""The job lists of the Tiresias simulator (NSDI'19): `job_id,num_gpu,submit_time,duration` and any other columns.

Times are in seconds. `model_name`, if present, becomes part of the job's name; `iterations` and `interval` are not read. A job
has one step per second of its duration. The lists of ElasticFlow (ASPLOS'23) have the same columns and are read too; their
deadlines and batch sizes are not.
"""

from rota.files.csv_table import CsvRow
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import filled


def arrival(row: CsvRow) -> Arrival:
    spec = JobSpec(
        name=f"{row.text('model_name') or 'job'}-{filled(row, 'job_id')}",
        gpus=row.whole("num_gpu", least=1),
        steps=row.number("duration"),
    )
    return Arrival(row.number("submit_time"), spec)


TIRESIAS = Format("tiresias", arrival, required=("job_id", "num_gpu", "submit_time", "duration"), unique="job_id")
