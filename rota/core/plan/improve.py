"""Tactics improve grants before places are picked: a waiting job joins a running one on its GPUs.

Two jobs share GPUs by their options alone; that they are partners is all that the plan says of it. How fast they are together is
in `state.knowledge.pairs`, and where nothing is known of that yet, a trial begins.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import Grants
from rota.core.plan.order import Candidates
from rota.core.settings import Settings
from rota.core.state.job_table import NO_JOB
from rota.core.state.records import same_gpus
from rota.core.state.state import State
from rota.model.allocation import Allocation, Ranking
from rota.model.trial import Trial
from rota.model.units import Bools, Ints
from rota.tactics.pack import Pack, Packable


def improve(
    state: State, settings: Settings, allocation: Allocation, table: CandidateTable, grants: Grants, alive: Bools | None
) -> tuple[Trial, ...]:
    """Change the grants to what the tactics make of them. Answers with the trials that begin by that."""
    pack = settings.tactics.pack
    waits = grants.option < 0
    if alive is not None:
        waits &= alive
    if pack is None or not waits.any() or grants.split:
        return ()
    if grants.partner is None:
        grants.partner = np.full(len(table), -1, dtype=np.int64)
    _keep_pairs(state, pack, table, grants, waits)
    return _new_pairs(state, pack, allocation, table, grants, waits)


def guests_last(state: State, settings: Settings, candidates: Candidates, table: CandidateTable) -> Candidates:
    """Of two that share GPUs, where that pays or is on trial, the one that comes later gets others only if all jobs have some."""
    pack = settings.tactics.pack
    if pack is None or not state.machines.planned.parts:
        return candidates
    order = np.full(len(table), len(candidates.position), dtype=np.int64)
    order[candidates.position[::-1]] = np.arange(len(candidates.position))[::-1]
    guests = [max(pair, key=lambda at: int(order[at])) for pair in _good_pairs(state, pack, table)]
    if not guests:
        return candidates
    last = np.isin(candidates.position, guests)
    turn = np.concatenate(((~last).nonzero()[0], last.nonzero()[0]))
    option = None if candidates.option is None else candidates.option[turn]
    return replace(candidates, position=candidates.position[turn], option=option)


def _good_pairs(state: State, pack: Pack, table: CandidateTable) -> Iterator[tuple[int, int]]:
    """Positions of two that share GPUs by a tactic, and should go on so if one of them keeps them."""
    jobs, options = state.jobs.table, table.options
    mates = jobs.partner[table.rows]
    shares = (mates != NO_JOB).nonzero()[0]
    position = {jobs.id.item(table.rows[at]): at for at in shares.tolist()}
    for at, mate in zip(shares.tolist(), mates[shares].tolist(), strict=True):
        other = position.get(mate, -1)
        option = table.granted_option.item(at)
        if other < at or options.partner_kind.item(option) >= 0:
            continue
        one, two = jobs.id.item(table.rows[at]), mate
        if _on_trial(state, one, two) or _worth(state, pack, one, two, option):
            yield at, other


def _keep_pairs(state: State, pack: Pack, table: CandidateTable, grants: Grants, waits: Bools) -> None:
    """Two that share go on if one of them keeps their GPUs and there are no others for the other one."""
    joining = []
    for one, other in _good_pairs(state, pack, table):
        for host, guest in ((one, other), (other, one)):
            if waits[guest] and grants.option.item(host) == table.granted_option.item(host) and _partner(grants)[host] < 0:
                _join(grants, host, guest, table.granted_option.item(guest))
                joining.append(guest)
                break
    if joining:
        waits[joining] = False
        grants.position = np.concatenate((grants.position, np.array(joining, dtype=np.int64)))


def _new_pairs(
    state: State, pack: Pack, allocation: Allocation, table: CandidateTable, grants: Grants, waits: Bools
) -> tuple[Trial, ...]:
    hosts = _hosts(state, allocation, table, grants)
    if not hosts:
        return ()
    cluster, jobs = state.machines.cluster, state.jobs.table
    trials = [each for each in state.knowledge.trials.values() if state.now_s < each.given_up_s]
    busy = {
        state.machines.nodes_of(state.jobs.desired[job])[0] for each in trials for job in each.jobs if job in state.jobs.desired
    }

    def gain(host: str, guest: str, pool: int, gpus: int) -> float | None:
        seen = state.knowledge.pair_seen(host, guest, cluster.pools[pool], gpus)
        return None if seen is None else seen.gain

    guests = _guests(state, allocation, table, waits, {(each.pool, each.gpus) for each in hosts})
    wishes = pack.pair_up(hosts, guests, gain, busy, state.knowledge.usual_surprise)
    begun, joining = [], []
    number = state.knowledge.tried
    for host, guest, option, hoped in wishes:
        pair = (jobs.id.item(table.rows[host]), jobs.id.item(table.rows[guest]))
        if hoped is not None:
            before = _baseline(state, pair[0], grants.option.item(host)), _baseline(state, pair[1], option)
            names = sorted(state.name_of(job) for job in pair)
            number += 1
            pool, gpus = table.options.pool.item(option), table.options.gpus.item(option)
            key = (names[0], names[1], cluster.pools[pool], gpus)
            assert before[0] is not None and before[1] is not None
            until_s = state.now_s + pack.settle_seconds + max(_start_seconds(state, job) for job in pair)
            begun.append(Trial(number, "pack", pair, key, state.now_s, until_s, (before[0], before[1]), hoped))
        _join(grants, host, guest, option)
        joining.append(guest)
    if joining:
        grants.position = np.concatenate((grants.position, np.array(joining, dtype=np.int64)))
    return tuple(begun)


def _hosts(state: State, allocation: Allocation, table: CandidateTable, grants: Grants) -> list[Packable]:
    """Jobs that go on where they are, alone, and those that begin now on GPUs that are settled."""
    jobs, machines = state.jobs.table, state.machines
    alone = (grants.option >= 0) & (_partner(grants) < 0) & (jobs.partner[table.rows] == NO_JOB)
    goes_on = alone & (grants.option == table.granted_option) & table.running
    begins = alone & (table.granted_option < 0)
    found = []
    for at in grants.position[(goes_on | begins)[grants.position]].tolist():
        option = grants.option.item(at)
        job = jobs.id.item(table.rows[at])
        if job in state.jobs.in_flight or state.jobs.specs[job].gpus < 1:
            continue
        gpus = _seat_of(state, allocation, at, job, bool(begins[at]))
        measured = _baseline(state, job, option) is not None
        if gpus is None or len(gpus) != table.options.gpus.item(option) or not (measured or begins[at]):
            continue
        gib, own_gib = _gib(state, job), 0.0
        attempt = state.jobs.attempts.get(job)
        if attempt is not None and attempt.reserved:
            own_gib = state.knowledge.costs.memory.context_gib
        room = float((machines.gpu_gib[gpus] - machines.context_gib[gpus]).min()) + own_gib - (gib if gib == gib else 0.0)
        found.append(
            _packable(state, at, job, option)._replace(
                node=machines.nodes_of(gpus)[0], room_gib=room, seat=tuple(gpus.tolist()), measured=measured
            )
        )
    return found


def _seat_of(state: State, allocation: Allocation, position: int, job: int, begins: bool) -> Ints | None:
    """The GPUs of a job that goes on, or begins where it sleeps or where the policy wants it; None: the placer will pick them."""
    attempt = state.jobs.attempts.get(job)
    if not begins:
        gpus = state.jobs.desired.get(job)
        stays = gpus is not None and attempt is not None and same_gpus(attempt.gpus, gpus)
        return gpus if stays else None
    if attempt is not None:
        return attempt.gpus if attempt.parked else None
    wanted = allocation.hints.get(position, ())
    return np.array(sorted(wanted), dtype=np.int64) if wanted else None


def _guests(
    state: State, allocation: Allocation, table: CandidateTable, waits: Bools, wanted: set[tuple[int, int]]
) -> list[Packable]:
    """Jobs that wait and were measured alone, once for each pool where a host of their size runs; the most deserving first."""
    jobs, options = state.jobs.table, table.options
    order = allocation.order if isinstance(allocation, Ranking) else np.arange(len(table))
    found = []
    for at in order[waits[order]].tolist():
        job = jobs.id.item(table.rows[at])
        if state.jobs.specs[job].gpus < 1 or job in state.jobs.in_flight:
            continue
        attempt = state.jobs.attempts.get(job)
        seat = tuple(attempt.gpus.tolist()) if attempt is not None else ()
        for option in options.by_kind[table.kind.item(at)].tolist():
            if option < 0 or options.too_slow.item(option):
                continue
            pool = options.pool.item(option)
            if (pool, options.gpus.item(option)) not in wanted or _baseline(state, job, option) is None:
                continue
            if not seat or pool == state.machines.cluster.gpu_pool.item(seat[0]):
                found.append(_packable(state, at, job, option)._replace(seat=seat))
    return found


def _packable(state: State, position: int, job: int, option: int) -> Packable:
    options = state.knowledge.options
    use = state.jobs.table.utilisation.item(state.jobs.row[job])
    pool, gpus = options.pool.item(option), options.gpus.item(option)
    return Packable(position, state.name_of(job), option, pool, gpus, -1, use, _gib(state, job), 0.0)


def _start_seconds(state: State, job: int) -> float:
    """How long a job is believed to take until it runs."""
    row, attempt = state.jobs.row[job], state.jobs.attempts.get(job)
    if attempt is None:
        return state.jobs.table.move_seconds.item(row)
    return state.jobs.table.resume_seconds.item(row) if attempt.parked else 0.0


def _baseline(state: State, job: int, option: int) -> float | None:
    """Steps per second that were measured alone by this option: of the job itself, or of one with its profile."""
    jobs = state.jobs.table
    row = state.jobs.row[job]
    if jobs.alone_option.item(row) == option:
        return jobs.alone_rate.item(row)
    return state.knowledge.alone.get(option) if state.jobs.specs[job].profile else None


def _gib(state: State, job: int) -> float:
    """The most memory it takes: as it said, or as it was seen."""
    return state.gib_of(job) or math.nan


def _join(grants: Grants, host: int, guest: int, option: int) -> None:
    partner = _partner(grants)
    partner[host], partner[guest] = guest, host
    grants.option[guest] = option


def _partner(grants: Grants) -> Ints:
    assert grants.partner is not None
    return grants.partner


def _worth(state: State, pack: Pack, guest: int, host: int, option: int) -> bool:
    options = state.knowledge.options
    seen = state.pair_seen(host, guest, options.pool.item(option), options.gpus.item(option))
    return seen is not None and seen.gain > pack.least_gain


def _on_trial(state: State, guest: int, host: int) -> bool:
    return any({guest, host} == set(each.jobs) and state.now_s < each.given_up_s for each in state.knowledge.trials.values())
