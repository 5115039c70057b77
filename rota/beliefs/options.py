"""Makes the options of each kind of job from what is believed: one per accelerator pool, and one per kind to share it with."""

from collections.abc import Iterator, Sequence

from rota.beliefs.rates import STANDS_STILL, UNPROFILED_SPREAD, Rates
from rota.model.cluster import Cluster
from rota.model.options import Kind, OptionRow, Options
from rota.model.reasons import Reason


def make_options(
    kinds: Sequence[Kind], cluster: Cluster, rates: Rates, *, packing: bool = False, before: Options | None = None
) -> Options:
    """All options of all kinds; a pool that is too small, refused by the job or believed not to run it gives none. Those of
    `before`, made for the first kinds, stay as they are."""
    rows: list[OptionRow] = list(before.rows()) if before is not None else []
    known = len(before.by_kind) if before is not None else 0
    alone: list[dict[int, float]] = [{} for _ in kinds]
    for row in rows:
        if row.partner_kind < 0:
            alone[row.kind][row.pool] = row.rate
    for number in range(known, len(kinds)):
        rows += _rows_of(number, kinds, alone, cluster, rates, packing)
    return Options.of(rows, len(kinds))


def grown(options: Options, kinds: Sequence[Kind], cluster: Cluster, rates: Rates, *, packing: bool) -> Options:
    """The same options, and behind them those that the cluster offers since it has more GPUs."""
    rows = list(options.rows())
    have = {(row.kind, row.partner_kind, row.pool) for row in rows}
    alone: list[dict[int, float]] = [{} for _ in kinds]
    for number in range(len(kinds)):
        found = _rows_of(number, kinds, alone, cluster, rates, packing)
        rows += [row for row in found if (row.kind, row.partner_kind, row.pool) not in have]
    return Options.of(rows, len(kinds))


def _rows_of(
    number: int, kinds: Sequence[Kind], alone: list[dict[int, float]], cluster: Cluster, rates: Rates, packing: bool
) -> list[OptionRow]:
    """All rows of a kind: alone, and beside itself and the kinds before it."""
    found = _alone(number, kinds[number], cluster, rates)
    alone[number] = {row.pool: row.rate for row in found}
    if packing:
        for other in range(number + 1):
            if kinds[other].gpus == kinds[number].gpus >= 1:
                found += _shared(number, other, kinds, alone, cluster, rates)
    return sorted(found, key=lambda row: row.order)


def renewed(options: Options, kinds: Sequence[Kind], cluster: Cluster, rates: Rates, changed: set[int]) -> Options:
    """The same options with the rates that are believed now, where a kind among `changed` takes part."""
    ways = list(options.rows())
    alone: list[dict[int, float]] = [{} for _ in kinds]
    fresh: dict[tuple[int, int, int], OptionRow] = {}
    for number in changed:
        for new in _alone(number, kinds[number], cluster, rates):
            fresh[new.kind, -1, new.pool] = new
    for way in ways:
        if way.partner_kind < 0 and way.kind in changed:  # what is known not to run there stays, as next to nothing
            fresh.setdefault((way.kind, -1, way.pool), way._replace(rate=STANDS_STILL, spread=0.0))
        if way.partner_kind < 0:
            alone[way.kind][way.pool] = fresh.get((way.kind, -1, way.pool), way).rate
    for way in ways:
        if way.partner_kind >= way.kind and changed & {way.kind, way.partner_kind}:
            for new in _shared(way.partner_kind, way.kind, kinds, alone, cluster, rates):
                fresh[new.kind, new.partner_kind, new.pool] = new
    for way in ways:
        if way.partner_kind >= 0 and changed & {way.kind, way.partner_kind}:  # known not to run in this company
            fresh.setdefault((way.kind, way.partner_kind, way.pool), way._replace(rate=STANDS_STILL, spread=0.0))
    return Options.of([fresh.get((way.kind, way.partner_kind, way.pool), way) for way in ways], len(kinds))


def _alone(number: int, kind: Kind, cluster: Cluster, rates: Rates) -> list[OptionRow]:
    """Where it is believed to run. Where it is only estimated not to, it may be tried if nothing else is left."""
    ways, untried = [], []
    for pool, accelerator in enumerate(cluster.pools):
        if kind.width > cluster.pool_gpus[pool] or not accepts(kind, accelerator):
            continue
        # As good as it can get there: a gang that no node can hold is believed to span as few as it must.
        rate, spread = rates.rate(kind.profile, accelerator, kind.width, cluster.fewest_levels(pool, kind.width))
        if rate > 0:
            ways.append(OptionRow(number, pool, kind.milligpus, rate, spread))
        elif rates.only_guessed(kind.profile, accelerator, kind.width):
            untried.append(OptionRow(number, pool, kind.milligpus, STANDS_STILL, UNPROFILED_SPREAD))
    if not ways:
        return [way._replace(rate=rates.speeds.get(cluster.pools[way.pool], 1.0)) for way in untried]
    return ways + untried


def _shared(
    first: int, second: int, kinds: Sequence[Kind], alone: Sequence[dict[int, float]], cluster: Cluster, rates: Rates
) -> Iterator[OptionRow]:
    """Both sides of two kinds on the same GPUs, where it is known how fast they run so and neither stands still. What spanning
    nodes costs a job alone, it costs it in company."""
    a, b = kinds[first], kinds[second]
    for pool in sorted(alone[first].keys() & alone[second].keys()):
        accelerator = cluster.pools[pool]
        both = rates.company(a.profile, b.profile, accelerator, a.width)
        if both is None or min(both[0]) <= 0:
            continue
        known, spread = both
        nominal = [rates.rate(kinds[number].profile, accelerator, a.width)[0] for number in (first, second)]
        if min(nominal) <= 0:
            continue
        sides = [
            rate * (alone[number][pool] / usual) for rate, usual, number in zip(known, nominal, (first, second), strict=True)
        ]
        yield OptionRow(first, pool, a.milligpus, sides[0], spread, second)
        if first != second:
            yield OptionRow(second, pool, a.milligpus, sides[1], spread, first)


def why_never(kind: Kind, cluster: Cluster) -> tuple[Reason, str]:
    """Why a kind has no option at all on this cluster, as a code and in words."""
    pools = [int(gpus) for name, gpus in zip(cluster.pools, cluster.pool_gpus, strict=True) if accepts(kind, name)]
    if not pools:
        return Reason.NO_SUCH_ACCELERATOR, f"the cluster has {', '.join(cluster.pools)}"
    if max(pools) < kind.width:
        return Reason.UNSATISFIABLE, f"the largest pool it accepts has {max(pools)}"
    return (
        Reason.UNSATISFIABLE,
        f"profile {kind.profile!r} has no rate there: it does not fit, or nobody measured it on these types",
    )


def accepts(kind: Kind, accelerator: str) -> bool:
    return not kind.accelerators or accelerator in kind.accelerators
