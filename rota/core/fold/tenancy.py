"""Tenancy: what tenants and users receive, lend and borrow is booked as time passes.

Nothing here is called while no tenants are set up. Credits follow Karma (Vuppalapati et al., OSDI'23): who uses GPUs beyond the
guarantee pays for the normalised work done there, and the same amount goes to the siblings that lend; what is guaranteed to no
sibling belongs to all of them by weight. So the credits of siblings always add up to 0.
"""

import numpy as np

from rota.core.state.phases import ENDED, HELD
from rota.core.state.state import State
from rota.core.state.tenant_accounts import Flows, TenantAccounts
from rota.model.job import JobSpec
from rota.model.options import Options
from rota.model.tenants import CREDITS, DECAY, NO_FAIRNESS, Tenants
from rota.model.units import MILLI, Floats, Ints


def set_tenants(state: State, tenants: Tenants | None) -> None:
    """Set up other tenants, or none, for existing jobs too."""
    accounts = state.tenants
    settle(state, state.now_s)
    accounts.plant(tenants)
    accounts.settled_s = state.now_s
    if tenants is not None:
        for job, row in state.jobs.row.items():
            state.jobs.table.own("owner")[row] = accounts.add_leaf(accounts.leaf_of(state.jobs.specs[job]))
    state.cycle.invalidate()


def adopt(state: State, job: int, spec: JobSpec) -> None:
    """Enter a job that arrives into the accounts of its user and tenant."""
    accounts, table, row = state.tenants, state.jobs.table, state.jobs.row[job]
    owner = accounts.add_leaf(accounts.leaf_of(spec))
    table.own("owner")[row] = owner
    asked = demand(state, capped=False)
    if any(accounts.guarantee[node] > 0 and asked[node] <= accounts.guarantee[node] for node in accounts.lineage(owner)):
        table.own("arrived_within_guarantee")[row] = True


def began(state: State, row: int, at_s: float) -> None:
    """Note that a job runs for the first time."""
    table = state.jobs.table
    if table.arrived_within_guarantee.item(row):
        spec = state.jobs.specs[table.id.item(row)]
        state.tenants.note_start(spec, max(at_s - table.submitted_s.item(row), 0.0))


def reclaimed(state: State, jobs: tuple[tuple[int, int], ...]) -> None:
    """Note for which jobs these had to give up GPUs that their tenants had borrowed."""
    for job, other in jobs:
        row = state.jobs.row.get(job)
        if row is not None:
            state.jobs.table.own("reclaimed_for")[row] = other


def demand(state: State, *, capped: bool = True) -> Floats:
    """Return for each node the GPUs that its unfinished jobs ask for. Jobs that are held ask for none. `capped`: a node asks for
    no more than its cap."""
    accounts, table = state.tenants, state.jobs.table
    rows = (table.blocks[: table.size] & (ENDED | HELD) == 0).nonzero()[0]
    nodes = len(accounts.parent)
    asked = np.bincount(table.owner[rows], table.gpus[rows], nodes).astype(np.float64)
    for level in accounts.levels:
        if capped:
            asked[level] = np.minimum(asked[level], accounts.cap[level])
        asked += np.bincount(accounts.parent[level], asked[level], nodes)
    return asked


def settle(state: State, now_s: float) -> None:
    """Book what was received, lent and borrowed since the last time."""
    accounts = state.tenants
    seconds = now_s - accounts.settled_s
    if accounts.tenants is None or seconds <= 0:
        return
    accounts.settled_s = now_s
    tenants, flows = accounts.tenants, _flows_now(state)
    accounts.work_seconds += flows.work * seconds
    accounts.gpu_seconds += flows.has * seconds
    accounts.promised_seconds += flows.promised * seconds
    accounts.borrowed_seconds += flows.borrowed * seconds
    accounts.lent_seconds += flows.lent * seconds
    if tenants.fairness == CREDITS:
        assert flows.gained is not None
        accounts.credit[1:] += flows.gained[1:] * seconds
    elif tenants.fairness == DECAY:
        kept = 0.5 ** (seconds / tenants.half_life_seconds)
        accounts.usage *= kept
        accounts.usage += flows.work * (tenants.half_life_seconds / np.log(2.0) * (1.0 - kept))
    if tenants.fairness != NO_FAIRNESS:
        _rank(state, flows.step)


def _flows_now(state: State) -> Flows:
    """Return what nodes receive, lend and borrow. It stays the same while the jobs do."""
    accounts, table, usable = state.tenants, state.jobs.table, state.usable()[1]
    reference, size, known = reference_rates(state), state.jobs.table.size, state.tenants._flows
    same_tree = known is not None and known.parent is accounts.parent and known.reference is reference
    jobs = tuple(column[:size].tobytes() for column in (table.owner, table.gpus, table.kind))
    runs = (*jobs, *(column[:size].tobytes() for column in (table.gpus_in_use, table.rate, table.best_rate)))
    asks = (*jobs, table.blocks[:size].tobytes())
    same_runs, same_asks = known is not None and known.runs == runs, known is not None and known.asks == asks
    if known is not None and same_tree and same_runs and same_asks and known.usable is usable:
        return known
    has, work = (known.has, known.work) if known is not None and same_tree and same_runs else received_now(state)
    promised = known.promised if known is not None and same_tree and same_asks else _promised_now(state)
    borrowed, lent, gained = _lent_now(state, has, work)
    if known is not None and known.parent is accounts.parent and known.usable is usable:
        step = known.step
    else:
        assert accounts.tenants is not None
        step = accounts.tenants.turn_seconds * part_of(accounts, float(usable.sum()))
    found = Flows(accounts.parent, reference, usable, runs, asks, has, work, promised, borrowed, lent, gained, step)
    accounts._flows = found
    return found


def _lent_now(state: State, has: Floats, work: Floats) -> tuple[Floats, Floats, Floats | None]:
    """Return for each node the GPUs that it borrows and lends, and the credit that it gains each second; None without credits."""
    accounts = state.tenants
    assert accounts.tenants is not None
    parent, nodes = accounts.parent, len(accounts.parent)
    borrowed = np.maximum(has - accounts.guarantee, 0.0)
    borrowed[0] = 0.0
    idle = np.maximum(accounts.guarantee - has, 0.0)
    # By the number of the node above: what its children borrow, and how much of that no child's guarantee covers.
    borrowed_below = np.bincount(parent[1:], borrowed[1:], nodes)
    idle_below = np.bincount(parent[1:], idle[1:], nodes)
    capacity = has.copy()
    capacity[0] = state.usable()[1].sum()
    spare = np.maximum(capacity - np.bincount(parent[1:], accounts.guarantee[1:], nodes), 0.0)
    from_lenders = np.minimum(np.maximum(borrowed_below - spare, 0.0), idle_below)
    lent = idle * (from_lenders / np.maximum(idle_below, 1e-12))[parent]
    gained = None
    if accounts.tenants.fairness == CREDITS:
        paid = work * borrowed / np.maximum(has, 1e-12)
        paid_below = np.bincount(parent[1:], paid[1:], nodes)
        to_lenders = paid_below * from_lenders / np.maximum(borrowed_below, 1e-12)
        weight_below = np.bincount(parent[1:], accounts.weight[1:], nodes)
        by_weight = (paid_below - to_lenders) / np.maximum(weight_below, 1e-12)
        earned = by_weight[parent] * accounts.weight
        earned += (to_lenders / np.maximum(from_lenders, 1e-12))[parent] * lent
        gained = earned - paid
    return borrowed, lent, gained


def _promised_now(state: State) -> Floats:
    """Return for each node the normalised work per second that its guarantee alone would give to its unfinished jobs, where a
    GPU is worth as much as an average GPU to them; without jobs it is worth 1."""
    accounts, table, nodes = state.tenants, state.jobs.table, len(state.tenants.parent)
    rows = (table.blocks[: table.size] & (ENDED | HELD) == 0).nonzero()[0]
    owner, gpus = table.owner[rows], table.gpus[rows]
    asked = np.bincount(owner, gpus, nodes).astype(np.float64)
    worth = np.bincount(owner, gpus * reference_rates(state)[2][table.kind[rows]], nodes).astype(np.float64)
    capped = asked.copy()
    for level in accounts.levels:
        above = accounts.parent[level]
        capped[level] = np.minimum(capped[level], accounts.cap[level])
        capped += np.bincount(above, capped[level], nodes)
        asked += np.bincount(above, asked[level], nodes)
        worth += np.bincount(above, worth[level], nodes)
    average = np.where(asked > 0, worth / np.maximum(asked, 1e-12), 1.0)
    promised: Floats = np.minimum(accounts.guarantee, capped) * average
    return promised


def received_now(state: State) -> tuple[Floats, Floats]:
    """Return for each node the GPUs that its jobs use now, and their normalised work per second."""
    accounts, table = state.tenants, state.jobs.table
    rows = (table.gpus_in_use[: table.size] > 0).nonzero()[0]
    owner, nodes = table.owner[rows], len(accounts.parent)
    has = np.bincount(owner, table.gpus_in_use[rows], nodes).astype(np.float64)
    reference = reference_rates(state)[1][table.kind[rows]]
    reference = np.where(reference > 0, reference, table.best_rate[rows])
    rate = table.rate[rows] * table.gpus[rows] / np.maximum(reference, 1e-12)
    work = np.bincount(owner, rate, nodes).astype(np.float64)
    for level in accounts.levels:
        above = accounts.parent[level]
        has += np.bincount(above, has[level], nodes)
        work += np.bincount(above, work[level], nodes)
    return has, work


def reference_rates(state: State) -> tuple[Options, Floats, Floats]:
    """Return the options, and for each kind the believed rate of the requested size on the reference type, and the normalised
    work per second of an average GPU of the cluster. A kind that does not run on the reference type counts its fastest type
    instead."""
    accounts, options, cluster = state.tenants, state.beliefs.options, state.nodes.cluster
    assert accounts.tenants is not None
    if accounts._reference is None or accounts._reference[0] is not options:
        named = accounts.tenants.reference
        pool = cluster.pools.index(named) if named in cluster.pools else int(state.beliefs.pool_rank(cluster).argmin())
        sizes = np.array([kind.demand.milligpus for kind in state.jobs.kind_of], dtype=np.int64)
        on_pool = np.stack([_rates_on(options, number, sizes) for number in range(len(cluster.pools))], axis=1)
        rates = np.where(on_pool[:, pool] > 0, on_pool[:, pool], on_pool.max(axis=1, initial=0.0))
        runs = on_pool > 0
        gpus = np.maximum((cluster.pool_gpus * runs).sum(axis=1), 1)
        average = (on_pool * cluster.pool_gpus).sum(axis=1) / gpus / np.maximum(rates, 1e-12)
        accounts._reference = (options, rates, average)
    return accounts._reference


def _rates_on(options: Options, pool: int, sizes: Ints) -> Floats:
    """Return for each kind the rate of the requested size on a pool; 0 if it does not run there."""
    rows = options.by_kind
    found = (rows >= 0) & (options.pool[rows] == pool) & (options.partner_kind[rows] < 0)
    found &= options.milligpus[rows] == sizes.reshape(-1, 1)
    rates: Floats = np.where(found, options.rate[rows], 0.0).max(axis=1, initial=0.0)
    return rates


def _rank(state: State, step: Floats) -> None:
    """Move nodes to other bands whose credit or usage has left theirs by half a band, and plan again if one has moved. `step`:
    width of the bands of each node."""
    accounts = state.tenants
    assert accounts.tenants is not None
    score = accounts.credit if accounts.tenants.fairness == CREDITS else -accounts.usage
    at = score / accounts.weight / step
    left = (at > accounts.band + 1.5) | (at < accounts.band - 0.5)
    if left.any():
        accounts.band = np.where(left, np.floor(at).astype(np.int64), accounts.band)
        state.cycle.needs_plan = True


def part_of(accounts: TenantAccounts, capacity: float) -> Floats:
    """Return for each node the GPUs that it would have if siblings shared those above them equally; at least a thousandth."""
    parent, nodes = accounts.parent, len(accounts.parent)
    siblings = np.bincount(parent[1:], minlength=nodes)
    part = np.full(nodes, max(capacity, 1.0))
    for level in reversed(accounts.levels):
        part[level] = part[parent[level]] / siblings[parent[level]]
    least: Floats = np.maximum(part, 1.0 / MILLI)
    return least
