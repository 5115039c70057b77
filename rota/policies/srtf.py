"""Shortest remaining time first, with preemption. Needs known run times."""

from dataclasses import dataclass
from typing import Literal

from rota.model.allocation import Ranking
from rota.model.view import View


@dataclass(frozen=True)
class Srtf:
    """Smallest remaining run time first, whatever the number of GPUs."""

    remaining: Literal["believed", "nominal"] = "believed"
    """How to compute the remaining time: the steps left at the estimated rate (believed), or the run time within one node less
    the time run so far, at whatever rate (nominal)."""

    def allocate(self, view: View) -> Ranking:
        jobs = view.jobs
        left = jobs.seconds_left if self.remaining == "believed" else jobs.seconds_nominal - jobs.run_seconds
        return Ranking.by(left, key="remaining time")
