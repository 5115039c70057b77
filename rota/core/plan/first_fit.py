"""First fit: in order, each job takes the best of its options that still has room.

The result is the same as walking the candidates of `expand_options`. A job may have a hundred options, and most jobs of a long
queue are never reached, so a job's options are looked at only when it has its turn."""

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.order import Candidates, Preference
from rota.model.units import Ints


class _OpenOptions:
    """The options of one kind that may still have room, best first, by pool. Room only shrinks: one that has none is dropped."""

    def __init__(self, kind: int, table: CandidateTable, rates: list[float]) -> None:
        options = table.options
        rows = options.by_kind[kind]
        rows = rows[rows >= 0]
        worth = ~options.too_slow[rows]
        self.rank = {row: at for at, row in enumerate(rows.tolist())}
        self.rates = rates
        self._needs = options.milligpus
        self._by_pool: dict[int, list[int]] = {}
        for row in rows[worth][::-1].tolist():
            self._by_pool.setdefault(options.pool.item(row), []).append(row)

    def heads(self, room: list[int]) -> list[tuple[int, int]]:
        """The best option with room of each pool that has one, as (pool, row)."""
        found = []
        for pool, rows in list(self._by_pool.items()):
            while rows and self._needs.item(rows[-1]) > room[pool]:
                rows.pop()
            if rows:
                found.append((pool, rows[-1]))
            else:
                del self._by_pool[pool]
        return found

    def best(self, room: list[int]) -> int:
        """Return the fastest of the heads; -1: there is none."""
        heads = self.heads(room)
        return max(heads, key=lambda head: (self.rates[head[1]], -self.rank[head[1]]))[1] if heads else -1


def first_fit(candidates: Candidates, preference: Preference, table: CandidateTable, left: Ints) -> tuple[Ints, Ints]:
    """Return the positions of granted jobs, in order, and the option of each. `left` becomes what the pools have after that."""
    options = table.options
    rates = options.rate.tolist()
    if preference.type_agnostic:
        rates = (1.0 + table.pool_order(type_agnostic=True)[options.pool]).tolist()
    needs, pools, hopeless = options.milligpus.tolist(), options.pool.tolist(), options.too_slow.tolist()
    room = left.tolist()
    kinds: dict[int, _OpenOptions] = {}
    closed: set[int] = set()
    granted: list[int] = []
    by: list[int] = []
    smallest = min(needs)
    held_of, kind_of, protected = table.granted_option.tolist(), table.kind.tolist(), table.protected.tolist()
    for job in candidates.position.tolist():
        held, kind = held_of[job], kind_of[job]
        row = -1
        if held >= 0 or kind not in closed:
            mine = kinds.get(kind)
            if mine is None:
                mine = kinds[kind] = _OpenOptions(kind, table, rates)
            stuck = held >= 0 and hopeless[held]
            if held >= 0 and protected[job]:
                row = held if needs[held] <= room[pools[held]] else -1
            elif held < 0 or (stuck and (preference.type_agnostic or not preference.may_move)):
                row = mine.best(room)
            elif preference.may_move and not preference.type_agnostic:
                row = _best_move(job, held, stuck, mine, table, room, needs[held] <= room[pools[held]])
            elif needs[held] <= room[pools[held]]:
                row = held
            if row < 0 and held < 0:
                closed.add(kind)
        if row >= 0:
            granted.append(job)
            by.append(row)
            room[pools[row]] -= needs[row]
            if max(room) < smallest:
                break
        elif candidates.blocking:
            break
    left[:] = room
    return np.array(granted, dtype=np.int64), np.array(by, dtype=np.int64)


def _best_move(job: int, held: int, stuck: bool, mine: _OpenOptions, table: CandidateTable, room: list[int], fits: bool) -> int:
    """The option that brings the most steps over the horizon, the price of moving paid first."""
    if stuck:
        return mine.best(room)
    span = min(max(table.seconds_left.item(job), 1e-6), table.horizon_seconds)
    move = table.move_seconds.item(job)
    here, resize = table.options.pool.item(held), min(move, table.resize_seconds.item(job))
    best, row = (-1.0, 0), -1
    if fits:
        best, row = (mine.rates[held] * (span * (1 + 1e-9)), -mine.rank[held]), held
    for pool, head in mine.heads(room):
        if head != held:
            score = (mine.rates[head] * max(span - (resize if pool == here else move), 0.0), -mine.rank[head])
            if score > best:
                best, row = score, head
    return row
