"""Makes the options of each kind of job from what is believed: so far one per accelerator pool, at a fixed GPU count."""

from collections.abc import Sequence

from rota.beliefs.rates import Rates
from rota.model.cluster import Cluster
from rota.model.options import Kind, Options
from rota.model.reasons import Reason
from rota.model.units import MILLI


def make_options(kinds: Sequence[Kind], cluster: Cluster, rates: Rates) -> Options:
    """All options of all kinds; a pool that is too small, refused by the job or believed not to run it gives none."""
    rows = []
    for number, kind in enumerate(kinds):
        for pool, accelerator in enumerate(cluster.pools):
            if kind.gpus > cluster.pool_gpus[pool] or not accepts(kind, accelerator):
                continue
            # As good as it can get there: a gang that no node can hold is believed to span as few as it must.
            rate, spread = rates.rate(kind.profile, accelerator, kind.gpus, cluster.fewest_nodes(pool, kind.gpus))
            if rate > 0:
                rows.append((number, pool, kind.gpus * MILLI, rate, spread))
    return Options.of(rows, len(kinds))


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
