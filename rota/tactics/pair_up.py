"""Pairs: which waiting job should join which running one, as a plain function of what is known."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

USUAL_UTILISATION = 0.7
"""Of a job that was not measured."""


class Packable(NamedTuple):
    """A job that may share GPUs."""

    position: int
    name: str
    """Its profile, or the job itself where it has none."""
    option: int
    """By which it runs, or would."""
    pool: int
    gpus: int
    node: int
    """The first node of its GPUs; of a job that waits, of the GPUs on which it sleeps; -1: none."""
    utilisation: float
    """How busy it keeps its GPUs alone, from 0 to 1; not a number: not measured."""
    gib: float
    """The most memory it takes on each GPU; not a number: not known."""
    room_gib: float
    """What it leaves there of a job that runs."""
    seat: tuple[int, ...] = ()
    """Its GPUs; of a job that waits, those on which it sleeps or still runs: it joins others only there, since to move it costs
    more."""
    measured: bool = True
    """It was measured alone. Until then it is not tried with others."""


class PairWish(NamedTuple):
    runner: int
    joiner: int
    option: int
    """Of the joiner."""
    hoped: float | None
    """The gain that is hoped for, if the pair has to be tried; None: its gain is known."""


Gain = Callable[[str, str, int, int], float | None]
"""What is believed of two names on so many GPUs of a pool: how much more they do together; None: that is not known."""


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
    """The runner with which most would be gained. Of a pair that was never measured, what the two leave idle is hoped for."""
    best, most = None, least_gain
    for name, runners in groups.items():
        seen = gain(name, joiner.name, joiner.pool, joiner.gpus)
        hoped = 2.0 - _utilisation(runners[0]) - _utilisation(joiner)
        worth = seen if seen is not None else hoped + surprise
        if worth <= most:
            continue
        for runner in runners:
            fits = not joiner.gib > runner.room_gib  # what is not known does not stand in the way
            if fits and (seen is not None or (runner.node not in busy and runner.measured)):
                best, most = (runner, hoped if seen is None else None), worth
                break
    return best


def _utilisation(job: Packable) -> float:
    return USUAL_UTILISATION if np.isnan(job.utilisation) else job.utilisation
