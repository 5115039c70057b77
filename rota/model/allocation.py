"""A policy's answer: who deserves what. Positions count jobs in the order of the view that was asked about."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from rota.errors import OptionError
from rota.model.options import MUCH_SLOWER, Options
from rota.model.units import FOREVER, Bools, Floats, Ints

T = TypeVar("T")

NO_HINTS: Mapping[int, tuple[int, ...]] = {}


class Candidacy(Protocol):
    """What the mechanism knows of the jobs of an answer, one entry per position, when it asks for candidates."""

    def __len__(self) -> int: ...
    @property
    def kind(self) -> Ints: ...
    @property
    def running(self) -> Bools:
        """Its processes are known to run."""
        ...

    @property
    def granted_option(self) -> Ints:
        """The option each job was last granted, -1: none."""
        ...

    @property
    def options(self) -> Options: ...
    @property
    def gpu_pool(self) -> Ints:
        """The pool of each GPU of the cluster."""
        ...

    @property
    def move_seconds(self) -> Floats:
        """The price of moving: what stopping here and starting elsewhere would cost each job."""
        ...

    @property
    def seconds_left(self) -> Floats: ...
    @property
    def received_seconds(self) -> Floats:
        """Time each job got by each option of its kind since the shares in force were answered: shape (jobs, accounts)."""
        ...

    @property
    def had_seconds(self) -> Floats:
        """The same, less what earlier shares still owe."""
        ...

    @property
    def deficit_seconds(self) -> Floats:
        """Time each job was owed, by account, when they were answered: what earlier shares promised less what it got."""
        ...

    @property
    def slice_seconds(self) -> float:
        """How long those who are drawn run before others are."""
        ...

    def memoised(self, owner: object, make: "Callable[[Any], T]") -> "T":
        """What `make` answers for this table, made once as long as the answer and the options are the same."""
        ...

    @property
    def slice_left_seconds(self) -> Floats:
        """How long each job that was drawn may still run undisturbed."""
        ...

    def pool_order(self, blind: bool) -> Ints:
        """Rank of each pool in the order they are filled: fastest type first, or in a random order, new each time."""
        ...

    @property
    def types_stay(self) -> bool:
        """Where all have GPUs, an answer that is blind to types moves no job from one to another."""
        ...

    @property
    def upgrades(self) -> bool:
        """A job that nobody may suspend may still move where it is faster."""
        ...

    @property
    def horizon_seconds(self) -> float:
        """Over how long a move must pay for itself."""
        ...


@dataclass(slots=True, eq=False)
class Candidates:
    """(position, option) pairs in the order they are tried; a job stands in it once per option it may run by.

    Where an option shares GPUs, a unit is complete when both its sides have had their turn."""

    position: Ints
    option: Ints | None
    """None: each job stands there once and wants the best option of its kind."""
    blocking: bool = False
    """Nobody may overtake the first job that fits nowhere."""
    reserve: bool = False
    """Others may overtake the first that fits nowhere only if they do not delay it."""


class Allocation(Protocol):
    """What `Policy.allocate` returns: a Ranking, Shares or an Assignment."""

    @property
    def until_s(self) -> float:
        """The answer holds until this instant if nothing happens."""
        ...

    @property
    def memory(self) -> Any:
        """Comes back with the next view: a frozen dataclass of arrays keyed by job id, or None."""
        ...

    @property
    def key(self) -> str:
        """What it goes by, in a word or two, for explanations."""
        ...

    def fault(self, table: Candidacy) -> str:
        """What is wrong with it for these jobs; empty: nothing."""
        ...

    def candidates(self, table: Candidacy) -> Candidates:
        """Who may run by which option, best first."""
        ...

    def holds_seconds(self, granted: Bools, table: Candidacy) -> float:
        """How long the answer holds, given who may run. A job that is still starting neither runs nor waits."""
        ...

    def start_holds_seconds(self, position: int) -> float:
        """How long it holds from the moment this job runs."""
        ...

    def shares(self, table: Candidacy) -> Floats | None:
        """Fraction of time per job and account, where the allocation speaks of time; None where it does not."""
        ...

    @property
    def hints(self) -> Mapping[int, tuple[int, ...]]:
        """Position -> GPUs that the policy would like a job to get."""
        ...

    @property
    def reusable(self) -> bool:
        """When a plan made from it ends, the next can be drawn from it too: nobody need ask again."""
        ...


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

    def fault(self, table: Candidacy) -> str:
        count = len(table)
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
        return _not_options(self.option[self.order], table.kind[self.order], table.options)

    def candidates(self, table: Candidacy) -> Candidates:
        order = self.order
        if not self.preempt:
            runs = table.granted_option[order] >= 0
            order = np.concatenate((order[runs], order[~runs]))
        by_kind = table.options.by_kind
        option = None
        if self.option is not None:
            option = self.option[order]
        elif by_kind.shape[1] > 1:
            order, option = _best_options_first(order, table, self.preempt or table.upgrades, self.blind)
        return Candidates(order, option, self.blocking, self.reserve)

    def holds_seconds(self, granted: Bools, table: Candidacy) -> float:
        held = FOREVER
        if granted.all():
            return held  # while everybody runs, no change of rank changes anything
        if self.run_seconds is not None:
            held = float(self.run_seconds[granted & table.running].min(initial=held))
        if self.wait_seconds is not None:
            held = float(self.wait_seconds[~granted].min(initial=held))
        return held

    def start_holds_seconds(self, position: int) -> float:
        return FOREVER if self.run_seconds is None else float(self.run_seconds[position])

    def shares(self, table: Candidacy) -> Floats | None:
        return None

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


def _not_gpus(gpus: Any, option: int, table: Candidacy) -> str:
    """Why these are not GPUs that a job could have by this option."""
    if not isinstance(gpus, tuple | list) or not all(isinstance(gpu, int | np.integer) for gpu in gpus):
        return "are not a tuple of whole numbers"
    if len(set(gpus)) < len(gpus):
        return "name one twice"
    if gpus and not 0 <= min(gpus) <= max(gpus) < len(table.gpu_pool):
        return f"name one outside 0 to {len(table.gpu_pool) - 1}"
    need = int(table.options.gpus[option])
    if len(gpus) != need:
        return f"are {len(gpus)}, but its option has {need}"
    return "" if (table.gpu_pool[list(gpus)] == table.options.pool[option]).all() else "are not of its option's accelerator type"


def _not_options(option: Ints, kind: Ints, options: Options) -> str:
    if not len(option):
        return ""
    if option.min() < 0 or option.max() >= len(options):
        return "an option does not exist"
    return "" if (options.kind[option] == kind).all() else "an option belongs to jobs of another kind"


def _best_options_first(order: Ints, table: Candidacy, may_move: bool, blind: bool) -> tuple[Ints, Ints]:
    """Each job's options by the steps they bring over the horizon, the price of moving paid first. Blind: in any order of types,
    and a job that runs stays, unless it hardly does."""
    options = table.options.by_kind[table.kind[order]]
    exists = options >= 0
    rate = table.options.rate[options]
    if blind:
        rate = 1.0 + table.pool_order(blind=True)[table.options.pool[options]].astype(np.float64)
        may_move = False
    held = table.granted_option[order][:, None]
    elsewhere = (held >= 0) & (options != held)
    if may_move:
        # A job believed to be done may still run: it must stay worth more where it is than after a move it cannot pay for.
        span = np.clip(table.seconds_left[order], 1e-6, table.horizon_seconds)[:, None]
        paid = np.maximum(span - table.move_seconds[order][:, None], 0.0)
        score = rate * np.where(elsewhere, paid, span * (1 + 1e-9 * (held >= 0)))
    else:
        score = np.where(elsewhere, -1.0, rate)
    if table.options.uneven:
        fastest = table.options.rate[options[:, :1]]  # the first of a kind is its best
        stuck = (held >= 0) & (table.options.rate[held] * MUCH_SLOWER < fastest)
        score = np.where(stuck & elsewhere, rate, score)
        score[table.options.rate[options] * MUCH_SLOWER < fastest] = -1.0
    score[~exists] = -1.0
    best = np.argsort(-score, axis=1, kind="stable")
    flat = np.take_along_axis(options, best, axis=1).ravel()
    usable = np.take_along_axis(score, best, axis=1).ravel() >= 0
    return np.repeat(order, options.shape[1])[usable], flat[usable]


NEXT_TO_NOTHING = 1e-6
"""What an interior point leaves where there should be nothing."""

MICRO = 1e6
"""Microseconds in a second."""

TIME_SHARED = 1e-3
"""A share this small is not worth a move of its own."""


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

    def fault(self, table: Candidacy) -> str:
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
            problem = _not_positions(self.option, len(table.options))
            return f"the list of options {problem}" if problem else ""
        if len(self.position) != len(self.option):
            return "position and option differ in length"
        if len(self.position) and (self.position.min() < 0 or self.position.max() >= len(table)):
            return f"the list of positions names something outside 0 to {len(table) - 1}"
        if problem := _not_options(self.option, table.kind[self.position], table.options):
            return problem
        cell = self.position * table.options.accounts + table.options.account[self.option]
        return "a job has two shares of one option" if len(np.unique(cell)) < len(cell) else ""

    def candidates(self, table: Candidacy) -> Candidates:
        position, account, option, share, pool = table.memoised(self, self._ways)
        half = table.slice_seconds / 2 * MICRO
        # In microseconds: what was booked in pieces must not come before what was booked at once.
        had = np.rint(table.had_seconds[position, account] * MICRO)
        priority = share / np.maximum(had + half, half / 50)
        deficit = np.rint(table.deficit_seconds[position, account] * MICRO)
        # Whoever was drawn runs its slice to the end, however soon new shares come.
        mine = table.granted_option[position] == option
        done = ~mine | (table.slice_left_seconds[position] <= 1e-6)
        if self.blind and table.types_stay and (table.granted_option >= 0).all():
            done = ~mine  # all run, and to the policy another type would be no better
        order = np.lexsort((-share, -deficit, -priority, table.pool_order(self.blind)[pool], done))
        return Candidates(position[order], option[order])

    def _ways(self, table: Candidacy) -> tuple[Ints, Ints, Ints, Floats, Ints]:
        """Who may run by what, with which share and where: the same at every draw."""
        options, share = table.options, self.shares(table)
        rows = options.by_account[table.kind]
        some = share > (NEXT_TO_NOTHING if self.strict else 0.0)
        worth = (rows >= 0) & (options.rate[rows] * MUCH_SLOWER >= options.rate[options.best[table.kind]][:, None])
        alone = worth & (options.partner_kind[rows] < 0)
        may = (worth & some) | (alone if not self.strict else np.False_)
        # A job whose shares are all where it hardly gets further runs elsewhere.
        may |= alone & (some & (rows >= 0)).any(axis=1, keepdims=True) & ~may.any(axis=1, keepdims=True)
        position, account = may.nonzero()
        option = rows[position, account]
        return position, account, option, share[position, account], options.pool[option]

    def holds_seconds(self, granted: Bools, table: Candidacy) -> float:
        if not granted.all():
            return table.slice_seconds
        ways = (self.shares(table) > TIME_SHARED).sum(axis=1)
        return table.slice_seconds if (ways > 1).any() else FOREVER  # all run, but some should now and then run elsewhere

    def start_holds_seconds(self, position: int) -> float:
        return FOREVER

    def shares(self, table: Candidacy) -> Floats:
        options = table.options
        if self.position is None:
            by_option = np.zeros(len(options) + 1)  # the last stands for accounts without an option
            by_option[self.option] = self.share
            return by_option[options.by_account[table.kind]]
        share = np.zeros((len(table), options.accounts))
        share[self.position, options.account[self.option]] = self.share
        return share

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
    until_s: float = FOREVER
    """The answer holds until this instant if nothing happens."""
    memory: Any = None
    """What the policy wants to see again: the next view has it as `memory`."""
    key: str = "assignment"
    """What the choice goes by, in a word or two, for explanations."""

    def fault(self, table: Candidacy) -> str:
        if problem := _not_positions(self.position, len(table)):
            return f"the list of positions {problem}"
        if problem := _not_numbers(self.option, len(self.position), "iu"):
            return f"option {problem}"
        if problem := _not_options(self.option, table.kind[self.position], table.options):
            return problem
        if not isinstance(self.gpus, dict):
            return "gpus is not a dict of positions and GPUs"
        option_of = dict(zip(self.position.tolist(), self.option.tolist(), strict=True)) if self.gpus else {}
        for position, gpus in self.gpus.items():
            if position not in option_of:
                return f"GPUs are asked for at position {position!r}, which has no option"
            if problem := _not_gpus(gpus, option_of[position], table):
                return f"the GPUs asked for at position {position} {problem}"
        return ""

    def candidates(self, table: Candidacy) -> Candidates:
        return Candidates(self.position, self.option)

    def holds_seconds(self, granted: Bools, table: Candidacy) -> float:
        return FOREVER

    def start_holds_seconds(self, position: int) -> float:
        return FOREVER

    def shares(self, table: Candidacy) -> Floats | None:
        return None

    @property
    def hints(self) -> Mapping[int, tuple[int, ...]]:
        return self.gpus

    @property
    def reusable(self) -> bool:
        return False
