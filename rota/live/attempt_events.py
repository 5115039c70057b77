"""What a machine tells of its attempts, as events: that they have started, were parked, ended, and how far they are.

It remembers what it has told, so that a repeat is told once. The part of a gang that is not its first tells no steps: those that
the first one tells are the job's.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import numpy as np

from rota.agent import rules
from rota.agent.attempt_files import AttemptStatus
from rota.agent.constants import ENDED, LEASE, PARKED, RUNNING, SESSION, SUSPEND, SUSPENDED
from rota.agent.outcome import EXIT_YIELDED, length_text, worked_seconds
from rota.live.driver_protocol import DriverContext
from rota.live.starts import Starts
from rota.model.commands import SuspendKind
from rota.model.events import Attached, Exited, External, Outcome, Progressed, Started, Suspended
from rota.model.units import FOREVER
from rota.park.park_method import can_sleep

CAME_UP_SECONDS = 30.0
"""A job that tells no steps, and has worked for less than this, may still have been coming up."""
EARLY_SECONDS = 10.0
"""A job that leaves with exit code 75 unasked, earlier than this and without having saved a step, gets nowhere."""


class AttemptEvents:
    """Of one machine."""

    def __init__(
        self,
        context: DriverContext,
        node: int | None = None,
        *,
        is_first: Callable[[AttemptStatus], bool] = lambda status: True,
    ) -> None:
        """`node`: the number of the machine's node in the core; None: the machine has all nodes of its jobs. `is_first`: whether
        an attempt is the first part of its gang."""
        self.node, self._context, self._is_first = node, context, is_first
        self.started: dict[tuple[int, int], float] = {}
        """Attempts that were told to have started, and when they did."""
        self.running: dict[int, AttemptStatus] = {}
        """By job."""
        self._sequences: dict[tuple[int, int], int] = {}
        """As which command says they run."""
        self._parked: dict[tuple[int, int], float] = {}
        """Attempts that were told to be parked, and since when they are."""
        self._beginning: dict[tuple[int, int], AttemptStatus] = {}
        """Of those that run, the ones that have not started."""
        self._attached: set[tuple[int, int]] = set()
        """Attempts whose session was told of."""
        self._starts = Starts()
        self._reported: dict[int, float] = {}

    def take(self, changed: Iterable[AttemptStatus]) -> list[External]:
        """What these have to tell, and those that have taken too long to start, though nothing changed for them."""
        events = [event for status in changed for event in self._events(status)]
        for status in list(self._beginning.values()):
            events.extend(self._start(status))
        return events

    @property
    def beginning(self) -> bool:
        """Whether one runs that has not started: `take` may have something to tell though nothing changed."""
        return bool(self._beginning)

    def progress(self) -> list[External]:
        """How far those are that run."""
        return self._progress(self.running.values())

    def again(self, job: int, attempt: int) -> list[External]:
        """That it has started, for a core that asks again because other parts of it have not."""
        key = job, attempt
        running = self.running.get(job)
        can_park = _can_park(running) if running is not None and running.attempt == attempt else None
        told = key in self.started
        return [Started(*key, self._sequences[key], self.started[key], self.node, can_park=can_park)] if told else []

    def only(self, there: Collection[tuple[int, int]]) -> None:
        """Everything else is gone, and was told to be, or is told by others."""
        self.running = {job: status for job, status in self.running.items() if (job, status.attempt) in there}
        for key in [key for key in {*self.started, *self._beginning} if key not in there]:
            self.forget(*key)

    def forget(self, job: int, attempt: int) -> None:
        self._attached.discard((job, attempt))
        for each in (self.started, self._sequences, self._parked, self._beginning):
            each.pop((job, attempt), None)

    def _events(self, status: AttemptStatus) -> list[External]:
        key = (status.job, status.attempt)
        if status.state == PARKED:
            return self._park(status)
        events = self._start(status) if key not in self.started else self._changed(status)
        if status.saves and status.state == RUNNING and key not in self._attached:
            self._attached.add(key)
            events.append(Attached(*key, self._context.clock()))
        if status.state == ENDED:
            self._stopped(status)
            events.append(self._end(status))
        elif status.state == RUNNING:
            self.running[status.job] = status
            if key not in self.started:
                self._beginning[key] = status
        return events

    def _stopped(self, status: AttemptStatus) -> None:
        self.running.pop(status.job, None)
        self._reported.pop(status.job, None)
        self._beginning.pop((status.job, status.attempt), None)

    def _start(self, status: AttemptStatus) -> list[External]:
        """That it has started, once it has. If its first step made it so, also where it is: that step is not of its pace."""
        began_s = self._starts.began_s(status, self._context.clock())
        if began_s is None:
            return []
        began_s = max(began_s, status.resumed_s or began_s)
        self._beginning.pop((status.job, status.attempt), None)
        self.started[status.job, status.attempt] = began_s
        self._sequences[status.job, status.attempt] = status.start_sequence
        started = Started(status.job, status.attempt, status.start_sequence, began_s, self.node, can_park=_can_park(status))
        return [started, *(self._progress([status]) if status.state == RUNNING else [])]

    def _changed(self, status: AttemptStatus) -> list[External]:
        """That it goes on, with another size or after it was parked, once. Its pace is measured anew from there."""
        key = (status.job, status.attempt)
        if status.start_sequence == self._sequences.get(key) or status.state != RUNNING:
            return []
        woken = self._parked.pop(key, None) is not None
        self._sequences[key] = status.start_sequence
        self.started[key] = status.resumed_s if woken and status.resumed_s is not None else self._context.clock()
        began_s = self.started[key]
        return [Started(*key, status.start_sequence, began_s, self.node, can_park=_can_park(status))]

    def _park(self, status: AttemptStatus) -> list[External]:
        """That it is parked, once. It has started: no job is suspended before that."""
        key, at_s = (status.job, status.attempt), status.parked_s or 0.0
        self._stopped(status)
        self.started.setdefault(key, status.began_s or at_s)
        self._sequences[key] = status.start_sequence
        if self._parked.get(key) == at_s:
            return []
        self._parked[key] = at_s
        done = status.steps_done if self._tells(status) else status.steps_saved + worked_seconds(status, at_s)
        kind, gib, keeps = SuspendKind.PARK, status.parked_gib, status.keeps_memory
        return [Suspended(status.job, status.attempt, status.sequence, at_s, kind, done, self.node, gib=gib, keeps=keeps)]

    def _end(self, status: AttemptStatus) -> External:
        at_s = status.ended_s if status.ended_s is not None else self._context.clock()
        saved, reply = self._saved(status), rules.describe(status.tracked, status.attempt)
        if reply.kind == SUSPENDED:
            kind = SuspendKind.CHECKPOINT
            left = Suspended(status.job, status.attempt, reply.sequence, at_s, kind, saved, self.node)
            return replace(left, saved=not self._left_unsaved(status), setback=_broken_save(status))
        done = status.steps_done if status.stepped_s is not None else None
        outcome, stepped_s = Outcome(reply.outcome), status.stepped_s
        told = Exited(status.job, status.attempt, at_s, outcome, saved, self.node, steps_done=done, stepped_s=stepped_s)
        return replace(told, setback=_broken_save(status) or self._left_early(status))

    def _saved(self, status: AttemptStatus) -> float:
        """A job that tells no steps has one per second, like every job that was not profiled. What is not the first part of a
        gang has no say in it."""
        if not self._is_first(status):
            return FOREVER
        if not self._tells(status) and status.exit_code in (0, EXIT_YIELDED):
            return status.steps_saved + worked_seconds(status, status.ended_s or 0.0)
        return status.steps_saved

    def _left_unsaved(self, status: AttemptStatus) -> bool:
        """It had work to save, was told to stop, and left without saving. A session saves, however it ends this time. A job that
        was told to stop while it came up may have had no chance to."""
        if not self._is_first(status) or self._context.submitted(status.job).spec.progress == SESSION:
            return False
        if status.exit_code in (0, EXIT_YIELDED) or status.steps_saved > status.from_step:
            return False
        if self._tells(status):
            return status.steps_done > status.from_step
        return worked_seconds(status, status.ended_s or 0.0) >= CAME_UP_SECONDS

    def _left_early(self, status: AttemptStatus) -> str:
        """It left with exit code 75 by itself, as soon as it was started: the next attempt will leave as soon. In words."""
        if status.exit_code != EXIT_YIELDED or status.asked is not None or not self._is_first(status):
            return ""
        seconds = worked_seconds(status)
        if seconds >= EARLY_SECONDS or (self._tells(status) and status.steps_saved > status.from_step):
            return ""
        return f"it left with exit code {EXIT_YIELDED} after {length_text(seconds)}, without being asked to stop"

    def _tells(self, status: AttemptStatus) -> bool:
        return status.reports_steps or bool(self._context.submitted(status.job).spec.progress)

    def _progress(self, running: Iterable[AttemptStatus]) -> list[External]:
        """Where the jobs are that tell their steps: one batch, of those that have started and moved."""
        moved = [
            status
            for status in running
            if (status.job, status.attempt) in self.started
            and self._is_first(status)
            and self._tells(status)
            and status.steps_done != self._reported.get(status.job, 0.0)
        ]
        if not moved:
            return []
        self._reported |= {status.job: status.steps_done for status in moved}
        return [
            Progressed(
                np.array([status.job for status in moved], dtype=np.int64),
                np.array([status.attempt for status in moved], dtype=np.int64),
                np.array([status.steps_done for status in moved], dtype=np.float64),
                np.array([status.steps_saved for status in moved], dtype=np.float64),
                self._context.clock(),
            )
        ]


def progress_in_one(events: list[External]) -> list[External]:
    """The same, with all progress in one batch at the end: many nodes tell some in one turn. A start that a batch is about comes
    before it as it did."""
    batches = [event for event in events if isinstance(event, Progressed)]
    if len(batches) < 2:
        return events
    together = Progressed(
        np.concatenate([batch.jobs for batch in batches]),
        np.concatenate([batch.attempts for batch in batches]),
        np.concatenate([batch.steps_done for batch in batches]),
        np.concatenate([batch.steps_saved for batch in batches]),
        batches[-1].at_s,
    )
    return [*(event for event in events if not isinstance(event, Progressed)), together]


def _broken_save(status: AttemptStatus) -> str:
    """It was asked to stop and its state could not be saved: why not, in words; empty: it was saved, or there was no such
    problem."""
    broken = status.asked in (SUSPEND, LEASE) and status.exit_code not in (0, EXIT_YIELDED) and status.saving_problem
    return f"its state could not be saved: {status.saving_problem}" if broken else ""


def _can_park(status: AttemptStatus) -> bool | None:
    """As it was found where it was started, or when that was tried; None: that was found before."""
    if status.parking_problem:
        return False
    return can_sleep(status.park_way) if status.park_way else None
