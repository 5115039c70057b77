"""The job lists of PAL (Jain et al., SC'24): `job_id,num_gpus,submit_time,duration,model`, and sometimes `batch_size`.

`submit_time` is in seconds, but `duration` is a number of iterations and becomes the steps. The profile is `pal/` and the model
in lower case, such as `pal/vgg19`; a table of rates gives the time of an iteration. `batch_size` is not read.
"""

from rota.files.csv_table import CsvRow
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import filled


def arrival(row: CsvRow) -> Arrival:
    model = filled(row, "model").lower()
    spec = JobSpec(
        name=f"{model}-{filled(row, 'job_id')}",
        gpus=row.whole("num_gpus", least=1),
        steps=row.number("duration"),
        profile=f"pal/{model}",
    )
    return Arrival(row.number("submit_time"), spec)


PAL = Format("pal", arrival, required=("job_id", "num_gpus", "submit_time", "duration", "model"), unique="job_id")
