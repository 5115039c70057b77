"""The job lists of the Tiresias simulator (NSDI'19): `job_id,num_gpu,submit_time,duration` and whatever else is there.

Times are seconds. `model_name`, where it exists, becomes part of the job's name; `iterations` and `interval` are not read.
A job has one step per second of its duration.
"""

from rota.files.rows import Row
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format


def arrival(row: Row) -> Arrival:
    if not row.text("job_id"):
        raise row.wrong("job_id", "is empty.", hint="give every job its own job_id")
    spec = JobSpec(
        name=f"{row.text('model_name') or 'job'}-{row.text('job_id')}",
        gpus=row.whole("num_gpu", least=1),
        steps=row.number("duration"),
    )
    return Arrival(row.number("submit_time"), spec)


TIRESIAS = Format("tiresias", required=("job_id", "num_gpu", "submit_time", "duration"), arrival=arrival, unique="job_id")
