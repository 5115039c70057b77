"""Making the options of each kind of job from beliefs: one per accelerator pool and size that the job accepts, and one per kind
with which it can share GPUs. Jobs share GPUs only at their requested size."""

from collections.abc import Iterator, Sequence

from rota.beliefs.rates import NEGLIGIBLE_RATE, UNPROFILED_UNCERTAINTY, Rates
from rota.model.cluster import Cluster
from rota.model.options import Kind, OptionRow, Options
from rota.model.reasons import Reason
from rota.model.units import MILLI


def make_options(
    kinds: Sequence[Kind], cluster: Cluster, rates: Rates, *, colocation: bool = False, before: Options | None = None
) -> Options:
    """Return all options of all kinds. A pool gives no option if it is too small, refused by the job, or estimated not to run it.
    The options in `before`, made for the first kinds, stay as they are."""
    rows: list[OptionRow] = list(before.rows()) if before is not None else []
    known = len(before.by_kind) if before is not None else 0
    alone: list[dict[int, float]] = [{} for _ in kinds]
    for row in rows:
        if row.partner_kind < 0 and _is_asked(row, kinds):
            alone[row.kind][row.pool] = row.rate
    for number in range(known, len(kinds)):
        rows += _rows_of(number, kinds, alone, cluster, rates, colocation)
    return Options.of(rows, len(kinds), before.lasting if before is not None else ())


def grown(options: Options, kinds: Sequence[Kind], cluster: Cluster, rates: Rates, *, colocation: bool) -> Options:
    """Return the same options, followed by those that the cluster offers since it has more GPUs."""
    rows = list(options.rows())
    have = {_key(row) for row in rows}
    alone: list[dict[int, float]] = [{} for _ in kinds]
    for number in range(len(kinds)):
        found = _rows_of(number, kinds, alone, cluster, rates, colocation)
        rows += [row for row in found if _key(row) not in have]
    return Options.of(rows, len(kinds), options.lasting)


def _rows_of(
    number: int, kinds: Sequence[Kind], alone: list[dict[int, float]], cluster: Cluster, rates: Rates, colocation: bool
) -> list[OptionRow]:
    """Return all rows of a kind: exclusive, and colocated with itself and the kinds before it."""
    found = _alone(number, kinds[number], cluster, rates)
    alone[number] = {row.pool: row.rate for row in found if _is_asked(row, kinds)}
    if colocation:
        for other in range(number + 1):
            if kinds[other].demand.gpus == kinds[number].demand.gpus >= 1:
                found += _shared(number, other, kinds, alone, cluster, rates)
    return sorted(found, key=lambda row: row.order)


def renewed(options: Options, kinds: Sequence[Kind], cluster: Cluster, rates: Rates, changed: set[int]) -> Options:
    """Return the same options with the present rates, for options of which a kind among `changed` is part."""
    ways = list(options.rows())
    alone: list[dict[int, float]] = [{} for _ in kinds]
    fresh: dict[OptionKey, OptionRow] = {}
    for number in changed:
        for new in _alone(number, kinds[number], cluster, rates):
            fresh[_key(new)] = new
    for way in ways:
        if way.partner_kind < 0 and way.kind in changed:  # an option known not to run stays, at next to nothing
            fresh.setdefault(_key(way), way._replace(rate=NEGLIGIBLE_RATE, uncertainty=0.0))
        if way.partner_kind < 0 and _is_asked(way, kinds):
            alone[way.kind][way.pool] = fresh.get(_key(way), way).rate
    for way in ways:
        if way.partner_kind >= way.kind and changed & {way.kind, way.partner_kind}:
            for new in _shared(way.partner_kind, way.kind, kinds, alone, cluster, rates):
                fresh[_key(new)] = new
    for way in ways:
        if way.partner_kind >= 0 and changed & {way.kind, way.partner_kind}:  # known not to run with this partner
            fresh.setdefault(_key(way), way._replace(rate=NEGLIGIBLE_RATE, uncertainty=0.0))
    ordered = [fresh.get(_key(way), way)._replace(share_column=way.share_column) for way in ways]
    return Options.of(ordered, len(kinds), options.lasting)


OptionKey = tuple[int, int, int, int, int]
"""Kind, partner kind, pool, thousandths of GPUs and batch size."""


def _key(row: OptionRow) -> OptionKey:
    return row.kind, row.partner_kind, row.pool, row.milligpus, row.batch_size


def _is_asked(row: OptionRow, kinds: Sequence[Kind]) -> bool:
    """Return whether the row has the size that its kind requests."""
    demand = kinds[row.kind].demand
    return row.milligpus == demand.milligpus and row.batch_size == (demand.batch_size or 0)


def _alone(number: int, kind: Kind, cluster: Cluster, rates: Rates) -> list[OptionRow]:
    """Return the exclusive options of a kind. If all rates are 0 and some are only estimates, these options may be tried."""
    ways, untried = [], []
    for pool, accelerator in enumerate(cluster.pools):
        if not accepts(kind, accelerator):
            continue
        sizes = kind.demand.sizes()
        for milligpus, batch_size in sizes:
            width = max(milligpus // MILLI, 1)
            if width > cluster.pool_gpus[pool]:
                continue
            # The best case: a gang that no node can hold is assumed to span as few levels as possible.
            levels = cluster.fewest_levels(pool, width)
            rate, spread = rates.rate_of(kind.profile, kind.demand, accelerator, width, batch_size, levels)
            asked = (milligpus, batch_size) == sizes[0]
            row = OptionRow(number, pool, milligpus, rate, spread, batch_size=batch_size, requested=asked)
            if rate > 0:
                ways.append(row)
            elif rates.only_assumed(kind.profile, accelerator, width):
                untried.append(row._replace(rate=NEGLIGIBLE_RATE, uncertainty=UNPROFILED_UNCERTAINTY))
    if not ways:
        return [way._replace(rate=rates.speeds.get(cluster.pools[way.pool], 1.0)) for way in untried]
    return ways + untried


def _shared(
    first: int, second: int, kinds: Sequence[Kind], alone: Sequence[dict[int, float]], cluster: Cluster, rates: Rates
) -> Iterator[OptionRow]:
    """Return the rows of both kinds on the same GPUs, if the rates are known and neither stands still. Spanning nodes costs a
    colocated job the same factor as an exclusive one."""
    a, b = kinds[first], kinds[second]
    width, milligpus = a.demand.width, a.demand.milligpus
    for pool in sorted(alone[first].keys() & alone[second].keys()):
        accelerator = cluster.pools[pool]
        both = rates.believed_colocated_rates(a.profile, b.profile, accelerator, width)
        if both is None or min(both[0]) <= 0:
            continue
        known, spread = both
        nominal = [rates.rate(kinds[number].profile, accelerator, width)[0] for number in (first, second)]
        if min(nominal) <= 0:
            continue
        sides = [
            rate * (alone[number][pool] / usual) for rate, usual, number in zip(known, nominal, (first, second), strict=True)
        ]
        yield OptionRow(first, pool, milligpus, sides[0], spread, second, a.demand.batch_size or 0)
        if first != second:
            yield OptionRow(second, pool, milligpus, sides[1], spread, first, b.demand.batch_size or 0)


def why_never(kind: Kind, cluster: Cluster) -> tuple[Reason, str]:
    """Return why a kind has no option on this cluster, as a code and in words."""
    pools = [int(gpus) for name, gpus in zip(cluster.pools, cluster.pool_gpus, strict=True) if accepts(kind, name)]
    if not pools:
        return Reason.NO_SUCH_ACCELERATOR, f"the cluster has {', '.join(cluster.pools)}"
    if max(pools) < min((kind.demand.width, *kind.demand.gpu_counts)):
        return Reason.UNSATISFIABLE, f"the largest pool it accepts has {max(pools)}"
    if kind.profile is None:
        return Reason.UNSATISFIABLE, "a job without a profile has no rate on these types"
    return (
        Reason.UNSATISFIABLE,
        f"profile {kind.profile!r} has no rate there: it does not fit, or was not measured on these types",
    )


def accepts(kind: Kind, accelerator: str) -> bool:
    return not kind.accelerators or accelerator in kind.accelerators
