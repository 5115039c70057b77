"""Measurements become beliefs: how fast and how busy a job is alone, and how fast two jobs are on the same GPUs.

A pair that is on trial is judged here, once both its jobs were measured together for long enough.
"""

import math
from dataclasses import replace

import numpy as np

from rota.core.settings import Settings
from rota.core.state.job_table import NO_JOB
from rota.core.state.state import State
from rota.model.events import Measured
from rota.model.trial import PairStats, Trial, TrialVerdict
from rota.model.units import Floats, Ints

MAX_PAST_TRIALS = 512
"""Number of past trials that are kept one by one."""

ROUNDING = 1e-6


def measured(state: State, settings: Settings, event: Measured) -> None:
    """Fold measurements. One counts if the partner of the job did not change during it."""
    table = state.jobs.table
    if not table.size:
        return
    ids = table.id[: table.size]
    rows = ids.searchsorted(event.jobs).clip(max=table.size - 1)
    known = (ids[rows] == event.jobs) & (table.attempt[rows] == event.attempts) & (table.gpus_in_use[rows] > 0)
    memory_alone = known & np.isnan(event.rate)
    _memory(state, rows[memory_alone], event.peak_gib[memory_alone])
    company_s = (
        table.colocated_since_s if state.sharing else table.rate_window_s
    )  # without partners nothing changes after the start
    known &= (event.since_s >= company_s[rows] - ROUNDING) & (event.rate >= 0) & (event.rate < math.inf)
    alone = known & (table.colocated_with[rows] == NO_JOB) & (event.rate > 0)
    _alone(state, settings, rows[alone], event, alone.nonzero()[0])
    for at in (known & (table.colocated_with[rows] != NO_JOB)).nonzero()[0].tolist():
        _measure_pair(state, settings, int(event.jobs[at]), rows.item(at), float(event.rate[at]))


def _alone(state: State, settings: Settings, rows: Ints, event: Measured, where: Ints) -> None:
    table, options = state.jobs.table, state.beliefs.options
    option = options.by_share_column[table.kind[rows], table.share_column[rows]]  # the plan may have granted another option since
    if settings.tactics and state.cycle.has_waiting_jobs and (table.alone_option[rows] != option).any():
        state.cycle.invalidate()  # now that it is measured, a job that waits may join it
    table.own("alone_rate")[rows] = event.rate[where]
    table.own("alone_option")[rows] = option
    _memory(state, rows, event.peak_gib[where])
    seen = event.utilization[where]
    there = seen == seen
    if there.any():
        table.own("utilization")[rows[there]] = seen[there]
    for row, by in zip(rows.tolist(), option.tolist(), strict=True):
        if state.jobs.specs[table.id.item(row)].profile:
            state.beliefs.alone[by] = table.alone_rate.item(row)


def _memory(state: State, rows: Ints, peak_gib: Floats) -> None:
    """Note the GPU memory of jobs. Parked jobs must leave that much free."""
    table = state.jobs.table
    there = peak_gib == peak_gib
    if not there.any():
        return
    table.own("peak_gib")[rows[there]] = peak_gib[there]
    for row, gib in zip(rows[there].tolist(), peak_gib[there].tolist(), strict=True):
        if not state.jobs.specs[table.id.item(row)].gpu_gib:
            state.memory.note_need(table.kind.item(row), gib)


def _measure_pair(state: State, settings: Settings, job: int, row: int, rate: float) -> None:
    """Note the rate of one job of a pair. The pair is judged when both rates are known."""
    beliefs, table = state.beliefs, state.jobs.table
    other = table.colocated_with.item(row)
    found = next((trial for trial in beliefs.trials.values() if job in trial.jobs), None)
    if found is None or set(found.jobs) != {job, other}:
        return
    side = found.jobs.index(job)
    after = (rate, found.colocated_rates[1]) if side == 0 else (found.colocated_rates[0], rate)
    found = beliefs.trials[found.number] = replace(found, colocated_rates=after)
    together_s = max(table.colocated_since_s.item(state.jobs.row[each]) for each in found.jobs)
    tactic = settings.tactics.colocating
    settle_seconds = tactic.settle_seconds if tactic is not None else found.pinned_until_s - found.begun_s
    settled = state.now_s - together_s >= settle_seconds - ROUNDING
    if settled and all(each == each for each in after):
        _judge(state, settings, found)


def _judge(state: State, settings: Settings, trial: Trial) -> None:
    """Keep the pair if it does more than its jobs would in turns."""
    _remember(state, trial)
    tactic = settings.tactics.colocating
    min_gain = tactic.min_gain if tactic is not None else 0.0
    kept = state.beliefs.pairs[trial.pair].gain > min_gain
    end_trial(state, trial, TrialVerdict.KEPT if kept else TrialVerdict.REVERTED)
    state.cycle.invalidate()


def _remember(state: State, trial: Trial) -> None:
    """Believe what was measured of a pair for all jobs with these profiles."""
    beliefs = state.beliefs
    shares = tuple(after / before for after, before in zip(trial.colocated_rates, trial.exclusive_rates, strict=True))
    if state.name_of(trial.jobs[0]) != trial.pair[0]:
        shares = shares[::-1]
    beliefs.trials_judged += 1
    beliefs.gain_error_sum += trial.gain - trial.expected_gain
    before = beliefs.pairs.get(trial.pair)
    beliefs.pairs[trial.pair] = PairStats(1, *shares) if before is None else before.with_trial(*shares)


def begin_trial(state: State, trial: Trial) -> None:
    state.beliefs.trials[trial.number] = trial
    state.beliefs.trials_begun = trial.number
    state.jobs.table.own("pinned_until_s")[[state.jobs.row[job] for job in trial.jobs]] = trial.given_up_s


def end_trial(state: State, trial: Trial, verdict: TrialVerdict) -> None:
    beliefs = state.beliefs
    del beliefs.trials[trial.number]
    state.jobs.table.own("pinned_until_s")[[state.jobs.row[job] for job in trial.jobs if job in state.jobs.row]] = 0.0
    beliefs.past_trials[trial.number] = replace(trial, verdict=verdict, ended_s=state.now_s)
    beliefs.verdicts[verdict.value] = beliefs.verdicts.get(verdict.value, 0) + 1
    if len(beliefs.past_trials) > MAX_PAST_TRIALS:
        del beliefs.past_trials[min(beliefs.past_trials)]


def abort_trials(state: State) -> None:
    """End the trials of jobs that no longer share GPUs by the plan. A job that could not be measured before its trial was given
    up made hardly any steps, which counts as a measurement."""
    jobs = state.jobs
    for trial in list(state.beliefs.trials.values()):
        rows = [jobs.row.get(job) for job in trial.jobs]
        if rows[0] is None or rows[1] is None:
            end_trial(state, trial, TrialVerdict.ABORTED)
        elif jobs.table.partner.item(rows[0]) != trial.jobs[1]:
            together = jobs.table.colocated_with.item(rows[0]) == trial.jobs[1]
            stands = state.now_s >= trial.given_up_s and (together or any(each == each for each in trial.colocated_rates))
            if stands:
                first, second = (each if each == each else 0.0 for each in trial.colocated_rates)
                trial = replace(trial, colocated_rates=(first, second))
                _remember(state, trial)
            end_trial(state, trial, TrialVerdict.REVERTED if stands else TrialVerdict.ABORTED)
