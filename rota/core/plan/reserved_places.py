"""Reserved places: GPUs for granted jobs while some GPUs are not for every job.

The placer sees the GPUs of one group of jobs at a time: those that take GPUs of the same classes, as the fill has counted them.
Jobs that may only stay where they are choose first, then those that take GPUs of one class, then the others. A job for which the
placer finds no GPUs waits for another plan.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from rota.core.plan.choose_gpus import Unit, choose_for_jobs, choose_for_units
from rota.core.plan.draft import Draft
from rota.core.state.records import NO_GPUS
from rota.core.state.windows import Access
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.plan import PlacementChange
from rota.model.units import MILLI, Bools, Ints

RETRY_SECONDS = 60.0
"""Time until the next plan if a granted job found no GPUs, in seconds."""


def choose_jobs_apart(
    draft: Draft,
    access: Access,
    view: PlacementView,
    positions: Sequence[int],
    requests: Sequence[PlacementRequest],
    hints: Mapping[int, tuple[int, ...]],
) -> list[Ints | None]:
    """Choose GPUs for each request, by position. None: there are none for it."""
    groups: dict[tuple[bool, int, tuple[int, ...]], list[int]] = {}
    for number, at in enumerate(positions):
        classes = _classes(draft, at, requests[number].gpus)
        bound = not access.starts(requests[number].job)[list(classes)].all()
        groups.setdefault((not bound, len(classes), classes), []).append(number)
    room, found = view.available.copy(), list[Ints | None]([None] * len(requests))
    for (free, several, classes), members in sorted(groups.items()):
        inside = np.isin(access.gpu_class, classes)
        batches = [members] if free and several == 1 else [[each] for each in members]
        while batches:
            batch = batches.pop(0)
            mask = inside if free else inside & access.mask(requests[batch[0]].job)
            if not _suffices(draft, room & mask, [requests[each] for each in batch]):
                if len(batch) > 1:
                    batches = [[each] for each in batch] + batches
                    continue
                mask = access.mask(requests[batch[0]].job)
                if not _suffices(draft, room & mask, [requests[batch[0]]]):
                    continue
            elif several > 1:
                mask = mask & _as_counted(draft, access, room & mask, positions[batch[0]], _size(requests[batch[0]]))
            view.available = room & mask
            mine = [hints.get(positions[each], ()) for each in batch] if hints else ()
            chosen = choose_for_jobs(draft.state, draft.placer, view, [requests[each] for each in batch], mine)
            for each, gpus in zip(batch, chosen, strict=True):
                found[each] = gpus
                room[gpus] = False
    view.available = room
    return found


def choose_units_apart(
    draft: Draft, access: Access, view: PlacementView, units: dict[int, Unit]
) -> tuple[list[tuple[Unit, Ints]], list[int]]:
    """Choose GPUs for each unit, by the position of a member. Return also the jobs for which there are none."""
    room, found, without = view.available.copy(), [], []
    options = draft.table.options
    classes = {at: _classes(draft, at, max(options.milligpus.item(unit[0][1]) // MILLI, 1)) for at, unit in units.items()}
    for at in sorted(units, key=lambda at: (len(classes[at]), at)):
        unit = units[at]
        may = np.logical_and.reduce([access.mask(job) for job, _ in unit])
        pool, need = options.pool.item(unit[0][1]), max(options.milligpus.item(unit[0][1]) // MILLI, 1)
        counted = may & np.isin(access.gpu_class, classes[at])
        if len(classes[at]) > 1:
            counted &= _as_counted(draft, access, room & counted, at, (pool, need))
        for mask in (counted, may):
            if int((room & mask & (draft.state.nodes.cluster.gpu_pool == pool)).sum()) >= need:
                view.available = room & mask
                ((_, gpus),) = choose_for_units(draft.state, draft.placer, view, draft.hints, {at: unit})
                found.append((unit, gpus))
                room[gpus] = False
                break
        else:
            without += [job for job, _ in unit]
    view.available = room
    return found, without


def _classes(draft: Draft, position: int, gpus: int) -> tuple[int, ...]:
    """Return the classes from which a job takes GPUs; what a tactic has given it besides is in no window."""
    taken = draft.places.classes.get(position, {})
    more = {0} if sum(taken.values()) < gpus * MILLI else set()
    return tuple(sorted(taken.keys() | more))


def _as_counted(draft: Draft, access: Access, room: Bools, position: int, size: tuple[int, int]) -> Bools:
    """Return as many of these GPUs of a pool of each class as a job takes of it: its own first, then those on the nodes with the
    most of these GPUs. All of them if a tactic has given it more. `size`: the pool and the number of GPUs of the job."""
    taken, cluster = draft.places.classes.get(position, {}), draft.state.nodes.cluster
    found: Bools = room & (cluster.gpu_pool == size[0])
    if sum(taken.values()) < size[1] * MILLI:
        return found
    own = np.zeros(len(room), dtype=bool)
    own[draft.state.jobs.desired.get(draft.job_at(position), NO_GPUS)] = True
    by_node = cluster.count_by_node(found)[cluster.gpu_node]
    for each, milli in taken.items():
        mine = (found & (access.gpu_class == each)).nonzero()[0]
        order = mine[np.lexsort((-by_node[mine], ~own[mine]))]
        found[order[milli // MILLI :]] = False
    return found


def _size(request: PlacementRequest) -> tuple[int, int]:
    return request.pool, request.gpus


def _suffices(draft: Draft, room: Bools, requests: Sequence[PlacementRequest]) -> bool:
    """Return whether each pool has enough of these GPUs for requests."""
    pools = len(draft.state.nodes.cluster.pools)
    need = np.bincount([each.pool for each in requests], weights=[each.gpus for each in requests], minlength=pools)
    return bool((need <= np.bincount(draft.state.nodes.cluster.gpu_pool[room], minlength=pools)).all())


def given_up(draft: Draft, jobs: Sequence[int]) -> list[PlacementChange]:
    """Return the changes of jobs that were granted GPUs and found none: they wait."""
    if jobs:
        draft.look_again(draft.state.now_s + RETRY_SECONDS)
    return [PlacementChange(job, -1, None) for job in jobs if job in draft.state.jobs.desired]


def permitted(draft: Draft, access: Access, changes: Sequence[PlacementChange]) -> tuple[PlacementChange, ...]:
    """Return the changes without those that give a job GPUs that it may not use; it waits, and so does its partner. So the rule
    holds whatever tactics do."""
    out = {change.job for change in changes if change.gpus is not None and not access.mask(change.job)[change.gpus].all()}
    if not out:
        return tuple(changes)
    out |= {change.partner for change in changes if change.job in out and change.partner >= 0}
    kept = [change for change in changes if change.job not in out]
    return (*kept, *given_up(draft, sorted(out)))
