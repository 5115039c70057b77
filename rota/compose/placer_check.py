"""The property suite for placers, which `rota policy check` runs."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rota.compose.registry import make_policy
from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.errors import RotaError
from rota.model.cluster import Cluster
from rota.model.placement_view import PlacementRequest, PlacementView, Placer
from rota.model.units import Ints
from rota.sim.conformance import Finding, Violation, workload
from rota.sim.engine import Engine, place_of
from rota.sim.physics import Physics

POLICIES = ("srsf", "las")
"""Policies under which the placer is tested. They suspend jobs, so placements change."""

Listener = Callable[[PlacementView, list[PlacementRequest], list[Ints]], None]
"""Function called with the placement view before the placer's answer, its requests, and its answer."""

Make = Callable[[], Placer]


def check_placer(make: Make, seeds: int, limit_seconds: float) -> Iterator[Finding]:
    """Test every property on `seeds` random workloads, each for at most about `limit_seconds`. Yield each finding."""
    return (_tried(name, holds, make, seeds, limit_seconds) for name, holds in PROPERTIES.items())


def _tried(name: str, holds: Callable[[Make, int], None], make: Make, seeds: int, limit_seconds: float) -> Finding:
    began = time.monotonic()
    for seed in range(seeds):
        if time.monotonic() - began > limit_seconds:
            return Finding(name, False, f"took more than {limit_seconds:g} s for {seed} workloads")
        try:
            holds(make, seed)
        except Violation as story:
            return Finding(name, False, f"{story} (seed {seed})")
        except RotaError as error:
            return Finding(name, False, f"{error.message} (seed {seed})")
        except Exception as error:
            return Finding(name, False, f"raised {type(error).__name__}: {error}{place_of(error)} (seed {seed})")
    return Finding(name, True)


class _Observed:
    """A placer whose requests and answers are passed to a function."""

    def __init__(self, placer: Placer, listener: Listener) -> None:
        self._placer, self._listener = placer, listener

    @property
    def sticky(self) -> bool:
        return self._placer.sticky

    def keeps_together(self, request: PlacementRequest) -> bool:
        return self._placer.keeps_together(request)

    def place(self, view: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        before = _copied(view)
        requested = list(requests)
        answer = self._placer.place(view, requests)
        self._listener(before, requested, answer)
        return answer


def _copied(view: PlacementView) -> PlacementView:
    return replace(view, available=view.available.copy(), idle=view.idle.copy())


def _run(placer: Placer, seed: int, policy: str = POLICIES[0]) -> Any:
    """Simulate a random workload under a policy, and return its record."""
    cluster, arrivals = workload(seed)
    settings = Settings(seed=seed, decide=AtRounds(round_seconds=60.0) if seed % 2 else AtEvents())
    scheduler = Scheduler(cluster, placer, settings)
    physics = Physics(launch_seconds=float(seed % 3), checkpoint_seconds=1.0, restore_seconds=1.0)
    return Engine(scheduler, make_policy(policy), physics, arrivals, seed=seed).run()


def _every_job_ends(make: Make, seed: int) -> None:
    for policy in POLICIES:
        left = int(np.isnan(_run(make(), seed, policy).finished_s).sum())
        if left:
            raise Violation(f"{left} jobs never end under {policy}")


def _requested_number_of_gpus(make: Make, seed: int) -> None:
    def listener(view: PlacementView, requests: list[PlacementRequest], answer: list[Ints]) -> None:
        if len(answer) != len(requests):
            raise Violation(f"{len(requests)} requests got {len(answer)} answers")
        for request, gpus in zip(requests, answer, strict=True):
            given = np.asarray(gpus)
            if len(given) != request.gpus or len(set(given.tolist())) != request.gpus:
                raise Violation(f"job {request.job} requested {request.gpus} GPUs and got {given.tolist()}")
            if (np.diff(given) <= 0).any():
                raise Violation(f"the GPUs of job {request.job} are not sorted: {given.tolist()}")

    _run(_Observed(make(), listener), seed)


def _of_its_pool_and_free(make: Make, seed: int) -> None:
    def listener(view: PlacementView, requests: list[PlacementRequest], answer: list[Ints]) -> None:
        free = view.available.copy()
        for request, gpus in zip(requests, answer, strict=False):
            for gpu in np.asarray(gpus).tolist():
                if not 0 <= gpu < view.cluster.gpus or view.cluster.gpu_pool[gpu] != request.pool:
                    raise Violation(f"job {request.job} got GPU {gpu}, which is not of {_pool(view.cluster, request)}")
                if not free[gpu]:
                    raise Violation(f"job {request.job} got GPU {gpu}, which was not free")
                free[gpu] = False

    _run(_Observed(make(), listener), seed)


def _pool(cluster: Cluster, request: PlacementRequest) -> str:
    return f"the pool {cluster.pools[request.pool]}"


def _same_floor_same_answer(make: Make, seed: int) -> None:
    other = make()

    def listener(view: PlacementView, requests: list[PlacementRequest], answer: list[Ints]) -> None:
        again = other.place(_copied(view), list(requests))
        if [np.asarray(gpus).tolist() for gpus in again] != [np.asarray(gpus).tolist() for gpus in answer]:
            raise Violation("the same GPUs and the same requests got two answers: randomness comes from view.rng()")

    _run(_Observed(make(), listener), seed)


def _same_seed_same_run(make: Make, seed: int) -> None:
    first, second = _run(make(), seed), _run(make(), seed)
    if not np.array_equal(first.finished_s, second.finished_s, equal_nan=True):
        raise Violation("two runs of one workload end differently")


PROPERTIES: Mapping[str, Callable[[Make, int], None]] = {
    "every job ends": _every_job_ends,
    "each request gets its number of GPUs": _requested_number_of_gpus,
    "GPUs are free, of the right pool, and given once": _of_its_pool_and_free,
    "the same view gives the same answer": _same_floor_same_answer,
    "the same seed gives the same run": _same_seed_same_run,
}
