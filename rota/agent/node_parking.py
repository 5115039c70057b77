"""How a job is parked is found by the node that starts it: the job's Python and the GPU driver are there."""

from collections.abc import Mapping
from typing import Any

from rota.park.facts import parking_facts
from rota.park.park_environment import parking_environment
from rota.park.park_method import choose_park_method


def with_parking(order: Mapping[str, Any], asked: Mapping[str, Any], *, real_gpus: bool) -> dict[str, Any]:
    """Return a plain order with what parking adds to it. `asked`: whether it is wanted, the most GPUs that the job may get, and
    whether it runs under MPS."""
    facts = parking_facts(
        order["argv"],
        order["env"],
        order["workdir"],
        wanted=asked["wanted"],
        gpus=asked["gpus"],
        real_gpus=real_gpus,
        mps=asked.get("mps", False),
    )
    way, why = choose_park_method(facts)
    env = {**order["env"], **parking_environment(facts, order["env"])}
    return {**order, "env": env, "park_way": way, "park_why": why}
