"""A plan: who runs until the next decision, by which option, and on which GPUs."""

from rota.model.trial import Trial
from rota.model.units import FOREVER, Ints
from rota.model.value import value


@value
class PlacementChange:
    """One job's desired placement from now on. No GPUs: it should not run."""

    job: int
    option: int
    gpus: Ints | None
    partner: int = -1
    """The job it shares them with; -1: nobody."""


@value
class Plan:
    """Only what differs from the plan before it."""

    changes: tuple[PlacementChange, ...]
    until_s: float = FOREVER
    """The plan holds until this instant if nothing happens."""
    somebody_waits: bool = False
    fragmented: tuple[int, ...] = ()
    """Kinds of jobs that GPUs enough are free for, but not close together: they wait for that."""
    overtaking: bool = False
    """A job keeps its GPUs only because it has made no step since it was started, while one that ranks before it waits."""
    trials: tuple[Trial, ...] = ()
    """What is tried from now on."""
    all_go_on: bool = False
    """All jobs run, and each goes on as it does when another ends. So the policy need not be asked then."""
    moved: tuple[int, ...] = ()
    """Jobs that tactics move."""
