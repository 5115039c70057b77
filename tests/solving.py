"""Questions to policies, and the slow plain way to answer them: every pair of jobs a column of its own, in dense programs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from rota.beliefs.rates import Rates
from rota.compose.registry import make_policy
from rota.core.plan.candidate_table import CandidateTable
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.state.accounts import time_shares
from rota.model.cluster import Cluster, Node
from rota.model.events import Submitted
from rota.model.job import JobSpec
from rota.model.units import MILLI
from rota.model.view import View
from rota.placers.packed import Packed
from rota.solver.effect import Effect

TYPES = ("V100", "P100", "K80")
Floats = npt.NDArray[np.float64]
Both = tuple[tuple[float, float], ...]


class Question:
    """Jobs on some GPUs as a scheduler shows them to a policy. `rates` says what a profile does on each type; a job is a profile,
    or what a JobSpec takes and `age`. `usable` may be less than what the cluster has: the rest is out of order."""

    def __init__(
        self,
        counts: Sequence[int],
        rates: Mapping[str, Sequence[float]],
        jobs: Sequence[str | dict[str, Any]],
        *,
        pairs: Mapping[tuple[str, str], Both] | None = None,
        prices: Sequence[float] | None = None,
        usable: Sequence[int] | None = None,
        widths: Sequence[int] = (1, 2, 3, 4, 8),
    ) -> None:
        self.specs = [{"profile": job} if isinstance(job, str) else dict(job) for job in jobs]
        self.types = [name for name, number in zip(TYPES, counts, strict=False) if number]
        column = [TYPES.index(name) for name in self.types]
        table = {(p, TYPES[t], g): float(r[t]) for p, r in rates.items() for t in column for g in widths}
        both = {(*names, TYPES[t], g): known[t] for names, known in (pairs or {}).items() for t in column for g in widths}
        facts = {"dollars_per_hour": dict(zip(TYPES, prices, strict=True))} if prices else {}
        cluster = Cluster.of([Node(TYPES[t], TYPES[t], counts[t]) for t in column], **facts)
        self.rates = Rates(table=table, pairs=both)
        self.core = Scheduler(cluster, Packed(), Settings(colocation=bool(pairs)), rates=self.rates)
        ages = [float(spec.pop("age", 0.0)) for spec in self.specs]
        now = max(ages, default=0.0)
        made = [JobSpec(**{"steps": 1e6, **spec}) for spec in self.specs]
        # A view is in order of submission: so that jobs keep their numbers, they must be given oldest first.
        assert ages == sorted(ages, reverse=True)
        self.core.fold(now, [Submitted(i, spec, now - age) for i, (spec, age) in enumerate(zip(made, ages, strict=True))])
        self.usable = None if usable is None else np.array([usable[t] for t in column])

    def view(self, memory: Any = None) -> View:
        view = self.core.view()
        capacity = view.capacity if self.usable is None else self.usable
        return replace(view, memory=memory, capacity=capacity)

    @property
    def table(self) -> CandidateTable:
        return CandidateTable(self.core.state, self.core.state.jobs.rows, self.core.settings)

    def ask(self, policy: Any, memory: Any = None) -> tuple[Any, Effect]:
        """The answer, which must be sound, and what it comes to."""
        view = self.view(memory)
        answer = make_policy(policy).allocate(view)
        assert answer.fault(self.table) == ""
        share: Any = time_shares(answer, self.table.options, self.table.kind)
        return answer, Effect(view, share)

    def plain(self, colocation: bool = False) -> "Plain":
        return Plain(self.view(), colocation)


class Plain:
    """All units of a view, each a column: a job on a type, or two jobs together on one."""

    def __init__(self, view: View, colocation: bool = False) -> None:
        options, kind = view.options, view.jobs.kind.tolist()
        self.view, self.count = view, len(kind)
        units: list[tuple[tuple[int, ...], int, float, tuple[float, ...]]] = []
        for row in range(len(options)):
            mine, pool, beside, twin = (
                int(c[row]) for c in (options.kind, options.pool, options.partner_kind, options.partner_row)
            )
            gpus = int(options.milligpus[row]) / MILLI
            if gpus > view.capacity[pool]:
                continue
            members = [job for job in range(self.count) if kind[job] == mine]
            if beside < 0:
                units += [((job,), pool, gpus, (float(options.rate[row]),)) for job in members]
            elif colocation and row <= twin:
                rates = (float(options.rate[row]), float(options.rate[twin]))
                others = [job for job in range(self.count) if kind[job] == beside]
                pairs = {(a, b) if mine != beside else (min(a, b), max(a, b)) for a in members for b in others if a != b}
                units += [(pair, pool, gpus, rates) for pair in sorted(pairs)]
        self.units = units
        pools = len(view.capacity)
        self.rate = np.zeros((self.count, len(units)))
        self.time = np.zeros((self.count, len(units)))
        self.gpus = np.zeros((pools, len(units)))
        for column, (jobs, pool, gpus, rates) in enumerate(units):
            self.time[list(jobs), column] = 1.0
            self.rate[list(jobs), column] = rates
            self.gpus[pool, column] = gpus
        self.runs = [job for job in range(self.count) if self.rate[job].any()]

    @property
    def limits(self) -> tuple[Floats, Floats]:
        return np.vstack((self.time, self.gpus)), np.concatenate((np.ones(self.count), self.view.capacity.astype(float)))

    def best(self, cost: Floats, more: Floats | None = None, right: Floats | None = None) -> tuple[float, Floats] | None:
        """The most of cost @ x, with further rows that may not be above `right`; None: no solution."""
        matrix, limit = self.limits
        if more is not None:
            assert right is not None
            matrix, limit = np.vstack((matrix, more)), np.concatenate((limit, right))
        found = linprog(-cost, A_ub=matrix, b_ub=limit, method="highs")
        return (-float(found.fun), found.x) if found.status == 0 else None

    def raised(self, vector: Floats, floor: Floats | None = None, weight: Floats | None = None) -> float | None:
        """The largest t so that each entry of vector @ x reaches its floor plus t times its weight."""
        rows, columns = vector.shape
        floor = np.zeros(rows) if floor is None else floor
        weight = np.ones(rows) if weight is None else weight
        matrix, limit = self.limits
        wide = np.hstack((matrix, np.zeros((len(matrix), 1))))
        tied = np.hstack((-vector, weight[:, None]))
        cost = np.append(np.zeros(columns), -1.0)
        bounds = [(0, None)] * columns + [(None, None)]
        found = linprog(cost, A_ub=np.vstack((wide, tied)), b_ub=np.concatenate((limit, -floor)), bounds=bounds, method="highs")
        return float(found.x[-1]) if found.status == 0 else None

    def most_of(self, vector: Floats, entry: int, floor: Floats) -> float:
        """How far one entry can go while all keep their floors."""
        found = self.best(vector[entry], -vector, -floor)
        assert found is not None
        return found[0]

    def filled(self, vector: Floats, weigh: Any) -> Floats:
        """Lexicographic max-min, the slow way: raise all, and test one by one who cannot be raised further."""
        count = len(vector)
        level, free = np.zeros(count), np.ones(count, dtype=bool)
        while free.any():
            weight = np.where(free, weigh(free), 0.0)
            active = free & (weight > 0)
            if not active.any():
                break
            t = self.raised(vector, level * (1 - 1e-9), weight)
            assert t is not None
            level = level + np.where(active, max(t, 0.0) * weight, 0.0)
            stuck = [i for i in np.flatnonzero(active) if self.most_of(vector, i, level * (1 - 1e-9)) <= level[i] + 1e-6]
            assert stuck
            free[stuck] = False
        return level

    def usual(self) -> Floats:
        """Rate of each job on a GPU of average type, 0 where it cannot run."""
        capacity = self.view.capacity
        alone = [len(unit[0]) == 1 for unit in self.units]
        part = np.array([capacity[unit[1]] / max(capacity.sum(), 1) for unit in self.units])
        return np.asarray((self.rate * part * alone).sum(axis=1))

    def level(self) -> Floats:
        """Rows of normalised throughput, of the jobs that can run."""
        return np.asarray((self.rate * (self.view.jobs.gpus / np.maximum(self.usual(), 1e-300))[:, None])[self.runs])


def norm(effect: Effect) -> Floats:
    """Throughput over that of an average GPU, times GPUs: what max-min is about. Of jobs that can run."""
    runs = effect.average_type_rate > 0
    return np.asarray((effect.rate * effect.view.jobs.gpus)[runs] / effect.average_type_rate[runs])


def assert_feasible(effect: Effect, tolerance: float = 1e-5) -> None:
    """Nobody has more than all of the time, no pool more work than GPUs, and both sides of a shared option have equal time."""
    view, share = effect.view, effect.share
    options, kind = view.options, view.jobs.kind
    assert (share >= 0).all() and (share.sum(axis=1) <= 1 + tolerance).all()
    rows = options.by_share_column[kind]
    job, account = ((rows >= 0) & (share > 0)).nonzero()
    row = rows[job, account]
    half = np.where(options.partner_kind[row] >= 0, 0.5, 1.0)
    used = np.bincount(
        options.pool[row], weights=share[job, account] * options.milligpus[row] / MILLI * half, minlength=len(view.capacity)
    )
    assert (used <= view.capacity + tolerance * np.maximum(view.capacity, 1)).all()
    time = np.bincount(row, weights=share[job, account], minlength=len(options))
    for here, there in enumerate(options.partner_row.tolist()):
        if there >= 0 and there != here:
            assert time[here] == time[there] or abs(time[here] - time[there]) <= tolerance * max(len(kind), 1)
        if there == here:
            most = share[kind == options.kind[here], options.share_column[here]].max(initial=0.0)
            assert most <= time[here] - most + tolerance, "nobody shares with itself"


def random_question(seed: int, *, colocation: bool = False, weights: bool = False, gangs: bool = True, most: int = 7) -> Question:
    """A few jobs of a few profiles on a few types; some profiles do not run on some types."""
    rng = np.random.default_rng(seed)
    profiles = "abcd"[: int(rng.integers(1, 4))]
    rates = {
        p: [float(r) for r in rng.choice([0.0, 1.0], p=[0.15, 0.85], size=3) * rng.uniform(0.3, 5.0, size=3)] for p in profiles
    }
    for p in profiles:
        rates[p][0] = rates[p][0] or 1.5  # everybody runs somewhere
    counts = rng.integers(1, 4, size=3).tolist()
    widths = [1, 1, 2] if gangs else [1]
    counts[0] = max(counts[0], max(widths))
    jobs = [
        {
            "profile": str(rng.choice(list(profiles))),
            "gpus": int(rng.choice(widths)),
            "weight": float(rng.choice([1.0, 2.0, 0.5])) if weights else 1.0,
            "steps": float(np.round(rng.uniform(100, 5000))),
        }
        for _ in range(int(rng.integers(1, most + 1)))
    ]
    pairs = None
    if colocation:
        pairs = {}
        for i, a in enumerate(profiles):
            for b in profiles[i:]:
                part = rng.uniform(0.35, 1.0, size=(3, 2))
                if a == b:
                    part[:, 1] = part[:, 0]
                pairs[a, b] = tuple((float(rates[a][t] * part[t, 0]), float(rates[b][t] * part[t, 1])) for t in range(3))
    return Question(counts, rates, jobs, pairs=pairs)
