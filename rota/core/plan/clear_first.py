"""Clear first: a gang without a place gets one by moves before its GPUs go to the jobs behind it.

Otherwise small jobs take what is free, and when `defragment` runs there is too little left for the gang that comes before them.
"""

from dataclasses import replace

import numpy as np

from rota.core.plan.draft import Draft
from rota.core.plan.gang_search import GangSearch
from rota.core.plan.mover import Mover
from rota.core.plan.placements import changes
from rota.core.plan.tactic import act


def find_places(draft: Draft) -> tuple[int, ...]:
    """Find a place for each gang, or grant its GPUs to the jobs behind it. Return the jobs that move aside for gangs."""
    grants, candidates = draft.grants, draft.candidates
    search = GangSearch(draft, candidates, grants)
    draft.places = places = search.run()
    tactics = draft.settings.tactics.clearing
    if not tactics or not places.fragmented or candidates.blocking or draft.hints:
        draft.limits = search.limits
        return ()
    kept = GangSearch(draft, replace(candidates, blocking=True), grants).run()
    mover = Mover(draft, kept, changes(draft, kept))
    waited = mover.waits.copy()
    for tactic in tactics:
        act(tactic, "clear", mover)
    job = draft.state.jobs.table.id[draft.table.rows]
    aside = np.isin(job, mover.moved) if draft.alive is None else np.isin(job, mover.moved) & draft.alive
    if not mover.moved or int(aside.sum()) < len(mover.moved):
        draft.limits = search.limits
        return ()
    settled = {}
    for position in (aside | (waited & ~mover.waits)).nonzero()[0].tolist():
        change = mover.changes[job.item(position)]
        assert change.gpus is not None
        settled[position] = (change.option, change.gpus)
    search = GangSearch(draft, candidates, grants, settled)
    draft.places = search.run()
    draft.limits = search.limits
    return tuple(mover.moved)
