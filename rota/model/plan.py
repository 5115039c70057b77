"""A plan: who runs until the next decision, by which option, on which GPUs, and why the others do not."""

from dataclasses import dataclass

from rota.model.units import FOREVER, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One job's desired placement from now on. No GPUs: it should not run."""

    job: int
    option: int
    gpus: Ints | None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Only what differs from the plan before it."""

    changes: tuple[Change, ...]
    reason_jobs: Ints
    """Jobs whose reason changed."""
    reason_codes: Ints
    until_s: float = FOREVER
    """The plan holds until this instant if nothing happens."""
    granted: int = 0
    waiting: int = 0
