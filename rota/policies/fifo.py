"""First in, first out. By default no job passes the head of the queue."""

from dataclasses import dataclass

import numpy as np

from rota.errors import OptionError
from rota.model.allocation import Ranking, Shares
from rota.model.needs import Needs
from rota.model.options import Options
from rota.model.units import MILLI, Ints
from rota.model.view import View

WORTH_SHARING = 1.5
"""Two jobs share GPUs if together they make more than this many times the progress of one exclusive job."""


@dataclass(frozen=True)
class Fifo:
    """Earliest submission first. A running job is never suspended for another."""

    backfill: bool = False
    """Let other jobs pass the head of the queue if they do not delay it. Needs known run times."""
    type_aware: bool = True
    """Take the fastest type that is free. If false, take any type."""
    colocation: bool = False
    """Let waiting jobs share GPUs with a running job if that pays, in order of submission."""

    def __post_init__(self) -> None:
        if self.colocation and self.backfill:
            raise OptionError("cannot be combined with colocation.", field="backfill", value=True, hint="fifo:colocation=true")

    @property
    def needs(self) -> Needs:
        return Needs(colocation=self.colocation, several_types=not self.type_aware)

    def allocate(self, view: View) -> Ranking | Shares:
        if self.colocation:
            position, option = _packed(view)
            return Shares(position=position, option=option, share=np.ones(len(option)), strict=True, key="submission")
        return Ranking.permutation(
            np.arange(len(view.jobs)),  # jobs of a view are in order of submission
            blocking=not self.backfill,
            reserve=self.backfill,
            preempt=False,
            type_agnostic=not self.type_aware,
            key="submission",
        )


def _packed(view: View) -> tuple[Ints, Ints]:
    """Return positions and options. Each job gets its fastest option with room, or its present one if moving it costs time. From
    the first job without room on, jobs get the best partner among the jobs before them."""
    options, kind = view.options, view.jobs.kind.tolist()
    left = (view.capacity * MILLI).tolist()
    alone: dict[int, int] = {}
    held = [int(options.alone[row]) if row >= 0 else -1 for row in view.jobs.option.tolist()]
    moves = (view.jobs.move_seconds == 0).tolist()
    for job, its in enumerate(kind):
        rows = options.by_kind[its].tolist() if held[job] < 0 or moves[job] else [held[job], *options.by_kind[its].tolist()]
        ways = [row for row in rows if row >= 0 and options.milligpus[row] <= left[options.pool[row]]]
        if not ways:
            break
        alone[job] = ways[0]
        left[options.pool[ways[0]]] -= int(options.milligpus[ways[0]])
    given = dict(alone)
    for job in range(len(alone), len(kind)):
        gains = {other: _gain(options, row, kind[job]) for other, row in alone.items()}
        best = max(gains, key=lambda other: gains[other][0], default=None)
        if best is None or gains[best][0] <= WORTH_SHARING:
            break
        given[best], given[job] = gains[best][1], int(options.partner_row[gains[best][1]])
        del alone[best]
    order = sorted(given)
    return np.array(order, dtype=np.int64), np.array([given[job] for job in order], dtype=np.int64)


def _gain(options: Options, row: int, beside: int) -> tuple[float, int]:
    """Return the progress of a job in exclusive option `row` and a partner of this kind, as a sum of fractions of their exclusive
    rates, and the shared option of the first job."""
    for side in options.of_kind[options.kind[row]].tolist():
        if side >= 0 and options.partner_kind[side] == beside and options.alone[side] == row:
            twin = int(options.partner_row[side])
            return sum(float(options.rate[r] / options.rate[options.alone[r]]) for r in (side, twin)), side
    return 0.0, -1
