"""The view: what a policy may see. Read-only columns, gathered from the job table when first asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rota.model.cluster import Cluster
from rota.model.lazy import lazy
from rota.model.length_prediction import LengthPredictions
from rota.model.options import Options
from rota.model.units import MILLI, Bools, Floats, Ints


class JobColumns(Protocol):
    """The job table as the view reads it. Progress columns hold as of `as_of_s`; rates are beliefs."""

    id: Ints
    kind: Ints
    gpus: Floats
    weight: Floats
    submitted_s: Floats
    first_run_s: Floats
    as_of_s: Floats
    run_seconds: Floats
    attained: Floats
    steps_total: Floats
    steps_done: Floats
    rate: Floats
    using: Floats
    option: Ints
    partner: Ints
    best_rate: Floats
    nominal_rate: Floats
    move_seconds: Floats
    can_park: Bools
    pinned_s: Floats
    park_seconds: Floats
    resume_seconds: Floats
    tenant: Ints
    deadline_s: Floats


class Jobs:
    """Columns over the jobs a policy may schedule, earliest submission first."""

    def __init__(self, table: JobColumns, rows: Ints, now_s: float, options: Options) -> None:
        self._table = table
        self._rows = rows
        self._now_s = now_s
        self._options = options

    def __len__(self) -> int:
        return len(self._rows)

    @lazy
    def ids(self) -> Ints:
        """Job numbers."""
        return self._table.id[self._rows]

    @lazy
    def kind(self) -> Ints:
        """Row of `view.options.by_kind`: jobs of one kind have the same options."""
        return self._table.kind[self._rows]

    @lazy
    def gpus(self) -> Floats:
        """GPUs asked for; less than 1: a part of one."""
        return self._table.gpus[self._rows]

    @lazy
    def best_gpus(self) -> Floats:
        """GPUs of its best option: other than `gpus` only if it accepts several sizes."""
        if not self._options.elastic:
            return self.gpus
        best = self._options.best[self.kind]
        return np.where(best >= 0, self._options.milligpus[best] / MILLI, self.gpus)

    @lazy
    def granted_gpus(self) -> Floats:
        """GPUs of the option the plan in force grants; what it asked for where there is none."""
        if not self._options.elastic:
            return self.gpus
        return np.where(self.option >= 0, self._options.milligpus[self.option] / MILLI, self.gpus)

    @lazy
    def weight(self) -> Floats:
        """As submitted."""
        return self._table.weight[self._rows]

    @lazy
    def submitted_s(self) -> Floats:
        """When it was submitted."""
        return self._table.submitted_s[self._rows]

    @lazy
    def tenant(self) -> Ints:
        """Number of the tenant path in `view.tenants`."""
        return self._table.tenant[self._rows]

    @lazy
    def deadline_s(self) -> Floats:
        """When it should be done; infinite if unknown."""
        return self._table.deadline_s[self._rows]

    @lazy
    def granted(self) -> Bools:
        """The plan in force lets it run."""
        return self.option >= 0

    @lazy
    def option(self) -> Ints:
        """The option the plan in force grants, -1: none."""
        return self._table.option[self._rows]

    @lazy
    def partner(self) -> Ints:
        """The job that it shares its GPUs with by the plan in force, -1: none."""
        return self._table.partner[self._rows]

    @lazy
    def running(self) -> Bools:
        """Its processes are known to run."""
        return self._using > 0

    @lazy
    def run_seconds(self) -> Floats:
        """Time it has run so far."""
        return self._table.run_seconds[self._rows] + self._since

    @lazy
    def attained_gpu_seconds(self) -> Floats:
        """Service received so far; of GPUs that two jobs share, half counts for each."""
        return self._table.attained[self._rows] + self._using * self._since

    @lazy
    def waited_seconds(self) -> Floats:
        """Time it has not run since its first run; 0 before that."""
        first = self._table.first_run_s[self._rows]
        return np.where(np.isnan(first), 0.0, self._now_s - first - self.run_seconds)

    @lazy
    def steps_total(self) -> Floats:
        """Steps until it is done; infinite if unknown."""
        return self._table.steps_total[self._rows]

    @lazy
    def steps_done(self) -> Floats:
        """Believed steps so far."""
        return self._table.steps_done[self._rows] + self._table.rate[self._rows] * self._since

    @lazy
    def steps_left(self) -> Floats:
        """Steps until it is done; infinite if unknown."""
        return np.maximum(self.steps_total - self.steps_done, 0.0)

    @lazy
    def seconds_left(self) -> Floats:
        """Believed remaining run time by its best option; infinite if its steps are unknown."""
        return self.steps_left / self._table.best_rate[self._rows]

    @lazy
    def seconds_total(self) -> Floats:
        """Believed run time from start to end by its best option."""
        return self.steps_total / self._table.best_rate[self._rows]

    @lazy
    def seconds_nominal(self) -> Floats:
        """The same in one node, whether any has room for it or not."""
        return self.steps_total / self._table.nominal_rate[self._rows]

    @lazy
    def move_seconds(self) -> Floats:
        """The price of moving: believed cost of stopping here and starting elsewhere."""
        return self._table.move_seconds[self._rows]

    @lazy
    def pinned(self) -> Bools:
        """Something is tried with it that was not measured yet: it should go on as it does for a moment."""
        return self._table.pinned_s[self._rows] > self._now_s

    @lazy
    def switch_seconds(self) -> Floats:
        """What stopping it and starting it again where it is costs: parking and waking it, or else the price of moving."""
        table, rows = self._table, self._rows
        parked = table.park_seconds[rows] + table.resume_seconds[rows]
        return np.where(table.can_park[rows], parked, self.move_seconds)

    @lazy
    def _using(self) -> Floats:
        return self._table.using[self._rows]

    @lazy
    def _since(self) -> Floats:
        return (self._now_s - self._table.as_of_s[self._rows]) * (self._using > 0)


@dataclass(frozen=True)
class View:
    """What the scheduler shows a policy at one decision. Nothing in it can tell what the physics knows."""

    now_s: float
    """The time of the decision, in seconds."""
    jobs: Jobs
    """The unfinished jobs, as columns."""
    options: Options
    """The ways to run each kind of job."""
    cluster: Cluster
    """Nodes and GPUs."""
    capacity: Ints
    """GPUs of each pool that can be granted now."""
    tenants: tuple[str, ...]
    """Tenant paths, by number."""
    history_gpu_seconds: Floats
    """Service the last jobs to finish took, in no order."""
    memory: Any
    """What this policy answered last time, None at first."""
    seed: int
    """The seed of the run."""
    decision: int
    """Counts the questions to the policy, from 1."""
    usable: Bools | None = None
    """Which GPUs can be granted now: not those of nodes that are down, drained or gone. None: all."""
    predictions: LengthPredictions | None = None
    """How long jobs are believed to train still. None: the policy did not ask for it (`Needs.predictions`)."""
    placements: Mapping[int, Ints] = field(default_factory=dict)
    """GPUs that each job has by the plan in force; those that have none are not in it."""

    def rng(self) -> np.random.Generator:
        """Randomness that depends on the seed and the decision number alone, so that replays repeat it."""
        return keyed_rng(self.seed, self.decision, 1)


def keyed_rng(seed: int, decision: int, purpose: int) -> np.random.Generator:
    """Counter-based: the same key gives the same numbers, whatever was drawn before."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, decision * 16 + purpose], dtype=np.uint64)))
