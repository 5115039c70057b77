"""The workloads of Pollux (Qiao et al., OSDI'21): `name,time,application,num_replicas,batch_size`.

`time` is in seconds. A job has `num_replicas` GPUs and the profile `APPLICATION/globalB`, such as `cifar10/global2048`, where B
is the batch size over all of them. The file has no run times. Pollux trains each application to its last epoch; its validation
curves give the number of steps until then at each batch size that was measured (`profiles/curves.py`).

At other batch sizes: between two measured ones, the logarithm of the steps is interpolated over the logarithm of the batch size,
which is exact where the number of examples stays the same. Below the smallest, where every example counts in full, the number of
examples is that of the smallest. Above the largest, the number of steps is that of the largest, since Pollux found no benefit in
more. The notes count such jobs.
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
            f"Pollux did not train this application.{closest(application, STEPS)} All: {', '.join(STEPS)}.",
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
