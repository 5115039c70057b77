"""Slow GPUs are found by comparing the same work in different places.

A run is compared with runs of the same profile (its batch is part of that), on as many GPUs of the same type, across as many
levels of locality and with the same partner: so neither a wrong rate nor an odd job looks like a slow GPU. Where there are none,
it is compared with runs on other numbers of GPUs, and a difference counts only if the model of rates cannot be that wrong. A job
without a profile is compared with itself in other places.
"""

import numpy as np

from rota.beliefs.variability import Variability
from rota.core.learn.cordon import cordon
from rota.core.settings import Settings
from rota.core.state.records import RateKey
from rota.core.state.state import State
from rota.model.units import Bools, Ints

Slowdown = tuple[str | None, Ints, float]
"""Profile, GPUs, and how many times slower than on usual ones."""

MIN_SECONDS = 300.0
"""Time over which a pace is measured, in seconds."""
OTHERS = 3
"""Number of other places that must have been measured before a place can be called slow."""
KEEP_PLACES = 24
"""Places remembered for each kind of run, the latest."""
SCORE_CHANGE_THRESHOLD = 0.05
"""Relative change of a score after which all GPUs are compared again."""
NEWS_EVERY_SECONDS = 900.0
"""Least time between two comparisons, in seconds: sorting many GPUs into levels takes a while."""
DOUBTS, MIN_DOUBT = 3.0, 0.1
"""A GPU is called slow only beyond this many spreads of the model that relates two runs, or of this value."""
WITHIN = 0.1, 20.0
"""Range of slowdowns that a GPU can cause. Beyond it, the job did something else."""


def watch(state: State, settings: Settings, rows: Ints, clean: Bools, at_s: float) -> None:
    """These jobs just reported. Of those that are not clean, something changed since their last report."""
    table = state.jobs.table
    seconds = at_s - table.rate_window_s[rows]
    due = clean & (seconds >= MIN_SECONDS)
    steps = table.steps_done[rows] - table.rate_window_steps[rows]
    assert state.beliefs.learning is not None and state.beliefs.variability is not None
    heard = [(row, rate) for row, rate in zip(rows[due].tolist(), (steps[due] / seconds[due]).tolist(), strict=True) if rate > 0]
    again = rows[due | ~clean]
    table.rate_window_s[again], table.rate_window_steps[again] = at_s, table.steps_done[again]
    if not heard:
        return
    exact: list[Slowdown] = []
    cleared: list[Slowdown] = []
    for row, rate in heard:
        _compare(state, state.beliefs.variability, row, rate, exact, cleared)
    state.beliefs.learning = state.beliefs.learning.learned_all(exact, at_s, cleared)
    _believe(state, at_s)
    cordon(state, settings)


def _compare(state: State, known: Variability, row: int, rate: float, exact: list[Slowdown], cleared: list[Slowdown]) -> None:
    """How many times slower than usual a job ran. Runs that differ in nothing but the place say it exactly. Where there are none,
    runs on other numbers of GPUs say whether it is more than the model of how they scale could be wrong."""
    job = state.jobs.table.id.item(row)
    profile, gpus = state.jobs.specs[job].profile, state.jobs.attempts[job].gpus
    key, partner = _key(state, job, row)
    slowdown = _slowdown(state, known, profile, key, gpus, rate)
    option = int(state.beliefs.options.by_share_column[state.jobs.table.kind[row], state.jobs.table.share_column[row]])
    if profile and not partner:
        fair = state.beliefs.options.rate.item(option) / state.locality_slowdown(job, gpus)
        rough = _slowdown(state, known, profile, (profile, key[1], 0, 0, "", 0), gpus, rate / fair)
        if slowdown is None and rough is not None:
            doubt = 1 + DOUBTS * max(state.beliefs.options.uncertainty.item(option), MIN_DOUBT)
            (exact if rough > doubt else cleared).append((profile, gpus, rough if rough > doubt else doubt))
    if slowdown is not None:
        exact.append((profile, gpus, slowdown))


def _slowdown(state: State, known: Variability, profile: str | None, key: RateKey, gpus: Ints, pace: float) -> float | None:
    """Against what was seen in other places, which are remembered; None: there are too few, or the GPUs cannot be the cause."""
    mine = set(gpus.tolist())
    known_places = state.beliefs.comparable_rates.get(key, ())
    common = [len(mine.intersection(place)) for place, _ in known_places]
    # Much the same GPUs are much the same place.
    elsewhere = [each for each, both in zip(known_places, common, strict=True) if 2 * both <= max(len(mine), len(each[0]))]
    state.beliefs.comparable_rates[key] = (*elsewhere, (tuple(gpus.tolist()), pace))[-KEEP_PLACES:]
    # One slow GPU makes all places slow that have it, so only those say what is usual that have none of these.
    others = [each for each, both in zip(known_places, common, strict=True) if not both]
    if len(others) < OTHERS:
        return None
    # What others did, had they been on usual GPUs, as far as theirs are known.
    usual = float(np.median([seen * known.slowdown(profile, place) for place, seen in others]))
    return usual / pace if WITHIN[0] < usual / pace < WITHIN[1] else None


def _key(state: State, job: int, row: int) -> tuple[RateKey, str]:
    """What must be the same for two runs to be compared, and the profile of its partner; `#`: the partner has none."""
    options, spec, gpus = state.beliefs.options, state.jobs.specs[job], state.jobs.attempts[job].gpus
    option = int(options.by_share_column[state.jobs.table.kind[row], state.jobs.table.share_column[row]])
    partner_kind = int(options.partner_kind[option])
    partner = list(state.jobs.kind_of)[partner_kind].profile or "#" if partner_kind >= 0 else ""
    pool = state.nodes.cluster.gpu_pool.item(gpus.item(0))
    levels, batch_size = state.nodes.cluster.spanned(gpus), options.batch_size.item(option)
    return (spec.profile or f"#{job}", pool, len(gpus), levels, partner, batch_size), partner


def _believe(state: State, at_s: float) -> None:
    """Now and then what was learned becomes what is believed: placers see it, and paces are foreseen by it."""
    learned, believed = state.beliefs.learning, state.beliefs.variability
    assert learned is not None and believed is not None
    if at_s < state.beliefs.believed_s + NEWS_EVERY_SECONDS:
        return
    state.beliefs.believed_s = at_s
    if (np.abs(learned.feared / believed.feared - 1) <= SCORE_CHANGE_THRESHOLD).all():
        return
    table = state.jobs.table
    running = (table.gpus_in_use[: table.size] > 0).nonzero()[0]
    places = [(state.jobs.specs[job].profile, state.jobs.attempts[job].gpus) for job in table.id[running].tolist()]
    state.beliefs.variability = learned
    table.rate[running] *= [believed.slowdown(*place) / learned.slowdown(*place) for place in places]
    state.cycle.invalidate()
