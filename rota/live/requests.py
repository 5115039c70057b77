"""Conversions of a submission: to the job that the scheduler sees, and to the spec that clients see."""

from datetime import UTC
from pathlib import Path
from typing import Any

from rota.errors import OptionError, SpecError
from rota.model.job import JobSpec
from rota.wire.spec import PROGRESS_BY_SESSION, Spec
from rota.wire.submission import Submission


def shown_spec(sent: Submission, name: str) -> dict[str, Any]:
    """Return the complete spec of a job with this name. Variables have only names, because values may be secrets."""
    spec, batch = sent.spec, sent.spec.batch
    return {
        **spec.model_dump(mode="json"),
        "name": name,
        "workdir": sent.folder,
        "batch": {"size": batch.size, "min": min(batch.sizes), "max": max(batch.sizes)} if batch is not None else None,
        "deadline": spec.deadline.astimezone(UTC).isoformat().replace("+00:00", "Z") if spec.deadline is not None else None,
        "checkpoint": {**spec.checkpoint.model_dump(), "dir": sent.checkpoint_dir},
        "memory": f"{spec.memory:g} GiB" if spec.memory is not None else None,
        "gpu_memory": f"{spec.gpu_memory:g} GiB" if spec.gpu_memory is not None else None,
        "env": sorted(sent.variables),
    }


def can_resize(spec: Spec) -> bool:
    """Return whether a job takes another size while it runs. A session of one process takes another batch size by itself. For
    other GPUs, its processes are started again where they are."""
    return spec.progress == PROGRESS_BY_SESSION and max(len(spec.batch_sizes), len(spec.gpu_counts)) > 1


def check_priority(priority: int, *, operator: bool) -> None:
    """Raise OptionError for a priority that only an operator may give to a job."""
    if priority > 0 and not operator:
        raise OptionError(
            "is above 0, which only an operator may give.", field="priority", value=priority, hint="0, or ask an operator"
        )


def to_job_spec(sent: Submission, wall_s: float, *, can_park: bool = False) -> JobSpec:
    """Return the job as the scheduler sees it, submitted at this wall-clock time. `can_park`: whether its driver can park it.
    Raise SpecError if the spec does not fit the folder, the environment or the time of its submission."""
    spec, saves = sent.spec, sent.spec.checkpoint.saves
    for name, value in spec.env.items():
        if value is None and name not in sent.env:
            raise SpecError("is not set where the job is submitted.", field=f"env.{name}", hint=f"{name}=VALUE, or set it there")
    if not Path(sent.folder).is_absolute():
        hint = "submit from a folder that exists"
        raise SpecError("must be an absolute path.", field="workdir", value=sent.folder, hint=hint)
    deadline_seconds = None if spec.deadline is None else spec.deadline.timestamp() - wall_s
    if deadline_seconds is not None and deadline_seconds <= 0:
        raise SpecError("is in the past.", field="deadline", hint="a date and a time to come, like 2030-12-01T09:00")
    return JobSpec(
        name=spec.name or "",
        gpus=spec.most_gpus,
        gpu_counts=spec.gpu_counts,
        batch_size=None if spec.batch is None else spec.batch.size,
        batch_sizes=spec.batch_sizes,
        steps=None if spec.steps is None else float(spec.steps),
        profile=spec.profile or None,
        accelerators=tuple(spec.accelerators),
        weight=spec.weight,
        deadline_seconds=deadline_seconds,
        priority=spec.priority,
        max_run_seconds=spec.max_run_time,
        tenant=spec.tenant or None,
        user=sent.user,
        can_resize=can_resize(spec),
        saves=saves if spec.preemptible is not False else False,
        preemptible=bool(spec.preemptible),
        can_park=can_park and spec.preemptible is not False,
        gpu_gib=spec.gpu_memory or None,
        retries=spec.retries,
    )
