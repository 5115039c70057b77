"""Deadlines of jobs."""

from rota.beliefs.rates import Rates
from rota.model.accelerators import REFERENCE
from rota.model.job import JobSpec
from rota.model.units import FOREVER


def deadline_seconds(spec: JobSpec, rates: Rates) -> float:
    """Return the seconds from submission to deadline: as given, or `slo` times the run time on exclusive GPUs of the reference
    type."""
    if spec.slo == FOREVER:
        return spec.deadline_seconds
    rate, _ = rates.rate(spec.profile, REFERENCE, spec.width)
    return min(spec.deadline_seconds, spec.slo * spec.steps / rate if rate > 0 else FOREVER)
