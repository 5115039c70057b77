"""Deadlines: when a job should be done, as its owner said it."""

from rota.beliefs.rates import Rates
from rota.model.accelerators import REFERENCE
from rota.model.job import JobSpec
from rota.model.units import FOREVER


def deadline_seconds(spec: JobSpec, rates: Rates) -> float:
    """Seconds from submission to deadline: as stated, or so many times its run time on GPUs of the reference type of its own."""
    if spec.slo == FOREVER:
        return spec.deadline_seconds
    rate, _ = rates.rate(spec.profile, REFERENCE, spec.width)
    return min(spec.deadline_seconds, spec.slo * spec.steps / rate if rate > 0 else FOREVER)
