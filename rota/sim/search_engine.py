"""Searches in a simulation: jobs that turn out to be worse than others are cancelled as soon as their progress shows it."""

from typing import Any

from rota.model.commands import Kill
from rota.model.events import CancelRequested, Exited, External, Outcome
from rota.sim.engine import ANSWER, EXIT, Engine
from rota.sim.run import SimulatedAttempt
from rota.traces.search import Search


class _Field:
    """The jobs of a search, and which of them have shown how good they are."""

    def __init__(self, search: Search, number_of: dict[str, int]) -> None:
        self.steps, self.keep = search.steps, search.keep
        self.rank = {number_of[name]: rank for rank, name in enumerate(search.jobs) if name in number_of}
        """Rank of each job. The best job has the lowest."""
        self.shown: set[int] = set()

    def show(self, job: int) -> list[int]:
        """Record that a job has shown how good it is. Return the jobs with known rank that are not among the best."""
        self.shown.add(job)
        return sorted(self.shown, key=self.rank.__getitem__)[self.keep :]


class SearchEngine(Engine):
    """An engine that cancels the worse jobs of searches."""

    def __init__(self, *given: Any, searches: tuple[Search, ...], **more: Any) -> None:
        super().__init__(*given, **more)
        number_of = {arrival.spec.name: job for job, arrival in enumerate(self.arrivals)}
        self._field_of: dict[int, _Field] = {}
        for search in searches:
            field = _Field(search, number_of)
            self._field_of |= dict.fromkeys(field.rank, field)
        self._cancelled: set[int] = set()

    def _go_on(self, job: int, run: SimulatedAttempt, other: int | None, new_round: bool = True) -> None:
        super()._go_on(job, run, other, new_round)
        field = self._field_of.get(job)
        if field is None or job in field.shown or not run.rate > 0 or field.steps > min(run.limit, run.total):
            return
        stretch = run.version

        def there(events: list[External]) -> None:
            if run.version == stretch:  # otherwise the attempt was stopped earlier, or its rate changed
                self._shows(job, field, events)

        at_s = self.now_s + max(field.steps - run.from_step, 0.0) / run.rate
        self._push(at_s, ANSWER, (job, run.attempt, there))

    def _due(self, what: int, item: Any, events: list[External]) -> None:
        super()._due(what, item, events)
        if what == EXIT:
            job, field = item[0], self._field_of.get(item[0])
            if field is not None and job not in field.shown and self.record.finished_s[job] == self.now_s:
                self._shows(job, field, events)  # the job has fewer steps than the search observes

    def _shows(self, job: int, field: _Field, events: list[External]) -> None:
        for loser in field.show(job):
            if loser in self._cancelled or self.record.finished_s[loser] <= self.now_s:
                continue
            self._cancelled.add(loser)
            events.append(CancelRequested(loser, self.now_s))
            if loser not in self._runs:
                self._ends(loser)

    def _kill(self, command: Kill, events: list[External]) -> None:
        job, run = command.job, self._runs.get(command.job)
        if job not in self._cancelled or run is None or run.attempt != command.attempt:
            super()._kill(command, events)
            return
        self._stop(job, run)
        self._ends(job)
        events.append(Exited(job, command.attempt, self.now_s, Outcome.LOST, 0.0))

    def _ends(self, job: int) -> None:
        self._storage.pop(job, None)
        self.record.cancel(job, self.now_s)
