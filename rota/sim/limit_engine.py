"""Limits on run time in a simulation: a job that has run for its longest time does not finish."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rota.model.commands import Command
from rota.model.events import Exited, External, Suspended
from rota.sim.engine import Engine
from rota.sim.search_engine import SearchEngine


class LimitEngine(Engine):
    """An engine that notices which jobs the scheduler ended because they had run for their longest time."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._limited = {job for job, arrival in enumerate(self.arrivals) if arrival.spec.max_run_seconds is not None}

    def _stepper(self) -> Callable[[float, list[External]], list[Command]]:
        return partial(self._limited_step, super()._stepper())

    def _limited_step(
        self, step: Callable[[float, list[External]], list[Command]], now_s: float, events: list[External]
    ) -> list[Command]:
        commands = step(now_s, events)
        stopped = {event.job for event in events if isinstance(event, Suspended | Exited)} & self._limited
        for job in sorted(stopped & self.scheduler.state.jobs.ended_because.keys()):
            self._storage.pop(job, None)
            self.record.cancel(job, self.now_s)
            self.record.over_limit += 1
        return commands


class LimitSearchEngine(LimitEngine, SearchEngine):
    """An engine for workloads with limits on run time and with searches."""
