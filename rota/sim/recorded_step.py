"""Steps of a simulated scheduler, recorded as a journal is: what it learned and what it decided, at each instant."""

from rota.core.scheduler import Scheduler
from rota.model.commands import Command
from rota.model.events import Decided, External

Journal = list[tuple[float, list[External], Decided | None]]
"""Steps of a simulation: the time, the events, and the decision."""


def recorded_step(scheduler: Scheduler, journal: Journal, now_s: float, events: list[External]) -> list[Command]:
    """Take a step of a scheduler, and append it to the journal."""
    scheduler.fold(now_s, events)
    decided = scheduler.decide()
    journal.append((now_s, events, decided))
    return scheduler.commit(decided)
