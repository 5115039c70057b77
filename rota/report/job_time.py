"""How each job spent its time, read from a recorded or simulated journal.

Between its submission and its end a job always does exactly one of six things, so their seconds add up to its JCT.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from rota.core.fold.configured import CoreEvent
from rota.live.journal_entries import JournalEntry
from rota.model.commands import JobCommand, Launch, Resize, Resume, Suspend
from rota.model.events import Exited, Outcome, Started, Submitted, Suspended


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTime:
    """Seconds of one job, by activity."""

    waiting: float = 0.0
    """Seconds without an attempt, or parked."""
    starting: float = 0.0
    """Seconds from the first launch to the first step, or to the first process if the job reports no steps."""
    switching: float = 0.0
    """Seconds from a suspend command until the GPUs were free, and from each later launch, resume or resize to the next step."""
    training: float = 0.0
    """Seconds between a start and the next suspend command, or the last step."""
    leaving: float = 0.0
    """Seconds from the last step to the end."""
    lost: float = 0.0
    """Seconds of training that a failed attempt had not saved."""

    @property
    def jct_seconds(self) -> float:
        return float(sum(getattr(self, part) for part in PARTS))


PARTS = tuple(each.name for each in fields(JobTime))


class JobTimes:
    """Reads a journal, entry by entry."""

    def __init__(self) -> None:
        self._jobs: dict[int, _Timeline] = {}

    def take(self, entry: JournalEntry) -> None:
        for event in entry.events:
            self._apply(event)
        for command in entry.decided.commands if entry.decided is not None else ():
            if command.job in self._jobs:
                self._jobs[command.job].sent(command, entry.now_s)

    def finished(self) -> dict[int, JobTime]:
        """Return the time of each job that finished, by its number."""
        return {number: job.time() for number, job in self._jobs.items() if job.finished}

    def _apply(self, event: CoreEvent) -> None:
        if isinstance(event, Submitted):
            self._jobs[event.job] = _Timeline(event.at_s)
        elif isinstance(event, Started | Suspended | Exited) and event.job in self._jobs:
            job = self._jobs[event.job]
            if isinstance(event, Started):
                job.started(event)
            elif isinstance(event, Suspended):
                job.stopped(event.at_s, event.steps_done)
            else:
                job.exited(event)


def job_times(entries: Iterable[JournalEntry]) -> dict[int, JobTime]:
    """Return the time of each job that finished, by its number."""
    times = JobTimes()
    for entry in entries:
        times.take(entry)
    return times.finished()


class _Timeline:
    """Activities of one job, and when each began."""

    def __init__(self, submitted_s: float) -> None:
        self.marks: list[tuple[str, float]] = [("waiting", submitted_s)]
        self.command: JobCommand | None = None
        """Last command for the job."""
        self.steps = 0.0
        """Steps that were saved when the attempt began."""
        self.lost = 0.0
        self.launched = False
        self.finished = False

    @property
    def part(self) -> str:
        return self.marks[-1][0]

    def mark(self, part: str, at_s: float) -> None:
        """Start an activity at this time, and drop activities that were noted for later times."""
        at_s = max(at_s, self.marks[0][1])
        while len(self.marks) > 1 and self.marks[-1][1] > at_s:
            self.marks.pop()
        if self.part != part:
            self.marks.append((part, at_s))

    def sent(self, command: JobCommand, now_s: float) -> None:
        before = self.command
        if self.finished or (before is not None and (before.attempt, before.sequence) == (command.attempt, command.sequence)):
            return  # sent again
        self.command = command
        if isinstance(command, Launch) and not self.launched:
            self.launched = True
            self.mark("starting", now_s)
        elif isinstance(command, Launch | Suspend | Resume | Resize) and (self.part != "starting" or isinstance(command, Launch)):
            self.mark("switching", now_s)

    def started(self, event: Started) -> None:
        """Ignore a start that is reported again, or that happened before a suspend command."""
        since_s = self.marks[-1][1]
        overtaken = isinstance(self.command, Suspend) and event.at_s < since_s
        if self.part in ("starting", "switching") and not overtaken:
            self.mark("training", max(event.at_s, since_s))

    def stopped(self, at_s: float, steps: float) -> None:
        """Note that the job's GPUs are free and these steps are saved. The last node of a gang decides."""
        if self.finished:
            return
        self.steps = steps
        if self.part == "waiting" and len(self.marks) > 1 and at_s > self.marks[-1][1]:
            self.marks.pop()
        self.mark("waiting", at_s)

    def exited(self, event: Exited) -> None:
        if self.finished:  # another node of its gang
            self.marks[-1] = ("end", max(event.at_s, self.marks[-1][1]))
            return
        if self.part == "switching" and isinstance(self.command, Suspend) and event.outcome is not Outcome.YIELDED:
            self.marks.pop()  # it did not stop because of the command
        if event.outcome is not Outcome.FINISHED:
            if event.outcome is not Outcome.YIELDED:
                self._lose(event)
            self.stopped(event.at_s, event.steps_saved)
            return
        if event.stepped_s is not None and self.part == "training":
            self.mark("leaving", min(max(event.stepped_s, self.marks[-1][1]), event.at_s))
        self.mark("end", event.at_s)
        self.finished = True

    def _lose(self, event: Exited) -> None:
        """Count the training since the last start that was not saved as lost."""
        if self.part == "training":
            made = (event.steps_done if event.steps_done is not None else 0.0) - self.steps
            saved = min(max(event.steps_saved - self.steps, 0.0) / made, 1.0) if made > 0 else 0.0
            self.lost += max(event.at_s - self.marks[-1][1], 0.0) * (1.0 - saved)

    def time(self) -> JobTime:
        seconds = dict.fromkeys(PARTS, 0.0)
        for (part, from_s), (_, to_s) in zip(self.marks, self.marks[1:], strict=False):
            seconds[part] += to_s - from_s
        seconds["lost"] += self.lost
        seconds["training"] -= self.lost
        return JobTime(**seconds)
