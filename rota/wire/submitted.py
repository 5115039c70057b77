"""What was submitted, as one typed record: made from a request, kept in the journal's file, read by whatever launches the job."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from rota.errors import JournalError


@dataclass(frozen=True, kw_only=True)
class SubmittedJob:
    """Everything that launching and showing a job takes. Its plain form is JSON, and homes hold it: a field is never renamed."""

    name: str
    """Empty until the job has its number, if it was submitted without a name."""
    user: str
    argv: tuple[str, ...]
    command: str
    """The command as people see it, cut short if it is long."""
    workdir: str
    env: Mapping[str, str]
    """The job's own variables. A driver adds those it sets."""
    gpus: float
    """What it asks for; of a job that may be resized, the most."""
    gpu_counts: tuple[int, ...] = ()
    """All GPU counts it accepts; empty: only that."""
    batch_size: int = 0
    """Examples per step that it asks for; 0: it did not say."""
    batch_sizes: tuple[int, ...] = ()
    """All batch sizes it accepts; empty: only that."""
    accelerators: tuple[str, ...]
    """Types it accepts; empty: any."""
    steps: int | None
    profile: str
    progress: str | None
    """A pattern on its output that finds the step."""
    weight: float
    tenant: str
    deadline_at: float | None = None
    """Unix time."""
    retries: int
    grace_seconds: float
    """Between SIGTERM and SIGKILL."""
    checkpoint_dir: str
    saves: bool | None = True
    """It saves its state when it is told to stop; None: its spec does not say."""
    preemptible: bool | None = None
    """Whether another job may have its GPUs; None: if it is known to save its state."""
    park: bool = True
    """It may be parked, where that can be."""
    gpu_gib: float = 0.0
    """The most memory it takes on each of its GPUs; 0: it did not say."""
    idempotency_key: str = ""
    """The client's key: a submission with the same key is the same job. Empty: there is none."""

    def to_plain(self) -> dict[str, Any]:
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()} | {
            "env": dict(self.env)
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "SubmittedJob":
        """Of the fields that this version knows; a field that is missing and has no default is an error."""
        known: dict[str, Any] = {field.name: plain[field.name] for field in fields(cls) if field.name in plain}
        try:
            return cls(**known | {name: tuple(value) for name, value in known.items() if isinstance(value, list)})
        except TypeError:
            missing = ", ".join(each.name for each in fields(cls) if each.name not in plain and each.default is MISSING)
            raise JournalError(
                f"The record of job {plain.get('name', '')!r} has no {missing}.",
                hint="use the Rota that wrote it, or another --home",
            ) from None
