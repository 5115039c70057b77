"""Moves: tactics put running jobs on other GPUs once it is settled who runs where.

`defragment` frees nodes for gangs that wait for a place, or that would start scattered. `migrate` brings the GPUs of a job closer
together, and takes jobs to faster pools. The plan that moves jobs aside also gives the gang its GPUs, so that no other job gets
them. A job that moves is suspended to storage, and launched where it goes.
"""

from typing import NamedTuple

from rota.core.plan.move_aside import move_aside
from rota.core.plan.move_closer import move_closer, move_to_faster
from rota.core.plan.mover import Mover
from rota.model.allocation import Allocation, Assignment
from rota.model.plan import PlacementChange
from rota.model.units import FOREVER


class PlanMoves(NamedTuple):
    """A plan's changes with the moves among them."""

    changes: tuple[PlacementChange, ...]
    jobs: tuple[int, ...] = ()
    """Those that tactics move."""
    look_s: float = FOREVER
    """When more may be possible though nothing happens."""


def move(mover: Mover, changed: tuple[PlacementChange, ...]) -> PlanMoves:
    """Add what the tactics move to a plan's changes. A gang that finds its place by that is granted it."""
    settings, places = mover.settings, mover.places
    if _named_by_policy(mover.allocation) or not (mover.placer.sticky or settings.wait_for_place):
        return PlanMoves(changed)  # it is decided anew each time where jobs run
    if settings.tactics.defragment is not None:
        move_aside(mover, settings.tactics.defragment)
        waiting = set(mover.table.kind[mover.waits].tolist())
        places.fragmented = tuple(kind for kind in places.fragmented if kind in waiting)
    if settings.tactics.migrate is not None:
        move_closer(mover, settings.tactics.migrate)
        move_to_faster(mover, settings.tactics.migrate)
    return PlanMoves(tuple(mover.changes.values()), tuple(mover.moved), mover.look_s)


def _named_by_policy(allocation: Allocation) -> bool:
    """Whether the policy names GPUs, and would not learn that its jobs are on others."""
    return bool(allocation.hints) and not (isinstance(allocation, Assignment) and allocation.may_move)
