"""Check that a submitted job can ever run on these machines."""

from collections.abc import Callable

from rota.agent.gpu_readings import Readings
from rota.beliefs.make_options import accepts, make_options, why_never
from rota.beliefs.rates import Rates
from rota.errors import OptionError
from rota.model.accelerators import ACCELERATORS
from rota.model.cluster import Cluster
from rota.model.counted import counted
from rota.model.job import JobSpec
from rota.model.options import Kind
from rota.model.tenants import Tenants
from rota.model.units import FOREVER


def check_options(wanted: JobSpec, cluster: Cluster, rates: Rates) -> None:
    """Raise OptionError for a job that has no option on this cluster."""
    kind = Kind.of(wanted)
    if len(make_options([kind], cluster, rates)):
        return
    code, why = why_never(kind, cluster)
    types = " or ".join(wanted.accelerators) or "any type"
    raise OptionError(
        f"{code.name}: {counted(wanted.gpus, 'GPU')} of {types} can never run here; {why}.",
        field="gpus",
        value=wanted.gpus,
        hint=f"fewer GPUs, or other types: this cluster is {cluster}",
    )


def check_tenant(wanted: JobSpec, tenants: Tenants | None) -> None:
    """Raise OptionError for a job of a tenant that the operator's file does not have, if it refuses such jobs, and for a job that
    alone exceeds a cap."""
    if tenants is None:
        return
    home = tenants.home_of(wanted.tenant)
    if home is None:
        mine = tenants.open_to(wanted.user) or tenants.paths
        raise OptionError(
            "is not a tenant of this cluster.",
            field="tenant",
            value=wanted.tenant or "none",
            hint=f"tenant: {mine[0]}; all: {', '.join(mine)}",
        )
    least = min((wanted.gpus, *wanted.gpu_counts))
    cap = tenants.cap_of(home)
    if least > cap:
        raise OptionError(
            f"OVER_QUOTA: is more than the cap of {cap:g} in the tenant {home}.",
            field="gpus",
            value=f"{least:g}",
            hint=f"gpus: {cap:g}, or less",
        )


def check_memory(wanted: JobSpec, cluster: Cluster, readings: Callable[[], Readings], *, pretend: bool) -> None:
    """Raise OptionError for a job that needs more memory than any GPU of the types that it accepts. Makers sell a type with
    several sizes, so readings of real GPUs count. A job is accepted if nothing is known."""
    if not wanted.gpu_gib:
        return
    kind = Kind.of(wanted)
    pools = [name for name in cluster.pools if accepts(kind, name)]
    largest_gib = max((ACCELERATORS[name].memory_gib if name in ACCELERATORS else FOREVER for name in pools), default=FOREVER)
    if wanted.gpu_gib > largest_gib and not pretend:
        largest_gib = max((each.memory_gib for each in readings().values() if each.memory_gib is not None), default=FOREVER)
    if wanted.gpu_gib > largest_gib:
        raise OptionError(
            f"is more than the memory of any GPU that it accepts here: {largest_gib:.3g} GiB.",
            field="gpu_memory",
            value=f"{wanted.gpu_gib:g} GiB",
            hint=f"gpu_memory: {int(largest_gib)} GiB, or less",
        )
