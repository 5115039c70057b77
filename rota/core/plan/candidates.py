"""Candidates: the (job, option) pairs that an answer names, best first, of the jobs that have not ended."""

from dataclasses import replace

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.draft import Draft
from rota.core.plan.order import Candidates, expand_options, order_candidates
from rota.core.plan.priority import higher_first
from rota.core.state.records import NO_GPUS, PolicyAnswer
from rota.core.state.state import State
from rota.model.options import Options
from rota.model.units import Bools, Ints


def list_candidates(draft: Draft) -> None:
    """List the candidates of a draft, best first, and the GPUs of each pool that they may have."""
    state, settings, table, alive = draft.state, draft.settings, draft.table, draft.alive
    _, capacity = state.usable()
    candidates = order_candidates(draft.allocation, table)
    if settings.wait_for_locality or candidates.reserve or table.options.has_fractions:
        candidates = expand_options(candidates, table)
    if alive is not None:
        spoken_of = np.zeros(state.jobs.table.size, dtype=bool)
        spoken_of[table.rows[alive]] = True
        kept = _kept_gpus(state, state.jobs.rows[~spoken_of[state.jobs.rows]])
        capacity = capacity - np.bincount(state.nodes.cluster.gpu_pool[kept], minlength=len(capacity))
        table.alive, table.kept_gpus = alive, set(kept.tolist())
        candidates = _with_alone(_living(candidates, alive), state.beliefs.options)
    if not state.cycle.has_new_answer and settings.selection.only_goes_on(draft.allocation):
        candidates = _running_only(expand_options(candidates, table), table)
    if not settings.selection.backfill:
        candidates.blocking = True
    if "priority" in state.jobs.table.in_use:
        candidates = higher_first(candidates, table, alive, capacity)
    if table.starts_cost:
        candidates = _protected_first(candidates, table, alive)
    draft.candidates, draft.capacity = candidates, capacity


def jobs_of(state: State, answer: PolicyAnswer) -> tuple[Ints, Bools | None]:
    """Rows of the jobs of an answer, and which of them may still be scheduled. None: all of them, and there are no others."""
    if state.jobs.version == answer.version:
        return state.jobs.rows, None
    known = state.jobs.table.id[: state.jobs.table.size]
    if not len(known):
        return np.zeros(len(answer.ids), dtype=np.int64), np.zeros(len(answer.ids), dtype=bool)
    found = np.minimum(known.searchsorted(answer.ids), len(known) - 1)
    return found, (known[found] == answer.ids) & (state.jobs.table.blocks[found] == 0)


def _kept_gpus(state: State, rows: Ints) -> Ints:
    """GPUs of jobs that are not part of the answer: they keep what they have until the next answer."""
    granted = [state.jobs.desired[job] for job in state.jobs.table.id[rows[state.jobs.table.option[rows] >= 0]].tolist()]
    return np.unique(np.concatenate(granted)) if granted else NO_GPUS


def _running_only(candidates: Candidates, table: CandidateTable) -> Candidates:
    """Keep jobs that run, by the option they run by: one that the answer names, or one that a tactic has moved them to. A job
    that has lost its partner runs exclusively, and continues so."""
    position, options = candidates.position, table.options
    option = options.best[table.kind[position]] if candidates.option is None else candidates.option
    granted = table.granted_option[position]
    stays = granted == option
    if options.has_colocated:
        stays |= (granted >= 0) & (granted == options.alone[option])
    named = np.zeros(len(table), dtype=bool)
    named[position[stays]] = True
    first = np.zeros(len(position), dtype=bool)
    first[np.unique(position, return_index=True)[1]] = True
    stays |= first & (granted >= 0) & ~named[position] & ~options.too_slow[granted]
    return Candidates(position[stays], granted[stays])


def _protected_first(candidates: Candidates, table: CandidateTable, alive: Bools | None) -> Candidates:
    """Put protected jobs first, by the option that they have, whatever the answer says."""
    stays = table.protected if alive is None else table.protected & alive
    if not stays.any():
        return candidates
    first = stays.nonzero()[0]
    if candidates.option is None:
        rest = candidates.position[~stays[candidates.position]]
        return replace(candidates, position=np.concatenate((first, rest)))
    option = np.concatenate((table.granted_option[first], candidates.option))
    return replace(candidates, position=np.concatenate((first, candidates.position)), option=option)


def _living(candidates: Candidates, alive: Bools) -> Candidates:
    stays = alive[candidates.position]
    option = None if candidates.option is None else candidates.option[stays]
    return replace(candidates, position=candidates.position[stays], option=option)


def _with_alone(candidates: Candidates, options: Options) -> Candidates:
    """Let jobs whose partner has ended run exclusively, after all other candidates."""
    option = candidates.option
    if option is None or not options.has_colocated:
        return candidates
    shared = options.partner_kind[option] >= 0
    position = np.concatenate((candidates.position, candidates.position[shared]))
    option = np.concatenate((option, options.alone[option[shared]]))
    return replace(candidates, position=position, option=option)
