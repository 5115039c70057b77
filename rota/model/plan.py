"""A plan: which jobs run until the next decision, with which options, and on which GPUs."""

from rota.model.trial import Trial
from rota.model.units import FOREVER, Ints
from rota.model.value import value


@value
class PlacementChange:
    """Desired placement of one job from now on. Without GPUs the job should not run."""

    job: int
    option: int
    gpus: Ints | None
    partner: int = -1
    """Job that shares the GPUs; -1 if none."""


@value
class Plan:
    """What changes from one plan to the next."""

    changes: tuple[PlacementChange, ...]
    until_s: float = FOREVER
    """Time until which the plan holds if nothing happens."""
    has_waiting_jobs: bool = False
    fragmented: tuple[int, ...] = ()
    """Kinds of jobs that wait for locality: enough GPUs are free, but not close together."""
    protects_unstarted: bool = False
    """Whether a job keeps its GPUs only because it has made no step since its start, while a job that ranks before it waits."""
    trials: tuple[Trial, ...] = ()
    """Trials that begin with this plan."""
    stable_until_change: bool = False
    """Whether all jobs run and none would change if another ended. The policy is then not called when a job ends."""
    moved: tuple[int, ...] = ()
    """Jobs that tactics move."""
    reclaimed: tuple[tuple[int, int], ...] = ()
    """Jobs that give up borrowed GPUs, each with a job that is within the guarantee of its tenant and starts."""
