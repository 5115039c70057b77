"""The ledger: all the core knows. Columns where there are many (jobs, GPUs), small frozen values in dicts elsewhere.

Dict values are never changed in place, so a copy of the ledger is a copy of its columns and of its dicts.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from rota.beliefs.costs import MoveCosts
from rota.beliefs.deadlines import deadline_seconds
from rota.beliefs.options import grown, make_options
from rota.beliefs.rates import SPEEDS, Rates
from rota.beliefs.skew import Skews
from rota.beliefs.variability import Variability
from rota.core.state.job_table import NOBODY, JobTable
from rota.core.state.phases import LEGAL_CODES, refuse
from rota.core.state.records import NO_GPUS, Answer, Incarnation, InFlight, PaceKey, PlacementTraits, same_gpus
from rota.model.cluster import Cluster, Node
from rota.model.job import JobSpec, Phase
from rota.model.occupancy import FREE, HALF, Occupancy
from rota.model.options import Kind, Options
from rota.model.units import FOREVER, MILLI, Bools, Floats, Ints

HISTORY = 4096
"""How many finished jobs' service is remembered."""


@dataclass(eq=False)
class Ledger:
    """The whole state of the scheduler. `fold` writes it; everybody else reads."""

    cluster: Cluster
    rates: Rates
    costs: MoveCosts
    jobs: JobTable
    observed: Occupancy
    """Who holds which GPUs, as far as is known."""
    planned: Occupancy
    """Who should hold them."""
    node_up: Bools
    node_boot: Ints
    node_heard_s: Floats
    host_gib: Floats
    """Host memory left on each node for parked jobs."""
    history: Floats
    """Service of the last jobs to finish: a ring."""

    variability: Variability | None = None
    """How slow each GPU is believed to be for each application class; None: all of a type alike."""
    learning: Variability | None = None
    """The same with the latest measurements, where it is learned: it becomes what is believed now and then."""
    believed_s: float = -FOREVER
    """When it was last looked whether it should."""
    paces: dict[PaceKey, tuple[tuple[tuple[int, ...], float], ...]] = field(default_factory=dict)
    """Runs that can be compared: the GPUs and steps per second of each, the latest last."""
    draining: set[int] = field(default_factory=set)
    """Nodes that jobs are to leave."""
    gone: set[int] = field(default_factory=set)
    """Nodes that left for good. Their numbers are not used again."""
    cordoned: tuple[int, ...] = ()
    """GPUs that are out of service because they are too slow, the slowest first."""
    skews: Skews = field(default_factory=Skews)
    """How skewed models are, as their tensors say."""
    now_s: float = 0.0
    finished: int = 0
    """Jobs that ran to their end so far."""
    last_job: int = NOBODY
    row: dict[int, int] = field(default_factory=dict)
    specs: dict[int, JobSpec] = field(default_factory=dict)
    incarnations: dict[int, Incarnation] = field(default_factory=dict)
    desired: dict[int, Ints] = field(default_factory=dict)
    in_flight: dict[int, InFlight] = field(default_factory=dict)
    unsettled: set[int] = field(default_factory=set)
    """Jobs whose desired and observed placement may differ."""
    doomed: set[int] = field(default_factory=set)
    """Lives that must be killed."""
    orphans: set[tuple[int, int, int]] = field(default_factory=set)
    """(job, incarnation, node) seen on a node where it should not run."""
    cancelling: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    barred: set[int] = field(default_factory=set)
    """Jobs with an incarnation that cannot be scheduled now. Their GPUs cannot be granted."""

    kind_of: dict[Kind, int] = field(default_factory=dict)
    tenant_of: dict[str, int] = field(default_factory=dict)
    options: Options = field(default_factory=lambda: Options.of([], 0))

    version: int = 0
    """Changes with the set of jobs that may be scheduled."""
    asked: Ints | None = None
    """Jobs the policy is being asked about; None: no question is open."""
    asked_version: int = 0
    decision: int = 0
    """Questions to the policy so far; also the open ticket."""
    plans: int = 0
    """Plans made so far."""
    asked_s: float = -FOREVER
    answer: Answer | None = None
    fresh: bool = False
    """The answer has not been planned with yet."""
    policy_fault: str = ""
    """What was wrong with the policy's last answer."""
    dirty: bool = False
    """Something happened that may change the policy's answer."""
    replan: bool = False
    """Something happened that the plan in force does not know of."""
    not_before_s: float = -FOREVER
    """The policy failed: do not ask again before this."""
    next_round_s: float = 0.0
    """When the next round begins, where there are rounds."""
    until_s: float = FOREVER
    somebody_waits: bool = False
    """The last plan left a job out."""
    fragmented: tuple[int, ...] = ()
    """Kinds of jobs that it left out because their GPUs could not be had close together."""
    shares_s: float = 0.0
    """Since when the accounts of time received are kept."""
    wake_s: float = FOREVER
    _rows: Ints | None = None
    _usable: tuple[Bools, Ints] | None = None
    _pool_rank: Ints | None = None
    _traits: dict[tuple[int, int], PlacementTraits] = field(default_factory=dict)
    _drawn: tuple[object, object, Any] | None = None
    """What an answer works out once, the answer and the options it was worked out for."""

    @property
    def pool_rank(self) -> Ints:
        """Rank of each pool when the fastest types come first."""
        if self._pool_rank is None:
            speed = [self.rates.speeds.get(name, SPEEDS.get(name, 1.0)) for name in self.cluster.pools]
            self._pool_rank = np.argsort(np.argsort(-np.array(speed), kind="stable"))
        return self._pool_rank

    @classmethod
    def empty(
        cls,
        cluster: Cluster,
        rates: Rates,
        costs: MoveCosts,
        variability: Variability | None = None,
        skews: Skews | None = None,
    ) -> Self:
        nodes = len(cluster.nodes)
        return cls(
            cluster=cluster,
            rates=rates,
            costs=costs,
            jobs=JobTable(),
            observed=Occupancy(np.full(cluster.gpus, FREE, dtype=np.int64)),
            planned=Occupancy(np.full(cluster.gpus, FREE, dtype=np.int64)),
            node_up=np.ones(nodes, dtype=bool),
            node_boot=np.zeros(nodes, dtype=np.int64),
            node_heard_s=np.zeros(nodes),
            host_gib=np.array([node.host_gib for node in cluster.nodes], dtype=np.float64),
            history=np.zeros(HISTORY),
            variability=variability,
            skews=skews or Skews(),
        )

    # Reading -----------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Ints:
        """Rows of the jobs that may be scheduled now, earliest submission first."""
        if self._rows is None:
            self._rows = self.jobs.schedulable[: self.jobs.size].nonzero()[0]
        return self._rows

    def slowdown(self, job: int, gpus: Ints) -> float:
        """How many times longer a step is believed to take on these GPUs than on usual ones of their type that lie as close
        together as they can."""
        slow = 1.0 if self.variability is None else self.variability.slowdown(self.specs[job].profile, gpus)
        return slow * self.stretch(job, gpus)

    def stretch(self, job: int, gpus: Ints) -> float:
        """How many times longer it is believed to take because these GPUs do not lie as close together as they could."""
        levels = self.cluster.spanned(gpus)
        if not levels:
            return 1.0
        pool = self.cluster.gpu_pool.item(gpus.item(0))
        penalties = self.placement_traits(job, pool).penalties
        return penalties[levels] / penalties[self.cluster.fewest_levels(pool, len(gpus))]

    def placement_traits(self, job: int, pool: int) -> PlacementTraits:
        """What is believed of a job that depends on where it is placed."""
        key = (self.jobs.kind.item(self.row[job]), pool)
        found = self._traits.get(key)
        if found is None:
            found = self._traits[key] = self._traits_of(self.specs[job], self.cluster.pools[pool])
        return found

    def _traits_of(self, spec: JobSpec, accelerator: str) -> PlacementTraits:
        rates = [
            self.rates.rate(spec.profile, accelerator, spec.width, levels)[0] if spec.width > 1 else 1.0
            for levels in range(len(self.cluster.domains) + 1)
        ]
        penalties = tuple(max(rates[0] / rate, 1.0) if rate > 0 else 1.0 for rate in rates)
        row = self.variability.row(spec.profile) if self.variability is not None else 0
        return PlacementTraits(row, penalties, self.skews.of(spec.profile) if spec.profile else None)

    def usable(self) -> tuple[Bools, Ints]:
        """Which GPUs may be granted, and how many of them each pool has."""
        if self._usable is None:
            mask = self.node_up[self.cluster.gpu_node]
            mask[self.out_of_service()] = False
            if self.draining:
                mask &= ~np.isin(self.cluster.gpu_node, list(self.draining))
            for job in self.barred:
                mask[self.gpus_of(job)] = False
                mask[self.desired.get(job, NO_GPUS)] = False
            if self.barred and self.observed.parts:
                mask |= self._shared_with_the_barred()
            counts = np.bincount(self.cluster.gpu_pool[mask], minlength=len(self.cluster.pools))
            mask.setflags(write=False)
            counts.setflags(write=False)  # policies see this very array
            self._usable = mask, counts
        return self._usable

    def _shared_with_the_barred(self) -> Bools:
        """GPUs on which a job that may be scheduled runs by right, beside one on its way out: no reason to stop it."""
        mask = np.zeros(self.cluster.gpus, dtype=bool)
        for job in self.observed.holders(np.array(self.observed.shared, dtype=np.int64)) - self.barred:
            gpus = self.incarnations[job].gpus
            mask[gpus] = same_gpus(self.desired.get(job, NO_GPUS), gpus)
        for job in self.barred:
            mask[self.desired.get(job, NO_GPUS)] = False
        mask[self.out_of_service()] = False
        staying = self.node_up & ~np.isin(np.arange(len(self.node_up)), list(self.draining))
        return mask & staying[self.cluster.gpu_node]

    def out_of_service(self) -> list[int]:
        """GPUs that are cordoned and not needed: where so many nodes are down that a known gang would no longer fit without them,
        the least slow come back."""
        if not self.cordoned:
            return []
        gpus = np.array(self.cordoned)
        spare = np.bincount(self.cluster.gpu_pool[self.node_up[self.cluster.gpu_node]], minlength=len(self.cluster.pools))
        widest = np.zeros(len(self.cluster.pools), dtype=np.int64)
        np.maximum.at(widest, self.options.pool, self.options.gpus)
        pool, up = self.cluster.gpu_pool[gpus], self.node_up[self.cluster.gpu_node[gpus]]
        found: list[int] = []
        for gpu, where, counts in zip(gpus.tolist(), pool.tolist(), up.tolist(), strict=True):
            if not counts or spare[where] > widest[where]:
                found.append(gpu)
                spare[where] -= counts
        return found

    def fewest_nodes(self, pool: int, gpus: int) -> int:
        """Nodes that so many GPUs of a pool take at least, of those that are in service."""
        mine = self.cluster.count_by_node(self.usable()[0] & (self.cluster.gpu_pool == pool))
        return int(np.cumsum(np.sort(mine)[::-1]).searchsorted(gpus)) + 1

    def gpus_of(self, job: int) -> Ints:
        """GPUs a job is observed to hold."""
        gpus = self.incarnations[job].gpus
        held: Ints = gpus[self.observed.held(job, gpus)]
        return held

    def gib_per_node(self, job: int, incarnation: Incarnation) -> float:
        """Host memory its parts take on each node while parked."""
        return self.specs[job].parked_gib / len(self.nodes_of(incarnation.gpus))

    def nodes_of(self, gpus: Ints) -> tuple[int, ...]:
        """Nodes of some sorted GPUs."""
        nodes = self.cluster.gpu_node
        first = nodes.item(gpus.item(0))
        last = nodes.item(gpus.item(-1)) if len(gpus) > 1 else first
        return (first,) if first == last else tuple(dict.fromkeys(nodes[gpus].tolist()))

    def past(self) -> Floats:
        """Service of the last jobs to finish, for reading only."""
        known = self.history[: self.finished]
        known.setflags(write=False)
        return known

    def out_of_reach(self, job: int) -> bool:
        """A node of its incarnation is silent, so that no command can reach it."""
        return self.jobs.phase.item(self.row[job]) == Phase.UNREACHABLE

    def settled(self, job: int) -> bool:
        """Desired and observed agree, and nothing is on its way."""
        if job in self.in_flight or job in self.doomed:
            return False
        incarnation, want = self.incarnations.get(job), self.desired.get(job)
        if incarnation is None:
            return want is None
        if incarnation.parked:  # where a node is drained, it has to be written to storage
            return want is None and self.draining.isdisjoint(incarnation.parts)
        return want is not None and same_gpus(want, incarnation.gpus)

    # Writing: only `fold` calls these ------------------------------------------------------------------------------

    def add_job(self, job: int, spec: JobSpec, at_s: float, packing: bool = False) -> None:
        kind = self._kind(spec, packing)
        row = self.jobs.add()
        jobs = self.jobs
        jobs.id[row] = job
        jobs.kind[row] = kind
        jobs.gpus[row] = spec.gpus
        jobs.weight[row] = spec.weight
        jobs.submitted_s[row] = jobs.phase_s[row] = jobs.as_of_s[row] = at_s
        jobs.steps_total[row] = spec.steps
        jobs.deadline_s[row] = at_s + deadline_seconds(spec, self.rates)
        jobs.tenant[row] = self.tenant_of.setdefault(spec.tenant, len(self.tenant_of))
        jobs.move_seconds[row] = self.costs.move_seconds
        best = self.options.by_kind[kind, 0]
        if best >= 0:
            jobs.best_rate[row] = self.options.rate[best]
            accelerator = self.cluster.pools[self.options.pool[best]]
            jobs.nominal_rate[row] = self.rates.rate(spec.profile, accelerator, spec.width)[0] or jobs.best_rate[row]
            jobs.schedulable[row] = True
            self._new_rows()
        self.row[job] = row
        self.specs[job] = spec
        self.last_job = job

    def _kind(self, spec: JobSpec, packing: bool) -> int:
        kind = Kind.of(spec)
        number = self.kind_of.get(kind)
        if number is None:
            number = self.kind_of[kind] = len(self.kind_of)
            self._add_options(packing)
        return number

    def _add_options(self, packing: bool) -> None:
        """Options are rows sorted by kind, so a new kind appends its rows and numbers in use stay true. With `packing` there are
        some by which two jobs share GPUs."""
        self.options = make_options(list(self.kind_of), self.cluster, self.rates, packing=packing, before=self.options)
        self._usable = None if self.cordoned else self._usable
        self.jobs.widen(self.options.accounts)

    def set_phase(self, row: int, phase: Phase, at_s: float) -> None:
        before = self.jobs.phase.item(row)
        if before != phase:
            if (before, phase) not in LEGAL_CODES:
                raise refuse(self.jobs.id.item(row), before, phase)
            self.jobs.phase[row] = int(phase)
            self.jobs.phase_s[row] = at_s

    def set_schedulable(self, job: int, row: int, yes: bool) -> None:
        if self.jobs.schedulable.item(row) != yes:
            self.jobs.schedulable[row] = yes
            self._new_rows()
        barred = not yes and job in self.incarnations
        if barred != (job in self.barred):
            (self.barred.add if barred else self.barred.discard)(job)
            self._usable = None

    def set_node(self, node: int, up: bool) -> None:
        if bool(self.node_up[node]) != up:
            self.node_up[node] = up
            self._usable = None
            self.touch()

    def add_node(self, node: Node, packing: bool) -> None:
        """A new node behind the others: columns grow, and kinds get the options that it offers."""
        self.cluster = replace(self.cluster, nodes=(*self.cluster.nodes, node), text="")
        for occupancy in (self.observed, self.planned):
            occupancy.grow(node.gpus)
        self.node_up = np.append(self.node_up, True)
        self.node_boot = np.append(self.node_boot, 0)
        self.node_heard_s = np.append(self.node_heard_s, self.now_s)
        self.host_gib = np.append(self.host_gib, node.host_gib)
        self.variability = self.variability and self.variability.grown(node.gpus)
        self.learning = self.learning and self.learning.grown(node.gpus)
        self._usable = self._pool_rank = None
        self._traits = {}
        self.options = grown(self.options, list(self.kind_of), self.cluster, self.rates, packing=packing)
        self.jobs.widen(self.options.accounts)
        self._new_best_rates()
        self.touch()

    def _new_best_rates(self) -> None:
        """Jobs may be faster by an option that is new, or have one for the first time."""
        jobs, options = self.jobs, self.options
        best = options.best[jobs.kind[: jobs.size]]
        have = (best >= 0).nonzero()[0]
        for row in have[jobs.best_rate[have] != options.rate[best[have]]].tolist():
            jobs.best_rate[row] = options.rate[best[row]]
            spec = self.specs.get(jobs.id.item(row))
            if spec is not None:
                accelerator = self.cluster.pools[options.pool[best[row]]]
                nominal = self.rates.rate(spec.profile, accelerator, spec.width)[0]
                jobs.nominal_rate[row] = nominal or jobs.best_rate[row]

    def set_draining(self, node: int, draining: bool) -> None:
        if draining != (node in self.draining):
            (self.draining.add if draining else self.draining.discard)(node)
            self._usable = None
            self.touch()

    def set_cordoned(self, gpus: tuple[int, ...]) -> None:
        self.cordoned = gpus
        self._usable = None
        self.touch()

    def touch(self) -> None:
        """Something happened: ask the policy when it may be asked, and plan anew."""
        self.dirty = self.replan = True

    def hold(self, job: int, gpus: Ints) -> None:
        """GPUs are a job's from now on: the part that it asked for, or half of each where its partner has them."""
        if self.specs[job].gpus < 1:
            self.observed.take(job, gpus, self.specs[job].part)
        elif self.options.shared:
            self.observed.join(job, gpus)
        else:
            self.observed.take(job, gpus)
        self._usable = None if self.barred else self._usable

    def let_go(self, job: int, gpus: Ints) -> None:
        """A job has given up GPUs it held. If it was beyond command, no plan could count on them: now one can."""
        if self.options.shared and self.specs[job].gpus >= 1:
            self.observed.leave(job, gpus)
        else:
            self.observed.release(job, gpus)
        self._usable = None if self.barred else self._usable
        if job in self.barred:
            self._usable = None
            self.touch()

    def want(self, job: int, row: int, option: int, gpus: Ints | None, partner: int = NOBODY) -> None:
        """Set a job's desired placement, and its partner there."""
        if self.barred:
            self._usable = None
        jobs = self.jobs
        old = self.desired.pop(job, None)
        if old is not None:
            self.planned.release(job, old)
        if jobs.partner.item(row) != partner:
            self._part(job, jobs.partner.item(row))
            jobs.partner[row] = partner
        if gpus is not None:
            self.desired[job] = gpus
            whole = MILLI if self.specs[job].gpus >= 1 else self.specs[job].part
            self.planned.take(job, gpus, whole if partner == NOBODY else HALF)
        jobs.option[row] = option if gpus is not None else -1

    def _part(self, job: int, partner: int) -> None:
        """The partner of a job keeps their GPUs, and has them whole until the plan says more."""
        row = self.row.get(partner)
        if row is not None and self.jobs.partner.item(row) == job:
            self.jobs.partner[row] = NOBODY
            self.jobs.option[row] = self.options.alone[self.jobs.option.item(row)]
            self.planned.resize(partner, self.desired[partner], MILLI)

    def forget(self, job: int, row: int) -> None:
        """The job has ended: out of every table."""
        self.want(job, row, -1, None)
        if self.jobs.schedulable[row]:
            self.jobs.schedulable[row] = False
            self._new_rows()
        for group in (self.unsettled, self.doomed, self.cancelling, self.held):
            group.discard(job)
        if not self.specs[job].profile and self.paces:
            self.paces = {key: seen for key, seen in self.paces.items() if key[0] != f"#{job}"}
        del self.row[job], self.specs[job]
        self.jobs.dead += 1
        if self.jobs.dead > 256 and 2 * self.jobs.dead >= self.jobs.size:
            self.compact()

    def compact(self) -> None:
        rows = np.array(sorted(self.row.values()), dtype=np.int64)
        self.jobs.keep(rows, max(256, 2 * len(rows)))
        self.row = {int(job): i for i, job in enumerate(self.jobs.id[: len(rows)])}
        self._new_rows()

    def _new_rows(self) -> None:
        self._rows = None
        self.version += 1

    def copy(self) -> "Ledger":
        """An independent twin. Values in dicts are frozen, so only the containers are copied."""
        twin = Ledger.__new__(Ledger)
        twin.__dict__.update(self.__dict__)
        twin.jobs = self.jobs.copy()
        for name in ("observed", "planned", "node_up", "node_boot", "node_heard_s", "host_gib", "history"):
            setattr(twin, name, getattr(self, name).copy())
        for name in ("row", "specs", "incarnations", "desired", "in_flight", "kind_of", "tenant_of", "paces", "_traits"):
            setattr(twin, name, getattr(self, name).copy())
        for name in ("unsettled", "doomed", "orphans", "cancelling", "held", "barred", "draining", "gone"):
            setattr(twin, name, getattr(self, name).copy())
        return twin
