"""First in, first out. Strict by default: nobody overtakes the head of the queue."""

from dataclasses import dataclass

import numpy as np

from rota.model.allocation import Ranking
from rota.model.view import View


@dataclass(frozen=True)
class Fifo:
    """Earliest submission first; a running job is never suspended for another."""

    backfill: bool = False
    """Let others overtake the head while it waits, if they do not delay it. Needs run times to be known."""

    def allocate(self, view: View) -> Ranking:
        return Ranking(
            order=np.arange(len(view.jobs)),  # a view is in order of submission
            whole=True,
            blocking=not self.backfill,
            reserve=self.backfill,
            preempt=False,
            key="submission",
        )
