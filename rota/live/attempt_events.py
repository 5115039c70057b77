"""Events from the attempts of a machine: they have started, were parked, have ended, or made progress.

Each event is reported once, so reported events are remembered. Of a gang, only the processes on the first node report steps,
which count for the whole job.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import numpy as np

from rota.agent import rules
from rota.agent.attempt_files import AttemptStatus
from rota.agent.constants import ENDED, LEASE, PARKED, RUNNING, SESSION, SUSPEND, SUSPENDED
from rota.agent.outcome import EXIT_YIELDED, length_text, worked_seconds
from rota.live.driver_protocol import DriverContext
from rota.live.starts import StartDetector
from rota.model.commands import SuspendKind
from rota.model.events import Attached, Exited, External, Outcome, Progressed, Started, Suspended
from rota.model.units import FOREVER
from rota.park.park_method import can_sleep

CAME_UP_SECONDS = 30.0
"""Working time, in seconds, below which a job that reports no steps may still have been starting."""
EARLY_SECONDS = 10.0
"""Working time, in seconds, below which a job makes no progress if it exits with code 75 without a request or a saved step."""


class AttemptEvents:
    """Events from the attempts of one machine."""

    def __init__(
        self,
        context: DriverContext,
        node: int | None = None,
        *,
        is_first: Callable[[AttemptStatus], bool] = lambda status: True,
    ) -> None:
        """`node` is the number of the machine's node in the core; None if the machine has all nodes of its jobs. `is_first`
        returns whether an attempt is on the first node of its gang."""
        self.node, self._context, self._is_first = node, context, is_first
        self.started: dict[tuple[int, int], float] = {}
        """Attempts that were reported as started, and the time of their start."""
        self.running: dict[int, AttemptStatus] = {}
        """Status of running attempts, by job."""
        self._sequences: dict[tuple[int, int], int] = {}
        """Sequence number of the command that each attempt reported as its start."""
        self._parked: dict[tuple[int, int], float] = {}
        """Attempts that were reported as parked, and the time of the park."""
        self._beginning: dict[tuple[int, int], AttemptStatus] = {}
        """Running attempts that have not started."""
        self._attached: set[tuple[int, int]] = set()
        """Attempts whose session was reported."""
        self._starts = StartDetector()
        self._reported: dict[int, float] = {}

    def take(self, changed: Iterable[AttemptStatus]) -> list[External]:
        """Return the events of these changed attempts, and of attempts that have taken too long to start, although nothing
        changed for them."""
        events = [event for status in changed for event in self._events(status)]
        for status in list(self._beginning.values()):
            events.extend(self._start(status))
        return events

    @property
    def beginning(self) -> bool:
        """Whether an attempt is running that has not started, so that `take` may return events although nothing changed."""
        return bool(self._beginning)

    def progress(self) -> list[External]:
        """Return the progress of the running attempts."""
        return self._progress(self.running.values())

    def again(self, job: int, attempt: int) -> list[External]:
        """Return the start of an attempt again, for a core that repeats its command because other nodes have not replied."""
        key = job, attempt
        running = self.running.get(job)
        can_park = _can_park(running) if running is not None and running.attempt == attempt else None
        told = key in self.started
        return [Started(*key, self._sequences[key], self.started[key], self.node, can_park=can_park)] if told else []

    def only(self, there: Collection[tuple[int, int]]) -> None:
        """Forget all attempts but these. The others are gone and were reported, or other machines report them."""
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
        """Return the start of an attempt, if it has started. If its first step marks the start, also return its progress, since
        that step does not count for its rate."""
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
        """Return once that an attempt continues, with another size or after it was parked. Its rate is measured from there."""
        key = (status.job, status.attempt)
        if status.start_sequence == self._sequences.get(key) or status.state != RUNNING:
            return []
        woken = self._parked.pop(key, None) is not None
        self._sequences[key] = status.start_sequence
        self.started[key] = status.resumed_s if woken and status.resumed_s is not None else self._context.clock()
        began_s = self.started[key]
        return [Started(*key, status.start_sequence, began_s, self.node, can_park=_can_park(status))]

    def _park(self, status: AttemptStatus) -> list[External]:
        """Return once that an attempt is parked. It has started: no job is suspended before its start."""
        key, at_s = (status.job, status.attempt), status.parked_s or 0.0
        self._stopped(status)
        self.started.setdefault(key, status.began_s or at_s)
        self._sequences[key] = status.start_sequence
        if self._parked.get(key) == at_s:
            return []
        self._parked[key] = at_s
        done = status.steps_done if self._tells(status) else status.steps_saved + worked_seconds(status, at_s)
        kind, gib, keeps = SuspendKind.PARK, status.parked_gib or None, status.keeps_memory
        return [
            Suspended(
                status.job,
                status.attempt,
                status.sequence,
                at_s,
                kind,
                done,
                self.node,
                host_gib=gib,
                keeps_host_memory=keeps,
            )
        ]

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
        """Return the saved steps of an ended attempt. A job that reports no steps has one per second, like every job without a
        profile. Only the first node of a gang counts."""
        if not self._is_first(status):
            return FOREVER
        if not self._tells(status) and status.exit_code in (0, EXIT_YIELDED):
            return status.steps_saved + worked_seconds(status, status.ended_s or 0.0)
        return status.steps_saved

    def _left_unsaved(self, status: AttemptStatus) -> bool:
        """Return whether the job had work to save, was asked to stop, and exited without saving. A job with a session always
        counts as saving. A job that was asked to stop while it started may have had no chance to save."""
        if not self._is_first(status) or self._context.submitted(status.job).spec.progress == SESSION:
            return False
        if status.exit_code in (0, EXIT_YIELDED) or status.steps_saved > status.from_step:
            return False
        if self._tells(status):
            return status.steps_done > status.from_step
        return worked_seconds(status, status.ended_s or 0.0) >= CAME_UP_SECONDS

    def _left_early(self, status: AttemptStatus) -> str | None:
        """Return a sentence if the job exited with code 75 without a request, soon after its start, since its next attempt will
        do the same; otherwise None."""
        if status.exit_code != EXIT_YIELDED or status.stop_reason is not None or not self._is_first(status):
            return None
        seconds = worked_seconds(status)
        if seconds >= EARLY_SECONDS or (self._tells(status) and status.steps_saved > status.from_step):
            return None
        return f"it left with exit code {EXIT_YIELDED} after {length_text(seconds)}, without a request to stop"

    def _tells(self, status: AttemptStatus) -> bool:
        return status.reports_steps or bool(self._context.submitted(status.job).spec.progress)

    def _progress(self, running: Iterable[AttemptStatus]) -> list[External]:
        """Return one event with the progress of all started jobs that report steps and have made some."""
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
    """Return the events with all progress in one event at the end: in one turn many nodes may report progress. The start of a job
    still comes before its progress."""
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


def _broken_save(status: AttemptStatus) -> str | None:
    """Return why the state of a job could not be saved when it was asked to stop; None if it was saved, or if there was no such
    problem."""
    broken = status.stop_reason in (SUSPEND, LEASE) and status.exit_code not in (0, EXIT_YIELDED) and status.saving_problem
    return f"its state could not be saved: {status.saving_problem}" if broken else None


def _can_park(status: AttemptStatus) -> bool | None:
    """Return whether an attempt can be parked, as found at its start, or when it was tried; None if it was found before."""
    if status.parking_problem:
        return False
    return can_sleep(status.park_method) if status.park_method else None
