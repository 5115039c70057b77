"""Shortest job first, without preemption. Needs known run times."""

from dataclasses import dataclass

from rota.model.allocation import Ranking
from rota.model.needs import Needs
from rota.model.view import View


@dataclass(frozen=True)
class Sjf:
    """Smallest total run time first. A running job is never suspended for another."""

    type_aware: bool = True
    """Take the fastest type that is free. If false, take any type."""

    @property
    def needs(self) -> Needs:
        return Needs(several_types=not self.type_aware)

    def allocate(self, view: View) -> Ranking:
        return Ranking.by(view.jobs.seconds_total, preempt=False, type_agnostic=not self.type_aware, key="run time")
