"""The Helios trace of SenseTime (Hu et al., SC'21), one `cluster_log.csv` per cluster:
`job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue`.

`submit_time` is local time without a zone, `YYYY-MM-DD HH:MM:SS`; `duration` is seconds of run time, including failed and
cancelled jobs. A job has one step per second of it, and no profile. `vc`, the virtual cluster, becomes the tenant. Half of the
log are jobs without GPUs (`gpu_num` 0), which are skipped, and so are the few jobs that had not ended when the log was taken. Not
read: CPUs, nodes, start and end times, and `queue`, the seconds that the job waited there: the policy decides how long it waits
here.
"""

from rota.files.csv_table import CsvRow
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import NO_GPU, filled, instant
from rota.traces.trace import SkippedRow

_UNFINISHED = ("PENDING", "RUNNING", "SUSPENDED")
"""Slurm states in which `duration` is not the whole run time."""


def arrival(row: CsvRow) -> Arrival | SkippedRow:
    gpus = row.whole("gpu_num", least=0)
    if not gpus:
        return SkippedRow(row.line, NO_GPU)
    if row.text("state") in _UNFINISHED:
        return SkippedRow(row.line, "had not ended")
    spec = JobSpec(
        name=f"helios-{filled(row, 'job_id')}",
        gpus=gpus,
        steps=row.number("duration"),
        tenant=row.text("vc"),
        user=row.text("user"),
    )
    return Arrival(instant(row, "submit_time"), spec)


HELIOS = Format("helios", arrival, required=("job_id", "gpu_num", "submit_time", "duration"), wall_clock=True)
