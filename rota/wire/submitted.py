"""The record of a submitted job: made from a request, kept in the journal's file, and read to launch the job."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from rota.errors import JournalError


@dataclass(frozen=True, kw_only=True)
class SubmittedJob:
    """Everything that launching and showing a job needs. Homes store its JSON form, so a field is never renamed."""

    name: str
    """Name of the job; empty until the job has its number if it was submitted without a name."""
    user: str
    argv: tuple[str, ...]
    command: str
    """Command as tables show it, truncated if it is long."""
    workdir: str
    env: Mapping[str, str]
    """Variables of the job's spec. The driver adds its own."""
    gpus: float
    """Number of requested GPUs; the maximum for an elastic job."""
    gpu_counts: tuple[int, ...] = ()
    """Accepted GPU counts; empty if only `gpus` is accepted."""
    batch_size: int = 0
    """Requested batch size, in examples per step; 0 if the spec states none."""
    batch_sizes: tuple[int, ...] = ()
    """Accepted batch sizes; empty if only `batch_size` is accepted."""
    accelerators: tuple[str, ...]
    """Accepted accelerator types; empty if any is accepted."""
    steps: int | None
    profile: str
    progress: str | None
    """Pattern that finds the step in the output; None if the spec has none."""
    weight: float
    tenant: str
    deadline_at: float | None = None
    """Deadline as a Unix time; None if there is none."""
    retries: int
    grace_seconds: float
    """Time from SIGTERM to SIGKILL, in seconds."""
    checkpoint_dir: str
    saves: bool | None = True
    """Whether the job saves its state on SIGTERM; None if its spec states nothing."""
    preemptible: bool | None = None
    """Whether another job may get the GPUs; None if that depends on whether the job is known to save its state."""
    park: bool = True
    """Whether the job may be parked where possible."""
    gpu_gib: float = 0.0
    """Maximum memory on each GPU, in GiB; 0 if the spec states none."""
    idempotency_key: str = ""
    """Submission key of the client; empty if there is none. Submissions with the same key are the same job."""

    def to_plain(self) -> dict[str, Any]:
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()} | {
            "env": dict(self.env)
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "SubmittedJob":
        """Build from the fields that this version knows. Raise RotaError if a field without a default is missing."""
        known: dict[str, Any] = {field.name: plain[field.name] for field in fields(cls) if field.name in plain}
        try:
            return cls(**known | {name: tuple(value) for name, value in known.items() if isinstance(value, list)})
        except TypeError:
            missing = ", ".join(each.name for each in fields(cls) if each.name not in plain and each.default is MISSING)
            raise JournalError(
                f"The record of job {plain.get('name', '')!r} has no {missing}.",
                hint="use the Rota that wrote it, or another --home",
            ) from None
