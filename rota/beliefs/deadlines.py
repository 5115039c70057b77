"""Deadlines of jobs."""

from rota.beliefs.rates import Rates
from rota.model.accelerators import REFERENCE
from rota.model.job import JobSpec
from rota.model.units import FOREVER


def deadline_seconds(spec: JobSpec, rates: Rates) -> float:
    """Return the seconds from submission to deadline: as given, or `slo` times the run time on exclusive GPUs of the reference
    type. Infinite if the job has no deadline."""
    given = FOREVER if spec.deadline_seconds is None else spec.deadline_seconds
    if spec.slo is None or spec.steps is None:
        return given
    rate, _ = rates.rate(spec.profile, REFERENCE, spec.width)
    return min(given, spec.slo * spec.steps / rate if rate > 0 else FOREVER)
