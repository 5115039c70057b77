"""Rota's own trace format: comma-separated UTF-8 text, a header, one job per line, columns in any order.

| column | what it is |
|---|---|
| `submit_time` | seconds since the start of the trace, 0 or more; required |
| `gpus` | GPUs, a whole number from 1, or a fraction of one in thousandths, such as 0.5; required |
| `gpu_counts` | other GPU counts that the job accepts, separated by a bar: `1|2|8`; empty: only `gpus` |
| `batch_size` | examples per step, at which `steps` are counted; empty: unknown |
| `batch_sizes` | other batch sizes that the job accepts, separated by a bar; empty: only `batch_size` |
| `can_resize` | `true`: the job can change its size while it runs; otherwise it is suspended and launched again |
| `saves` | `false`: the job does not save its state, so it is never suspended; otherwise it saves |
| `duration` | seconds of run time on the reference GPU: one step per second, no profile |
| `steps` | optimiser steps, instead of `duration`; a file has one of the two |
| `epoch_steps` | steps of one pass over the job's data; only with `steps`; empty: unknown |
| `profile` | key into the table of rates; only with `steps`; empty: unknown profile |
| `job_id` | unique; the name of jobs that have no other |
| `name` | job name; without this column `job_id`, or else `line-LINE` |
| `accelerators` | accelerator types that the job accepts, separated by a bar: `A100|V100`; empty: any |
| `weight` | more than 0; empty: 1 |
| `deadline` | seconds after submission until which the job should finish; empty: none |
| `slo` | deadline as a multiple of the job's run time on exclusive V100s |
| `priority` | whole number from -1000 to 1000; jobs of a higher priority come first; empty: 0 |
| `max_run_time` | longest run time, in seconds; then the job fails; empty: none |
| `tenant`, `user` | owner of the job |
| `retries` | number of failures of its own that the job may have; empty: 0 |

    submit_time,gpus,duration,name
    0,1,3600,resnet
    60,4,7200,"bert, large"
"""

from rota.errors import TraceError
from rota.files.csv_table import CsvRow, FileTable
from rota.model.job import MAX_PRIORITY, Arrival, JobSpec
from rota.model.units import MILLI, milligpus_of
from rota.traces.format import Format
from rota.traces.parts import accelerators, weight


def arrival(row: CsvRow) -> Arrival:
    spec = JobSpec(
        name=_name(row),
        gpus=_gpus(row),
        gpu_counts=_sizes(row, "gpu_counts"),
        batch_size=row.whole("batch_size", least=1) if row.text("batch_size") else None,
        batch_sizes=_sizes(row, "batch_sizes"),
        can_resize=_truth(row, "can_resize"),
        saves=_truth(row, "saves", default=True),
        steps=row.number("steps" if "steps" in row.cells else "duration"),
        epoch_steps=(row.number("epoch_steps") or None) if row.text("epoch_steps") else None,
        profile=row.text("profile"),
        accelerators=accelerators(row, "accelerators"),
        weight=weight(row, "weight"),
        deadline_seconds=_limit(row, "deadline"),
        slo=_limit(row, "slo"),
        priority=_priority(row),
        max_run_seconds=_limit(row, "max_run_time"),
        tenant=row.text("tenant"),
        user=row.text("user"),
        retries=row.whole("retries", least=0) if row.text("retries") else 0,
    )
    return Arrival(row.number("submit_time"), spec)


def _gpus(row: CsvRow) -> float:
    if row.text("gpus").startswith("-"):
        return row.whole("gpus", least=1)
    gpus = row.number("gpus")
    if gpus >= 1 or gpus == 0:
        return row.whole("gpus", least=1)
    if abs(gpus * MILLI - milligpus_of(gpus)) > 1e-6:
        raise row.wrong("gpus", "must be a whole number from 1, or thousandths of one GPU.", hint="1, or 0.5")
    return gpus


def _sizes(row: CsvRow, column: str) -> tuple[int, ...]:
    """Return sizes like `1|2|8`, which the job accepts besides the requested one."""
    if not row.text(column):
        return ()
    sizes = row.text(column).split("|")
    if not all(size.strip().isascii() and size.strip().isdigit() and int(size) >= 1 for size in sizes):
        raise row.wrong(column, "must be whole numbers from 1, separated by bars.", hint="1|2|4|8")
    if column == "gpu_counts" and row.number("gpus") < 1:
        raise row.wrong(column, "a job that requests a fraction of a GPU has no other counts.", hint="leave it empty")
    if column == "batch_sizes" and not row.text("batch_size"):
        raise row.wrong(column, "needs batch_size, at which steps are counted.", hint="add a column batch_size")
    return tuple(int(size) for size in sizes)


def _truth(row: CsvRow, column: str, *, default: bool = False) -> bool:
    text = row.text(column).lower()
    if text not in ("", "true", "false"):
        raise row.wrong(column, "must be true or false.", hint=f"leave it empty for {str(default).lower()}")
    return default if not text else text == "true"


def cells(arrival: Arrival, work: str) -> dict[str, str]:
    """Format one arrival as text, column by column. `work` is the column of its steps: `duration` or `steps`."""
    spec = arrival.spec
    return {
        "submit_time": _plain(arrival.submitted_s),
        "gpus": f"{spec.gpus:g}",
        "gpu_counts": "|".join(str(count) for count in spec.gpu_counts),
        "batch_size": "" if spec.batch_size is None else str(spec.batch_size),
        "batch_sizes": "|".join(str(size) for size in spec.batch_sizes),
        "can_resize": "true" if spec.can_resize else "",
        "saves": "" if spec.saves else "false",
        work: _plain(spec.steps),
        "name": spec.name,
        "epoch_steps": _plain(spec.epoch_steps),
        "profile": spec.profile or "",
        "accelerators": "|".join(spec.accelerators),
        "weight": "" if spec.weight == 1.0 else _plain(spec.weight),
        "deadline": _plain(spec.deadline_seconds),
        "slo": _plain(spec.slo),
        "priority": str(spec.priority) if spec.priority else "",
        "max_run_time": _plain(spec.max_run_seconds),
        "tenant": spec.tenant or "",
        "user": spec.user,
        "retries": str(spec.retries) if spec.retries else "",
    }


def _limit(row: CsvRow, column: str) -> float | None:
    """Return a limit above 0; None if the cell is empty."""
    if not row.text(column):
        return None
    if row.number(column) <= 0:
        raise row.wrong(column, "must be more than 0.", hint="leave it empty if there is none")
    return row.number(column)


def _plain(value: float | None) -> str:
    """Return the shortest text that reads back as the same number; empty for None."""
    return "" if value is None else repr(float(value)).removesuffix(".0")


def _priority(row: CsvRow) -> int:
    text = row.text("priority")
    if not text:
        return 0
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and int(digits) <= MAX_PRIORITY):
        problem = f"must be a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}."
        raise row.wrong("priority", problem, hint="0, or leave it empty")
    return int(text)


def _name(row: CsvRow) -> str:
    if "name" in row.cells:
        return row.text("name") or row.text("job_id")
    return row.text("job_id") or f"line-{row.line}"


def _check(table: FileTable) -> None:
    def wrong(field: str, problem: str, hint: str) -> TraceError:
        return TraceError(problem, where=table.where, line=table.header_line, field="column", value=field, hint=hint)

    has = set(table.columns)
    if {"duration", "steps"} <= has:
        raise wrong("steps", "cannot be combined with duration. Give one of the two.", "keep steps if you have a profile")
    if not has & {"duration", "steps"}:
        raise wrong("duration", "this column or steps is required.", "add duration, in seconds of run time")
    if "epoch_steps" in has and "steps" not in has:
        raise wrong("epoch_steps", "is a number of steps per epoch, so it needs steps.", "give steps instead of duration")
    if "profile" in has and "steps" not in has:
        raise wrong("profile", "a profile gives steps per second, so it needs steps.", "give steps instead of duration")


ROTA = Format(
    "rota",
    arrival,
    required=("submit_time", "gpus"),
    optional=(
        "duration",
        "steps",
        "job_id",
        "name",
        "gpu_counts",
        "batch_size",
        "batch_sizes",
        "can_resize",
        "saves",
        "epoch_steps",
        "profile",
        "accelerators",
        "weight",
        "deadline",
        "slo",
        "priority",
        "max_run_time",
        "tenant",
        "user",
        "retries",
    ),
    unique="job_id",
    check=_check,
)
