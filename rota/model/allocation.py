"""A policy's answer: who deserves what. Positions count jobs in the order of the view that was asked about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rota.errors import OptionError
from rota.model.options import Options
from rota.model.units import FOREVER, Floats, Ints

NO_HINTS: Mapping[int, tuple[int, ...]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class AskedJobs:
    """The jobs that a question is about: what an answer is checked against."""

    kind: Ints
    """One entry per position."""
    options: Options
    gpu_pool: Ints
    """The pool of each GPU of the cluster."""

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ranking:
    """An order of jobs. Each runs by its best option that still has room, or by the one named."""

    order: Ints
    """Positions of jobs, the most deserving first; a job left out may not run."""
    option: Ints | None = None
    """The option each position wants; None: any of its kind."""
    blocking: bool = False
    """No job may overtake the first one that does not fit (strict FIFO)."""
    reserve: bool = False
    """Others may overtake the first that does not fit only if they do not delay it (backfill)."""
    preempt: bool = True
    """May take GPUs from a running job for a better one."""
    blind: bool = False
    """A job takes any type with room, not its fastest."""
    run_seconds: Floats | None = None
    """Per position: running this long changes its rank (a demotion timer)."""
    wait_seconds: Floats | None = None
    """Per position: waiting this long changes its rank (a promotion timer)."""
    until_s: float = FOREVER
    """The answer holds until this instant if nothing happens."""
    memory: Any = None
    """What the policy wants to see again: the next view has it as `memory`."""
    memory_can_wait: bool = False
    """While all jobs run, the policy need not be asked when one ends: its memory loses nothing by that."""
    key: str = "rank"
    """What the order goes by, in a word or two, for explanations."""
    is_permutation: bool = field(default=False, init=False, repr=False)
    """`by` or `permutation` made the order from all jobs, so that there is no need to check that it names each once."""

    @classmethod
    def by(cls, values: npt.ArrayLike, /, *, largest_first: bool = False, **options: Any) -> Self:
        """Order by a column, smallest first unless told; ties go to the earlier submission."""
        column = np.asarray(values)
        if column.ndim != 1 or column.dtype.kind not in "biuf":
            raise OptionError(
                "a ranking goes by one number per job.",
                field="Ranking.by",
                value=f"{column.dtype} of shape {column.shape}",
                hint="rota.Ranking.by(view.jobs.seconds_left)",
            )
        if largest_first:
            column = -column
        order = column.argsort(kind="stable")
        if len(order) and column[order[-1]] != column[order[-1]]:  # what is no number is sorted to the end
            raise OptionError("a rank is not a number.", field="Ranking.by", value="nan", hint="look for 0/0 or inf - inf")
        return cls.permutation(order, **options)

    @classmethod
    def permutation(cls, order: Ints, /, **options: Any) -> Self:
        """From an order that a sort of all jobs gave: `argsort`, `lexsort`."""
        made = cls(order=order, **options)
        object.__setattr__(made, "is_permutation", True)
        return made

    def fault(self, asked: AskedJobs) -> str:
        count = len(asked)
        if self.is_permutation and len(self.order) != count:
            return f"the order was made by {len(self.order)} ranks, but there are {count} jobs"
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
    """Why these are not different numbers from 0 to count - 1."""
    if not isinstance(order, np.ndarray) or order.dtype.kind not in "iu" or order.ndim != 1:
        return "is not an array of whole numbers"
    if not len(order):
        return ""
    if order.min() < 0 or order.max() >= count:
        return f"names something outside 0 to {count - 1}"
    seen = np.zeros(count, dtype=bool)
    seen[order] = True
    return "" if np.count_nonzero(seen) == len(order) else "names something twice"


def _not_numbers(column: Any, count: int, kinds: str) -> str:
    """Why this is not an array with a number of these kinds for each job."""
    if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in kinds:
        return f"is not an array of {'whole numbers' if kinds == 'iu' else 'numbers'}"
    return "" if len(column) == count else f"has {len(column)} entries, but there are {count} jobs"


def _not_timers(column: Any, count: int) -> str:
    problem = _not_numbers(column, count, "fiu")
    if problem or not count:
        return problem
    least = column.min()
    return "" if least == least else "has an entry that is not a number"


def _not_gpus(gpus: Any, option: int, asked: AskedJobs) -> str:
    """Why these are not GPUs that a job could have by this option."""
    if not isinstance(gpus, tuple | list) or not all(isinstance(gpu, int | np.integer) for gpu in gpus):
        return "are not a tuple of whole numbers"
    if len(set(gpus)) < len(gpus):
        return "name one twice"
    if gpus and not 0 <= min(gpus) <= max(gpus) < len(asked.gpu_pool):
        return f"name one outside 0 to {len(asked.gpu_pool) - 1}"
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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Shares:
    """A fraction of wall time for each option: of every job of its kind, or of the job named beside it.

    Jobs are picked by how far they are behind their shares (Gavel, section 5): share over time received, then what earlier shares
    still owe. GPUs that would idle go to jobs without a share."""

    option: Ints
    """Rows of the view's options."""
    share: Floats
    """Fraction of wall time, 0 to 1, that a job should spend on it."""
    position: Ints | None = None
    """The job each entry speaks of; None: every job of the option's kind."""
    blind: bool = False
    """The shares were made without a look at accelerator types, so no type is filled before another."""
    strict: bool = False
    """A job without a share does not run, even if GPUs idle."""
    prices: Floats | None = None
    """What a GPU of each pool is worth to the objective, where it was found out."""
    notes: dict[int, str] = field(default_factory=dict)
    """Position -> what its owner should know about this answer."""
    until_s: float = FOREVER
    """The answer holds until this instant if nothing happens."""
    memory: Any = None
    """What the policy wants to see again: the next view has it as `memory`."""
    key: str = "share"
    """What the shares go by, in a word or two, for explanations."""

    def fault(self, asked: AskedJobs) -> str:
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
            return f"the list of positions names something outside 0 to {len(asked) - 1}"
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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Assignment:
    """An option for each of some jobs, best first, with GPUs as a hint to the placer."""

    position: Ints
    """Positions of jobs in the view, best first."""
    option: Ints
    """The option of each: a row of the view's options."""
    gpus: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Position -> GPUs it should get, where the policy has a wish."""
    may_move: bool = False
    """Tactics may move its jobs to other GPUs than it names. The next view says where they are (`held`)."""
    until_s: float = FOREVER
    """The answer holds until this instant if nothing happens."""
    memory: Any = None
    """What the policy wants to see again: the next view has it as `memory`."""
    memory_in_snapshots: bool = False
    """It is large and may be a little old: journals leave it out, and only snapshots keep it."""
    key: str = "assignment"
    """What the choice goes by, in a word or two, for explanations."""

    def fault(self, asked: AskedJobs) -> str:
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
                return f"GPUs are asked for at position {position!r}, which has no option"
            if problem := _not_gpus(gpus, option_of[position], asked):
                return f"the GPUs asked for at position {position} {problem}"
        return ""

    @property
    def hints(self) -> Mapping[int, tuple[int, ...]]:
        return self.gpus

    @property
    def reusable(self) -> bool:
        return False


Allocation = Ranking | Shares | Assignment
"""What `Policy.allocate` returns. The mechanism is in `rota/core/plan`: these are values."""
