"""Accelerator types of a cluster that are unknown: a slip of the pen is an error, any other name counts as a V100 and is told."""

from rota.beliefs.rates import Rates
from rota.errors import ClusterError
from rota.files.csv_table import closest
from rota.model.accelerators import ACCELERATORS, REFERENCE, WITHOUT_FIGURES
from rota.model.cluster import Cluster

_SEPARATORS = str.maketrans("", "", " -_.")


def type_guesses(cluster: Cluster, rates: Rates, typed: bool = True) -> list[str]:
    """A sentence for each type whose speed has to be guessed. A name that looks like a typing error raises `ClusterError`, unless
    it was not `typed`: a machine knows what its GPUs are called."""
    if rates.everywhere or (rates.model is None and not rates.speeds):
        return []  # all types run alike, so their names do not matter
    measured = {accelerator for _, accelerator, _ in (*rates.table, *rates.apart)}
    known = {*ACCELERATORS, *rates.speeds, *measured}
    unknown = [name for name in cluster.pools if name not in known]
    if typed:
        check_spelling(unknown, known, where=str(cluster))
    return [
        f"{name} is no accelerator type known here and counts as a {REFERENCE}.{closest(name, sorted(known))}" for name in unknown
    ]


def check_spelling(names: list[str], known: set[str], where: str) -> None:
    """Raise for the first name that is one slip away from a known type."""
    for name in names:
        near = sorted(each for each in known if one_slip_apart(name, each))
        if near and name not in WITHOUT_FIGURES:
            raise ClusterError(
                f"is no accelerator type known here. Closest: {', '.join(near)}.",
                where="" if where.startswith(name) else where,
                field="accelerator",
                value=name,
                hint=f"{near[0]}; a type of this name has to be in the table of --profile",
            )


def one_slip_apart(name: str, other: str) -> bool:
    """Whether two names differ by dashes and the like, or by one character: missing, added, changed or swapped with the next."""
    a, b = (each.upper().translate(_SEPARATORS) for each in (name, other))
    if a == b:
        return name != other
    at = next((i for i, (mine, theirs) in enumerate(zip(a, b, strict=False)) if mine != theirs), min(len(a), len(b)))
    swapped = a[at + 1 : at + 2] + a[at : at + 1] + a[at + 2 :]
    return b[at:] in (a[at + 1 :], swapped) or b[at + 1 :] in (a[at:], a[at + 1 :])
