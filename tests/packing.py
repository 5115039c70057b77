"""Policies that pack, for tests: one that gives every option an equal share, and one that does as it is told."""

from collections.abc import Sequence

import numpy as np

from rota.beliefs.rates import Rates
from rota.model.allocation import Assignment, Shares
from rota.model.needs import Needs
from rota.model.view import View


class Evenly:
    """Every option of every job, alone or shared, gets the same share of its time."""

    needs = Needs(colocation=True)

    def allocate(self, view: View) -> Shares:
        options = view.options
        return Shares(option=np.arange(len(options)), share=np.full(len(options), 1.0 / options.share_columns))


class Crowded(Evenly):
    """Shared GPUs before any that are not."""

    def allocate(self, view: View) -> Shares:
        options = view.options
        return Shares(option=np.arange(len(options)), share=np.where(options.partner_kind >= 0, 0.9, 0.1) / options.share_columns)


class Told:
    """Runs these units, each one job or two that share GPUs of the first pool that can have them. A job is in the first unit that
    is complete, or else alone."""

    needs = Needs(colocation=True)

    def __init__(self, *units: Sequence[int]) -> None:
        self.units = units

    def allocate(self, view: View) -> Assignment:
        position, option = [], []
        at = {job: i for i, job in enumerate(view.jobs.ids.tolist())}
        complete = [unit for unit in self.units if all(job in at for job in unit)]
        used: set[int] = set()
        for unit in [*complete, *([job] for each in self.units for job in each if job in at)]:
            if used & set(unit):
                continue
            used |= set(unit)
            kinds = [int(view.jobs.kind[at[job]]) for job in unit]
            for job, kind, beside in zip(unit, kinds, reversed(kinds), strict=True):
                shared = beside if len(unit) == 2 else -1
                rows = np.flatnonzero((view.options.kind == kind) & (view.options.partner_kind == shared))
                position.append(at[job])
                option.append(rows[0])
        return Assignment(position=np.array(position, dtype=np.int64), option=np.array(option, dtype=np.int64))


def pairs(rate: float, other: float | None = None, profiles: Sequence[tuple[str, str]] = (("", ""),), **options: object) -> Rates:
    """Rates of jobs that run one step a second alone, and these two numbers together, on V100 and K80 alike."""
    both = (rate, rate if other is None else other)
    table = {(*names, kind, gpus): both for names in profiles for kind in ("V100", "K80") for gpus in (1, 2, 3, 4, 8)}
    return Rates(speeds={}, pairs=table, **options)  # type: ignore[arg-type]
