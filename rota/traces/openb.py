"""The pods of Alibaba's GPU trace of 2023, "openb" (Weng et al., ATC'23):
`name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time`.

Times are in seconds. A pod is submitted at its creation and runs from `scheduled_time`, or from its creation where that is empty,
to its deletion. It has one step per second, and no profile. `gpu_spec` lists the models that the pod accepts, such as
`V100M16|V100M32`, which are taken as accelerator types: V100M16, V100M32, P100, T4, A10, G2, G3. Empty means any.

Skipped: pods without GPUs, pods that were never deleted, never scheduled (no `scheduled_time`, and still `Pending` when deleted),
or that ran for no time. `gpu_milli` is thousandths of one GPU: a pod of one GPU with less than 1000 gets that fraction. CPUs,
memory and `qos` are not read. The variant `multigpu50` has no times and is refused.
"""

from collections.abc import Iterator

from rota.errors import TraceError
from rota.files.csv_table import CsvRow, FileTable
from rota.model.job import Arrival, JobSpec
from rota.model.units import MILLI
from rota.traces.format import Format
from rota.traces.parts import NO_GPU, accelerators, filled
from rota.traces.trace import SkippedRow

_TIMES = ("creation_time", "deletion_time", "scheduled_time")


def arrival(row: CsvRow) -> Arrival | SkippedRow:
    gpus = row.whole("num_gpu", least=0)
    if not gpus:
        return SkippedRow(row.line, NO_GPU)
    if not row.text("deletion_time"):
        return SkippedRow(row.line, "was never deleted")
    if not row.text("scheduled_time") and row.text("pod_phase") == "Pending":
        return SkippedRow(row.line, "was never scheduled")
    created_s = row.number("creation_time")
    began_s = row.number("scheduled_time") if row.text("scheduled_time") else created_s
    seconds = row.number("deletion_time") - began_s
    if seconds <= 0:
        return SkippedRow(row.line, "ran for no time" if seconds == 0 else "was deleted before it was scheduled")
    milli = row.whole("gpu_milli", least=1)
    part = milli / MILLI if gpus == 1 and milli < MILLI else gpus
    spec = JobSpec(name=filled(row, "name"), gpus=part, steps=seconds, accelerators=accelerators(row, "gpu_spec"))
    return Arrival(created_s, spec)


def remarks(row: CsvRow) -> Iterator[str]:
    if row.whole("gpu_milli", least=1) < MILLI and row.whole("num_gpu", least=0) > 1:
        yield "requested fractions of several GPUs and got whole ones"


def _check(table: FileTable) -> None:
    for column in _TIMES:
        if column not in table.columns:
            raise TraceError(
                "this list of pods has no times, so arrival times and durations are unknown.",
                where=table.where,
                line=table.header_line,
                field=column,
                hint=f"a list with {', '.join(_TIMES)}, such as openb_pod_list_default.csv",
            )


OPENB = Format("openb", arrival, required=("name", "num_gpu", "gpu_milli"), unique="name", check=_check, remarks=remarks)
