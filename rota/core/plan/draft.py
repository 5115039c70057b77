"""The draft of a plan: what a plan is made from, and what each step of the planner adds to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import Grants
from rota.core.plan.order import Candidates
from rota.core.settings import Settings
from rota.core.state.state import State
from rota.model.allocation import Allocation
from rota.model.placement_view import PlacementView, Placer
from rota.model.units import Bools, Floats, Ints


@dataclass(eq=False)
class Places:
    """Grants, and the GPUs of gangs that waited for a place and found one."""

    grants: Grants
    gpus: dict[int, Ints] = field(default_factory=dict)
    """GPUs by position, of jobs that start."""
    fragmented: tuple[int, ...] = ()
    """Kinds of jobs for which enough GPUs are free, but not close together."""


class Draft:
    """One pass of the planner. A step reads what the steps before it wrote, and the state, which no step changes."""

    candidates: Candidates
    """(position, option) pairs, best first."""
    capacity: Ints
    """GPUs of each pool for these jobs."""
    places: Places

    def __init__(
        self,
        state: State,
        settings: Settings,
        placer: Placer,
        rows: Ints,
        alive: Bools | None = None,
        pinned: Bools | None = None,
    ) -> None:
        assert state.question.answer is not None
        self.state = state
        self.settings = settings
        self.placer = placer
        self.allocation: Allocation = state.question.answer.allocation
        self.table = CandidateTable(state, rows, settings)
        self.alive = alive
        """Which jobs of the answer may be scheduled. None: all of them, and there are no others."""
        self.pinned = pinned
        """Which of the rest keep their GPUs, whatever the answer says. None: no job."""

    @property
    def grants(self) -> Grants:
        return self.places.grants

    @property
    def hints(self) -> Mapping[int, tuple[int, ...]]:
        """GPUs that the policy suggests, by position."""
        return self.allocation.hints

    def waiting(self) -> Bools:
        """Positions that may be scheduled and have no grant."""
        waits = self.grants.option < 0
        if self.alive is not None:
            waits &= self.alive
        return waits

    def job_at(self, position: int) -> int:
        """The number of the job at a position."""
        return self.state.jobs.table.id.item(self.table.rows[position])

    def placement_view(self, available: Bools) -> PlacementView:
        """What placers see when these GPUs are available."""
        state = self.state
        slow, exact = slowdowns(state)
        return PlacementView(
            state.machines.cluster,
            available,
            state.machines.observed.free,
            self.settings.seed,
            state.question.decision,
            slow,
            exact,
        )


def slowdowns(state: State) -> tuple[Floats | None, Floats | None]:
    """How slow each GPU is believed to be, in levels and exactly. None: GPUs of a type are alike."""
    known = state.knowledge.variability
    return (None, None) if known is None else (known.bins(), known.feared)


def released(state: State, jobs: list[int]) -> Bools:
    """GPUs that are free in the plan once these jobs give theirs up."""
    desired = state.jobs.desired
    return state.machines.planned.free_without((job, desired[job]) for job in jobs if job in desired)
