"""Shortest job first, without preemption. Needs known run times."""

from dataclasses import dataclass

from rota.model.allocation import Ranking
from rota.model.needs import Needs
from rota.model.view import View


@dataclass(frozen=True)
class Sjf:
    """Smallest total run time first. A running job is never suspended for another."""

    aware: bool = True
    """Take the fastest type that is free. If false, take any type."""

    @property
    def needs(self) -> Needs:
        return Needs(several_types=not self.aware)

    def allocate(self, view: View) -> Ranking:
        return Ranking.by(view.jobs.seconds_total, preempt=False, blind=not self.aware, key="run time")
