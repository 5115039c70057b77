"""Allocations: what a policy decides that each job deserves. Positions number the jobs in the order of the view."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rota.errors import OptionError
from rota.model.options import Options
from rota.model.units import FOREVER, Floats, Ints
from rota.model.value import keyword_column_value, value

NO_HINTS: Mapping[int, tuple[int, ...]] = {}


@value
class CallJobs:
    """The jobs of a policy call, against which its answer is checked."""

    rows: Ints
    """Row of the job at each position."""
    kind_of_row: Ints
    options: Options
    gpu_pool: Ints
    """Pool of each GPU of the cluster."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def kind(self) -> Ints:
        """Kind of the job at each position."""
        return self.kind_of_row[self.rows]


@keyword_column_value
class Ranking:
    """An order of jobs. Each job runs with its best option that still fits, or with the named one."""

    order: Ints
    """Positions of jobs, most deserving first. Jobs that are left out may not run."""
    option: Ints | None = None
    """Option that each position should run with; None for any option of its kind."""
    blocking: bool = False
    """Whether no job may pass the first one that does not fit (strict FIFO)."""
    reserve: bool = False
    """Whether a job may pass the first one that does not fit only if it does not delay it (backfill)."""
    preempt: bool = True
    """Whether a job may take GPUs from a running job that ranks behind it."""
    type_agnostic: bool = False
    """Whether a job takes any accelerator type that has room, instead of its fastest."""
    run_seconds: Floats | None = None
    """Run time after which the rank of each position changes, in seconds (a demotion timer)."""
    wait_seconds: Floats | None = None
    """Waiting time after which the rank of each position changes, in seconds (a promotion timer)."""
    until_s: float = FOREVER
    """Time until which the allocation holds if nothing happens."""
    memory: Any = None
    """What the policy wants to remember. The next view returns it as `memory`."""
    memory_can_wait: bool = False
    """Whether the memory loses nothing if the policy is not called when a job ends while all jobs run."""
    key: str = "rank"
    """A word or two for explanations: what the jobs are ordered by."""
    is_permutation: bool = field(default=False, init=False, repr=False)
    """Whether `by` or `permutation` made the order from all jobs, so that it names each job once without a check."""

    @classmethod
    def by(cls, values: npt.ArrayLike, /, *, largest_first: bool = False, **options: Any) -> Self:
        """Order jobs by a column, smallest first by default. The earlier submission wins ties."""
        column = np.asarray(values)
        if column.ndim != 1 or column.dtype.kind not in "biuf":
            raise OptionError(
                "a ranking needs one number for each job.",
                field="Ranking.by",
                value=f"{column.dtype} of shape {column.shape}",
                hint="rota.Ranking.by(view.jobs.seconds_left)",
            )
        if largest_first:
            column = -column
        order = column.argsort(kind="stable")
        last = column[order[-1]] if len(order) else 0
        if last != last:  # NaN is sorted to the end
            raise OptionError("a rank is not a number.", field="Ranking.by", value="nan", hint="look for 0/0 or inf - inf")
        return cls.permutation(order, **options)

    @classmethod
    def permutation(cls, order: Ints, /, **options: Any) -> Self:
        """Build a ranking from a permutation of all jobs, such as the result of `argsort` or `lexsort`."""
        made = cls(order=order, **options)
        object.__setattr__(made, "is_permutation", True)
        return made

    def fault(self, asked: CallJobs) -> str:
        count = len(asked)
        if self.is_permutation and len(self.order) != count:
            return f"the order was made from {len(self.order)} ranks, but there are {count} jobs"
        if not self.is_permutation and (problem := _not_positions(self.order, count)):
            return f"the order {problem}"
        for name, column in (("run_seconds", self.run_seconds), ("wait_seconds", self.wait_seconds)):
            if column is not None and (problem := _not_timers(column, count)):
                return f"{name} {problem}"
        if self.option is None:
            return ""
        if problem := _not_numbers(self.option, count, "iu"):
            return f"option {problem}"
        return _not_options(self.option[self.order], asked.kind[self.order], asked.options)

    @property
    def hints(self) -> Mapping[int, tuple[int, ...]]:
        return NO_HINTS

    @property
    def reusable(self) -> bool:
        return False


def _not_positions(order: Any, count: int) -> str:
    """Return what is wrong with these positions: they must be different numbers from 0 to count - 1."""
    if not isinstance(order, np.ndarray) or order.dtype.kind not in "iu" or order.ndim != 1:
        return "is not an array of whole numbers"
    if not len(order):
        return ""
    if order.min() < 0 or order.max() >= count:
        return f"contains a number outside 0 to {count - 1}"
    seen = np.zeros(count, dtype=bool)
    seen[order] = True
    return "" if np.count_nonzero(seen) == len(order) else "contains a number twice"


def _not_numbers(column: Any, count: int, kinds: str) -> str:
    """Return what is wrong with an array that must have a number of these NumPy kinds for each job."""
    if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in kinds:
        return f"is not an array of {'whole numbers' if kinds == 'iu' else 'numbers'}"
    return "" if len(column) == count else f"has {len(column)} entries, but there are {count} jobs"


def _not_timers(column: Any, count: int) -> str:
    problem = _not_numbers(column, count, "fiu")
    if problem or not count:
        return problem
    least = column.min()
    return "" if least == least else "has an entry that is not a number"


def _not_gpus(gpus: Any, option: int, asked: CallJobs) -> str:
    """Return what is wrong with these GPUs for a job that runs with this option."""
    if not isinstance(gpus, tuple | list) or not all(isinstance(gpu, int | np.integer) for gpu in gpus):
        return "are not a tuple of whole numbers"
    if len(set(gpus)) < len(gpus):
        return "contain a GPU twice"
    if gpus and not 0 <= min(gpus) <= max(gpus) < len(asked.gpu_pool):
        return f"contain a number outside 0 to {len(asked.gpu_pool) - 1}"
    need = int(asked.options.gpus[option])
    if len(gpus) != need:
        return f"are {len(gpus)}, but its option has {need}"
    return "" if (asked.gpu_pool[list(gpus)] == asked.options.pool[option]).all() else "are not of its option's accelerator type"


def _not_options(option: Ints, kind: Ints, options: Options) -> str:
    if not len(option):
        return ""
    if option.min() < 0 or option.max() >= len(options):
        return "an option does not exist"
    return "" if (options.kind[option] == kind).all() else "an option belongs to jobs of another kind"


@keyword_column_value
class Shares:
    """A fraction of time for each option, either of each job of its kind or of one job.

    The planner picks jobs by how far they are behind their shares (Gavel, section 5): share over time received, and then the
    deficit from earlier shares. GPUs that would idle go to jobs without a share.
    """

    option: Ints
    """Rows of the view's options."""
    share: Floats
    """Fraction of time, 0 to 1, that a job should spend with each option."""
    position: Ints | None = None
    """Position of the job that each entry is for; None for every job of the option's kind."""
    type_agnostic: bool = False
    """Whether the shares ignore accelerator types, so that no type is filled before another."""
    strict: bool = False
    """Whether jobs without a share do not run, even if GPUs idle."""
    prices: Floats | None = None
    """Value of a GPU of each pool to the objective; None if unknown."""
    notes: dict[int, str] = field(default_factory=dict)
    """Notes for the owners of jobs, by position."""
    until_s: float = FOREVER
    """Time until which the allocation holds if nothing happens."""
    memory: Any = None
    """What the policy wants to remember. The next view returns it as `memory`."""
    key: str = "share"
    """A word or two for explanations: what the shares are."""

    def fault(self, asked: CallJobs) -> str:
        for name, column, kinds in (("option", self.option, "iu"), ("share", self.share, "f"), ("position", self.position, "iu")):
            if column is None and name == "position":
                continue
            if not isinstance(column, np.ndarray) or column.dtype.kind not in kinds or column.ndim != 1:
                return f"{name} is not an array of {'numbers' if kinds == 'f' else 'whole numbers'}"
        if len(self.option) != len(self.share):
            return "option and share differ in length"
        share = self.share
        if not ((share >= 0) & (share <= 1 + 1e-6)).all():
            return "a share is not between 0 and 1"
        if self.position is None:
            problem = _not_positions(self.option, len(asked.options))
            return f"the list of options {problem}" if problem else ""
        if len(self.position) != len(self.option):
            return "position and option differ in length"
        if len(self.position) and (self.position.min() < 0 or self.position.max() >= len(asked)):
            return f"the list of positions contains a number outside 0 to {len(asked) - 1}"
        if problem := _not_options(self.option, asked.kind[self.position], asked.options):
            return problem
        cell = self.position * len(asked.options) + self.option
        return "a job has two shares of one option" if len(np.unique(cell)) < len(cell) else ""

    @property
    def hints(self) -> Mapping[int, tuple[int, ...]]:
        return NO_HINTS

    @property
    def reusable(self) -> bool:
        return True


@keyword_column_value
class Assignment:
    """An option for each of some jobs, best first. It may suggest GPUs to the placer."""

    position: Ints
    """Positions of jobs in the view, best first."""
    option: Ints
    """Row of the view's options for each of the positions."""
    gpus: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """GPUs that the job at a position should get."""
    may_move: bool = False
    """Whether tactics may move jobs to GPUs other than those in `gpus`. `View.placements` has the GPUs of each job."""
    until_s: float = FOREVER
    """Time until which the allocation holds if nothing happens."""
    memory: Any = None
    """What the policy wants to remember. The next view returns it as `memory`."""
    memory_in_snapshots: bool = False
    """Whether the memory is large and may be a little old. Journals then leave it out, and only snapshots keep it."""
    key: str = "assignment"
    """A word or two for explanations: what the choice is made by."""

    def fault(self, asked: CallJobs) -> str:
        if problem := _not_positions(self.position, len(asked)):
            return f"the list of positions {problem}"
        if problem := _not_numbers(self.option, len(self.position), "iu"):
            return f"option {problem}"
        if problem := _not_options(self.option, asked.kind[self.position], asked.options):
            return problem
        if not isinstance(self.gpus, dict):
            return "gpus is not a dict of positions and GPUs"
        option_of = dict(zip(self.position.tolist(), self.option.tolist(), strict=True)) if self.gpus else {}
        for position, gpus in self.gpus.items():
            if position not in option_of:
                return f"GPUs are suggested at position {position!r}, which has no option"
            if problem := _not_gpus(gpus, option_of[position], asked):
                return f"the GPUs suggested at position {position} {problem}"
        return ""

    @property
    def hints(self) -> Mapping[int, tuple[int, ...]]:
        return self.gpus

    @property
    def reusable(self) -> bool:
        return False


Allocation = Ranking | Shares | Assignment
"""What `Policy.allocate` returns. The planner in `rota/core/plan` carries it out."""
