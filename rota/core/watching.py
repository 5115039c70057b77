"""Watching GPUs: the same work in different places tells which places are slow.

A run is compared with runs of the same profile (its batch is part of that), on as many GPUs of the same type, across as many
levels of locality and in the same company, and with nothing else: so neither a wrong rate nor an odd job looks like a slow GPU.
A job that nobody profiled is compared with itself in other places.
"""

from collections.abc import Iterator

import numpy as np

from rota.beliefs.variability import Variability
from rota.core.cordon import cordon
from rota.core.ledger import Ledger, PaceKey
from rota.core.settings import Settings
from rota.model.units import Bools, Ints

LEAST_SECONDS = 300.0
"""A pace is measured over so long, and then again."""
OTHERS = 3
"""So many other places must have been seen before a place can be called slow."""
KEPT = 15
"""Places remembered for each kind of run, the latest."""
NEWS = 0.05
"""A score that changed by this much, relatively, is worth looking at all GPUs anew..."""
NEWS_EVERY_SECONDS = 900.0
"""...but not more often than this: sorting them into levels takes a while where they are many."""
WITHIN = 0.1, 20.0
"""A pace further off than this is no matter of the GPU: the job did something else."""


def watch(state: Ledger, settings: Settings, rows: Ints, clean: Bools, at_s: float) -> None:
    """These jobs just reported. Of those that are not clean, something changed since their last report."""
    jobs = state.jobs
    seconds = at_s - jobs.paced_s[rows]
    due = clean & (seconds >= LEAST_SECONDS)
    steps = jobs.steps_done[rows] - jobs.paced_steps[rows]
    assert state.learning is not None
    heard = [(row, rate) for row, rate in zip(rows[due].tolist(), (steps[due] / seconds[due]).tolist(), strict=True) if rate > 0]
    again = rows[due | ~clean]
    jobs.paced_s[again], jobs.paced_steps[again] = at_s, jobs.steps_done[again]
    if not heard:
        return
    state.learning = state.learning.learned_all(_slowdowns(state, state.learning, heard), at_s)
    _believe(state, at_s)
    cordon(state, settings)


def _slowdowns(state: Ledger, known: Variability, heard: list[tuple[int, float]]) -> Iterator[tuple[str, Ints, float]]:
    """(profile, GPUs, how many times slower than usual) wherever there is enough to compare with."""
    for row, rate in heard:
        job = state.jobs.id.item(row)
        profile, gpus = state.specs[job].profile, state.lives[job].gpus
        key = _key(state, job, row)
        mine = tuple(gpus.tolist())
        seen = state.paces.get(key, ())
        others = [(place, pace) for place, pace in seen if place != mine]
        state.paces[key] = (*others, (mine, rate))[-KEPT:]
        if len(others) >= OTHERS:
            # What others did on usual GPUs, as far as theirs are known.
            usual = float(np.median([pace * known.slowdown(profile, place) for place, pace in others]))
            if WITHIN[0] < usual / rate < WITHIN[1]:
                yield profile, gpus, usual / rate


def _key(state: Ledger, job: int, row: int) -> PaceKey:
    """What must be the same for two runs to be compared."""
    options, spec, gpus = state.options, state.specs[job], state.lives[job].gpus
    beside = int(options.beside[options.by_slot[state.jobs.kind[row], state.jobs.slot[row]]])
    partner = list(state.kind_of)[beside].profile if beside >= 0 else ""
    pool = state.cluster.gpu_pool.item(gpus.item(0))
    return (spec.profile or f"#{job}", pool, len(gpus), state.cluster.spanned(gpus), partner)


def _believe(state: Ledger, at_s: float) -> None:
    """Now and then what was learned becomes what is believed: placers see it, and paces are foreseen by it."""
    learned, believed = state.learning, state.variability
    assert learned is not None and believed is not None
    if at_s < state.believed_s + NEWS_EVERY_SECONDS or (np.abs(learned.feared / believed.feared - 1) <= NEWS).all():
        return
    jobs = state.jobs
    running = (jobs.using[: jobs.size] > 0).nonzero()[0]
    places = [(state.specs[job].profile, state.lives[job].gpus) for job in jobs.id[running].tolist()]
    state.variability, state.believed_s = learned, at_s
    jobs.rate[running] *= [believed.slowdown(*place) / learned.slowdown(*place) for place in places]
    state.touch()
