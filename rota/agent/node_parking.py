"""The node that starts a job chooses its park method, because the job's Python and the GPU driver are there."""

from rota.agent.attempt_files import LaunchOrder
from rota.agent.constants import MEMORY_GIB
from rota.park.facts import parking_facts
from rota.park.park_environment import parking_environment
from rota.park.park_method import MEMORY_LIMITED, choose_park_method


def with_parking(order: LaunchOrder, *, real_gpus: bool) -> LaunchOrder:
    """Return an order with its park method, the reason, and the variables that parking needs."""
    facts = parking_facts(
        order.argv,
        order.env,
        order.workdir,
        wanted=bool(order.may_park),
        gpus=order.most_gpus,
        real_gpus=real_gpus,
        mps=order.mps,
    )
    way, why = choose_park_method(facts)
    if not order.may_park and MEMORY_GIB in order.env:
        why = MEMORY_LIMITED
    env = {**order.env, **parking_environment(facts, order.env)}
    return order._replace(env=env, park_method=way, park_reason=why)
