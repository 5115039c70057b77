"""A simulation whose state is checked after every step of the scheduler."""

from typing import Any

from rota.core.validate import validate
from rota.sim.engine import Engine


def checked(engine: Engine) -> Engine:
    step = engine.scheduler.step

    def step_and_check(now_s: float, events: Any) -> Any:
        commands = step(now_s, events)
        validate(engine.scheduler.state)
        return commands

    engine.scheduler.step = step_and_check  # type: ignore[method-assign]
    return engine
