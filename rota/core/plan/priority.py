"""Priorities: jobs of a higher priority are tried before all jobs of a lower one, whatever the policy says.

Inside a priority the policy decides. Runs without priorities pay nothing for it. A job of a higher priority may also run by
options that the policy did not name for it. These come after all options that it did name for jobs of this priority. Otherwise
GPUs that the job could use would go to jobs of a lower priority.
"""

from dataclasses import replace

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.order import Candidates, expand_options
from rota.model.units import MILLI, Bools, Ints


def higher_first(candidates: Candidates, table: CandidateTable, alive: Bools | None, capacity: Ints) -> Candidates:
    """Return the candidates sorted by priority, with every other option of the jobs above the lowest priority."""
    level, listed = table.priority, np.arange(len(table)) if alive is None else alive.nonzero()[0]
    if not len(listed) or (level[listed] == level[listed[0]]).all():
        return candidates
    candidates = expand_options(candidates, table)
    position, option = candidates.position, candidates.option
    if option is None:
        option = table.options.best[table.kind[position]]
    more, by = _other_options(listed[level[listed] > level[listed].min()], position, table)
    position, option = np.concatenate((position, more)), np.concatenate((option, by))
    order = np.argsort(-level[position], kind="stable")
    position, option = position[order], option[order]
    if candidates.blocking or candidates.reserve:
        before, go_on = _running_go_on(position, option, table, capacity)
        rest = np.zeros(len(position), dtype=bool) if candidates.blocking else ~(before | go_on)
        order = np.concatenate((before.nonzero()[0], go_on.nonzero()[0], rest.nonzero()[0]))
        position, option = position[order], option[order]
    return replace(candidates, position=position, option=option, blocking=False, preference=None)


def _other_options(jobs: Ints, named: Ints, table: CandidateTable) -> tuple[Ints, Ints]:
    """Return every option of these jobs in which they share no GPUs, the fastest first. Jobs that the policy named come first, in
    its order."""
    options = table.options
    place = np.full(len(table), len(named))
    np.minimum.at(place, named, np.arange(len(named)))
    jobs = jobs[np.argsort(place[jobs], kind="stable")]
    rows = options.by_kind[table.kind[jobs]]
    usable = (rows >= 0) & (options.partner_kind[rows] < 0) & ~options.too_slow[rows]
    rate = np.where(usable, options.rate[rows], -1.0)
    best = np.argsort(-rate, axis=1, kind="stable")
    rows, usable = np.take_along_axis(rows, best, axis=1), np.take_along_axis(usable, best, axis=1)
    return np.repeat(jobs, rows.shape[1])[usable.ravel()], rows[usable]


def _running_go_on(position: Ints, option: Ints, table: CandidateTable, capacity: Ints) -> tuple[Bools, Bools]:
    """Return which candidates come before the first job that fits nowhere, and which come after it, run, and fit. The latter
    continue, since that job could not use their GPUs."""
    room = (capacity * MILLI).tolist()
    jobs, held = position.tolist(), table.granted_option[position].tolist()
    last = {job: number for number, job in enumerate(jobs)}
    pools, needs = table.options.pool[option].tolist(), table.options.milligpus[option].tolist()
    before, go_on = np.ones(len(jobs), dtype=bool), np.zeros(len(jobs), dtype=bool)
    done: set[int] = set()
    blocked = len(jobs)
    for number, job in enumerate(jobs):
        fits = job not in done and needs[number] <= room[pools[number]] and (number < blocked or held[number] >= 0)
        if fits:
            room[pools[number]] -= needs[number]
            done.add(job)
            go_on[number] = number > blocked
        elif job not in done and last[job] == number and blocked == len(jobs):
            blocked = number
            before[number:] = False
    return before, go_on
