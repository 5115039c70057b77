"""What becomes of a job spec: what the history keeps of it, and what the scheduler is asked for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.errors import SpecError
from rota.model.job import JobSpec
from rota.model.units import FOREVER
from rota.wire.spec import Range, Spec

PLANNED = ("batch", "after", "max_run_time", "notify")
"""Fields of the public contract whose part has not arrived: refused by name, never ignored."""


def keep(spec: Spec, user: str, workdir: str, env: Mapping[str, str], home: Path) -> dict[str, Any]:
    """Everything that launching and showing the job takes, as plain data."""
    for name in PLANNED:
        if getattr(spec, name):
            raise SpecError("is planned and not in this version yet.", field=name, hint=f"leave {name} out")
    if isinstance(spec.gpus, Range):
        raise SpecError("resizing is planned and not in this version yet.", field="gpus", hint=f"gpus: {spec.gpus.max}")
    folder = Path(workdir, spec.workdir) if spec.workdir else Path(workdir)
    if not folder.is_absolute():
        raise SpecError("must be an absolute path.", field="workdir", value=str(folder), hint="submit from a folder that exists")
    text = spec.run if isinstance(spec.run, str) else " ".join(spec.run)
    return {
        "name": spec.name or "",
        "user": user,
        "argv": ["bash", "-c", spec.run] if isinstance(spec.run, str) else list(spec.run),
        "command": text if len(text) <= 500 else text[:500] + "…",
        "workdir": str(folder),
        "env": {**env, **{name: str(value) for name, value in spec.env.items()}},
        "gpus": spec.gpus,
        "accelerators": list(spec.accelerators),
        "steps": spec.steps,
        "profile": spec.profile or "",
        "progress": spec.progress,
        "weight": spec.weight,
        "tenant": spec.tenant or "",
        "deadline_at": spec.deadline.timestamp() if spec.deadline is not None else None,
        "retries": spec.retries,
        "grace_seconds": spec.checkpoint.grace,
        "checkpoint_dir": str(folder / spec.checkpoint.dir) if spec.checkpoint.dir else str(folder),
    }


def ask_for(kept: Mapping[str, Any], wall_s: float) -> JobSpec:
    """The same as the scheduler sees it, submitted at this wall-clock time."""
    deadline_at = kept.get("deadline_at")
    if deadline_at is not None and deadline_at <= wall_s:
        raise SpecError("is in the past.", field="deadline", hint="a date and a time to come, like 2030-12-01T09:00")
    return JobSpec(
        name=kept["name"],
        gpus=kept["gpus"],
        steps=float(kept["steps"]) if kept["steps"] is not None else float("inf"),
        profile=kept["profile"],
        accelerators=tuple(kept["accelerators"]),
        weight=kept["weight"],
        deadline_seconds=deadline_at - wall_s if deadline_at is not None else FOREVER,
        tenant=kept["tenant"],
        user=kept["user"],
        retries=kept["retries"],
    )
