"""Folds a new setup: another policy, other flags, or scores of GPUs that joined.

What is given now replaces what was given before, for existing jobs too. What the scheduler measured itself stays:

- measured rates are a layer over the given ones;
- a job whose start took longer than was believed keeps that time as the price of moving it;
- the measured score of a GPU stays if the new scores have its class. Measurements are weighed against
  the given score.
"""

from dataclasses import replace

from rota.beliefs.make_options import grown, renewed
from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.variability import Variability
from rota.core.fold import colocation
from rota.core.fold.tenancy import set_tenants
from rota.core.learn.cordon import cordon
from rota.core.setup import Setup
from rota.core.state.job_table import NO_JOB
from rota.core.state.state import State
from rota.model.events import External
from rota.model.units import MILLI
from rota.model.value import value


@value
class Configured:
    """An operator has set up the scheduler: at its first start, at a later start, or while it runs."""

    setup: Setup
    at_s: float


CoreEvent = External | Configured
"""Everything that `Scheduler.fold` takes."""


def configure(state: State, before: Setup, now: Setup) -> None:
    """Fold a setup. `before` is the setup that was in force."""
    known, settings = state.beliefs, now.settings
    same_beliefs = now.given.same_as(before.given)
    if not same_beliefs:
        _believe(state, before, now)
    elif settings.colocation and not known.options.has_colocated:
        known.options = grown(known.options, list(state.jobs.kind_of), state.nodes.cluster, known.rates, colocation=True)
        state.jobs.table.widen(known.options.share_columns)
    if settings.tactics.colocating is not None:
        known.sharing = True  # it stays True when the tactic is given up: jobs may share GPUs at that moment
    if now.tenants != before.tenants:
        set_tenants(state, now.tenants)
    if not state.jobs.row:
        state.cycle.next_round_s = settings.decide.first_round_s(state.now_s)
    if same_beliefs and settings == replace(before.settings, policy=settings.policy):
        return  # an answer of another policy is out of date anyway
    state.set_cordoned(())
    cordon(state, settings)
    if state.jobs.last_job >= 0 or state.cycle.decision:  # before the first job there is no plan to make
        state.cycle.invalidate()


def _believe(state: State, before: Setup, now: Setup) -> None:
    known, gpus = state.beliefs, state.nodes.cluster.gpus
    known.rates = known.measured.over(now.given.rates)
    known.skews = now.given.skews
    _set_costs(state, now.given.costs)
    given = now.given.scores_of(gpus)
    known.variability = _scores(known.variability, given, gpus)
    if known.learning is not None:
        known.learning = _scores(known.learning, given, gpus)
    known.forget_memos()
    _set_options(state, pairs=now.settings.colocation)


def _set_costs(state: State, now: MoveCosts) -> None:
    """Set the prices of moving and resizing jobs. A price that was measured stays."""
    table = state.jobs.table
    state.memory.set_context(now.memory.context_gib)
    state.beliefs.costs = now
    for job, row in state.jobs.row.items():
        spec = state.jobs.specs[job]
        if not table.move_measured[row]:
            table.move_seconds[row] = now.move_of(spec)
        if spec.can_resize and not table.resize_measured[row]:
            table.resize_seconds[row] = now.resize_seconds


def _scores(believed: Variability | None, given: Variability | None, gpus: int) -> Variability | None:
    """Return the given scores, with measured ones over them."""
    if believed is None:
        return given
    fresh = given if given is not None else Variability.alike(gpus)
    scores, spread, recent = fresh.scores.copy(), fresh.uncertainty.copy(), {}
    for (row, gpu), (first, *latest) in believed.recent.items():
        if latest and believed.classes[row] in fresh.classes:
            place = fresh.classes.index(believed.classes[row])
            recent[place, gpu] = ((first[0], float(scores[place, gpu]), first[2]), *latest)
            scores[place, gpu], spread[place, gpu] = believed.scores[row, gpu], believed.uncertainty[row, gpu]
    if not recent:
        return fresh
    return replace(fresh, scores=scores, uncertainty=spread, recent=recent, first_uncertainty=fresh.uncertainty)


def _set_options(state: State, *, pairs: bool) -> None:
    """Set the rate of every option, and add options where there were none. Numbers of options stay."""
    known, table, cluster = state.beliefs, state.jobs.table, state.nodes.cluster
    kinds = list(state.jobs.kind_of)
    options = renewed(known.options, kinds, cluster, known.rates, set(range(len(kinds))))
    known.options = options = grown(options, kinds, cluster, known.rates, colocation=pairs)
    table.widen(options.share_columns)
    for job, row in state.jobs.row.items():
        best = options.best.item(table.kind.item(row))
        if best >= 0:
            spec, width = state.jobs.specs[job], max(options.milligpus.item(best) // MILLI, 1)
            accelerator, batch_size = cluster.pools[options.pool.item(best)], options.batch_size.item(best)
            table.best_rate[row] = options.rate[best]
            nominal = known.rates.rate_of(spec.profile, spec.demand, accelerator, width, batch_size)[0]
            table.nominal_rate[row] = nominal or table.best_rate[row]
        state.refresh_fit(job)
    runs = ((table.gpus_in_use[: table.size] > 0) & (table.rate[: table.size] > 0)).nonzero()[0]
    table.rate[runs] = options.rate[options.by_share_column[table.kind[runs], table.share_column[runs]]]
    for row in runs[table.colocated_with[runs] != NO_JOB].tolist():
        colocation.colocated_rate(state, row)
    table.rate[runs] /= [state.slowdown(job, state.jobs.attempts[job].gpus) for job in table.id[runs].tolist()]
