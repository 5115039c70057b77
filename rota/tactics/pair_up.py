"""Pairs: which waiting job should join which running one, as a plain function of what is known."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

USUAL_UTILISATION = 0.7
"""Assumed utilisation of a job that was not measured, from 0 to 1."""


class Packable(NamedTuple):
    """A job that may share GPUs."""

    position: int
    name: str
    """Profile of the job, or its number if it has none."""
    option: int
    """Option by which it runs, or would run."""
    pool: int
    gpus: int
    node: int
    """First node of its GPUs, or of the GPUs on which it is parked; -1 if none."""
    utilisation: float
    """GPU utilisation without a partner, from 0 to 1; not a number if not measured."""
    gib: float
    """Largest memory that it takes on a GPU, in GiB; not a number if unknown."""
    room_gib: float
    """Memory that a running job leaves on each of its GPUs, in GiB."""
    seat: tuple[int, ...] = ()
    """GPUs of the job. A waiting job that is parked or still runs joins other jobs only there, since moving it costs more."""
    measured: bool = True
    """Whether it was measured alone. Until then it is not tried with others."""


class PairWish(NamedTuple):
    runner: int
    joiner: int
    option: int
    """Option of the joiner."""
    hoped: float | None
    """Expected gain of a pair that has to be tried; None if its gain is known."""


Gain = Callable[[str, str, int, int], float | None]
"""Returns the believed gain of two names on a number of GPUs of a pool; None if unknown."""


def pair_up(
    runners: Iterable[Packable],
    joiners: Iterable[Packable],
    gain: Gain,
    *,
    least_gain: float,
    busy: set[int],
    surprise: float = 0.0,
) -> list[PairWish]:
    """Return which job should join which. Joiners come in the order in which they deserve it; of these, jobs that keep GPUs least
    busy go first. `busy`: nodes on which a pair is on trial already. `surprise`: by how much trials usually gain more than was
    expected."""
    free: dict[tuple[int, int], dict[str, list[Packable]]] = {}
    for runner in sorted(runners, key=_utilisation):
        free.setdefault((runner.pool, runner.gpus), {}).setdefault(runner.name, []).append(runner)
    joined: set[int] = set()
    wishes = []
    for joiner in sorted(joiners, key=_utilisation):
        groups = free.get((joiner.pool, joiner.gpus))
        if not groups or joiner.position in joined:
            continue
        if joiner.seat:
            mates = (runner for runners in groups.values() for runner in runners if runner.seat == joiner.seat)
            found = next((_best({runner.name: [runner]}, joiner, gain, least_gain, busy, surprise) for runner in mates), None)
        else:
            found = _best(groups, joiner, gain, least_gain, busy, surprise)
        if found is None:
            continue
        runner, hoped = found
        joined.add(joiner.position)
        if hoped is not None:
            busy.add(runner.node)
        groups[runner.name].remove(runner)
        if not groups[runner.name]:
            del groups[runner.name]
        wishes.append(PairWish(runner.position, joiner.position, joiner.option, hoped))
    return wishes


def _best(
    groups: dict[str, list[Packable]], joiner: Packable, gain: Gain, least_gain: float, busy: set[int], surprise: float
) -> tuple[Packable, float | None] | None:
    """Return the runner with the largest gain. The expected gain of a pair that was never measured is what both leave idle."""
    best, most = None, least_gain
    for name, runners in groups.items():
        seen = gain(name, joiner.name, joiner.pool, joiner.gpus)
        hoped = 2.0 - _utilisation(runners[0]) - _utilisation(joiner)
        worth = seen if seen is not None else hoped + surprise
        if worth <= most:
            continue
        for runner in runners:
            fits = not joiner.gib > runner.room_gib  # unknown memory does not prevent a pair
            if fits and (seen is not None or (runner.node not in busy and runner.measured)):
                best, most = (runner, hoped if seen is None else None), worth
                break
    return best


def _utilisation(job: Packable) -> float:
    return USUAL_UTILISATION if np.isnan(job.utilisation) else job.utilisation
