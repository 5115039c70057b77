"""Clear first: a gang that finds no place gets one by moves before what it waits for goes to jobs behind it.

Else small jobs take what is free, and when `defragment` looks there is too little left for the gang that comes before them.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import Grants
from rota.core.plan.gang_search import GangSearch, Places
from rota.core.plan.move_aside import move_aside
from rota.core.plan.mover import Mover
from rota.core.plan.order import Candidates
from rota.core.plan.placements import changes
from rota.core.settings import Settings
from rota.core.state.state import State
from rota.model.allocation import Allocation
from rota.model.placement_view import Placer
from rota.model.units import Bools


class GangPlaces(NamedTuple):
    """Places of all, and the jobs that moved aside."""

    places: Places
    moved: tuple[int, ...] = ()


def find_places(
    state: State,
    settings: Settings,
    placer: Placer,
    allocation: Allocation,
    candidates: Candidates,
    table: CandidateTable,
    grants: Grants,
    alive: Bools | None,
) -> GangPlaces:
    """A place for each gang, or what it would have had for those behind it."""
    hints = allocation.hints
    places = GangSearch(state, settings, placer, candidates, table, grants, alive, hints).run()
    tactic = settings.tactics.defragment
    if tactic is None or not places.fragmented or candidates.blocking or hints:
        return GangPlaces(places)
    kept = GangSearch(state, settings, placer, replace(candidates, blocking=True), table, grants, alive, hints).run()
    changed = changes(state, settings, placer, allocation, table, kept, alive)
    mover = Mover(state, settings, placer, allocation, candidates, table, kept, alive, changed)
    waited = mover.waits.copy()
    move_aside(mover, tactic)
    job = state.jobs.table.id[table.rows]
    aside = np.isin(job, mover.moved) if alive is None else np.isin(job, mover.moved) & alive
    if not mover.moved or int(aside.sum()) < len(mover.moved):
        return GangPlaces(places)
    settled = {}
    for position in (aside | (waited & ~mover.waits)).nonzero()[0].tolist():
        change = mover.changes[job.item(position)]
        assert change.gpus is not None
        settled[position] = (change.option, change.gpus)
    places = GangSearch(state, settings, placer, candidates, table, grants, alive, hints, settled).run()
    return GangPlaces(places, tuple(mover.moved))
