"""The engine: jumps from one instant to the next, carries the core's commands out, and answers with events."""

import heapq
import itertools
import math
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rota.core.scheduler import Scheduler
from rota.errors import PolicyBroken, RotaError, Stalled
from rota.model.commands import Command, Kill, Launch, Renew, Resume, Solve, Suspend, SuspendKind, WakeAt
from rota.model.events import (
    Allocated,
    Decided,
    Exited,
    External,
    NodeLost,
    NodeReported,
    Outcome,
    Progressed,
    Started,
    Submitted,
    Suspended,
    Woke,
)
from rota.model.job import Arrival
from rota.model.policy import Policy
from rota.model.units import FOREVER
from rota.model.view import keyed_rng
from rota.sim.physics import Physics
from rota.sim.record import Record


@dataclass(slots=True)
class _Run:
    """The truth about one incarnation."""

    incarnation: int
    gpus: Any
    nodes: tuple[int, ...]
    rate: float
    from_step: float
    since_s: float
    """It makes progress from here on; FOREVER: it does not yet, or no more."""
    total: float
    held_s: float
    """Its GPUs are taken since; FOREVER: they are not."""
    limit: float = FOREVER
    """It rests when it has done so many."""

    def steps(self, now_s: float) -> float:
        if self.since_s >= now_s:
            return self.from_step
        return min(self.from_step + self.rate * (now_s - self.since_s), self.total, self.limit)


Progress = Callable[[int, int, float], None]
"""Called now and then with jobs finished, jobs in all, and simulated seconds."""

Journal = list[tuple[float, list[External], Decided | None]]
"""What happened, when the core learned of it, and what it decided."""

MOST_FAILURES = 2000
"""So many failures of each node may pass without any job finishing."""

_EXIT, _ANSWER, _FAIL, _REPAIR = range(4)


def place_of(problem: BaseException) -> str:
    """` (mine.py:12)`: where it was raised."""
    frames = traceback.extract_tb(problem.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


class Engine:
    """Runs one workload through one scheduler, one policy and one physics. Deterministic for a seed."""

    def __init__(
        self,
        scheduler: Scheduler,
        policy: Policy,
        physics: Physics,
        arrivals: Sequence[Arrival],
        *,
        seed: int = 0,
        report_seconds: float = FOREVER,
        progress: Progress | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.scheduler, self.policy, self.physics = scheduler, policy, physics
        self.arrivals = arrivals
        self.cluster = scheduler.state.cluster
        self.record = Record.empty(arrivals, self.cluster)
        self.now_s = arrivals[0].submitted_s if arrivals else 0.0
        self._seed = seed
        self._report_seconds = report_seconds
        self._next_report_s = report_seconds
        self._progress = progress
        self._journal = journal
        self._heap: list[tuple[float, int, int, Any]] = []
        self._tiebreak = itertools.count()
        self._wake_s = FOREVER
        self._runs: dict[int, _Run] = {}
        self._next_arrival = 0
        self._storage: dict[int, float] = {}
        self._down: set[int] = set()
        self._failures = np.zeros(len(self.cluster.nodes), dtype=np.int64)
        self._failures_before, self._ended_before = 0, 0
        self._rounds = 0
        self._carry_out: dict[type, Callable[[Any, list[External]], None]] = {
            Launch: self._launch,
            Suspend: self._suspend,
            Resume: self._resume,
            Kill: self._kill,
            Solve: self._solve,
            WakeAt: self._wake_at,
            Renew: self._renew,
        }

    def run(self) -> Record:
        """To the end of the last job."""
        if self.physics.fails:
            for node in range(len(self.cluster.nodes)):
                self._schedule_failure(node)
        total, steps = len(self.arrivals), 0
        while self.record.ended < total:
            events = self._next_events()
            while events:
                began = time.perf_counter()
                commands = self._step(events)
                if self.scheduler.state.policy_fault:
                    raise self._broken()
                self.record.decision_seconds += time.perf_counter() - began
                events = []
                for command in commands:
                    self._carry_out[type(command)](command, events)
                if self.physics.whole_steps_seconds and self.scheduler.state.plans != self._rounds:
                    self._rounds = self.scheduler.state.plans
                    self._begin_round()
            steps += 1
            if self._progress is not None and steps % 512 == 0:
                self._progress(self.record.ended, total, self.now_s)
        if self._progress is not None:
            self._progress(total, total, self.now_s)
        self.record.decisions = self.scheduler.state.decision
        self.record.instants = steps
        return self.record

    def _step(self, events: list[External]) -> list[Command]:
        if self._journal is None:
            return self.scheduler.step(self.now_s, events)
        self.scheduler.fold(self.now_s, events)
        decided = self.scheduler.decide()
        self._journal.append((self.now_s, events, decided))
        return self.scheduler.commit(decided)

    # Time --------------------------------------------------------------------------------------------------------

    def _next_events(self) -> list[External]:
        """Everything that happens at the next instant: ends and answers, then arrivals, then the wake-up."""
        arrivals, heap = self.arrivals, self._heap
        submit_s = arrivals[self._next_arrival].submitted_s if self._next_arrival < len(arrivals) else FOREVER
        now = min(submit_s, heap[0][0] if heap else FOREVER, self._wake_s)
        if self._report_seconds < FOREVER and self._runs:
            now = min(now, self._next_report_s)
        if now == FOREVER:
            raise self._stalled()
        self.now_s = max(now, self.now_s)
        events: list[External] = []
        while heap and heap[0][0] <= now:
            _, what, _, item = heapq.heappop(heap)
            self._due(what, item, events)
        if now >= self._next_report_s or (self.physics.whole_steps_seconds and self._wake_s <= now):
            self._report(events)
        while self._next_arrival < len(arrivals) and arrivals[self._next_arrival].submitted_s <= now:
            job = self._next_arrival
            events.append(Submitted(job, arrivals[job].spec, arrivals[job].submitted_s))
            self._next_arrival += 1
        if self._wake_s <= now or not events:
            self._wake_s = FOREVER
            events.append(Woke(self.now_s))
        return events

    def _due(self, what: int, item: Any, events: list[External]) -> None:
        if what == _EXIT:
            job, incarnation, since_s = item
            run = self._runs.get(job)
            if run is None or run.incarnation != incarnation or run.since_s != since_s:
                return  # it was stopped before it got there
            self._stop(job, run)
            self._storage.pop(job, None)
            self.record.finish(job, self.now_s)
            events.append(Exited(job, incarnation, self.now_s, Outcome.FINISHED, run.total))
        elif what == _ANSWER:
            job, incarnation, act = item
            run = self._runs.get(job)
            if run is not None and run.incarnation == incarnation:
                act(events)
        elif what == _FAIL:
            self._fail(item, events)
        else:
            self._down.discard(item)
            events.append(NodeReported(item, int(self._failures[item]), self.now_s))
            self._schedule_failure(item)

    def _push(self, at_s: float, what: int, item: Any) -> None:
        heapq.heappush(self._heap, (at_s, what, next(self._tiebreak), item))

    def _report(self, events: list[External]) -> None:
        """Where the running jobs are: one batch."""
        now = self.now_s
        while self._next_report_s <= now:
            self._next_report_s += self._report_seconds
        live = [(job, run) for job, run in sorted(self._runs.items()) if run.since_s < FOREVER]
        if live:
            events.append(
                Progressed(
                    np.array([job for job, _ in live], dtype=np.int64),
                    np.array([run.incarnation for _, run in live], dtype=np.int64),
                    np.array([run.steps(now) for _, run in live]),
                    np.array([self._saved(job, run, now) for job, run in live]),
                    now,
                )
            )

    def _broken(self) -> RotaError:
        fault = self.scheduler.state.policy_fault
        hint = "positions count the jobs of the view, options the rows of view.options"
        return PolicyBroken(f"{type(self.policy).__name__}.allocate: {fault}.", hint=hint)

    def _stalled(self) -> RotaError:
        waiting = len(self.arrivals) - self.record.ended
        return Stalled(
            f"Nothing more can happen at {self.now_s:.0f} s though {waiting} jobs are unfinished.",
            hint="check that the policy ranks every job and that every job fits the cluster",
        )

    # Commands ----------------------------------------------------------------------------------------------------

    def _launch(self, command: Launch, events: list[External]) -> None:
        job, physics = command.job, self.physics
        spec = self.arrivals[job].spec
        rate = physics.rate(spec, self.cluster, command.gpus, len(command.nodes))
        saved = self._storage.get(job, 0.0)
        run = _Run(command.incarnation, command.gpus, command.nodes, rate, saved, FOREVER, spec.steps, self.now_s)
        self._runs[job] = run
        self.record.launch(job, command)
        delay = physics.launch_seconds + (physics.restore_seconds if saved > 0 else 0.0)
        self._after(delay, job, run, lambda later: self._up(command, run, later), events)

    def _resume(self, command: Resume, events: list[External]) -> None:
        run = self._runs[command.job]
        run.held_s = self.now_s
        self._after(0.0, command.job, run, lambda later: self._up(command, run, later), events)

    def _up(self, command: Launch | Resume, run: _Run, events: list[External]) -> None:
        run.since_s = self.now_s
        self.record.start(command.job, self.now_s)
        events.append(Started(command.job, command.incarnation, command.sequence, self.now_s, from_step=run.from_step))
        if run.total < FOREVER and not self.physics.whole_steps_seconds:
            left = max(run.total - run.from_step, 0.0)
            self._push(self.now_s + left / run.rate, _EXIT, (command.job, command.incarnation, run.since_s))

    def _begin_round(self) -> None:
        """Everybody who runs goes on for the whole steps of another round."""
        now, length = self.now_s, self.physics.whole_steps_seconds
        for job, run in self._runs.items():
            if run.since_s == FOREVER:
                continue
            run.from_step, run.since_s = run.steps(now), now
            run.limit = run.from_step + math.floor(run.rate * length)
            if run.limit >= run.total:
                self._push(now + (run.total - run.from_step) / run.rate, _EXIT, (job, run.incarnation, now))

    def _suspend(self, command: Suspend, events: list[External]) -> None:
        job, run = command.job, self._runs[command.job]
        steps = run.steps(self.now_s)
        run.from_step, run.since_s = steps, FOREVER
        cost = self.physics.checkpoint_seconds if command.kind is SuspendKind.CHECKPOINT else 0.0

        def stopped(later: list[External]) -> None:
            if command.kind is SuspendKind.CHECKPOINT:
                self._storage[job] = steps
                self._stop(job, run)
            else:
                self.record.release(job, run.gpus, run.held_s, self.now_s)
                run.held_s = FOREVER
            self.record.suspensions[job] += 1
            later.append(Suspended(job, run.incarnation, command.sequence, self.now_s, command.kind, steps))

        self._after(cost, job, run, stopped, events)

    def _kill(self, command: Kill, events: list[External]) -> None:
        run = self._runs.get(command.job)
        if run is None or run.incarnation != command.incarnation:
            events.append(Exited(command.job, command.incarnation, self.now_s, Outcome.LOST, 0.0))
            return
        saved = self._lose(command.job, run)
        events.append(Exited(command.job, command.incarnation, self.now_s, Outcome.LOST, saved))

    def _solve(self, command: Solve, events: list[External]) -> None:
        began = time.perf_counter()
        name = type(self.policy).__name__
        try:
            answer = self.policy.allocate(command.view)
        except RotaError:
            raise
        except Exception as problem:
            raise PolicyBroken(
                f"{name}.allocate raised {type(problem).__name__}: {problem}{place_of(problem)}.",
                hint="rota policy check, with the policy as you named it here",
            ) from problem
        self.record.decision_seconds += time.perf_counter() - began
        if not hasattr(answer, "candidates"):
            raise PolicyBroken(
                f"{name}.allocate answered with {type(answer).__name__}.",
                hint="return a rota.Ranking, rota.Shares or rota.Assignment",
            )
        events.append(Allocated(command.ticket, answer, self.now_s))

    def _wake_at(self, command: WakeAt, events: list[External]) -> None:
        self._wake_s = command.at_s

    def _renew(self, command: Renew, events: list[External]) -> None:
        """Virtual machines never lose a renewal."""

    # Consequences ------------------------------------------------------------------------------------------------

    def _after(self, seconds: float, job: int, run: _Run, act: Callable[[list[External]], None], events: list[External]) -> None:
        if seconds > 0:
            self._push(self.now_s + seconds, _ANSWER, (job, run.incarnation, act))
        else:
            act(events)

    def _stop(self, job: int, run: _Run) -> None:
        del self._runs[job]
        if run.held_s < FOREVER:
            self.record.release(job, run.gpus, run.held_s, self.now_s)

    def _saved(self, job: int, run: _Run, now_s: float) -> float:
        """Steps on storage: what it last wrote, and what it saved since it runs."""
        every = self.physics.checkpoint_every_seconds
        saved = self._storage.get(job, 0.0)
        if every < FOREVER and run.since_s < now_s:
            saved = max(saved, min(run.from_step + run.rate * every * ((now_s - run.since_s) // every), run.total))
            self._storage[job] = saved
        return saved

    def _lose(self, job: int, run: _Run) -> float:
        """Its processes are gone, and with them all it had not saved."""
        saved = self._saved(job, run, self.now_s)
        self.record.lost_gpu_seconds[job] += len(run.gpus) * (run.steps(self.now_s) - saved) / run.rate
        self._stop(job, run)
        return saved

    def _schedule_failure(self, node: int) -> None:
        mean = self.physics.mtbf_seconds(node)
        if mean < FOREVER:
            rng = keyed_rng(self._seed, node * 1_000_000 + int(self._failures[node]), 3)
            self._push(self.now_s + float(rng.exponential(mean)), _FAIL, node)

    def _fail(self, node: int, events: list[External]) -> None:
        """A node dies, and every gang that had a part on it. The driver vouches for that."""
        self._failures[node] += 1
        self._down.add(node)
        for job, run in sorted(self._runs.items()):
            if node in run.nodes:
                saved = self._lose(job, run)
                others = [n for n in run.nodes if n != node]
                events.extend(Exited(job, run.incarnation, self.now_s, Outcome.LOST, saved, n) for n in others)
        events.append(NodeLost(node, int(self._failures[node]) - 1, self.now_s))
        back_s = self.now_s + self.physics.repair_seconds(node)
        self.record.outages.append((node, self.now_s, back_s))
        self._push(back_s, _REPAIR, node)
        self._check_hope()

    def _check_hope(self) -> None:
        """Nodes that fail faster than any job can save its state keep a simulation going for ever."""
        if self.record.ended > self._ended_before:
            self._ended_before, self._failures_before = self.record.ended, int(self._failures.sum())
        elif int(self._failures.sum()) - self._failures_before > MOST_FAILURES * len(self.cluster.nodes):
            raise Stalled(
                f"Every node has failed {MOST_FAILURES} times on average since the last job finished: none gets to its end.",
                hint="times are in seconds: --node-mtbf-seconds 86400, and --checkpoint-every-seconds 600",
            )
