"""The state: all that the core knows, as five records, and the methods that take more than one of them.

Values in dicts are never changed in place, so a copy of the state is a copy of its columns and of its dicts.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from rota.beliefs.deadlines import deadline_seconds
from rota.beliefs.make_options import grown, make_options
from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.beliefs.skews import Skews
from rota.beliefs.variability import Variability
from rota.core.state.active_jobs import ActiveJobs
from rota.core.state.beliefs import Beliefs
from rota.core.state.cycle import SchedulingCycle
from rota.core.state.job_table import NO_JOB
from rota.core.state.memory_ledger import MemoryLedger
from rota.core.state.node_table import NodeTable
from rota.core.state.phases import LEAVES_FOR_STORAGE, NEVER_FITS
from rota.core.state.records import NO_GPUS, Attempt, PlacementTraits, same_gpus
from rota.core.state.tenant_accounts import TenantAccounts
from rota.model.cluster import Cluster, Node
from rota.model.job import JobSpec
from rota.model.occupancy import HALF
from rota.model.options import Kind
from rota.model.trial import PairStats
from rota.model.units import FOREVER, MILLI, Bools, Floats, Ints


@dataclass(eq=False)
class State:
    """The whole state of the scheduler. `fold` and `learn` write it; everything else reads it (a test sees to that)."""

    nodes: NodeTable
    """Nodes, and which jobs hold which GPUs."""
    beliefs: Beliefs
    """Beliefs."""
    jobs: ActiveJobs = field(default_factory=ActiveJobs)
    """Jobs that have not ended."""
    cycle: SchedulingCycle = field(default_factory=SchedulingCycle)
    """The policy call, its answer and the plan in force."""
    tenants: TenantAccounts = field(default_factory=TenantAccounts)
    """Accounts of tenants and users."""
    now_s: float = 0.0
    """Time of the latest step."""
    memory: MemoryLedger = field(init=False)
    """Memory that parked jobs have reserved, and which jobs fit beside them."""
    _usable: tuple[Bools, Ints] | None = None
    _usable_without: frozenset[int] | None = None
    """The barred jobs for which `_usable` was found."""

    def __post_init__(self) -> None:
        self.memory = MemoryLedger(self)

    @classmethod
    def empty(
        cls,
        cluster: Cluster,
        rates: Rates,
        costs: MoveCosts,
        variability: Variability | None = None,
        skews: Skews | None = None,
        learning: Variability | None = None,
        sharing: bool = False,
    ) -> Self:
        """Return a state without jobs, in which all nodes are up."""
        known = Beliefs(rates=rates, costs=costs, variability=variability, learning=learning, skews=skews or Skews())
        known.sharing = sharing
        return cls(nodes=NodeTable.of(cluster), beliefs=known)

    # Reading -----------------------------------------------------------------------------------------------------

    @property
    def sharing(self) -> bool:
        """Whether two jobs may hold the same GPUs."""
        return self.beliefs.sharing or self.beliefs.options.has_colocated

    def name_of(self, job: int) -> str:
        """Return the name by which measurements of a job are kept: its profile, or its number if it has none."""
        return self.jobs.specs[job].profile or f"#{job}"

    def pair_stats(self, job: int, other: int, pool: int, gpus: int) -> PairStats | None:
        """Return what is known of two jobs on the same GPUs of a pool, in this order."""
        accelerator = self.nodes.cluster.pools[pool]
        return self.beliefs.pair_stats(self.name_of(job), self.name_of(other), accelerator, gpus)

    def slowdown(self, job: int, gpus: Ints) -> float:
        """Return the believed slowdown of a job on these GPUs, relative to normal GPUs of their type that are as close together
        as possible."""
        known = self.beliefs.variability
        if known is None and len(gpus) == 1:
            return 1.0  # most jobs
        slow = 1.0 if known is None else known.slowdown(self.jobs.specs[job].profile, gpus)
        return slow * self.locality_slowdown(job, gpus)

    def locality_slowdown(self, job: int, gpus: Ints) -> float:
        """Return the believed slowdown of a job because these GPUs are not as close together as possible."""
        cluster = self.nodes.cluster
        levels = cluster.spanned(gpus)
        if not levels:
            return 1.0
        pool = cluster.gpu_pool.item(gpus.item(0))
        penalties = self.placement_traits(job, pool, len(gpus)).penalties
        return penalties[levels] / penalties[cluster.fewest_levels(pool, len(gpus))]

    def placement_traits(self, job: int, pool: int, gpus: int) -> PlacementTraits:
        """Return what is believed of a job on this many GPUs that depends on its place."""
        jobs = self.jobs
        kind = jobs.table.kind.item(jobs.row[job])
        return self.beliefs.placement_traits(kind, pool, gpus, jobs.specs[job], self.nodes.cluster)

    def usable(self) -> tuple[Bools, Ints]:
        """Return which GPUs may be granted, and how many of them each pool has."""
        if self._usable is None or self._usable_without is not self.jobs.unschedulable_holders:
            nodes, jobs = self.nodes, self.jobs
            mask = nodes.staying()
            mask[self.out_of_service()] = False
            if nodes.taken:
                mask[[gpu for gpu in nodes.taken if nodes.observed.free[gpu]]] = False
            for job in jobs.unschedulable_holders:
                mask[self.gpus_of(job)] = False
                mask[jobs.desired.get(job, NO_GPUS)] = False
            if jobs.unschedulable_holders and nodes.observed.gpu_fractions:
                mask |= self._shared_with_the_barred()
            counts = np.bincount(nodes.cluster.gpu_pool[mask], minlength=len(nodes.cluster.pools))
            mask.setflags(write=False)
            counts.setflags(write=False)  # policies see this array
            self._usable, self._usable_without = (mask, counts), jobs.unschedulable_holders
        return self._usable

    def _shared_with_the_barred(self) -> Bools:
        """Return GPUs on which a job runs by the plan beside a barred one. It need not be stopped for that."""
        nodes, jobs = self.nodes, self.jobs
        mask = np.zeros(nodes.cluster.gpus, dtype=bool)
        for job in nodes.observed.holders(np.array(nodes.observed.shared, dtype=np.int64)) - jobs.unschedulable_holders:
            gpus = jobs.attempts[job].gpus
            mask[gpus] = same_gpus(jobs.desired.get(job, NO_GPUS), gpus)
        for job in jobs.unschedulable_holders:
            mask[jobs.desired.get(job, NO_GPUS)] = False
        mask[self.out_of_service()] = False
        return mask & nodes.staying()

    def out_of_service(self) -> list[int]:
        """Return the GPUs that are drained, and those that are cordoned and not needed. If nodes are down and a known gang would
        not fit without cordoned GPUs, the least slow return to service."""
        nodes, options = self.nodes, self.beliefs.options
        if not nodes.cordoned:
            return [*nodes.drained]
        cluster, gpus = nodes.cluster, np.array(nodes.cordoned)
        there = nodes.node_up[cluster.gpu_node]
        if nodes.drained:
            there[[*nodes.drained]] = False
        spare = np.bincount(cluster.gpu_pool[there], minlength=len(cluster.pools))
        widest = np.zeros(len(cluster.pools), dtype=np.int64)
        np.maximum.at(widest, options.pool, options.gpus)
        pool, up = cluster.gpu_pool[gpus], there[gpus]
        found = [*nodes.drained]
        for gpu, where, counts in zip(gpus.tolist(), pool.tolist(), up.tolist(), strict=True):
            if not counts or spare[where] > widest[where]:
                found.append(gpu)
                spare[where] -= counts
        return found

    def can_ever_run(self, kind: int) -> bool:
        """Whether an option of a kind fits on the nodes that have not left."""
        options = self.beliefs.options
        if not self.nodes.gone:
            return options.best.item(kind) >= 0
        return bool((options.kind_need[kind] <= self.nodes.lasting_gpus()[options.kind_pool[kind]] * MILLI).any())

    def received_seconds(self, rows: Ints, since: Floats | None = None) -> Floats:
        """Time that jobs got on each account since the shares in force were answered, up to now: shape (jobs, accounts). `since`:
        how long each has run since its last report, if that is known already."""
        table = self.jobs.table
        received: Floats = table.received[rows]
        if since is None:
            since = np.where(table.gpus_in_use[rows] > 0, self.now_s - table.as_of_s[rows], 0.0)
        received[np.arange(len(rows)), table.share_column[rows]] += since
        return received

    def fewest_nodes(self, pool: int, gpus: int) -> int:
        """Return the fewest nodes in service that have this many GPUs of a pool."""
        cluster = self.nodes.cluster
        mine = cluster.count_by_node(self.usable()[0] & (cluster.gpu_pool == pool))
        return int(np.cumsum(np.sort(mine)[::-1]).searchsorted(gpus)) + 1

    def gpus_of(self, job: int) -> Ints:
        """GPUs a job is observed to hold."""
        gpus = self.jobs.attempts[job].gpus
        held: Ints = gpus[self.nodes.observed.held(job, gpus)]
        return held

    def is_reconciled(self, job: int) -> bool:
        """Desired and observed agree, and nothing is on its way."""
        jobs = self.jobs
        if job in jobs.in_flight:
            return False
        attempt, want = jobs.attempts.get(job), jobs.desired.get(job)
        if attempt is None:
            return want is None
        if job in jobs.unschedulable_holders and jobs.to_kill(job):
            return False
        if attempt.parked:  # where a node is drained or a GPU is crowded, it has to be written to storage
            stays = self.nodes.draining.isdisjoint(attempt.live_nodes) and not self.memory.crowded(attempt.gpus)
            leaves = job in jobs.unschedulable_holders and jobs.is_blocked(job, LEAVES_FOR_STORAGE)
            leaves = leaves or bool(self.nodes.drained and self.may_leave_drained(job, attempt))
            return want is None and stays and not leaves
        if want is None or not same_gpus(want, attempt.gpus):
            return False
        return not self.beliefs.options.elastic or self.runs_by(attempt, jobs.table.option.item(jobs.row[job]), want)

    def may_leave_drained(self, job: int, attempt: Attempt) -> bool:
        """Whether an attempt has GPUs that an operator drains, and its job saves its state, so that it can go elsewhere."""
        return bool(self.jobs.table.saves[self.jobs.row[job]]) and bool(np.isin(attempt.gpus, self.nodes.drained).any())

    def runs_by(self, attempt: Attempt, option: int, gpus: Ints) -> bool:
        """Whether an attempt has these GPUs and the batch size of this option."""
        if not same_gpus(gpus, attempt.gpus):
            return False
        options = self.beliefs.options
        return not options.elastic or options.batch_size.item(option) == options.batch_size.item(attempt.option)

    # Writing: only `fold` and `learn` call these -------------------------------------------------------------------

    def add_job(self, job: int, spec: JobSpec, at_s: float, colocation: bool = False) -> None:
        kind = self._kind(spec, colocation)
        known, table = self.beliefs, self.jobs.table
        row = self.jobs.add(job, spec, at_s)
        table.kind[row] = kind
        table.gpus[row] = spec.gpus
        table.weight[row] = spec.weight
        table.steps_total[row] = FOREVER if spec.steps is None else spec.steps
        table.epoch_steps[row] = spec.epoch_steps or 0.0
        table.deadline_s[row] = at_s + deadline_seconds(spec, known.rates)
        table.tenant[row] = self.jobs.tenant_of.setdefault(spec.tenant or "", len(self.jobs.tenant_of))
        table.move_seconds[row] = known.costs.move_of(spec)
        if spec.can_park:
            table.own("can_park")[row] = True
        if not spec.saves and not spec.preemptible:
            table.own("saves")[row] = False
        if spec.priority:
            table.own("priority")[row] = spec.priority
        if spec.array is not None:
            table.own("array")[row], table.own("array_limit")[row] = spec.array.array, spec.array.at_once
        if spec.max_run_seconds is not None:
            table.own("max_run_seconds")[row] = spec.max_run_seconds
        if spec.resident_gib:
            for name, seconds in (("park_seconds", known.costs.park_of(spec)), ("resume_seconds", known.costs.resume_of(spec))):
                if seconds:
                    table.own(name)[row] = seconds
        table.resize_seconds[row] = known.costs.resize_seconds if spec.can_resize else FOREVER
        best = known.options.best.item(kind)
        if best >= 0:
            self._set_best(row, spec, best)
        self.refresh_fit(job)
        if spec.gpu_gib:
            self.memory.note_need(kind, spec.gpu_gib)

    def _kind(self, spec: JobSpec, colocation: bool) -> int:
        kind = Kind.of(spec)
        number = self.jobs.kind_of.get(kind)
        if number is None:
            number = self.jobs.kind_of[kind] = len(self.jobs.kind_of)
            self._add_options(colocation)
        return number

    def _add_options(self, colocation: bool) -> None:
        """Add the options of a new kind. Options are sorted by kind, so numbers in use stay true. With `colocation`, some options
        let two jobs share GPUs."""
        known, kinds = self.beliefs, list(self.jobs.kind_of)
        known.options = make_options(kinds, self.nodes.cluster, known.rates, colocation=colocation, before=known.options)
        self._usable = None if self.nodes.cordoned else self._usable
        self.jobs.table.widen(known.options.share_columns)

    def refresh_fit(self, job: int) -> None:
        """Note whether nodes that have not left can run a job."""
        fits = self.can_ever_run(self.jobs.table.kind.item(self.jobs.row[job]))
        (self.jobs.unblock if fits else self.jobs.block)(job, NEVER_FITS)

    def requeue(self, job: int) -> None:
        """Put a job on the list of jobs to reconcile, or take it off if it is settled."""
        if self.is_reconciled(job):
            self.jobs.to_reconcile.discard(job)
        else:
            self.jobs.to_reconcile.add(job)

    def set_node(self, node: int, up: bool) -> None:
        if bool(self.nodes.node_up[node]) != up:
            self.nodes.node_up[node] = up
            self._usable = None
            self.cycle.invalidate()

    def add_node(self, node: Node, colocation: bool) -> None:
        """Append a node, and add the options that it offers."""
        known, nodes = self.beliefs, self.nodes
        nodes.add(node, self.now_s)
        known.grow(node.gpus)
        self._usable = None
        known.options = grown(known.options, list(self.jobs.kind_of), nodes.cluster, known.rates, colocation=colocation)
        self.note_lasting_gpus()
        self.jobs.table.widen(known.options.share_columns)
        self._new_best_rates()
        self.cycle.invalidate()

    def note_lasting_gpus(self) -> None:
        """Note which options still fit, after a node joined or left."""
        nodes, known = self.nodes, self.beliefs
        known.options = known.options.with_lasting(tuple(nodes.lasting_gpus().tolist()) if nodes.gone else ())

    def _new_best_rates(self) -> None:
        """Note best rates after options were added."""
        table, options = self.jobs.table, self.beliefs.options
        best = options.best[table.kind[: table.size]]
        have = (best >= 0).nonzero()[0]
        for row in have[table.best_rate[have] != options.rate[best[have]]].tolist():
            spec = self.jobs.specs.get(table.id.item(row))
            if spec is not None:
                self._set_best(row, spec, best.item(row))

    def _set_best(self, row: int, spec: JobSpec, best: int) -> None:
        """Set the rates of a job by its best option, and on one node."""
        table, known = self.jobs.table, self.beliefs
        table.best_rate[row] = known.options.rate[best]
        accelerator = self.nodes.cluster.pools[known.options.pool[best]]
        if known.options.elastic or known.rates.batches:
            gpus, batch_size = max(known.options.milligpus.item(best) // MILLI, 1), known.options.batch_size.item(best)
            nominal = known.rates.rate_of(spec.profile, spec.demand, accelerator, gpus, batch_size)[0]
        else:
            nominal = known.rates.rate(spec.profile, accelerator, spec.width)[0]
        table.nominal_rate[row] = nominal or table.best_rate[row]

    def add_share_column(self, option: int) -> None:
        """Keep an account for this option from now on."""
        if self.beliefs.options.share_column.item(option) < 0:
            self.add_share_columns(np.array([option]))

    def add_share_columns(self, rows: Ints) -> None:
        """Keep accounts for these options from now on."""
        known = self.beliefs
        if known.options.elastic or known.rates.batches:
            known.options = known.options.with_share_columns(rows)
            self.jobs.table.widen(known.options.share_columns)

    def set_draining(self, node: int, draining: bool) -> None:
        nodes = self.nodes.draining
        if draining != (node in nodes):
            (nodes.add if draining else nodes.discard)(node)
            self._usable = None
            self.cycle.invalidate()

    def set_drained(self, gpus: tuple[int, ...]) -> None:
        """Set which GPUs operators drain now."""
        self.nodes.drained = gpus
        self._usable = None
        self.cycle.invalidate()

    def set_cordoned(self, gpus: tuple[int, ...]) -> None:
        self.nodes.cordoned = gpus
        self._usable = None
        self.cycle.invalidate()

    def set_taken(self, taken: dict[int, str]) -> None:
        """Set which GPUs other programs use, with a description of each program."""
        if taken != self.nodes.taken:
            self.nodes.taken = taken
            self._usable = None
            self.cycle.invalidate()

    def occupy(self, job: int, gpus: Ints) -> None:
        """Give a job GPUs: the requested fraction, or half of each if its partner has them."""
        options, observed = self.beliefs.options, self.nodes.observed
        if options.has_fractions and (spec := self.jobs.specs[job]).gpus < 1:
            observed.take(job, gpus, spec.milli_per_gpu)
        elif self.sharing:
            observed.join(job, gpus)
        else:
            observed.take(job, gpus)
        if self.jobs.unschedulable_holders or self.nodes.taken:
            self._usable = None

    def vacate(self, job: int, gpus: Ints) -> None:
        """Free what a job holds of these GPUs. If it was barred, no plan could count on them: now one can."""
        observed = self.nodes.observed
        if observed.gpu_fractions and self.jobs.specs[job].gpus >= 1:
            observed.leave(job, gpus)
        else:
            observed.release(job, gpus)
        if self.jobs.unschedulable_holders or self.nodes.taken:
            self._usable = None
        if job in self.jobs.unschedulable_holders:
            self.cycle.invalidate()

    def set_desired(self, job: int, row: int, option: int, gpus: Ints | None, partner: int = NO_JOB) -> None:
        """Set a job's desired placement, and its partner there."""
        jobs, planned = self.jobs, self.nodes.planned
        if jobs.unschedulable_holders:
            self._usable = None
        table, options = jobs.table, self.beliefs.options
        old = jobs.desired.pop(job, None)
        if old is not None:
            planned.release(job, old)
        if table.partner.item(row) != partner:
            self._separate_from_partner(job, table.partner.item(row))
            table.partner[row] = partner
        if gpus is None:
            table.option[row] = -1
            return
        jobs.desired[job] = gpus
        whole = MILLI
        if options.has_fractions and (spec := jobs.specs[job]).gpus < 1:
            whole = spec.milli_per_gpu
        planned.take(job, gpus, whole if partner == NO_JOB else HALF)
        table.option[row] = option

    def _separate_from_partner(self, job: int, partner: int) -> None:
        """Give the partner of a job all of their GPUs, until the plan changes that."""
        table, row = self.jobs.table, self.jobs.row.get(partner)
        if row is not None and table.partner.item(row) == job:
            table.partner[row] = NO_JOB
            table.option[row] = self.beliefs.options.alone[table.option.item(row)]
            self.nodes.planned.resize(partner, self.jobs.desired[partner], MILLI)

    def forget(self, job: int, row: int) -> None:
        """Drop what is planned and believed of a job that has ended."""
        self.set_desired(job, row, -1, None)
        self.beliefs.predicted.pop(job, None)
        if not self.jobs.specs[job].profile:
            self.beliefs.forget_rates_of(job)

    def without_memos(self) -> "State":
        """Return an independent copy without the values that are stored only to save work."""
        twin = self.copy()
        twin._usable = None
        twin.jobs.forget_rows()
        twin.cycle._drawn = None
        twin.beliefs.forget_memos()
        return twin

    def copy(self) -> "State":
        """Return an independent copy."""
        twin = State.__new__(State)
        twin.__dict__.update(self.__dict__)
        twin.jobs, twin.nodes = self.jobs.copy(), self.nodes.copy()
        twin.cycle, twin.beliefs = self.cycle.copy(), self.beliefs.copy()
        if self.tenants.tenants is not None:
            twin.tenants = self.tenants.copy()
        twin.memory = MemoryLedger(twin)
        return twin
