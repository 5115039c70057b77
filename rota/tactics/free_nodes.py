"""Free nodes: which jobs move where so that a gang gets whole nodes, with the fewest moves.

A job that moves goes to GPUs that are free now, on one node that the gang does not get. Of all solutions with the fewest moves,
the cheapest is taken. Small cases are searched exhaustively. In large ones only the most promising nodes are considered.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from typing import NamedTuple

from rota.model.units import Ints

MAX_NODES = 64
"""Number of nodes considered for each node that a gang takes: those that need the fewest moves."""
MAX_TRIES = 5000
"""Maximum number of steps of a search. The best solution until then counts."""


class Movable(NamedTuple):
    """A job that may be moved. All its GPUs are on one node."""

    job: int
    node: int
    gpus: int
    seconds: float
    """Cost of moving the job, in seconds."""


class DefragmentPlan(NamedTuple):
    """Nodes for a gang, and the moves that free them."""

    nodes: tuple[int, ...]
    moves: tuple[tuple[Movable, int], ...]
    """Jobs, and the node to which each moves."""

    @property
    def gpu_seconds(self) -> float:
        """Cost of the moves, in GPU-seconds."""
        return sum(job.seconds * job.gpus for job, _ in self.moves)


class _Eviction(NamedTuple):
    """A set of jobs that leave a node."""

    jobs: tuple[Movable, ...]
    freed: int
    price: float


def free_nodes(free: Ints, movable: Sequence[Movable], gpus: int, nodes: int) -> DefragmentPlan | None:
    """Return nodes for a gang of this many GPUs on this many nodes, and the moves that free them; None if there are none. `free`
    has the number of GPUs of each node that the gang may have now, and to which jobs may move."""
    if int(free.sum()) < gpus:
        return None
    return _Search(free, movable, gpus, nodes).best


class _Search:
    """Search over sets of nodes; sets that need the fewest moves come first."""

    def __init__(self, free: Ints, movable: Sequence[Movable], gpus: int, nodes: int) -> None:
        self.best: DefragmentPlan | None = None
        self._key = (len(movable) + 1, 0.0)
        """Number of moves of the best set so far, and their price."""
        self._free, self._gpus, self._nodes = free.tolist(), gpus, nodes
        self._tries = 0
        self._room = Counter(each for each in self._free if each)
        jobs: dict[int, list[Movable]] = {}
        for each in movable:
            jobs.setdefault(each.node, []).append(each)
        could = {node: self._free[node] + sum(job.gpus for job in jobs.get(node, ())) for node in range(len(self._free))}
        largest = sorted(could.values(), reverse=True)[: nodes - 1]
        least = gpus - sum(largest)
        """Minimum number of GPUs that each node of a set must give."""
        fewest = {
            node: _fewest(jobs.get(node, ()), least - self._free[node]) for node, room in could.items() if room >= max(least, 1)
        }
        near = sorted(fewest, key=lambda node: (fewest[node], -self._free[node], node))[: MAX_NODES * nodes]
        self._places = [
            (node, fewest[node], list(_ways(jobs.get(node, ()), self._free[node], least, nodes > 1))) for node in near
        ]
        self._cheapest = _from_here_on([min(way.price for way in ways) for _, _, ways in self._places])
        """Lowest price of any way from each position of this list on."""
        self._look(0, (), ())

    def _look(self, first: int, nodes: tuple[int, ...], ways: tuple[_Eviction, ...]) -> None:
        missing = self._nodes - len(nodes)
        if not missing:
            self._judge(nodes, ways)
            return
        moves, price = sum(len(way.jobs) for way in ways), sum(way.price for way in ways)
        for number in range(first, len(self._places) - missing + 1):
            node, fewest, choices = self._places[number]
            at_least = (moves + missing * fewest, price + missing * self._cheapest[number])
            if self._tries >= MAX_TRIES or at_least >= self._key:
                return
            self._tries += 1
            for way in choices:
                if moves + len(way.jobs) <= self._key[0]:
                    self._look(number + 1, (*nodes, node), (*ways, way))

    def _judge(self, nodes: tuple[int, ...], ways: tuple[_Eviction, ...]) -> None:
        """Keep a set of nodes if it has enough GPUs, is better than the best so far, and every job that leaves has a place to
        go."""
        key = (sum(len(way.jobs) for way in ways), sum(way.price for way in ways))
        room = sum(self._free[node] for node in nodes) + sum(way.freed for way in ways)
        if room < self._gpus or key >= self._key:
            return
        leaving = sorted((job for way in ways for job in way.jobs), key=lambda job: (-job.gpus, job.job))
        bins = self._room.copy()
        bins.subtract(self._free[node] for node in nodes if self._free[node])
        rooms = fit([job.gpus for job in leaving], +bins)
        if rooms is not None:
            self._key, self.best = key, DefragmentPlan(nodes, self._targets(leaving, rooms, set(nodes)))

    def _targets(self, leaving: list[Movable], rooms: list[int], taken: set[int]) -> tuple[tuple[Movable, int], ...]:
        """Return a node for each job that leaves, given the room of that node at its turn. Of several nodes the first is
        taken."""
        left = {node: room for node, room in enumerate(self._free) if room and node not in taken}
        moves = []
        for job, room in zip(leaving, rooms, strict=True):
            node = next(node for node, each in left.items() if each == room)
            left[node] -= job.gpus
            moves.append((job, node))
        return tuple(moves)


def _from_here_on(prices: list[float]) -> list[float]:
    return list(accumulate(reversed(prices), min))[::-1]


def _fewest(jobs: Sequence[Movable], gpus: int) -> int:
    """Return the minimum number of these jobs that have to leave to free this many GPUs."""
    count = 0
    for size in sorted((job.gpus for job in jobs), reverse=True):
        if gpus <= 0:
            break
        gpus -= size
        count += 1
    return count


def _ways(jobs: Sequence[Movable], free: int, least: int, more: bool) -> Iterator[_Eviction]:
    """Yield the sets of jobs that may leave a node so that it gives at least `least` GPUs, the smallest sets first. Of jobs of
    one size the cheapest leave. Unless `more` GPUs than that would help, no job leaves without need."""
    sizes: dict[int, list[Movable]] = {}
    for job in sorted(jobs, key=lambda job: (job.seconds, job.job)):
        sizes.setdefault(job.gpus, []).append(job)
    found = []
    for counts in product(*(range(len(group) + 1) for group in sizes.values())):
        leave = tuple(job for group, count in zip(sizes.values(), counts, strict=True) for job in group[:count])
        freed = sum(job.gpus for job in leave)
        spare = free + freed - least
        if spare >= 0 and (more or not leave or spare < min(job.gpus for job in leave)):
            found.append(_Eviction(leave, freed, sum(job.seconds * job.gpus for job in leave)))
    yield from sorted(found, key=lambda way: (len(way.jobs), way.price))


def fit(sizes: Sequence[int], bins: Counter[int]) -> list[int] | None:
    """Return the room of the node to which each of these jobs moves at its turn, the largest job first, given the number of nodes
    by room. None if they do not fit. The tightest fit is tried first, then the others."""
    failed: set[tuple[int, tuple[tuple[int, int], ...]]] = set()

    def go_on(number: int) -> list[int] | None:
        if number == len(sizes):
            return []
        key = (number, tuple(sorted((room, count) for room, count in bins.items() if count)))
        if key in failed or sum(room * count for room, count in key[1]) < sum(sizes[number:]) or len(failed) > MAX_TRIES:
            return None
        size = sizes[number]
        for room in [room for room, _ in key[1] if room >= size]:
            bins[room] -= 1
            bins[room - size] += 1
            rest = go_on(number + 1)
            bins[room] += 1
            bins[room - size] -= 1
            if rest is not None:
                return [room, *rest]
        failed.add(key)
        return None

    bins = Counter({room: count for room, count in bins.items() if room > 0})
    return go_on(0)
