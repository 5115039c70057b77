"""Unknown profiles: the jobs that have one, and the closest known profiles."""

from collections import Counter
from collections.abc import Callable, Iterable

from rota.beliefs.rates import model_of
from rota.files.csv_table import closest
from rota.model.job import JobSpec
from rota.profiles.workloads import WORKLOADS

MAX_NAMED = 3


def unknown_profiles(specs: Iterable[JobSpec], knows: Callable[[str], bool], measured: Iterable[str] = ()) -> tuple[int, str]:
    """Return how many jobs have an unknown profile, and a text with the first few, each with the closest known name."""
    counts = Counter(spec.profile for spec in specs if spec.profile)
    unknown = {profile: count for profile, count in counts.items() if not knows(profile)}
    known = [*WORKLOADS, *sorted({model_of(profile) for profile in measured})]
    named = [repr(profile) + _near(profile, known) for profile in list(unknown)[:MAX_NAMED]]
    return sum(unknown.values()), ", ".join(named) + (", ..." if len(unknown) > MAX_NAMED else "")


def _near(profile: str, known: list[str]) -> str:
    near = closest(model_of(profile), known).removeprefix(" Closest: ").removesuffix(".")
    return f" (closest: {near})" if near else ""
