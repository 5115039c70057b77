"""Validate: what must hold of the state after every step. Switched on in tests and in chaos, never on the hot path."""

import numpy as np

from rota.core.fold.colocation import partner_of
from rota.core.plan.quotas import taken_limits
from rota.core.state.job_table import NO_JOB
from rota.core.state.phases import AWAITS, HIDDEN, NEVER_FITS, PAUSED, TO_CANCEL, TO_KILL, WITH_ATTEMPT
from rota.core.state.records import NO_GPUS, same_gpus
from rota.core.state.state import State
from rota.model.commands import Resize
from rota.model.job import Phase
from rota.model.occupancy import FRACTIONAL, FREE, HALF, Occupancy
from rota.model.units import FOREVER, MILLI


def validate(state: State) -> None:
    """Raise AssertionError for the first invariant that does not hold."""
    table = state.jobs.table
    assert sorted(state.jobs.row) == sorted(state.jobs.specs), "rows and specs name different jobs"
    for job, row in state.jobs.row.items():
        assert table.id[row] == job, f"row {row} is not job {job}'s"
        assert not Phase(table.phase[row]).ended, f"job {job} ended but was not forgotten"
    _check_gpus(state)
    _check_wishes(state)
    _check_company(state)
    for job, flight in state.jobs.in_flight.items():
        attempt = state.jobs.attempts.get(job)
        assert attempt is not None, f"a command is in flight for job {job}, which has no attempt"
        assert flight.command.attempt == attempt.number, f"job {job}'s command speaks of another attempt"
        assert set(flight.waiting) <= set(flight.command.nodes), f"job {job} waits for nodes that got no command"
    for job in state.jobs.row:
        assert job in state.jobs.to_reconcile or job in state.jobs.in_flight or state.is_reconciled(job), (
            f"job {job} is neither settled nor waiting to be reconciled"
        )
    _check_phases(state)
    assert (state.nodes.host_gib >= -1e-6).all(), "more host memory is used than there is"
    assert (state.nodes.context_gib >= -1e-6).all(), "parked jobs keep less than nothing on a GPU"
    _check_memory(state)
    _check_caches(state)
    _check_limits(state)
    if state.tenants.tenants is not None:
        _check_tenants(state)


def _check_phases(state: State) -> None:
    """The phase of a job follows from its attempt, its command and the nodes that are reachable."""
    table = state.jobs.table
    for job, row in state.jobs.row.items():
        phase, blocks, attempt = Phase(table.phase[row]), table.blocks.item(row), state.jobs.attempts.get(job)
        assert (attempt is not None) == (phase in WITH_ATTEMPT), f"job {job} is {phase.label} and its attempt is {attempt}"
        assert (phase is Phase.UNREACHABLE) == bool(blocks & HIDDEN), f"job {job} is {phase.label} with blocks {blocks}"
        assert phase is not Phase.STOPPING or blocks & TO_KILL, f"job {job} is stopping for no reason"
        assert blocks & TO_KILL == 0 or phase in (Phase.STOPPING, Phase.UNREACHABLE), (
            f"job {job} is to be killed and {phase.label}"
        )
        assert not blocks & TO_CANCEL or blocks & TO_KILL, f"job {job} is cancelled, and its attempt is not to be killed"
        assert table.gpus_in_use[row] or not table.rate[row], f"job {job} does not run and has a rate"
        pause = state.jobs.setbacks.get(job)
        assert bool(blocks & PAUSED) == (pause is not None and pause.until_s > -FOREVER), f"the pause of job {job} is out of step"
        assert bool(blocks & NEVER_FITS) != state.can_ever_run(table.kind.item(row)), f"job {job} is wrong about whether it fits"
    waiting = {job for job, row in state.jobs.row.items() if table.blocks.item(row) & AWAITS}
    assert waiting == state.jobs.waits_for.keys(), "the jobs that wait for others are out of step"
    for job, awaited in state.jobs.waits_for.items():
        assert awaited and all(each.job in state.jobs.row for each in awaited), f"job {job} waits for a job that has ended"
        assert all(job in state.jobs.awaited_by[each.job] for each in awaited), f"job {job} waits, and nothing releases it"
    barred = {job for job in state.jobs.attempts if table.blocks[state.jobs.row[job]]}
    assert state.jobs.unschedulable_holders == barred, "the set of barred jobs is out of step"


def _check_limits(state: State) -> None:
    """No group of jobs has more GPUs or running jobs by the plan than its limit, but for jobs that save nothing."""
    limits = taken_limits(state)
    if limits is not None and not state.cycle.needs_plan and state.cycle.call_jobs is None:
        for group, name in enumerate(limits.names):
            held = [job for job in state.jobs.desired if group in limits.groups_of(job)]
            pinned = all(not state.jobs.table.saves[state.jobs.row[job]] for job in held)
            assert limits.left(group) >= 0 or pinned, f"jobs {held} of {name} have {-limits.left(group)} too many"


def _check_tenants(state: State) -> None:
    """What siblings have earned, others have paid."""
    accounts = state.tenants
    for above in set(accounts.parent[1:].tolist()):
        credits = accounts.credit[accounts.parent == above]
        assert abs(credits.sum()) <= 1e-6 * max(abs(credits).max(initial=1.0), 1.0), (
            f"the credits below node {above} are {credits}"
        )
    for job, row in state.jobs.row.items():
        expected = accounts.node_of[accounts.leaf_of(state.jobs.specs[job])]
        assert state.jobs.table.owner[row] == expected, f"job {job} is in the account of another user"


def _check_memory(state: State) -> None:
    """What jobs take and what parked jobs keep on a GPU fits into it, but for a job that does not fit into any such GPU."""
    taken_gib = state.nodes.context_gib.copy()
    options = state.beliefs.options
    for job, attempt in state.jobs.attempts.items():
        spec = state.jobs.specs[job]
        if options.partner_kind[attempt.option] >= 0 or spec.gpus < 1:
            continue  # two whose rates together are known do fit
        gpu_gib = spec.gpu_gib or 0.0
        if not attempt.parked and gpu_gib <= state.nodes.gpu_gib[attempt.gpus].min():
            own_gib = state.beliefs.costs.memory.context_gib if attempt.host_memory_reserved else 0.0  # it is on its way out
            taken_gib[state.gpus_of(job)] += max(gpu_gib - own_gib, 0.0)
    over = (taken_gib > state.nodes.gpu_gib + 1e-6).nonzero()[0]
    assert not len(over), (
        f"{taken_gib[over]} GiB are used of {state.nodes.gpu_gib[over]} on GPUs {over}, "
        f"{state.nodes.context_gib[over]} by parked jobs, by {state.nodes.observed.holders(over)}"
    )


def _check_caches(state: State) -> None:
    fresh = state.without_memos()
    assert (fresh.jobs.rows == state.jobs.rows).all(), "the list of jobs that may be scheduled is out of date"
    assert (fresh.usable()[0] == state.usable()[0]).all(), "the map of usable GPUs is out of date"


def _check_gpus(state: State) -> None:
    for occupancy in (state.nodes.observed, state.nodes.planned):
        for gpu in occupancy.gpu_fractions:
            assert occupancy.holder[gpu] == FRACTIONAL and occupancy.room(gpu) >= 0, f"more of GPU {gpu} is taken than there is"
        assert set((occupancy.holder == FRACTIONAL).nonzero()[0].tolist()) == set(occupancy.gpu_fractions), (
            "the table of parts is out of step"
        )
    for job in state.nodes.observed.holders(np.arange(state.nodes.cluster.gpus)):
        attempt = state.jobs.attempts.get(job)
        assert attempt is not None, f"job {job} holds GPUs but has no attempt"
        held = np.arange(state.nodes.cluster.gpus)[state.nodes.observed.held(job, np.arange(state.nodes.cluster.gpus))]
        assert set(held.tolist()) <= set(attempt.gpus.tolist()), f"job {job} holds GPUs it was never given"
    for job, attempt in state.jobs.attempts.items():
        assert job in state.jobs.row, f"job {job} has an attempt but is not in the table"
        assert attempt.number == state.jobs.table.attempt[state.jobs.row[job]], f"job {job} runs an attempt that is not its own"
        assert attempt.live_nodes, f"job {job} has an attempt without parts"
        pools = set(state.nodes.cluster.gpu_pool[attempt.gpus].tolist())
        assert len(pools) == 1, f"job {job} mixes accelerator types"
        flight = state.jobs.in_flight.get(job)
        if not state.jobs.to_kill(job) and (flight is None or not isinstance(flight.command, Resize)):
            width = state.beliefs.options.gpus[attempt.option]
            assert len(set(attempt.gpus.tolist())) == width, f"job {job}'s gang is not whole"
            nodes = set(state.nodes.nodes_of(attempt.gpus))
            assert set(attempt.live_nodes) <= nodes, f"job {job} has parts where it has no GPUs"


def _check_wishes(state: State) -> None:
    table = state.jobs.table
    expected = Occupancy(np.full(state.nodes.cluster.gpus, FREE, dtype=np.int64))
    for job, gpus in sorted(state.jobs.desired.items()):
        row = state.jobs.row[job]
        partner = int(table.partner[row])
        part = HALF if partner != NO_JOB else state.jobs.specs[job].milli_per_gpu
        assert all(expected.room(gpu) >= part for gpu in gpus.tolist()), f"GPUs of job {job} are promised twice"
        expected.take(job, gpus, part)
        assert table.option[row] >= 0, f"job {job} is placed but not granted"
        if partner != NO_JOB:
            assert table.partner[state.jobs.row[partner]] == job, (
                f"job {job} is to share with job {partner}, but not the other way round"
            )
            assert same_gpus(state.jobs.desired[partner], gpus), (
                f"jobs {job} and {partner} are to share GPUs but have others each"
            )
            mine, its = int(table.option[row]), int(table.option[state.jobs.row[partner]])
            by_option = state.beliefs.options.partner_row[mine] == its
            by_tactic = state.beliefs.sharing and max(state.beliefs.options.partner_kind[[mine, its]]) < 0
            assert by_option or by_tactic, f"jobs {job} and {partner} do not pair"
        else:
            assert state.beliefs.options.partner_kind[table.option[row]] < 0, f"job {job} is granted company but has none"
    assert (expected.holder == state.nodes.planned.holder).all(), "the map of promised GPUs is out of step"
    for gpu, parts in expected.gpu_fractions.items():
        assert sorted(parts) == sorted(state.nodes.planned.gpu_fractions[gpu]), (
            f"the parts of GPU {gpu} that are promised are out of step"
        )


def _check_company(state: State) -> None:
    """Two on a GPU are partners, or one of them is on its way out; and what is believed of a job follows from who runs there."""
    table = state.jobs.table
    for gpu in state.nodes.observed.shared:
        pair = [job for job, _ in state.nodes.observed.gpu_fractions[gpu]]
        if all(state.jobs.specs[job].milli_per_gpu < MILLI for job in pair):
            continue  # parts of a GPU that do not add up to more than it
        assert len(pair) == 2, f"jobs {pair} hold GPU {gpu}"
        a, b = (state.jobs.attempts[job] for job in pair)
        assert pair[0] != pair[1] and same_gpus(a.gpus, b.gpus), f"jobs {pair} overlap on GPU {gpu}"
        leaving = [job for job in pair if not same_gpus(state.jobs.desired.get(job, NO_GPUS), state.jobs.attempts[job].gpus)]
        assert leaving or table.partner[state.jobs.row[pair[0]]] == pair[1], f"jobs {pair} share GPU {gpu} and are strangers"
    for job, attempt in state.jobs.attempts.items():
        using = table.gpus_in_use[state.jobs.row[job]]
        crowd = 1 if partner_of(state, job, attempt) == NO_JOB else 2
        assert using in (0, state.beliefs.options.milligpus[attempt.option] / MILLI / crowd), (
            f"job {job} is believed to use {using} of {len(attempt.gpus)} GPUs"
        )
