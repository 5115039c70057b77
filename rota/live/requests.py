"""What becomes of a job spec: the record that is kept of it, and what the scheduler is asked for."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rota.agent.constants import URL_MARK
from rota.errors import SpecError
from rota.model.job import JobSpec
from rota.model.units import FOREVER
from rota.wire.spec import PROGRESS_BY_SESSION, Range, Spec
from rota.wire.submitted import SubmittedJob

LONGEST_COMMAND = 500


def submitted_job(spec: Spec, user: str, workdir: str, env: Mapping[str, str]) -> SubmittedJob:
    """Everything that launching and showing the job takes."""
    for name, value in spec.env.items():
        if value is None and name not in env:
            raise SpecError("is not set where the job is submitted.", field=f"env.{name}", hint=f"{name}=VALUE, or set it there")
    folder = Path(workdir, spec.workdir) if spec.workdir else Path(workdir)
    if not folder.is_absolute():
        raise SpecError("must be an absolute path.", field="workdir", value=str(folder), hint="submit from a folder that exists")
    text = spec.run if isinstance(spec.run, str) else " ".join(spec.run)
    return SubmittedJob(
        name=spec.name or "",
        user=user,
        argv=("bash", "-c", spec.run) if isinstance(spec.run, str) else tuple(spec.run),
        command=text if len(text) <= LONGEST_COMMAND else text[:LONGEST_COMMAND] + "…",
        workdir=str(folder),
        env={**env, **{name: str(value) for name, value in spec.env.items() if value is not None}},
        gpus=spec.gpus.max if isinstance(spec.gpus, Range) else spec.gpus,
        gpu_counts=spec.gpus.counts if isinstance(spec.gpus, Range) else (),
        batch_size=spec.batch.size if spec.batch is not None else 0,
        batch_sizes=spec.batch.sizes if spec.batch is not None else (),
        accelerators=tuple(spec.accelerators),
        steps=spec.steps,
        profile=spec.profile or "",
        progress=spec.progress,
        weight=spec.weight,
        tenant=spec.tenant or "",
        deadline_at=spec.deadline.timestamp() if spec.deadline is not None else None,
        retries=spec.retries,
        grace_seconds=spec.checkpoint.grace,
        checkpoint_dir=_checkpoint_place(folder, spec.checkpoint.dir or ""),
        saves=spec.checkpoint.known_to_save,
        preemptible=spec.preemptible,
        park=spec.park,
        gpu_gib=spec.gpu_memory or 0.0,
    )


def _checkpoint_place(folder: Path, said: str) -> str:
    """A folder below the working folder, or a URL as it is."""
    return said if URL_MARK in said else str(folder / said)


def asked_for(job: SubmittedJob) -> dict[str, Any]:
    """What was submitted, under the names that a spec has for it. Of variables only the names: values may be secrets."""
    return {
        "name": job.name,
        "run": job.argv[2] if job.argv[:2] == ("bash", "-c") and len(job.argv) == 3 else list(job.argv),
        "workdir": job.workdir,
        "gpus": {"min": min(job.gpu_counts), "max": max(job.gpu_counts)} if len(job.gpu_counts) > 1 else job.gpus,
        "batch": {"size": job.batch_size, "min": min(job.batch_sizes), "max": max(job.batch_sizes)} if job.batch_size else None,
        "accelerators": list(job.accelerators),
        "steps": job.steps,
        "progress": job.progress,
        "profile": job.profile or None,
        "weight": job.weight,
        "tenant": job.tenant or None,
        "deadline": _date_text(job.deadline_at),
        "retries": job.retries,
        "checkpoint": {"dir": job.checkpoint_dir, "grace": job.grace_seconds, "saves": job.saves},
        "park": job.park,
        "preemptible": job.preemptible,
        "gpu_memory": f"{job.gpu_gib:g} GiB" if job.gpu_gib else None,
        "env": sorted(job.env),
    }


def _date_text(at_s: float | None) -> str | None:
    """A deadline in UTC. Homes hold some that earlier versions took and that no date can say: these are seconds since 1970."""
    if at_s is None:
        return None
    try:
        return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at_s:.0f} seconds since 1970"


def can_resize(job: SubmittedJob) -> bool:
    """Return whether a job takes another size while it runs. A session of one process takes another batch size by itself; for
    other GPUs its processes are started again where they are."""
    return job.progress == PROGRESS_BY_SESSION and max(len(job.batch_sizes), len(job.gpu_counts)) > 1


def to_job_spec(job: SubmittedJob, wall_s: float, *, can_park: bool = False) -> JobSpec:
    """Return the job as the scheduler sees it, submitted at this wall-clock time. `can_park`: its driver can put it to sleep."""
    if job.deadline_at is not None and job.deadline_at <= wall_s:
        raise SpecError("is in the past.", field="deadline", hint="a date and a time to come, like 2030-12-01T09:00")
    return JobSpec(
        name=job.name,
        gpus=job.gpus,
        gpu_counts=job.gpu_counts,
        batch_size=job.batch_size,
        batch_sizes=job.batch_sizes,
        steps=float(job.steps) if job.steps is not None else float("inf"),
        profile=job.profile,
        accelerators=job.accelerators,
        weight=job.weight,
        deadline_seconds=job.deadline_at - wall_s if job.deadline_at is not None else FOREVER,
        tenant=job.tenant,
        user=job.user,
        can_resize=can_resize(job),
        saves=job.saves if job.preemptible is not False else False,
        preemptible=bool(job.preemptible),
        can_park=can_park and job.preemptible is not False,
        gpu_gib=job.gpu_gib,
        retries=job.retries,
    )
