"""Shortest remaining time first, with preemption. Needs run times to be known."""

from dataclasses import dataclass
from typing import Literal

from rota.model.allocation import Ranking
from rota.model.view import View


@dataclass(frozen=True)
class Srtf:
    """Smallest remaining run time first, whatever the number of GPUs."""

    remaining: Literal["believed", "nominal"] = "believed"
    """Steps left at the believed rate, or the whole run time in one node less the time it has run, however slow that was."""

    def allocate(self, view: View) -> Ranking:
        jobs = view.jobs
        left = jobs.seconds_left if self.remaining == "believed" else jobs.seconds_nominal - jobs.run_seconds
        return Ranking.by(left, key="remaining time")
