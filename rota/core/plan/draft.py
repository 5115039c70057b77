"""The draft of a plan: what a plan is made from, and what each step of the planner adds to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import Grants
from rota.core.plan.order import Candidates
from rota.core.plan.quotas import Limits
from rota.core.settings import Settings
from rota.core.state.records import NO_GPUS
from rota.core.state.state import State
from rota.core.state.windows import Access
from rota.errors import TacticError
from rota.model.allocation import Allocation
from rota.model.placement_view import PlacementView, Placer
from rota.model.trial import Trial
from rota.model.units import FOREVER, MILLI, Bools, Floats, Ints


@dataclass(eq=False)
class Places:
    """Grants, and the GPUs of gangs that waited for a place and found one."""

    grants: Grants
    gpus: dict[int, Ints] = field(default_factory=dict)
    """GPUs by position, of jobs that start."""
    fragmented: tuple[int, ...] = ()
    """Kinds of jobs for which enough GPUs are free, but not close together."""
    classes: dict[int, dict[int, int]] = field(default_factory=dict)
    """By position, if there are windows: the thousandths of GPUs that a job takes of each class."""
    leaves: set[int] = field(default_factory=set)
    """Positions of jobs that keep their option, and not their GPUs, because of windows."""


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
        assert state.cycle.answer is not None
        self.state = state
        self.settings = settings
        self.placer = placer
        self.allocation: Allocation = state.cycle.answer.allocation
        self.table = CandidateTable(state, rows, settings)
        self.alive = alive
        """Which jobs of the answer may be scheduled. None: all of them, and there are no others."""
        self.pinned = pinned
        """Which of the rest keep their GPUs, whatever the answer says. None: no job."""
        self.trials: list[Trial] = []
        """Trials that begin with this plan."""
        self.access = Access(state) if state.nodes.windows else None
        """Which GPUs each job may use; None if there are no reservations and no drains to come."""
        self.limits: Limits | None = None
        """What is left of the limits of groups of jobs; None if there are neither limits nor tenants."""
        self.owed: Ints = NO_GPUS
        """Positions of jobs that are within the guarantee of their tenant."""
        self.again_s = FOREVER
        """When to plan again though nothing happens."""

    @property
    def grants(self) -> Grants:
        """The option that each job is granted, and what is left of each pool."""
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

    def options_of(self, position: int) -> list[int]:
        """Options by which the job at a position may have whole GPUs to itself, fastest first."""
        options = self.table.options
        found = options.by_kind[self.table.kind.item(position)]
        found = found[found >= 0]
        alone = ~options.too_slow[found] & (options.partner_kind[found] < 0) & (options.milligpus[found] >= MILLI)
        found = found[alone]
        fastest_first: list[int] = found[np.argsort(-options.rate[found], kind="stable")].tolist()
        return fastest_first

    def within_limits(self, position: int, option: int) -> bool:
        """Whether no group of the job at a position would exceed its limit by this option."""
        if self.limits is None:
            return True
        needs, had = self.table.options.milligpus, self.grants.option.item(position)
        return self.limits.fits(self.job_at(position), needs.item(option), needs.item(had) if had >= 0 else 0)

    def has_room(self, option: int) -> bool:
        """Whether the pool of an option has enough GPUs that are not granted."""
        options = self.table.options
        return options.milligpus.item(option) <= self.grants.left.item(options.pool.item(option))

    def grant(self, position: int, option: int) -> None:
        """Grant GPUs to the job at a position, which waits."""
        grants, options, job = self.grants, self.table.options, self.job_at(position)
        if not self.waiting()[position]:
            raise TacticError(f"job {job} does not wait for GPUs.", hint="grant to positions of draft.waiting()")
        if option not in self.options_of(position):
            raise TacticError(f"job {job} can't run by option {option}.", hint="one of draft.options_of(position)")
        if not self.has_room(option):
            raise TacticError(f"the GPUs of option {option} of job {job} are granted already.", hint="draft.has_room(option)")
        if self.limits is not None and not self.within_limits(position, option):
            raise TacticError(f"job {job} would exceed a cap.", hint="draft.within_limits(position, option)")
        if self.limits is not None:
            self.limits.take(job, options.milligpus.item(option))
        grants.left[options.pool[option]] -= options.milligpus[option]
        grants.option[position] = option
        grants.position = np.append(grants.position, position)

    def colocate(self, runner: int, joiner: int, option: int) -> None:
        """Let the waiting job at `joiner` share the GPUs of the job at `runner`. `option`: the option of the joiner alone."""
        grants = self.grants
        if grants.partner is None:
            grants.partner = np.full(len(self.table), -1, dtype=np.int64)
        grants.partner[runner], grants.partner[joiner] = joiner, runner
        grants.option[joiner] = option
        grants.position = np.append(grants.position, joiner)

    def look_again(self, at_s: float) -> None:
        """Plan again at this time though nothing happens."""
        self.again_s = min(self.again_s, at_s)

    def placement_view(self, available: Bools) -> PlacementView:
        """What placers see when these GPUs are available."""
        state = self.state
        slow, exact = slowdowns(state)
        return PlacementView(
            state.nodes.cluster,
            available,
            state.nodes.observed.free,
            self.settings.seed,
            state.cycle.decision,
            slow,
            exact,
        )


def slowdowns(state: State) -> tuple[Floats | None, Floats | None]:
    """How slow each GPU is believed to be, in levels and exactly. None: GPUs of a type are alike."""
    known = state.beliefs.variability
    return (None, None) if known is None else (known.bins(), known.feared)


def released(state: State, jobs: list[int]) -> Bools:
    """GPUs that are free in the plan once these jobs give theirs up."""
    desired = state.jobs.desired
    return state.nodes.planned.free_without((job, desired[job]) for job in jobs if job in desired)
