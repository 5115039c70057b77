"""Trials with a job, as clients see them."""

from rota.core.state.state import State
from rota.live.instants import iso
from rota.live.job_records import JobRecords
from rota.model.trial import Trial, TrialVerdict
from rota.wire.rows import TrialRow


def trials_of(state: State, job: int, records: JobRecords, names_of: str | None = None) -> list[TrialRow]:
    """Return the trials of a job, oldest first. Of finished trials, the core keeps the last ones. `names_of`: the user whose
    jobs are named; None for all users."""
    known = state.beliefs
    found = {number: each for number, each in (*known.past_trials.items(), *known.trials.items()) if job in each.jobs}
    return [_row(state, found[number], job, records, names_of) for number in sorted(found)]


def _row(state: State, trial: Trial, job: int, records: JobRecords, names_of: str | None) -> TrialRow:
    mine = trial.jobs.index(job)
    other = trial.jobs[1 - mine]
    partner = records.outline(other) if other in records else None
    seen = state.beliefs.pairs.get(trial.pair)
    is_over = trial.verdict is not TrialVerdict.OPEN
    return TrialRow(
        number=trial.number,
        tactic=trial.tactic,
        partner=other,
        partner_name=partner.name if partner is not None and names_of in (None, partner.user) else "",
        joined=mine == 1,
        pair=list(trial.pair[:2]),
        accelerator=trial.pair[2],
        gpus=trial.pair[3],
        began_at=iso(trial.begun_s) or "",
        not_judged_before=iso(trial.pinned_until_s) or "",
        ended_at=iso(trial.ended_s) if is_over else None,
        exclusive_rate=trial.exclusive_rates[mine],
        colocated_rate=_number(trial.colocated_rates[mine]),
        partner_exclusive_rate=trial.exclusive_rates[1 - mine],
        partner_colocated_rate=_number(trial.colocated_rates[1 - mine]),
        gain=_number(trial.gain),
        verdict=trial.verdict.value,
        pair_trials=seen.times if seen is not None else 0,
        mean_gain=seen.gain if seen is not None else None,
        gain_stddev=seen.spread if seen is not None else None,
    )


def _number(value: float) -> float | None:
    return value if value == value else None
