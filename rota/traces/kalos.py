"""Jobs of Kalos, the LLM cluster of Acme (Hu et al., NSDI'24), as converted for a network simulator:
`job_id,arrival_time,num_iteration,gpu_workers,gpu_per_worker` among others.

`arrival_time` is in seconds. A job has `gpu_workers` times `gpu_per_worker` GPUs. The converter cut its run time into iterations
of half a second, so a job here has half as many steps as `num_iteration`, one per second, and no profile. Jobs without GPUs are
skipped. Not read, because the converter invented them: the times of an iteration and `tensorsizes`. Also not read: CPUs,
parameter servers (`ps`) and `profiled_network`. The file has completed jobs only; evaluation and debugging, most of the cluster's
jobs, are left out.
"""

from rota.files.csv_table import MAX_COUNT, CsvRow
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import NO_GPU, filled
from rota.traces.trace import SkippedRow

ITERATION_SECONDS = 0.5


def arrival(row: CsvRow) -> Arrival | SkippedRow:
    gpus = row.whole("gpu_workers", least=0) * row.whole("gpu_per_worker", least=0)
    if not gpus:
        return SkippedRow(row.line, NO_GPU)
    if gpus > MAX_COUNT:
        raise row.wrong("gpu_workers", f"makes {gpus:,} GPUs, more than {MAX_COUNT:,}.", hint="check gpu_per_worker, too")
    spec = JobSpec(
        name=f"kalos-{filled(row, 'job_id')}",
        gpus=gpus,
        steps=row.number("num_iteration") * ITERATION_SECONDS,
    )
    return Arrival(row.number("arrival_time"), spec)


KALOS = Format(
    "kalos",
    arrival,
    required=("job_id", "arrival_time", "num_iteration", "gpu_workers", "gpu_per_worker"),
    unique="job_id",
)
