"""The workloads of Pollux (Qiao et al., OSDI'21): `name,time,application,num_replicas,batch_size`.

`time` is seconds. A job has `num_replicas` GPUs and the profile `APPLICATION/globalB`, such as `cifar10/global2048`, B being
the batch size over all of them. The file does not say how long a job runs. Pollux trains each application to its last epoch,
and its validation curves say after how many steps that is, for each batch size they were taken at
(`profiles/curves.py`).

At other batch sizes: between two of them the steps lie on a line, logarithm over logarithm, which is exact where the number of
examples stays the same; below the smallest, where every example counts in full, the examples are those of the smallest; above
the largest the steps are those of the largest, for Pollux found no use in more. The notes count such jobs.
"""

from collections.abc import Iterator

from rota.files.csv_table import CsvRow, closest
from rota.model.job import Arrival, JobSpec
from rota.profiles.curves import STEPS, steps_to_end
from rota.traces.format import Format
from rota.traces.parts import filled


def arrival(row: CsvRow) -> Arrival:
    application = row.text("application")
    if application not in STEPS:
        raise row.wrong(
            "application",
            f"Pollux trained no such application.{closest(application, STEPS)} All: {', '.join(STEPS)}.",
            hint="give other jobs in the rota format, with their steps",
        )
    batch_size = row.whole("batch_size", least=1)
    spec = JobSpec(
        name=filled(row, "name"),
        gpus=row.whole("num_replicas", least=1),
        steps=steps_to_end(application, batch_size),
        profile=f"{application}/global{batch_size}",
    )
    return Arrival(row.number("time"), spec)


def remarks(row: CsvRow) -> Iterator[str]:
    if row.whole("batch_size", least=1) not in STEPS[row.text("application")]:
        yield "had a batch size that Pollux has no curve for; the steps are estimated from the nearest"


POLLUX = Format(
    "pollux",
    arrival,
    required=("name", "time", "application", "num_replicas", "batch_size"),
    unique="name",
    remarks=remarks,
)
