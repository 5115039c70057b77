"""Unknown accelerator types of a cluster: a probable typing error raises; any other unknown type gets the speed of a V100, with a
note."""

from rota.beliefs.rates import Rates
from rota.errors import ClusterError
from rota.files.csv_table import closest
from rota.model.accelerators import ACCELERATORS, REFERENCE, WITHOUT_FIGURES
from rota.model.cluster import Cluster

_SEPARATORS = str.maketrans("", "", " -_.")


def type_assumptions(cluster: Cluster, rates: Rates, typed: bool = True) -> list[str]:
    """Return a sentence for each type whose speed is assumed. Raise ClusterError for a probable typing error, unless the names
    come from a machine (`typed` is false)."""
    if rates.everywhere or (rates.model is None and not rates.speeds):
        return []  # all types have the same speed, so their names do not matter
    measured = {accelerator for _, accelerator, _ in (*rates.table, *rates.across_nodes)}
    known = {*ACCELERATORS, *rates.speeds, *measured}
    unknown = [name for name in cluster.pools if name not in known]
    if typed:
        check_spelling(unknown, known, where=str(cluster))
    return [
        f"{name} is an unknown accelerator type; assuming the speed of a {REFERENCE}.{closest(name, sorted(known))}"
        for name in unknown
    ]


def check_spelling(names: list[str], known: set[str], where: str) -> None:
    """Raise ClusterError for the first name that differs from a known type by one typing error."""
    for name in names:
        near = sorted(each for each in known if one_slip_apart(name, each))
        if near and name not in WITHOUT_FIGURES:
            raise ClusterError(
                f"is an unknown accelerator type. Closest: {', '.join(near)}.",
                where="" if where.startswith(name) else where,
                field="accelerator",
                value=name,
                hint=f"{near[0]}; or a table for --profile that has this type",
            )


def one_slip_apart(name: str, other: str) -> bool:
    """Return whether two names differ only by separators, or by one character that is missing, added, changed or swapped with the
    next."""
    a, b = (each.upper().translate(_SEPARATORS) for each in (name, other))
    if a == b:
        return name != other
    at = next((i for i, (mine, theirs) in enumerate(zip(a, b, strict=False)) if mine != theirs), min(len(a), len(b)))
    swapped = a[at + 1 : at + 2] + a[at : at + 1] + a[at + 2 :]
    return b[at:] in (a[at + 1 :], swapped) or b[at + 1 :] in (a[at:], a[at + 1 :])
