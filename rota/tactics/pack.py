"""Pack: while jobs wait, a waiting job may join a running one on its GPUs (Gandiva, OSDI'18, section 4.2).

Whether two get further together than in turns is measured, not guessed: a pair that was never seen is tried first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Pack:
    """Two jobs on the same GPUs where that does more than one after the other."""

    least_gain: float = 0.2
    """A pair must do so much more than jobs in turns: a job that has its turn is slowed down for one that has not."""
    settle_seconds: float = 60.0
    """A pair is judged after this."""

    def pair_up(
        self, runners: Iterable[Packable], joiners: Iterable[Packable], gain: Gain, busy: set[int], surprise: float = 0.0
    ) -> list[PairWish]:
        """Who should join whom. Joiners come in the order in which they deserve it; those that keep GPUs least busy go first.
        `busy`: nodes on which something is being tried already. `surprise`: by how much trials usually gain more than is hoped
        for."""
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
                found = next((self._best({runner.name: [runner]}, joiner, gain, busy, surprise) for runner in mates), None)
            else:
                found = self._best(groups, joiner, gain, busy, surprise)
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
        self, groups: dict[str, list[Packable]], joiner: Packable, gain: Gain, busy: set[int], surprise: float
    ) -> tuple[Packable, float | None] | None:
        """The runner with which most would be gained. Of a pair that was never measured, what the two leave idle is hoped for."""
        best, most = None, self.least_gain
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
