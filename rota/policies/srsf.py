"""Shortest remaining service first: GPUs times remaining time with the job's best option. The clairvoyant reference of
Tiresias."""

from dataclasses import dataclass

from rota.model.allocation import Ranking
from rota.model.view import View


@dataclass(frozen=True)
class Srsf:
    """Smallest remaining GPU-seconds first, with preemption. Needs known run times."""

    def allocate(self, view: View) -> Ranking:
        return Ranking.by(view.jobs.best_gpus * view.jobs.seconds_left, key="remaining service")
