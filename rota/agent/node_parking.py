"""The node that starts a job chooses its park method, because the job's Python and the GPU driver are there."""

from dataclasses import replace
from pathlib import Path

from rota.agent.attempt_files import LaunchOrder, plain_text
from rota.agent.constants import MEMORY_GIB
from rota.agent.facts_as_user import facts_as_user
from rota.agent.others_job_folder import public_copy
from rota.agent.pages_library import with_pages_library
from rota.agent.processes import other_user
from rota.park.facts import job_facts, with_driver
from rota.park.park_environment import HOOK_FOLDER, parking_environment
from rota.park.park_method import EXIT, MEMORY_LIMITED, ParkingFacts, choose_park_method


def with_parking(order: LaunchOrder, *, real_gpus: bool) -> LaunchOrder:
    """Return an order with its park method, the reason, and the variables that parking needs."""
    if (uid := other_user(order.uid)) is None:
        known = job_facts(
            order.argv, order.env, order.workdir, wanted=bool(order.may_park), gpus=order.most_gpus, real_gpus=real_gpus
        )
    else:
        try:
            known = facts_as_user(order, uid, real_gpus=real_gpus)
        except OSError as error:
            why = f"a process of user {uid} could not find out how: {error.strerror or error}"
            return order._replace(park_method=EXIT, park_reason=plain_text(why))
    facts, hook = with_pages_library(with_driver(known, mps=order.mps)), HOOK_FOLDER
    if uid is not None:
        try:
            facts, hook = _public(facts)
        except OSError as error:
            why = f"the hook could not be copied for user {uid}: {error.strerror or error}"
            return order._replace(park_method=EXIT, park_reason=plain_text(why))
    way, why = choose_park_method(facts)
    if not order.may_park and MEMORY_GIB in order.env:
        why = MEMORY_LIMITED
    env = {**order.env, **parking_environment(facts, order.env, hook)}
    return order._replace(env=env, park_method=way, park_reason=why if uid is None else plain_text(why))


def _public(facts: ParkingFacts) -> tuple[ParkingFacts, str]:
    """Return the facts and the folder of the hook with copies of our files that every user can read."""
    if not facts.pages_library:
        return facts, str(public_copy(Path(HOOK_FOLDER)))
    library = Path(facts.pages_library)
    copy = public_copy(Path(HOOK_FOLDER), library)
    return replace(facts, pages_library=str(copy / library.name)), str(copy)
