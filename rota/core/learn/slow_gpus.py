"""Watching GPUs: the same work in different places tells which places are slow.

A run is compared with runs of the same profile (its batch is part of that), on as many GPUs of the same type, across as many
levels of locality and in the same company: so neither a wrong rate nor an odd job looks like a slow GPU. Where there are none, it
is compared with runs on other numbers of GPUs, and only what the model of rates cannot be wrong by counts. A job that nobody
profiled is compared with itself in other places.
"""

import numpy as np

from rota.beliefs.variability import Variability
from rota.core.learn.cordon import cordon
from rota.core.settings import Settings
from rota.core.state.ledger import Ledger
from rota.core.state.records import PaceKey
from rota.model.units import Bools, Ints

Slowdown = tuple[str, Ints, float]
"""Profile, GPUs, and how many times slower than on usual ones."""

LEAST_SECONDS = 300.0
"""A pace is measured over so long, and then again."""
OTHERS = 3
"""So many other places must have been seen before a place can be called slow."""
KEPT = 24
"""Places remembered for each kind of run, the latest."""
NEWS = 0.05
"""A score that changed by this much, relatively, is worth looking at all GPUs anew..."""
NEWS_EVERY_SECONDS = 900.0
"""...but not more often than this: sorting them into levels takes a while where they are many."""
DOUBTS, LEAST_DOUBT = 3.0, 0.1
"""A GPU is called slow only beyond this many spreads of the model that relates two runs, or of this value."""
WITHIN = 0.1, 20.0
"""A pace further off than this is no matter of the GPU: the job did something else."""


def watch(state: Ledger, settings: Settings, rows: Ints, clean: Bools, at_s: float) -> None:
    """These jobs just reported. Of those that are not clean, something changed since their last report."""
    jobs = state.jobs
    seconds = at_s - jobs.paced_s[rows]
    due = clean & (seconds >= LEAST_SECONDS)
    steps = jobs.steps_done[rows] - jobs.paced_steps[rows]
    assert state.learning is not None and state.variability is not None
    heard = [(row, rate) for row, rate in zip(rows[due].tolist(), (steps[due] / seconds[due]).tolist(), strict=True) if rate > 0]
    again = rows[due | ~clean]
    jobs.paced_s[again], jobs.paced_steps[again] = at_s, jobs.steps_done[again]
    if not heard:
        return
    exact: list[Slowdown] = []
    cleared: list[Slowdown] = []
    for row, rate in heard:
        _compare(state, state.variability, row, rate, exact, cleared)
    state.learning = state.learning.learned_all(exact, at_s, cleared)
    _believe(state, at_s)
    cordon(state, settings)


def _compare(state: Ledger, known: Variability, row: int, rate: float, exact: list[Slowdown], cleared: list[Slowdown]) -> None:
    """How many times slower than usual a job ran. Runs that differ in nothing but the place say it exactly. Where there are none,
    runs on other numbers of GPUs say whether it is more than the model of how they scale could be wrong."""
    job = state.jobs.id.item(row)
    profile, gpus = state.specs[job].profile, state.incarnations[job].gpus
    key, partner = _key(state, job, row)
    slowdown = _slowdown(state, known, profile, key, gpus, rate)
    option = int(state.options.by_account[state.jobs.kind[row], state.jobs.account[row]])
    if profile and not partner:
        fair = state.options.rate.item(option) / state.stretch(job, gpus)
        rough = _slowdown(state, known, profile, (profile, key[1], 0, 0, ""), gpus, rate / fair)
        if slowdown is None and rough is not None:
            doubt = 1 + DOUBTS * max(state.options.spread.item(option), LEAST_DOUBT)
            (exact if rough > doubt else cleared).append((profile, gpus, rough if rough > doubt else doubt))
    if slowdown is not None:
        exact.append((profile, gpus, slowdown))


def _slowdown(state: Ledger, known: Variability, profile: str, key: PaceKey, gpus: Ints, pace: float) -> float | None:
    """Against what was seen in other places, which are remembered; None: in too few, or it is no matter of the GPUs."""
    mine = set(gpus.tolist())
    known_places = state.paces.get(key, ())
    common = [len(mine.intersection(place)) for place, _ in known_places]
    # Much the same GPUs are much the same place.
    elsewhere = [each for each, both in zip(known_places, common, strict=True) if 2 * both <= max(len(mine), len(each[0]))]
    state.paces[key] = (*elsewhere, (tuple(gpus.tolist()), pace))[-KEPT:]
    # One slow GPU makes all places slow that have it, so only those say what is usual that have none of these.
    others = [each for each, both in zip(known_places, common, strict=True) if not both]
    if len(others) < OTHERS:
        return None
    # What others did, had they been on usual GPUs, as far as theirs are known.
    usual = float(np.median([seen * known.slowdown(profile, place) for place, seen in others]))
    return usual / pace if WITHIN[0] < usual / pace < WITHIN[1] else None


def _key(state: Ledger, job: int, row: int) -> tuple[PaceKey, str]:
    """What must be the same for two runs to be compared, and the profile of its partner; `#`: the partner has none."""
    options, spec, gpus = state.options, state.specs[job], state.incarnations[job].gpus
    partner_kind = int(options.partner_kind[options.by_account[state.jobs.kind[row], state.jobs.account[row]]])
    partner = list(state.kind_of)[partner_kind].profile or "#" if partner_kind >= 0 else ""
    pool = state.cluster.gpu_pool.item(gpus.item(0))
    return (spec.profile or f"#{job}", pool, len(gpus), state.cluster.spanned(gpus), partner), partner


def _believe(state: Ledger, at_s: float) -> None:
    """Now and then what was learned becomes what is believed: placers see it, and paces are foreseen by it."""
    learned, believed = state.learning, state.variability
    assert learned is not None and believed is not None
    if at_s < state.believed_s + NEWS_EVERY_SECONDS:
        return
    state.believed_s = at_s
    if (np.abs(learned.feared / believed.feared - 1) <= NEWS).all():
        return
    jobs = state.jobs
    running = (jobs.using[: jobs.size] > 0).nonzero()[0]
    places = [(state.specs[job].profile, state.incarnations[job].gpus) for job in jobs.id[running].tolist()]
    state.variability = learned
    jobs.rate[running] *= [believed.slowdown(*place) / learned.slowdown(*place) for place in places]
    state.touch()
