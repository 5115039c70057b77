"""Pairs: which waiting job should join which running one, as a pure function."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

USUAL_UTILISATION = 0.7
"""Assumed GPU utilization of a job that was not measured."""


class Packable(NamedTuple):
    """A job that may share GPUs."""

    position: int
    name: str
    """Profile of the job, or the job itself if it has none."""
    option: int
    """Option with which the job runs, or would run."""
    pool: int
    gpus: int
    node: int
    """First node of its GPUs; -1 for a waiting job."""
    utilization: float
    """Share of time for which the job keeps its GPUs busy when exclusive, from 0 to 1; NaN if not measured."""
    gib: float
    """Peak memory on each GPU, in GiB; NaN if unknown."""
    room_gib: float
    """Memory that a running job leaves free on its GPUs, in GiB."""
    gpus_held: tuple[int, ...] = ()
    """GPUs of the job. Those of a waiting job are the GPUs on which it is parked or still runs; it joins other jobs only there,
    since moving it costs more."""
    measured: bool = True
    """Whether the job was measured exclusively. Until then it is not tried with other jobs."""


class PairProposal(NamedTuple):
    runner: int
    joiner: int
    option: int
    """Option of the joiner."""
    expected_gain: float | None
    """Expected gain if the pair has to be tried; None if its gain is known."""


Gain = Callable[[str, str, int, int], float | None]
"""Returns the known gain of two names on this many GPUs of a pool: how much more they do together; None if unknown."""


def pair_up(
    runners: Iterable[Packable],
    joiners: Iterable[Packable],
    gain: Gain,
    *,
    min_gain: float,
    busy: set[int],
    surprise: float = 0.0,
) -> list[PairProposal]:
    """Return which job should join which. `joiners` are in the policy's order; jobs with a lower GPU utilization go first.

    `busy` has the nodes on which a pair is already on trial. `surprise` is how much more than expected trials usually gain.
    """
    free: dict[tuple[int, int], dict[str, list[Packable]]] = {}
    for runner in sorted(runners, key=_utilization):
        free.setdefault((runner.pool, runner.gpus), {}).setdefault(runner.name, []).append(runner)
    joined: set[int] = set()
    wishes = []
    for joiner in sorted(joiners, key=_utilization):
        groups = free.get((joiner.pool, joiner.gpus))
        if not groups or joiner.position in joined:
            continue
        if joiner.gpus_held:
            mates = (runner for runners in groups.values() for runner in runners if runner.gpus_held == joiner.gpus_held)
            found = next((_best({runner.name: [runner]}, joiner, gain, min_gain, busy, surprise) for runner in mates), None)
        else:
            found = _best(groups, joiner, gain, min_gain, busy, surprise)
        if found is None:
            continue
        runner, hoped = found
        joined.add(joiner.position)
        if hoped is not None:
            busy.add(runner.node)
        groups[runner.name].remove(runner)
        if not groups[runner.name]:
            del groups[runner.name]
        wishes.append(PairProposal(runner.position, joiner.position, joiner.option, hoped))
    return wishes


def _best(
    groups: dict[str, list[Packable]], joiner: Packable, gain: Gain, min_gain: float, busy: set[int], surprise: float
) -> tuple[Packable, float | None] | None:
    """Return the runner with the largest gain. For a pair that was never measured, the expected gain is what the two leave
    idle."""
    best, most = None, min_gain
    for name, runners in groups.items():
        seen = gain(name, joiner.name, joiner.pool, joiner.gpus)
        hoped = 2.0 - _utilization(runners[0]) - _utilization(joiner)
        worth = seen if seen is not None else hoped + surprise
        if worth <= most:
            continue
        for runner in runners:
            fits = not joiner.gib > runner.room_gib  # unknown memory does not prevent a pair
            if fits and (seen is not None or (runner.node not in busy and runner.measured)):
                best, most = (runner, hoped if seen is None else None), worth
                break
    return best


def _utilization(job: Packable) -> float:
    return USUAL_UTILISATION if np.isnan(job.utilization) else job.utilization
