"""The property suite behind `rota policy check`: properties that every policy must have, tried on random workloads."""

import copy
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.beliefs.rates import Rates
from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.validate import validate
from rota.errors import RotaError
from rota.model.allocation import Allocation, Assignment, Ranking, Shares
from rota.model.cluster import Cluster
from rota.model.events import External
from rota.model.job import Arrival, JobSpec
from rota.model.needs import needs_of
from rota.model.policy import Policy
from rota.model.view import View
from rota.placers.packed import Packed
from rota.sim.engine import Engine, place_of
from rota.sim.physics import Physics

CLUSTERS = ("4xV100", "2x(4xV100) + 4xK80", "3x(2xA100) + 1x(4xP100)")
LIMIT_SECONDS = 60.0
"""Time limit for each property, in seconds."""

PAIRED = Rates(speeds={}, pairs={("", "", kind, n): (0.7, 0.7) for kind in ("V100", "K80", "A100", "P100") for n in (1, 2, 4)})
"""Rates that a policy with packing sees: any two jobs of one width may share GPUs, and do 1.4 times the work together."""


@dataclass(frozen=True)
class Finding:
    """A property, and the description of its first violation if it does not hold."""

    name: str
    holds: bool
    story: str = ""


class Violation(Exception):
    """A property does not hold."""


def check_policy(make: Callable[[], Policy], seeds: int = 20, limit_seconds: float = LIMIT_SECONDS) -> Iterator[Finding]:
    """Try every property on `seeds` random workloads, each for `limit_seconds` at most. Yield each finding as it is made."""
    return (_tried(name, prop, make, seeds, limit_seconds) for name, prop in PROPERTIES.items())


class _Late(BaseException):
    """The time limit has passed. A policy that catches Exception does not catch this."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Interrupt the block after this time, even in a policy that never returns. Only the main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(signum: int, frame: Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _tried(
    name: str, prop: Callable[[Callable[[], Policy], int], None], make: Callable[[], Policy], seeds: int, limit_seconds: float
) -> Finding:
    until = time.monotonic() + limit_seconds
    for seed in range(seeds):
        try:
            with _time_limit(max(until - time.monotonic(), 1e-3)):
                prop(make, seed)
        except _Late:
            after = f"with {seed} of {seeds} workloads done"
            return Finding(name, False, f"it took longer than {limit_seconds:g} s, {after} (seed {seed})")
        except Violation as story:
            return Finding(name, False, f"{story} (seed {seed})")
        except RotaError as error:
            broken = error.__cause__ if isinstance(error.__cause__, Violation) else error
            said = str(broken).replace("_Spied.allocate", "allocate").replace("Guard.allocate", "allocate")
            return Finding(name, False, f"{said} (seed {seed})")
        except Exception as error:
            return Finding(name, False, f"raised {type(error).__name__}: {error}{place_of(error)} (seed {seed})")
    return Finding(name, True)


def workload(seed: int, jobs: int = 30) -> tuple[Cluster, list[Arrival]]:
    """Return a small random cluster and jobs that fit it."""
    rng = np.random.Generator(np.random.Philox(key=np.array([seed, 99], dtype=np.uint64)))
    cluster = Cluster.parse(CLUSTERS[seed % len(CLUSTERS)])
    gaps = rng.exponential(40.0, jobs).round(int(rng.integers(0, 3)))
    found = []
    for at_s in np.cumsum(gaps).tolist():
        gpus = int(rng.choice([1, 1, 1, 2, 2, 4]))
        steps, weight = round(float(rng.lognormal(5, 1.5)), 1), float(rng.choice([1, 5]))
        found.append(Arrival(at_s, JobSpec(gpus=gpus, steps=steps, weight=weight, can_park=bool(rng.random() < 0.5))))
    return cluster, found


def _simulate(policy: Policy, seed: int, jobs: int = 30, after: Callable[[Scheduler], None] | None = None) -> tuple[Engine, Any]:
    cluster, arrivals = workload(seed, jobs)
    physics = Physics(
        rates=PAIRED,
        launch_seconds=float(seed % 3),
        checkpoint_seconds=float(seed % 2),
        restore_seconds=1.0 * (seed % 2),
    )
    decide = AtRounds(round_seconds=60.0) if seed % 4 == 1 else AtEvents()
    settings = Settings(decide=decide, seed=seed, colocation=needs_of(policy).colocation)
    scheduler = _WatchedScheduler(cluster, settings, after)
    engine = Engine(scheduler, policy, physics, arrivals, seed=seed)
    return engine, engine.run()


class _WatchedScheduler(Scheduler):
    """A scheduler that calls a function after every step."""

    def __init__(self, cluster: Cluster, settings: Settings, after: Callable[[Scheduler], None] | None = None) -> None:
        super().__init__(cluster, Packed(), settings, rates=PAIRED)
        self._after = after

    def step(self, now_s: float, events: Any) -> Any:
        commands = super().step(now_s, events)
        if self._after is not None:
            self._after(self)
        return commands


class _Spied:
    """A policy whose answers are passed to a function."""

    def __init__(self, policy: Policy, hear: Callable[[View, Allocation], None]) -> None:
        self._policy, self._hear = policy, hear
        self.needs = needs_of(policy)

    def allocate(self, view: View) -> Allocation:
        answer = self._policy.allocate(view)
        if isinstance(answer, Ranking | Shares | Assignment):  # anything else is refused where it arrives
            self._hear(view, answer)
        return answer


def _every_job_ends(make: Callable[[], Policy], seed: int) -> None:
    _, record = _simulate(make(), seed)
    if np.isnan(record.finished_s).any():
        raise Violation(f"{int(np.isnan(record.finished_s).sum())} jobs never ended")


def _answers_are_sound(make: Callable[[], Policy], seed: int) -> None:
    def hear(view: View, answer: Allocation) -> None:
        if isinstance(answer, Ranking):
            order = np.asarray(answer.order)
            if len(np.unique(order)) != len(order):
                raise Violation("a ranking has the same job twice")
            if len(order) and (order.min() < 0 or order.max() >= len(view.jobs)):
                raise Violation("a ranking names a job that is not in the view")
        if np.isnan(answer.until_s) or answer.until_s < view.now_s:
            raise Violation(f"an answer of {view.now_s} s held until {answer.until_s} s")

    _simulate(_Spied(make(), hear), seed)


def _empty_view(make: Callable[[], Policy], seed: int) -> None:
    cluster, _ = workload(seed)
    policy = make()
    answer: Any = policy.allocate(_WatchedScheduler(cluster, Settings(colocation=needs_of(policy).colocation)).view())
    if not isinstance(answer, Ranking | Shares | Assignment):
        allowed = "rota.Ranking, rota.Shares or rota.Assignment"
        raise Violation(f"allocate answered with {type(answer).__name__}, which is not a {allowed}")


def _same_view_same_answer(make: Callable[[], Policy], seed: int) -> None:
    def hear(view: View, answer: Allocation) -> None:
        again = make().allocate(view)
        if not _alike(answer, again):
            raise Violation("called twice with one view, it answered differently")

    _simulate(_Spied(make(), hear), seed, jobs=15)


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    slots = getattr(type(a), "__slots__", None) or getattr(a, "__dict__", None)
    if slots is not None and type(a) is type(b) and not isinstance(a, str | int | float | tuple):
        return all(_alike(getattr(a, name), getattr(b, name)) for name in slots)
    return bool(a == b) or (a != a and b != b)


def _view_untouched(make: Callable[[], Policy], seed: int) -> None:
    policy = make()

    class Guard:
        needs = needs_of(policy)

        def allocate(self, view: View) -> Allocation:
            table = view.jobs._table
            names = ("id", "gpus", "attained_gpu_seconds", "steps_done", "option")
            before = {name: getattr(table, name).copy() for name in names}
            memory = copy.deepcopy(view.memory)
            answer = policy.allocate(view)
            for name, column in before.items():
                if not np.array_equal(column, getattr(table, name), equal_nan=column.dtype.kind == "f"):
                    raise Violation(f"it wrote to the column {name}")
            if not _alike(memory, view.memory):
                raise Violation("it changed its memory in place; return a new one")
            return answer

    _simulate(Guard(), seed, jobs=15)


def _core_stays_sound(make: Callable[[], Policy], seed: int) -> None:
    def after(scheduler: Scheduler) -> None:
        try:
            validate(scheduler.state)
        except AssertionError as story:
            raise Violation(str(story)) from story

    _simulate(make(), seed, jobs=15, after=after)


def _replay_repeats(make: Callable[[], Policy], seed: int) -> None:
    """Check that deciding again from the journal gives the same commands."""
    cluster, arrivals = workload(seed)
    policy = make()
    settings = Settings(seed=seed, colocation=needs_of(policy).colocation)
    journal: list[tuple[float, list[External], Any]] = []
    Engine(_WatchedScheduler(cluster, settings), policy, Physics(rates=PAIRED), arrivals, journal=journal).run()
    twin = _WatchedScheduler(cluster, settings)
    for now_s, events, decided in journal:
        twin.fold(now_s, events)
        if not _alike_decision(twin.decide(), decided):
            raise Violation(f"re-deciding at {now_s} s gave other commands")
        twin.commit(decided)


def _alike_decision(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return len(a.commands) == len(b.commands) and all(_alike(x, y) for x, y in zip(a.commands, b.commands, strict=True))


PROPERTIES: dict[str, Callable[[Callable[[], Policy], int], None]] = {
    "answers an empty view": _empty_view,
    "answers are sound": _answers_are_sound,
    "every job ends": _every_job_ends,
    "the same view gives the same answer": _same_view_same_answer,
    "the view is left as it was": _view_untouched,
    "no GPU twice but to partners, gangs whole": _core_stays_sound,
    "recorded answers lead to the same decisions again": _replay_repeats,
}
