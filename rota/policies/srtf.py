"""Shortest remaining time first, with preemption. Needs run times to be known."""

from dataclasses import dataclass

from rota.model.allocation import Ranking
from rota.model.view import View


@dataclass(frozen=True)
class Srtf:
    """Smallest remaining run time first, whatever the number of GPUs."""

    def allocate(self, view: View) -> Ranking:
        return Ranking.by(view.jobs.seconds_left, key="remaining time")
