"""Explain waits that come from quotas: a cap or an array's limit that is reached, and borrowed GPUs that went back."""

from collections.abc import Mapping

import numpy as np

from rota.core.plan.quotas import Limits, taken_limits
from rota.core.reconcile import running_tasks
from rota.core.state.state import State
from rota.model.array_limit import ArrayLimit
from rota.model.counted import counted
from rota.model.reasons import Explanation, Reason
from rota.model.units import MILLI, Ints


def mark_quota_reasons(state: State, codes: Ints) -> None:
    """Set the codes of jobs that wait for a quota: a group of theirs is at its limit, or their GPUs went back."""
    table, size = state.jobs.table, state.jobs.table.size
    gone = table.reclaimed_for[:size]
    for row in ((gone >= 0) & (table.option[:size] < 0)).nonzero()[0].tolist():
        if gone.item(row) in state.jobs.desired:
            codes[row] = Reason.RECLAIMED
    limits = taken_limits(state)
    if limits is None:
        return
    needs = state.beliefs.options.kind_need.min(axis=1, initial=np.iinfo(np.int64).max)
    rows = state.jobs.rows
    for row in rows[table.option[rows] < 0].tolist():
        if not limits.fits(table.id.item(row), int(needs[table.kind[row]])):
            codes[row] = Reason.OVER_QUOTA


def describe_over_quota(state: State, job: int) -> Explanation:
    """State which limit is reached, and who has how much of it."""
    limits = taken_limits(state)
    assert limits is not None
    row = state.jobs.row[job]
    needs = int(state.beliefs.options.kind_need[state.jobs.table.kind[row]].min())
    group = limits.reached(job, needs)
    assert group is not None
    if isinstance(limits.names[group], ArrayLimit):
        return _at_array_limit(state, limits, group)
    return _at_limit(state, limits, job, group, needs / MILLI)


def _at_array_limit(state: State, limits: Limits, group: int) -> Explanation:
    limit = limits.names[group]
    assert isinstance(limit, ArrayLimit)
    jobs = sorted(job for job in state.jobs.desired if group in limits.groups_of(job))
    sentence = f"Its array {limit.array} runs at most {counted(limit.at_once, 'task')} at once, and {len(jobs)} have GPUs."
    return Explanation(Reason.OVER_QUOTA, sentence, {"array": limit.array, "at_once": limit.at_once, "jobs": jobs})


def tasks_still_saving(state: State, job: int) -> list[int]:
    """Return the tasks for which a task with granted GPUs waits, since they are saving and its array is at its limit."""
    limit = state.jobs.specs[job].array
    if limit is None or len(running := running_tasks(state, limit.array)) < limit.at_once:
        return []
    return [other for other in running if other not in state.jobs.desired]


def describe_still_saving(jobs: list[int]) -> Explanation:
    names = ", ".join(map(str, jobs))
    who = f"job {names} of its array is" if len(jobs) == 1 else f"jobs {names} of its array are"
    return Explanation(Reason.WAITING_FOR_SUSPEND, f"Its GPUs are granted; {who} still saving.", {"victims": jobs})


def _at_limit(state: State, limits: Limits, job: int, group: int, needs: float) -> Explanation:
    tenants, name = state.tenants.tenants, limits.names[group]
    assert tenants is not None and isinstance(name, tuple)
    tenant, user = name
    cap = tenants.caps[tenant] if user is None else tenants.user_caps[tenant]
    jobs = sorted(other for other in state.jobs.desired if group in limits.groups_of(other))
    has = has_by_user(state, jobs)
    total = sum(has.values())
    who = f"Its tenant {tenant} has" if user is None else f"Its user {user or '(no name)'} has, in the tenant {tenant},"
    sentence = f"{who} {total:g} of at most {counted(cap, 'GPU')}, and it needs {needs:g}."
    if user is None and has:
        sentence += f" {_shown(has)}."
    return Explanation(
        Reason.OVER_QUOTA,
        sentence,
        {"tenant": tenant, "user": user, "cap": cap, "has": total, "needs": needs, "has_by_user": has, "jobs": jobs},
    )


def has_by_user(state: State, jobs: list[int]) -> dict[str, float]:
    """Return the GPUs that users have by the plan in force, most first. Jobs that share GPUs count with all of them each."""
    found: dict[str, float] = {}
    for job in jobs:
        user = state.jobs.specs[job].user
        row = state.jobs.row[job]
        gpus = state.beliefs.options.milligpus.item(state.jobs.table.option.item(row)) / MILLI
        found[user] = found.get(user, 0.0) + gpus
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _shown(has: Mapping[str, float]) -> str:
    first = [f"{user or '(no name)'} has {gpus:g}" for user, gpus in list(has.items())[:5]]
    return ", ".join(first) + (", ..." if len(has) > 5 else "")


def describe_reclaimed(state: State, job: int) -> Explanation:
    """State which tenant got the GPUs back that this job had borrowed."""
    accounts, table = state.tenants, state.jobs.table
    assert accounts.tenants is not None
    other = table.reclaimed_for.item(state.jobs.row[job])
    owner = accounts.path_of(table.owner.item(state.jobs.row[other]))
    mine = accounts.path_of(table.owner.item(state.jobs.row[job]))
    guarantee = accounts.tenants.guarantee(owner).gpus
    has = {path: sum(has_by_user(state, _jobs_of(state, path)).values()) for path in (owner, mine)}
    sentence = (
        f"Its tenant {mine} had borrowed its GPUs. They went back to the tenant {owner}, for its job {other}: {owner} is "
        f"guaranteed {counted(guarantee, 'GPU')} and has {has[owner]:g}."
    )
    facts = {"tenant": owner, "job": other, "guarantee": guarantee, "has": has[owner], "borrower": mine}
    return Explanation(Reason.RECLAIMED, sentence, {**facts, "borrower_has": has[mine]})


def _jobs_of(state: State, path: str) -> list[int]:
    """Return the jobs with GPUs of a tenant and of those below it."""
    accounts, table = state.tenants, state.jobs.table
    found = []
    for job in state.jobs.desired:
        mine = accounts.path_of(table.owner.item(state.jobs.row[job]))
        if mine == path or mine.startswith(path + "/"):
            found.append(job)
    return found
