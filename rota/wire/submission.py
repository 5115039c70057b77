"""A submission: a spec with its user, working directory and environment. Homes store it as it was submitted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rota.errors import ConflictError, ForbiddenError, InputError, JournalError, OptionError, RotaError, SpecError
from rota.wire.spec import Spec, decode_spec, encode_spec, latest_deadline
from rota.wire.task_array import ArrayTask

URL_MARK = "://"
"""Part of a place for checkpoints that is the URL of a store, and not a folder."""
MAX_COMMAND_CHARS = 500


@dataclass(frozen=True)
class Submission:
    """A spec, and what comes with it."""

    spec: Spec
    user: str
    workdir: str
    env: Mapping[str, str]
    """Variables of the submitting process for the job."""
    idempotency_key: str | None = None
    """Key chosen by the client; None if there is none. Submissions of a user with the same key are the same job."""
    uid: int | None = None
    """Unix user as whom the job runs; None for the scheduler's own. The scheduler sets this, and never the client."""
    task: ArrayTask | None = None
    """Task of an array that the job is; None if it is none."""
    tenant_by_membership: bool = False
    """Whether the spec as submitted names no tenant, and the user's membership gave it the one that it has."""

    @property
    def folder(self) -> str:
        """Working directory of the job."""
        return str(Path(self.workdir, self.spec.workdir or ""))

    @property
    def argv(self) -> tuple[str, ...]:
        return ("bash", "-c", self.spec.run) if isinstance(self.spec.run, str) else tuple(self.spec.run)

    @property
    def command(self) -> str:
        """Command as tables show it, shortened if it is long."""
        text = self.spec.run if isinstance(self.spec.run, str) else " ".join(self.spec.run)
        return text if len(text) <= MAX_COMMAND_CHARS else text[:MAX_COMMAND_CHARS] + "…"

    @property
    def variables(self) -> dict[str, str]:
        """Environment of the job, without the variables that the driver adds."""
        return {**self.env, **{name: str(value) for name, value in self.spec.env.items() if value is not None}}

    @property
    def checkpoint_dir(self) -> str:
        """Folder below the working directory, or a URL as it is."""
        place = self.spec.checkpoint.dir or ""
        return place if URL_MARK in place else str(Path(self.folder, place))


def encode_submission(sent: Submission) -> dict[str, Any]:
    """Return a submission as homes store it."""
    own: dict[str, Any] = {} if sent.uid is None else {"uid": sent.uid}
    if sent.task is not None:
        own["task"] = asdict(sent.task)
    if sent.tenant_by_membership:
        own["tenant_by_membership"] = True
    return {
        "spec": encode_spec(sent.spec),
        "user": sent.user,
        "workdir": sent.workdir,
        "env": dict(sent.env),
        "idempotency_key": sent.idempotency_key,
        **own,
    }


def decode_submission(plain: Mapping[str, Any]) -> Submission:
    """Return a submission from a home, also from a home of version 0.1. A field of a later version is ignored. Raise JournalError
    if a field is missing."""
    try:
        spec = decode_spec(plain["spec"] if "spec" in plain else _spec_of_0_1(plain))
        key = plain.get("idempotency_key") or None
        task = None if plain.get("task") is None else ArrayTask(**plain["task"])
        by_membership = bool(plain.get("tenant_by_membership", False))
        return Submission(spec, plain["user"], plain["workdir"], plain["env"], key, plain.get("uid"), task, by_membership)
    except KeyError as missing:
        hint = "use the Rota that wrote it, or another --home"
        name = plain.get("spec", plain).get("name", "")
        raise JournalError(f"The record of job {name!r} has no {missing.args[0]}.", hint=hint) from None


def _spec_of_0_1(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec in a record of version 0.1, which has the values that were derived from it. There 0 and an empty text stand
    for values that the spec does not state."""
    argv, counts, sizes = plain["argv"], plain.get("gpu_counts") or [], plain.get("batch_sizes") or []
    batch = {"size": plain["batch_size"]} if plain.get("batch_size") else None
    place, deadline_at = plain["checkpoint_dir"], plain.get("deadline_at")
    if URL_MARK not in place:
        place = None if place == plain["workdir"] else str(Path(place).relative_to(plain["workdir"]))
    return {
        "run": argv[2] if argv[:2] == ["bash", "-c"] and len(argv) == 3 else argv,
        "name": plain["name"] or None,
        "gpus": {"min": min(counts), "max": max(counts)} if len(counts) > 1 else plain["gpus"],
        "accelerators": plain["accelerators"],
        "steps": plain["steps"],
        "progress": plain["progress"],
        "checkpoint": {"dir": place, "grace": plain["grace_seconds"], "saves": plain.get("saves", True)},
        "park": plain.get("park", True),
        "preemptible": plain.get("preemptible"),
        "gpu_memory": plain.get("gpu_gib") or None,
        "profile": plain["profile"] or None,
        "weight": plain["weight"],
        "tenant": plain["tenant"] or None,
        "deadline": None if deadline_at is None else latest_deadline(deadline_at).isoformat(),
        "batch": batch and {**batch, "min": min(sizes, default=None), "max": max(sizes, default=None)},
        "retries": plain["retries"],
    }


@contextmanager
def naming(index: int) -> Iterator[None]:
    """Add the index of a job, counted from 0, to errors about one of several jobs."""
    try:
        yield
    except InputError as error:
        kind = next((each for each in (SpecError, OptionError, ConflictError) if isinstance(error, each)), InputError)
        again = kind(f"jobs[{index}]  {error.message} None of the jobs was taken.", hint=error.hint)
        again.field = ".".join(part for part in ("jobs", str(index), error.field) if part)
        raise again from None
    except RotaError as error:
        same = ForbiddenError if isinstance(error, ForbiddenError) else RotaError
        raise same(f"jobs[{index}]  {error.message}", hint=error.hint) from None
