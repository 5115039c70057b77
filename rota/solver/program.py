"""Programs: what to maximise, under which constraints, over the shares of time of each option.

    program = Program(view)                                     # one claimant per kind of job
    program.maximise(least(program.rate / program.average_type_rate))
    return program.solve().shares()

Vectors such as `program.rate` have one entry per claimant and are linear in the shares. They support `+ - * /` with numbers and
arrays, `.sum()`, `@`, `<=` and `>=`.
"""

from typing import Any

import numpy as np

from rota.errors import OptionError
from rota.model.allocation import Shares
from rota.model.lazy import lazy
from rota.model.options import Options
from rota.model.units import MILLI, Floats, Ints
from rota.model.view import View
from rota.solver.claimants import Claimants
from rota.solver.linear import Extreme, Limit, Linear, stacked
from rota.solver.lp import FACES, LOOSE, TIGHT, Lp, Optimum, centre, solved
from rota.solver.sizes import efficient, measured_by, steadied

FACE_SLACK = 1e-7
"""Relative amount of one objective that is given up for the next: the precision of an interior point."""


def _type_agnostic_rates(options: Options) -> Floats:
    """Return rates that ignore accelerator types: each option is as fast as the fastest of the same kind and size. Sharing GPUs
    keeps its cost."""
    best = options.rate[np.maximum(options.best, 0)][options.kind] if len(options) else options.rate
    if options.elastic:
        size = np.unique(np.stack((options.kind, options.milligpus, options.batch_size)), axis=1, return_inverse=True)[1]
        fastest = np.zeros(int(size.max()) + 1)
        np.maximum.at(fastest, size, np.where(options.partner_kind < 0, options.rate, 0.0))
        best = fastest[size]
    alone = np.where(options.alone >= 0, options.rate[options.alone], options.rate) if len(options) else options.rate
    return np.where(options.partner_kind >= 0, best * options.rate / alone, best)


class Program:
    """An optimisation problem over the shares of time that a view's jobs spend with their options.

    With `by_job=True` every job is a claimant. Otherwise jobs of one kind (and one weight, unless `by_weight=False`; and one
    number of `apart`, given per job) are one claimant and get equal shares, which is exact if the objective reads nothing else
    about them. With `type_aware=False` all options of a size are equally fast. With `packing=True` options that share GPUs are
    included.
    """

    def __init__(
        self,
        view: View,
        *,
        by_job: bool = False,
        by_weight: bool = True,
        apart: Ints | None = None,
        type_aware: bool = True,
        colocation: bool = False,
    ) -> None:
        self.view, self.type_aware = view, type_aware
        self.packs = colocation
        self.who = Claimants(view, by_job, by_weight, apart)
        options = view.options
        self._speed = options.rate if type_aware else _type_agnostic_rates(options)
        self._columns(colocation and options.has_colocated)
        self._limits: list[Limit] = []
        self._goals: list[tuple[float, Linear | Extreme]] = []

    # The shares ------------------------------------------------------------------------------------------------------

    def _columns(self, colocation: bool) -> None:
        """Make one column per claimant and usable option. If two claimants can only share with each other, both sides of the
        option are one column. Otherwise the sides are separate columns, and balance rows keep their numbers equal."""
        who, options = self.who, self.view.options
        rows = options.of_kind[who.kind]
        use = (rows >= 0) & who.runnable[rows] & ((options.partner_kind[rows] < 0) | colocation)
        if options.elastic:
            use &= np.isin(rows, efficient(options)) | options.default_size[rows]
        claimant, account = use.nonzero()
        option = rows[claimant, account]
        scale = np.ones(len(option))
        column = np.arange(len(option))
        self._loose: list[tuple[Ints, Ints]] = []
        if colocation:
            claimant, option, scale, column = self._pair_up(claimant, option)
        self.claimant, self.option, self._scale, self._column = claimant, option, scale, column
        self.columns = int(column.max()) + 1 if len(column) else 0

    def _pair_up(self, claimant: Ints, option: Ints) -> tuple[Ints, Ints, Floats, Ints]:
        who, options = self.who, self.view.options
        kind_members = np.bincount(who.kind, weights=who.members, minlength=len(options.by_kind))
        kind_claimants = np.bincount(who.kind, minlength=len(options.by_kind))
        twin, beside = options.partner_row[option], options.partner_kind[option]
        shared = twin >= 0
        # No job shares with itself, or with a kind that has no jobs here.
        possible = ~shared | ((kind_members[beside] > 0) & ((beside != options.kind[option]) | (kind_members[beside] > 1)))
        claimant, option = claimant[possible], option[possible]
        twin, beside, shared = twin[possible], beside[possible], shared[possible]
        one_each = shared & (kind_claimants[beside] == 1) & (kind_claimants[options.kind[option]] == 1) & (twin != option)
        second = one_each & (option > twin)
        column = np.zeros(len(option), dtype=np.int64)
        column[~second] = np.arange(int((~second).sum()))
        scale = np.ones(len(option))
        side_of = np.full(len(options), -1, dtype=np.int64)
        side_of[option] = np.arange(len(option))
        first_side = side_of[twin[second]]
        column[second] = column[first_side]
        scale[second] = who.members[claimant[first_side]] / who.members[claimant[second]]
        loose = np.flatnonzero(shared & ~one_each)
        for row in np.unique(np.minimum(option[loose], twin[loose])).tolist():
            other = int(options.partner_row[row])
            if other != row:
                self._loose.append((loose[option[loose] == row], loose[option[loose] == other]))
            else:
                self._loose.append((loose[option[loose] == row], loose[:0]))
        return claimant, option, scale, column

    def _linear(self, rows: Ints, values: Floats, count: int) -> Linear:
        """Return a vector from entries per side."""
        return Linear(rows, self._column, values * self._scale, np.zeros(count))

    # What objectives are made of ---------------------------------------------------------------------------------------

    @lazy
    def time(self) -> Linear:
        """Fraction of time that each claimant's jobs run, with any option."""
        return self._linear(self.claimant, np.ones(len(self.option)), self.who.count)

    @lazy
    def rate(self) -> Linear:
        """Effective throughput: steps per second of each job of a claimant, over all its time (Gavel, section 3.1)."""
        return self._linear(self.claimant, self._speed[self.option], self.who.count)

    @lazy
    def gpus_used(self) -> Linear:
        """Average number of GPUs of each pool in use."""
        options = self.view.options
        values = self.who.members[self.claimant] * options.milligpus[self.option] / MILLI * self._half
        return self._linear(options.pool[self.option], values, len(self.view.capacity))

    @lazy
    def dollars_per_hour(self) -> Linear:
        """Cost of all jobs of each claimant, in dollars per hour."""
        return self._linear(self.claimant, self.who.members[self.claimant] * self._dollars * self._half, self.who.count)

    @lazy
    def rate_per_dollar(self) -> Linear:
        """Steps per second divided by the price of the GPUs per hour, for each option. If two jobs share the GPUs, both count."""
        return self._linear(self.claimant, self._speed[self.option] / self._dollars, self.who.count)

    @lazy
    def _half(self) -> Floats:
        """Fraction of an option's GPUs that counts for one side: half of shared GPUs."""
        return np.where(self.view.options.partner_kind[self.option] >= 0, 0.5, 1.0)

    @property
    def _dollars(self) -> Floats:
        options = self.view.options
        price = np.array([self.view.cluster.price(pool) or 1.0 for pool in self.view.cluster.pools])
        return price[options.pool[self.option]] * options.milligpus[self.option] / MILLI

    @property
    def members(self) -> Floats:
        """Number of jobs of each claimant."""
        return self.who.members

    @property
    def weight(self) -> Floats:
        """Weight of each job of a claimant."""
        return self.who.weight

    @property
    def gpus(self) -> Floats:
        """Requested GPUs of each job of a claimant."""
        return self.who.gpus

    def of(self, column: Any) -> Floats:
        """Return a column of the view's jobs with one value per claimant."""
        return np.asarray(column, dtype=float)[self.who.first]

    @lazy
    def average_type_rate(self) -> Floats:
        """Steps per second at the requested size on a GPU of average type: the unit in which rates are compared (Gavel's
        normaliser)."""
        alone = measured_by(self.view.options, self.claimant, self.option)
        capacity = self.view.capacity.astype(float)
        share = capacity[self.view.options.pool[self.option]] / max(capacity.sum(), 1.0)
        rates = self._speed[self.option] * share * alone
        return np.bincount(self.claimant, weights=rates, minlength=self.who.count).astype(float)

    @lazy
    def best_rate(self) -> Floats:
        """Steps per second with the fastest option."""
        best = np.zeros(self.who.count)
        np.maximum.at(best, self.claimant, self._speed[self.option])
        return best

    @lazy
    def equal_rate(self) -> Floats:
        """Steps per second at the requested size with an exclusive equal part of every pool: the baseline of finish-time
        fairness."""
        capacity = self.view.capacity.astype(float)
        jobs = max(float(self.who.members.sum()), 1.0)
        alone = np.flatnonzero(measured_by(self.view.options, self.claimant, self.option))
        claimant, option = self.claimant[alone], self.option[alone]
        part = capacity[self.view.options.pool[option]] / jobs / self.who.gpus[claimant]
        # All types of the cluster count, even unusable ones: a private part of the cluster includes them too.
        whole = capacity.sum() / jobs / self.who.gpus
        rate: Floats = np.bincount(claimant, weights=part * self._speed[option], minlength=self.who.count) / np.maximum(
            whole, 1.0
        )
        return rate

    # Saying what is wanted -----------------------------------------------------------------------------------------------

    def maximise(self, goal: "Linear | Extreme") -> None:
        """State the objective. Each further call chooses among the solutions that are best so far."""
        self._add(-1.0, goal, not (isinstance(goal, Extreme) and goal.largest), "least(...)")

    def minimise(self, goal: "Linear | Extreme") -> None:
        """State an objective to be minimised. Each further call chooses among the solutions that are best so far."""
        self._add(1.0, goal, not (isinstance(goal, Extreme) and not goal.largest), "greatest(...)")

    def _add(self, sign: float, goal: "Linear | Extreme", fits: bool, instead: str) -> None:
        if isinstance(goal, Linear) and len(goal) != 1:
            raise OptionError(
                "an objective must be one number.", field="goal", value=f"a vector of {len(goal)}", hint=f".sum(), or {instead}"
            )
        if not fits:
            raise OptionError("has no optimum this way round.", field="goal", value=type(goal).__name__, hint=instead)
        self._goals.append((sign, goal))

    def subject_to(self, *limits: Limit) -> None:
        """Add constraints, such as `program.dollars_per_hour.sum() <= 10`."""
        self._limits.extend(limits)

    def solve(self, face: str = "centre") -> "Solution":
        """Return the best shares, from the centre of the optimal face or a `vertex` of it. Raise SolverError if there are
        none."""
        found = self.try_solve(face)
        if found is None:
            solved(None, "the stated objective and constraints")
        assert found is not None
        return found

    def try_solve(self, face: str = "centre") -> "Solution | None":
        """Return the best shares, or None if the constraints contradict each other."""
        if face not in FACES:
            raise OptionError(f"not one of {', '.join(FACES)}.", field="face", value=face, hint="face=centre")
        if not self.columns:
            return Solution(self, np.empty(0), 0.0, np.zeros(len(self.view.capacity)), ())
        limits, first, answer = list(self._limits), None, None
        for number, (sign, goal) in enumerate(self._goals or [(1.0, self.time.sum() * 0.0)]):
            lp = self._lp(sign, goal, limits)
            last = number == max(len(self._goals), 1) - 1
            found = (FACES[face] if last else centre)(lp, LOOSE if number else TIGHT)
            if found is None:
                return answer
            value = self._value(goal, found.x[: self.columns])
            answer = self._solution(found, value if first is None else first[0], first)
            first = first or (value, answer)
            slack = FACE_SLACK * max(abs(value), 1e-9)
            vector = goal.of if isinstance(goal, Extreme) else goal
            limits.append(vector >= value - slack if sign < 0 else vector <= value + slack)
        return answer

    def _value(self, goal: "Linear | Extreme", x: Floats) -> float:
        if isinstance(goal, Linear):
            return float(goal.at(x)[0])
        entries = goal.of.at(x)
        return float(entries.max() if goal.largest else entries.min()) if len(entries) else 0.0

    def _solution(self, found: Optimum, value: float, first: "tuple[float, Solution] | None") -> "Solution":
        """Build a solution. Prices are those of the first objective, since later ones only choose among its solutions."""
        x = found.x[: self.columns]
        if first is not None:
            return Solution(self, x, value, first[1].prices, first[1].limit_duals)
        pools = len(self.view.capacity)
        start = self.who.count
        prices = found.below_duals[start : start + pools]
        after, duals = start + pools + len(self._ties[1]), []
        for limit in self._limits:
            duals.append(found.below_duals[after : after + len(limit.over)])
            after += len(limit.over)
        return Solution(self, x, value, prices, tuple(duals), found.below_duals[:start], found.below_duals[after:])

    def rows(self, limits: "list[Limit]", *more: Linear) -> tuple[Ints, Ints, Floats, Floats, int]:
        """Return triplets, the right side, and the number of rows that must be equal. Rows are: balance (equal), time, capacity,
        no job shares with itself, limits, and further vectors that must be at most 0."""
        balance, alone = self._ties
        parts = [balance, self.time - 1.0, self.gpus_used - self.view.capacity.astype(float), alone]
        parts += [limit.over for limit in limits]
        parts += more
        start = np.cumsum([0, *(len(part) for part in parts)])
        row = np.concatenate([part.row + first for part, first in zip(parts, start.tolist(), strict=False)])
        column = np.concatenate([part.column for part in parts])
        value = np.concatenate([part.value for part in parts])
        return row, column, value, -np.concatenate([part.offset for part in parts]), len(balance)

    def _lp(self, sign: float, goal: "Linear | Extreme", limits: "list[Limit]") -> Lp:
        if isinstance(goal, Linear):
            cost: Floats = sign * np.bincount(goal.column, weights=goal.value, minlength=self.columns).astype(np.float64)
            row, column, value, right, equal = self.rows(limits)
            return Lp(cost, row, column, value, right, equal)
        # Maximise t with t <= every entry, or minimise t with every entry <= t: one more column.
        row, column, value, right, equal = self.rows(limits, goal.of * sign)
        count = len(goal.of)
        row = np.concatenate((row, np.arange(len(right) - count, len(right))))
        column = np.concatenate((column, np.full(count, self.columns)))
        value = np.concatenate((value, np.full(count, -sign)))
        cost = np.zeros(self.columns + 1)
        cost[-1] = sign
        return Lp(cost, row, column, value, right, equal, free=1)

    @lazy
    def _ties(self) -> tuple[Linear, Linear]:
        """Both sides of a shared option have equally many jobs, and the only job of its kind cannot share with itself."""
        none = np.empty(0, dtype=np.int64)
        balance, alone = Linear(none, none, np.empty(0), np.empty(0)), Linear(none, none, np.empty(0), np.empty(0))
        for here, there in self._loose:
            if len(there):
                sides = np.concatenate((here, there))
                sign = np.concatenate((np.ones(len(here)), -np.ones(len(there))))
                balance = stacked(balance, self._jobs_on(sides, sign))
                continue
            for side in here[self.who.members[self.claimant[here]] == 1].tolist():
                alone = stacked(alone, self._jobs_on(here, np.where(here == side, 1.0, -1.0)))
        return balance, alone

    def _jobs_on(self, sides: Ints, sign: Floats) -> Linear:
        """Return a vector with one entry: the number of jobs with these sides, each with a sign."""
        value = sign * self.who.members[self.claimant[sides]] * self._scale[sides]
        return Linear(np.zeros(len(sides), dtype=np.int64), self._column[sides], value, np.zeros(1))


class Solution:
    """Best shares, and their value."""

    def __init__(
        self,
        program: Program,
        x: Floats,
        value: float,
        prices: Floats,
        limit_duals: tuple[Floats, ...] = (),
        time_duals: Floats | None = None,
        goal_duals: Floats | None = None,
    ) -> None:
        self.program, self.x, self.value = program, x, value
        self.prices = prices
        """Value of a GPU of each pool to the first objective. If one more GPU would add less than one fewer would cost, it lies
        between the two."""
        self.limit_duals, self.time_duals, self.goal_duals = limit_duals, time_duals, goal_duals

    @property
    def rate(self) -> Floats:
        """Effective throughput of each claimant's jobs."""
        return self.program.rate.at(self.x)

    @property
    def by_side(self) -> Floats:
        """Share of time per claimant and option, in the program's order of sides."""
        program = self.program
        return np.clip(self.x[program._column] * program._scale, 0.0, 1.0)

    def shares(self, **answer: Any) -> Shares:
        """Return the allocation that a policy returns."""
        program, share = self.program, self.by_side
        if program.view.options.elastic:
            share = steadied(program.view.options, program.claimant, program.option, share)
        common: dict[str, Any] = {"type_agnostic": not program.type_aware, "prices": self.prices, **answer}
        if program.who.by_kind:
            return Shares(option=program.option, share=share, **common)
        sides = np.bincount(program.claimant, minlength=program.who.count)
        order = np.argsort(program.claimant, kind="stable")
        start = np.concatenate(([0], np.cumsum(sides)))[:-1]
        of = program.who.of
        repeat = sides[of]
        position = np.repeat(program.who.position, repeat)
        offset = np.arange(len(position)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
        side = order[np.repeat(start[of], repeat) + offset]
        return Shares(option=program.option[side], share=share[side], position=position, **common)
