"""Partners: which two jobs share GPUs by a plan. Jobs of one kind are interchangeable, so that as few as possible move."""

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import Grants
from rota.core.state.state import State
from rota.model.options import Options
from rota.model.plan import PlacementChange
from rota.model.units import Ints


def partners(state: State, table: CandidateTable, grants: Grants) -> Ints:
    """Return the future partner of each position. Partners stay together where their kinds allow, and two jobs that have GPUs of
    the same pool each do not give some up if others have none."""
    found = np.full(len(table), -1, dtype=np.int64)
    if grants.partner is None:
        return found
    shared = np.flatnonzero(grants.partner >= 0)
    partner = dict(zip(shared.tolist(), grants.partner[shared].tolist(), strict=True))
    ids, before = state.jobs.table.id[table.rows[shared]], state.jobs.table.partner[table.rows[shared]]
    position = dict(zip(ids.tolist(), shared.tolist(), strict=True))
    mates = {at: position[mate] for at, mate in zip(shared.tolist(), before.tolist(), strict=True) if mate in position}
    _keep_together(partner, mates, grants.option, table.options)
    _spare_moves(partner, mates, _seated(table, grants, shared), grants.option, table.options)
    found[list(partner)] = state.jobs.table.id[table.rows[list(partner.values())]]
    return found


def _swap(partner: dict[int, int], one: int, other: int) -> None:
    """Make two positions partners, and the partners that they leave."""
    left, right = partner[one], partner[other]
    partner[one], partner[other], partner[left], partner[right] = other, one, right, left


def _keep_together(partner: dict[int, int], mates: dict[int, int], option: Ints, options: Options) -> None:
    for one, mate in mates.items():
        if partner[one] != mate and options.partner_row[option[one]] == option[mate]:
            _swap(partner, one, mate)


def _seated(table: CandidateTable, grants: Grants, shared: Ints) -> set[int]:
    """Positions that have GPUs of the pool they are granted now."""
    held, pool = table.granted_option[shared], table.options.pool
    return set(shared[(held >= 0) & (pool[held] == pool[grants.option[shared]])].tolist())


def _spare_moves(partner: dict[int, int], mates: dict[int, int], sits: set[int], option: Ints, options: Options) -> None:
    """Regroup two units of the same kinds, of which one has GPUs twice and one has none, so that each has GPUs once."""
    without: dict[int, list[int]] = {}
    for one, other in partner.items():
        if one not in sits and other not in sits:
            without.setdefault(int(option[one]), []).append(one)
    if not without:
        return
    for one in list(partner):
        other = partner[one]
        if one in sits and other in sits and mates.get(one) != other:
            free = without.get(int(options.partner_row[option[one]]), [])
            while free and (partner[free[-1]] in sits or free[-1] in (one, other)):
                free.pop()  # it has a partner by now
            if free:
                _swap(partner, one, free.pop())


def left_behind(state: State, jobs: list[int]) -> list[PlacementChange]:
    """Partners of changed jobs that the answer does not know. They keep their GPUs, exclusively."""
    table, changed, found = state.jobs.table, set(jobs), []
    for job in jobs:
        mate = table.partner.item(state.jobs.row[job])
        if mate >= 0 and mate not in changed:
            option = state.beliefs.options.alone.item(table.option.item(state.jobs.row[mate]))
            found.append(PlacementChange(mate, option, state.jobs.desired[mate]))
    return found
