"""Moves: tactics put running jobs on other GPUs once all grants have places.

`defragment` frees nodes for gangs that wait for a place, or that would start scattered. `migrate` brings the GPUs of a job closer
together, and takes jobs to faster pools. The plan that moves jobs aside also gives the gang its GPUs, so that no other job gets
them. A job that moves is suspended to storage, and launched where it goes.
"""

from typing import NamedTuple

from rota.core.plan.draft import Draft
from rota.core.plan.mover import Mover
from rota.core.plan.tactic import act
from rota.model.allocation import Allocation, Assignment
from rota.model.plan import PlacementChange
from rota.model.units import FOREVER


class PlanMoves(NamedTuple):
    """A plan's changes with the moves among them."""

    changes: tuple[PlacementChange, ...]
    jobs: tuple[int, ...] = ()
    """Jobs that tactics move."""
    look_s: float = FOREVER
    """When to look again though nothing happens."""


def move(draft: Draft, changed: tuple[PlacementChange, ...]) -> PlanMoves:
    """Add what the tactics move to a plan's changes. A gang that finds its place by that is granted it."""
    settings, places = draft.settings, draft.places
    if _named_by_policy(draft.allocation) or not (draft.placer.sticky or settings.wait_for_locality):
        return PlanMoves(changed)  # every decision places all jobs again
    mover = Mover(draft, places, changed)
    for tactic in settings.tactics.moving:
        act(tactic, "move", mover)
    return PlanMoves(tuple(mover.changes.values()), tuple(mover.moved), mover.look_s)


def _named_by_policy(allocation: Allocation) -> bool:
    """Whether the policy names GPUs, and would not learn that its jobs are on others."""
    return bool(allocation.hints) and not (isinstance(allocation, Assignment) and allocation.may_move)
