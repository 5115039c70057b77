"""Least attained service first. Needs to know nothing about a job."""

from dataclasses import dataclass
from typing import Literal

from rota.errors import OptionError
from rota.model.allocation import Ranking
from rota.model.units import FOREVER
from rota.model.view import View


@dataclass(frozen=True)
class Las:
    """Smallest attained service first. The order changes while jobs run, so an answer holds for `quantum_seconds` at most."""

    service: Literal["gpu-seconds", "seconds"] = "gpu-seconds"
    """What counts as service: GPUs times run time, or run time alone."""
    quantum_seconds: float = 360.0
    """Longest time that an order holds while jobs wait, in seconds."""

    def __post_init__(self) -> None:
        if not self.quantum_seconds >= 1:
            raise OptionError(
                "must be at least 1.", field="las quantum_seconds", value=self.quantum_seconds, hint="las:quantum_seconds=360"
            )

    def allocate(self, view: View) -> Ranking:
        jobs = view.jobs
        attained = jobs.run_seconds if self.service == "seconds" else jobs.attained_gpu_seconds
        until_s = FOREVER if jobs.granted.all() else view.now_s + self.quantum_seconds
        return Ranking.by(attained, until_s=until_s, key="attained service")
