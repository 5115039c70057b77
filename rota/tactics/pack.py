"""Pack: while jobs wait, a waiting job may join a running one on its GPUs (Gandiva, OSDI'18, section 4.2).

Whether a pair does more together than in turns is measured, not guessed: a pair that was never measured begins a trial. Each of
the two keeps its exclusive option; the plan only makes them partners. `state.beliefs.pairs` has their rates together.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.draft import Draft
from rota.core.plan.fill import Grants
from rota.core.plan.tactic import Colocating
from rota.core.state.job_table import NO_JOB
from rota.core.state.records import same_gpus
from rota.core.state.state import State
from rota.model.allocation import Allocation, Ranking
from rota.model.trial import Trial
from rota.model.units import Bools, Ints
from rota.tactics.pair_up import Packable, pair_up


@dataclass(frozen=True)
class Pack(Colocating):
    """Colocate two jobs on the same GPUs if they do more together than one after the other."""

    turn: ClassVar[int] = 10

    def order(self, draft: Draft) -> None:
        """Move the later job of each good pair behind all other candidates, so it gets other GPUs only after them. A pair is good
        if it pays or is on trial."""
        state, table, candidates = draft.state, draft.table, draft.candidates
        if not state.nodes.planned.gpu_fractions:
            return
        order = np.full(len(table), len(candidates.position), dtype=np.int64)
        order[candidates.position[::-1]] = np.arange(len(candidates.position))[::-1]
        joiners = [max(pair, key=lambda at: int(order[at])) for pair in _good_pairs(state, self, table)]
        if not joiners:
            return
        last = np.isin(candidates.position, joiners)
        turn = np.concatenate(((~last).nonzero()[0], last.nonzero()[0]))
        option = None if candidates.option is None else candidates.option[turn]
        draft.candidates = replace(candidates, position=candidates.position[turn], option=option)

    def improve(self, draft: Draft) -> None:
        """Let waiting jobs join running ones."""
        table, grants, waits = draft.table, draft.grants, draft.waiting()
        if not waits.any() or grants.split:
            return
        if grants.partner is None:
            grants.partner = np.full(len(table), -1, dtype=np.int64)
        _keep_pairs(draft.state, self, table, grants, waits)
        _new_pairs(draft, self, waits)


def _good_pairs(state: State, pack: Pack, table: CandidateTable) -> Iterator[tuple[int, int]]:
    """Positions of partners by this tactic that should stay partners if one of them keeps its GPUs."""
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
    """Keep partners together if one of them keeps its GPUs and the other has no grant."""
    joining = []
    for one, other in _good_pairs(state, pack, table):
        for runner, joiner in ((one, other), (other, one)):
            if waits[joiner] and grants.option.item(runner) == table.granted_option.item(runner) and _partner(grants)[runner] < 0:
                _join(grants, runner, joiner, table.granted_option.item(joiner))
                joining.append(joiner)
                break
    if joining:
        waits[joining] = False
        grants.position = np.concatenate((grants.position, np.array(joining, dtype=np.int64)))


def _new_pairs(draft: Draft, pack: Pack, waits: Bools) -> None:
    state, allocation, table, grants = draft.state, draft.allocation, draft.table, draft.grants
    runners = _runners(state, allocation, table, grants)
    if not runners:
        return
    cluster, jobs = state.nodes.cluster, state.jobs.table
    trials = [each for each in state.beliefs.trials.values() if state.now_s < each.given_up_s]
    busy = {state.nodes.nodes_of(state.jobs.desired[job])[0] for each in trials for job in each.jobs if job in state.jobs.desired}

    def gain(runner: str, joiner: str, pool: int, gpus: int) -> float | None:
        seen = state.beliefs.pair_stats(runner, joiner, cluster.pools[pool], gpus)
        return None if seen is None else seen.gain

    joiners = _joiners(state, allocation, table, waits, {(each.pool, each.gpus) for each in runners})
    surprise = state.beliefs.mean_gain_error
    wishes = pair_up(runners, joiners, gain, min_gain=pack.min_gain, busy=busy, surprise=surprise)
    number = state.beliefs.trials_begun
    for runner, joiner, option, hoped in wishes:
        pair = (jobs.id.item(table.rows[runner]), jobs.id.item(table.rows[joiner]))
        if hoped is not None:
            before = _baseline(state, pair[0], grants.option.item(runner)), _baseline(state, pair[1], option)
            names = sorted(state.name_of(job) for job in pair)
            number += 1
            pool, gpus = table.options.pool.item(option), table.options.gpus.item(option)
            key = (names[0], names[1], cluster.pools[pool], gpus)
            assert before[0] is not None and before[1] is not None
            until_s = state.now_s + pack.settle_seconds + max(_start_seconds(state, job) for job in pair)
            draft.trials.append(Trial(number, "pack", pair, key, state.now_s, until_s, (before[0], before[1]), hoped))
        draft.colocate(runner, joiner, option)


def _runners(state: State, allocation: Allocation, table: CandidateTable, grants: Grants) -> list[Packable]:
    """Jobs that continue exclusively where they are, and jobs that begin now on GPUs that are known."""
    jobs, nodes = state.jobs.table, state.nodes
    alone = (grants.option >= 0) & (_partner(grants) < 0) & (jobs.partner[table.rows] == NO_JOB)
    continues = alone & (grants.option == table.granted_option) & table.running
    begins = alone & (table.granted_option < 0)
    found = []
    for at in grants.position[(continues | begins)[grants.position]].tolist():
        option = grants.option.item(at)
        job = jobs.id.item(table.rows[at])
        if job in state.jobs.in_flight or state.jobs.specs[job].gpus < 1:
            continue
        gpus = _gpus_of(state, allocation, at, job, bool(begins[at]))
        measured = _baseline(state, job, option) is not None
        if gpus is None or len(gpus) != table.options.gpus.item(option) or not (measured or begins[at]):
            continue
        gib, own_gib = _gib(state, job), 0.0
        attempt = state.jobs.attempts.get(job)
        if attempt is not None and attempt.host_memory_reserved:
            own_gib = state.beliefs.costs.memory.context_gib
        room = float((nodes.gpu_gib[gpus] - nodes.context_gib[gpus]).min()) + own_gib - (gib if gib == gib else 0.0)
        found.append(
            _packable(state, at, job, option)._replace(
                node=nodes.nodes_of(gpus)[0], room_gib=room, gpus_held=tuple(gpus.tolist()), measured=measured
            )
        )
    return found


def _gpus_of(state: State, allocation: Allocation, position: int, job: int, begins: bool) -> Ints | None:
    """Return the GPUs of a job that continues, or that begins where it is parked or where the policy wants it; None if the placer
    will pick them."""
    attempt = state.jobs.attempts.get(job)
    if not begins:
        gpus = state.jobs.desired.get(job)
        stays = gpus is not None and attempt is not None and same_gpus(attempt.gpus, gpus)
        return gpus if stays else None
    if attempt is not None:
        return attempt.gpus if attempt.parked else None
    wanted = allocation.hints.get(position, ())
    return np.array(sorted(wanted), dtype=np.int64) if wanted else None


def _joiners(
    state: State, allocation: Allocation, table: CandidateTable, waits: Bools, wanted: set[tuple[int, int]]
) -> list[Packable]:
    """Waiting jobs that were measured exclusively, once for each pool with a runner of their size, in the policy's order."""
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
            if not seat or pool == state.nodes.cluster.gpu_pool.item(seat[0]):
                found.append(_packable(state, at, job, option)._replace(gpus_held=seat))
    return found


def _packable(state: State, position: int, job: int, option: int) -> Packable:
    options = state.beliefs.options
    use = state.jobs.table.utilization.item(state.jobs.row[job])
    pool, gpus = options.pool.item(option), options.gpus.item(option)
    return Packable(position, state.name_of(job), option, pool, gpus, -1, use, _gib(state, job), 0.0)


def _start_seconds(state: State, job: int) -> float:
    """Return the estimated seconds until a job runs."""
    row, attempt = state.jobs.row[job], state.jobs.attempts.get(job)
    if attempt is None:
        return state.jobs.table.move_seconds.item(row)
    return state.jobs.table.resume_seconds.item(row) if attempt.parked else 0.0


def _baseline(state: State, job: int, option: int) -> float | None:
    """Return the exclusive steps per second measured with this option, of the job itself or of a job with its profile."""
    jobs = state.jobs.table
    row = state.jobs.row[job]
    if jobs.alone_option.item(row) == option:
        return jobs.alone_rate.item(row)
    return state.beliefs.alone.get(option) if state.jobs.specs[job].profile else None


def _gib(state: State, job: int) -> float:
    """Return the peak memory of a job on each GPU, from its spec or as measured; NaN if unknown."""
    return state.memory.gpu_gib_of(job) or math.nan


def _join(grants: Grants, runner: int, joiner: int, option: int) -> None:
    partner = _partner(grants)
    partner[runner], partner[joiner] = joiner, runner
    grants.option[joiner] = option


def _partner(grants: Grants) -> Ints:
    assert grants.partner is not None
    return grants.partner


def _worth(state: State, pack: Pack, joiner: int, runner: int, option: int) -> bool:
    options = state.beliefs.options
    seen = state.pair_stats(runner, joiner, options.pool.item(option), options.gpus.item(option))
    return seen is not None and seen.gain > pack.min_gain


def _on_trial(state: State, joiner: int, runner: int) -> bool:
    return any({joiner, runner} == set(each.jobs) and state.now_s < each.given_up_s for each in state.beliefs.trials.values())
