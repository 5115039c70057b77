"""Limits on run time in a simulation: a job that has run for its longest time does not finish."""

from typing import Any

from rota.model.commands import Command
from rota.model.events import Exited, External, Suspended
from rota.model.units import FOREVER
from rota.sim.engine import Engine
from rota.sim.search_engine import SearchEngine


class LimitEngine(Engine):
    """An engine that notices which jobs the scheduler ended because they had run for their longest time."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._limited = {job for job, arrival in enumerate(self.arrivals) if arrival.spec.max_run_seconds < FOREVER}

    def _step(self, events: list[External]) -> list[Command]:
        commands = super()._step(events)
        stopped = {event.job for event in events if isinstance(event, Suspended | Exited)} & self._limited
        for job in sorted(stopped & self.scheduler.state.jobs.ended_because.keys()):
            self._storage.pop(job, None)
            self.record.cancel(job, self.now_s)
            self.record.over_limit += 1
        return commands


class LimitSearchEngine(LimitEngine, SearchEngine):
    """An engine for workloads with limits on run time and with searches."""
