"""Makes the options of each kind of job from what is believed: one per accelerator pool, and one per kind to share it with."""

from collections.abc import Iterator, Sequence

from rota.beliefs.rates import Rates
from rota.model.cluster import Cluster
from rota.model.options import Kind, Options, Way
from rota.model.reasons import Reason
from rota.model.units import MILLI


def make_options(kinds: Sequence[Kind], cluster: Cluster, rates: Rates, *, packing: bool = False) -> Options:
    """All options of all kinds; a pool that is too small, refused by the job or believed not to run it gives none."""
    ways: list[Way] = []
    pools: list[set[int]] = []
    for number, kind in enumerate(kinds):
        alone = _alone(number, kind, cluster, rates)
        ways += alone
        pools.append({way.pool for way in alone})
        if packing:
            for other in range(number + 1):
                if kinds[other].gpus == kind.gpus:
                    ways += _shared(number, other, kinds, pools[number] & pools[other], cluster, rates)
    return Options.of(ways, len(kinds))


def _alone(number: int, kind: Kind, cluster: Cluster, rates: Rates) -> list[Way]:
    ways = []
    for pool, accelerator in enumerate(cluster.pools):
        if kind.gpus > cluster.pool_gpus[pool] or not accepts(kind, accelerator):
            continue
        # As good as it can get there: a gang that no node can hold is believed to span as few as it must.
        rate, spread = rates.rate(kind.profile, accelerator, kind.gpus, cluster.fewest_nodes(pool, kind.gpus))
        if rate > 0:
            ways.append(Way(number, pool, kind.gpus * MILLI, rate, spread))
    return ways


def _shared(first: int, second: int, kinds: Sequence[Kind], pools: set[int], cluster: Cluster, rates: Rates) -> Iterator[Way]:
    """Both sides of two kinds on the same GPUs, where it is known how fast they run so and neither stands still."""
    a, b = kinds[first], kinds[second]
    for pool in sorted(pools):
        known = rates.together(a.profile, b.profile, cluster.pools[pool], a.gpus)
        if known is None or min(known) <= 0:
            continue
        if first == second:
            yield Way(first, pool, a.gpus * MILLI, sum(known) / 2, 0.0, first)
        else:
            yield Way(first, pool, a.gpus * MILLI, known[0], 0.0, second)
            yield Way(second, pool, a.gpus * MILLI, known[1], 0.0, first)


def why_never(kind: Kind, cluster: Cluster) -> tuple[Reason, str]:
    """Why a kind has no option at all on this cluster, as a code and in words."""
    pools = [int(gpus) for name, gpus in zip(cluster.pools, cluster.pool_gpus, strict=True) if accepts(kind, name)]
    if not pools:
        return Reason.NO_SUCH_ACCELERATOR, f"the cluster has {', '.join(cluster.pools)}"
    if max(pools) < kind.gpus:
        return Reason.UNSATISFIABLE, f"the largest pool it accepts has {max(pools)}"
    return (
        Reason.UNSATISFIABLE,
        f"profile {kind.profile!r} has no rate there: it does not fit, or nobody measured it on these types",
    )


def accepts(kind: Kind, accelerator: str) -> bool:
    return not kind.accelerators or accelerator in kind.accelerators
