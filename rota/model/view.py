"""The view: what a policy may see. Columns are read-only, and gathered from the job table at their first use."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import column
from rota.model.lazy import lazy, lazy_column
from rota.model.length_prediction import LengthPredictions
from rota.model.options import Options
from rota.model.units import FOREVER, MILLI, Bools, Floats, Ints
from rota.model.value import value


class JobColumns:
    """Columns of the job table that policies may see. Progress is as of `as_of_s`, and rates are beliefs."""

    id: Ints = column(np.int64, -1)
    """Number of the job; -1 in a row without a job."""
    kind: Ints = column(np.int32)
    """Kind of the job: jobs of one kind have the same options."""
    gpus: Floats = column(np.float64)
    """Requested GPUs; below 1 for a fraction of a GPU."""
    weight: Floats = column(np.float64, 1.0)
    """Weight given at submission."""
    tenant: Ints = column(np.int32)
    """Number of the tenant."""
    submitted_s: Floats = column(np.float64)
    """Time of submission."""
    deadline_s: Floats = column(np.float64, FOREVER)
    """Deadline; infinite if the job has none."""
    first_run_s: Floats = column(np.float64, np.nan)
    """Time of the first run; not a number before it."""
    as_of_s: Floats = column(np.float64)
    """Time up to which progress is booked."""
    run_seconds: Floats = column(np.float64)
    """Total run time, in seconds."""
    attained_gpu_seconds: Floats = column(np.float64, old_name="attained")
    """GPU time received, in GPU-seconds. Half of the time on shared GPUs counts for each job."""
    steps_total: Floats = column(np.float64, FOREVER)
    """Steps from start to end; infinite if unknown."""
    steps_done: Floats = column(np.float64)
    """Steps done, as reported or as believed."""
    rate: Floats = column(np.float64)
    """Believed steps per second; 0 while the job does not run."""
    best_rate: Floats = column(np.float64, 1.0)
    """Believed steps per second by the job's best option."""
    nominal_rate: Floats = column(np.float64, 1.0)
    """Believed steps per second by the best option on one node, without a partner."""
    gpus_in_use: Floats = column(np.float64, old_name="using")
    """GPUs that the job uses, half of each that it shares; 0 while it does not run."""
    option: Ints = column(np.int32, -1)
    """Option that the plan in force grants; -1 if none."""
    partner: Ints = column(np.int64, -1)
    """Job with which the job shares its GPUs by the plan in force; -1 if none."""
    move_seconds: Floats = column(np.float64)
    """Believed time to stop a job and start it elsewhere, in seconds."""
    pinned_until_s: Floats = column(np.float64, rare=True, old_name="pinned_s")
    """Time until which a trial of the job lasts at most; 0 if it has none."""
    can_park: Bools = column(np.bool_, rare=True)
    """Whether the job can be parked in host memory."""
    park_seconds: Floats = column(np.float64, rare=True)
    """Time that parking the job took last, or is believed to take, in seconds."""
    resume_seconds: Floats = column(np.float64, rare=True)
    """Time that resuming the parked job took last, or is believed to take, in seconds."""


class Jobs:
    """Columns of the jobs that a policy may schedule, earliest submission first."""

    def __init__(self, table: JobColumns, rows: Ints, now_s: float, options: Options) -> None:
        self._table = table
        self._rows = rows
        self._now_s = now_s
        self._options = options

    def __len__(self) -> int:
        return len(self._rows)

    @lazy_column
    def ids(self) -> Ints:
        """Job numbers."""
        return self._table.id[self._rows]

    @lazy_column
    def kind(self) -> Ints:
        """Kind of each job: a row of `view.options.by_kind`. Jobs of one kind have the same options."""
        return self._table.kind[self._rows]

    @lazy_column
    def gpus(self) -> Floats:
        """Requested GPUs; below 1 for a fraction of a GPU."""
        return self._table.gpus[self._rows]

    @lazy_column
    def best_gpus(self) -> Floats:
        """GPUs of the job's best option. Differs from `gpus` only if the job accepts several sizes."""
        if not self._options.elastic:
            return self.gpus
        best = self._options.best[self.kind]
        return np.where(best >= 0, self._options.milligpus[best] / MILLI, self.gpus)

    @lazy_column
    def granted_gpus(self) -> Floats:
        """GPUs of the option that the plan in force grants, or requested GPUs if it grants none."""
        if not self._options.elastic:
            return self.gpus
        return np.where(self.option >= 0, self._options.milligpus[self.option] / MILLI, self.gpus)

    @lazy_column
    def weight(self) -> Floats:
        """Weight given at submission."""
        return self._table.weight[self._rows]

    @lazy_column
    def submitted_s(self) -> Floats:
        """Time of submission."""
        return self._table.submitted_s[self._rows]

    @lazy_column
    def tenant(self) -> Ints:
        """Number of the tenant path in `view.tenants`."""
        return self._table.tenant[self._rows]

    @lazy_column
    def deadline_s(self) -> Floats:
        """Deadline; infinite if the job has none."""
        return self._table.deadline_s[self._rows]

    @lazy_column
    def granted(self) -> Bools:
        """Whether the plan in force lets the job run."""
        return self.option >= 0

    @lazy_column
    def option(self) -> Ints:
        """Option that the plan in force grants; -1 if none."""
        return self._table.option[self._rows]

    @lazy_column
    def partner(self) -> Ints:
        """Job that shares the GPUs in the plan in force; -1 if none."""
        return self._table.partner[self._rows]

    @lazy_column
    def running(self) -> Bools:
        """Whether the job's processes are known to run."""
        return self._using > 0

    @lazy_column
    def run_seconds(self) -> Floats:
        """Total run time so far, in seconds."""
        return self._table.run_seconds[self._rows] + self._since

    @lazy_column
    def attained_gpu_seconds(self) -> Floats:
        """GPU time received so far, in GPU-seconds. Half of the time on shared GPUs counts for each job."""
        return self._table.attained_gpu_seconds[self._rows] + self._using * self._since

    @lazy_column
    def waited_seconds(self) -> Floats:
        """Time without running since the first run, in seconds; 0 before the first run."""
        first = self._table.first_run_s[self._rows]
        return np.where(np.isnan(first), 0.0, self._now_s - first - self.run_seconds)

    @lazy_column
    def steps_total(self) -> Floats:
        """Steps from start to end; infinite if unknown."""
        return self._table.steps_total[self._rows]

    @lazy_column
    def steps_done(self) -> Floats:
        """Estimated steps done."""
        return self._table.steps_done[self._rows] + self._table.rate[self._rows] * self._elapsed  # a job that waits has rate 0

    @lazy_column
    def steps_left(self) -> Floats:
        """Estimated steps left; infinite if unknown."""
        return np.maximum(self.steps_total - self.steps_done, 0.0)

    @lazy_column
    def seconds_left(self) -> Floats:
        """Estimated remaining run time with the job's best option, in seconds; infinite if its steps are unknown."""
        return self.steps_left / self._table.best_rate[self._rows]

    @lazy_column
    def seconds_total(self) -> Floats:
        """Estimated run time from start to end with the job's best option, in seconds; infinite if its steps are unknown."""
        return self.steps_total / self._table.best_rate[self._rows]

    @lazy_column
    def seconds_nominal(self) -> Floats:
        """Estimated run time from start to end within one node, whether any node has room for the job or not, in seconds."""
        return self.steps_total / self._table.nominal_rate[self._rows]

    @lazy_column
    def move_seconds(self) -> Floats:
        """Estimated cost of stopping the job and starting it elsewhere, in seconds."""
        return self._table.move_seconds[self._rows]

    @lazy_column
    def pinned(self) -> Bools:
        """Whether a trial of the job is not measured yet. The job should stay as it is until then."""
        return self._table.pinned_until_s[self._rows] > self._now_s

    @lazy_column
    def switch_seconds(self) -> Floats:
        """Estimated cost of stopping the job and starting it again on the same GPUs, in seconds: of parking it, or else of moving
        it."""
        table, rows = self._table, self._rows
        parked = table.park_seconds[rows] + table.resume_seconds[rows]
        return np.where(table.can_park[rows], parked, self.move_seconds)

    @lazy
    def _using(self) -> Floats:
        return self._table.gpus_in_use[self._rows]

    @lazy
    def _since(self) -> Floats:
        return self._elapsed * (self._using > 0)

    @lazy
    def _elapsed(self) -> Floats:
        return self._now_s - self._table.as_of_s[self._rows]


@value
class View:
    """What the scheduler shows a policy at one decision. A view holds beliefs only: no true rates of a simulation."""

    now_s: float
    """The time of the decision, in seconds."""
    jobs: Jobs
    """Unfinished jobs, as columns."""
    options: Options
    """Ways to run each kind of job."""
    cluster: Cluster
    """Nodes and GPUs."""
    capacity: Ints
    """GPUs of each pool that can be granted now."""
    tenants: tuple[str, ...]
    """Tenant paths, by number."""
    history_gpu_seconds: Floats
    """GPU time of the jobs that finished last, in GPU-seconds and no particular order."""
    memory: Any
    """Memory that this policy returned in its last answer; None at first."""
    seed: int
    """Random seed of the run."""
    decision: int
    """Decisions so far, from 1: policy calls, and ends of jobs that needed none."""
    usable: Bools | None = None
    """Whether each GPU can be granted now, which excludes nodes that are down, drained or gone; None if all can."""
    predictions: LengthPredictions | None = None
    """Predictions of how long jobs will still train; None unless the policy has `Needs.predictions`."""
    placements: Mapping[int, Ints] = field(default_factory=dict)
    """GPUs of each job in the plan in force. Jobs without GPUs are left out."""

    def rng(self) -> np.random.Generator:
        """Return a random generator that depends only on the seed and the decision number, so that replays repeat it."""
        return keyed_rng(self.seed, self.decision, 1)


def keyed_rng(seed: int, decision: int, purpose: int) -> np.random.Generator:
    """Return a counter-based generator: the same key gives the same numbers, whatever was drawn before."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, decision * 16 + purpose], dtype=np.uint64)))
