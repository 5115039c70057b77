"""Explain: why each job is not running. Codes for all jobs at once; all the facts for one job when asked."""

import numpy as np

from rota.beliefs.make_options import why_never
from rota.core.explain_drains import drain_sentences
from rota.core.explain_quotas import (
    describe_over_quota,
    describe_reclaimed,
    describe_still_saving,
    mark_quota_reasons,
    tasks_still_saving,
)
from rota.core.fold.setbacks import MAX_SETBACKS
from rota.core.plan.pinned import has_min_run, unsaved_jobs
from rota.core.state.accounts import time_shares
from rota.core.state.phases import AWAITS, HELD
from rota.core.state.state import State
from rota.model.allocation import Ranking, Shares
from rota.model.commands import Launch, Resume
from rota.model.counted import are, counted
from rota.model.job import Phase
from rota.model.reasons import Explanation, Reason
from rota.model.units import MILLI, Bools, Floats, Ints


def reasons(state: State) -> Ints:
    """Return the main reason of every row of the job table; NONE for jobs that have ended."""
    table, size = state.jobs.table, state.jobs.table.size
    kind, phase = table.kind[:size], table.phase[:size]
    codes = _capacity_codes(state)[kind]
    considered = (
        np.isin(table.id[:size], state.cycle.answer.ids) if state.cycle.answer is not None else np.zeros(size, dtype=bool)
    )
    pending = (
        state.cycle.needs_policy or state.cycle.needs_plan or state.cycle.has_new_answer or state.cycle.call_jobs is not None
    )
    codes[(codes == Reason.OUTRANKED) & (pending | ~considered)] = Reason.AWAITING_DECISION
    full = (codes == Reason.NO_FREE_GPUS).nonzero()[0]
    codes[full[_share_used(state, full)]] = Reason.SHARE_USED
    codes[(codes == Reason.OUTRANKED) & np.isin(kind, state.cycle.fragmented)] = Reason.FRAGMENTED
    if state.tenants.tenants is not None or "array_limit" in table.in_use:
        mark_quota_reasons(state, codes)
    kinds = list(state.jobs.kind_of)
    for row in (state.beliefs.options.best[kind] < 0).nonzero()[0].tolist():
        codes[row] = why_never(kinds[kind[row]], state.nodes.cluster)[0]
    codes[table.option[:size] >= 0] = Reason.WAITING_FOR_SUSPEND
    codes[phase == Phase.UNREACHABLE] = Reason.NODE_DOWN
    codes[phase == Phase.STARTING] = Reason.STARTING
    for job, setback in state.jobs.setbacks.items():
        if setback.until_s > state.now_s:
            codes[state.jobs.row[job]] = Reason.BACKING_OFF
    if state.jobs.waits_for:
        codes[table.blocks[:size] & AWAITS != 0] = Reason.DEPENDENCY
    codes[table.blocks[:size] & HELD != 0] = Reason.HELD
    codes[np.isin(phase, _NOT_WAITING) | (table.id[:size] < 0)] = Reason.NONE
    return codes


_NOT_WAITING = [int(p) for p in Phase if p.ended or p in (Phase.RUNNING, Phase.SUSPENDING, Phase.RESIZING, Phase.STOPPING)]


def _share_used(state: State, rows: Ints) -> Bools:
    """Return which of these jobs have had as much time as the shares in force give them."""
    found = np.zeros(len(rows), dtype=bool)
    target, had = _time_of(state, rows)
    if target is not None:
        found[:] = (target > 0) & (had >= target)
    return found


def _time_of(state: State, rows: Ints) -> tuple[Floats | None, Floats]:
    """Return the fractions of time that the shares in force promise these jobs, or None if the policy gives no shares, and the
    fractions that they got."""
    answer, jobs = state.cycle.answer, state.jobs.table
    elapsed = state.now_s - state.cycle.shares_s
    if answer is None or not isinstance(answer.allocation, Shares) or elapsed <= 0 or not len(rows):
        return None, np.zeros(len(rows))
    known = jobs.id[: jobs.size]
    found = np.minimum(known.searchsorted(answer.ids), max(len(known) - 1, 0))
    share = time_shares(answer.allocation, state.beliefs.options, jobs.kind[found])
    target = np.zeros(jobs.size)
    alive = known[found] == answer.ids
    target[found[alive]] = share[alive].sum(axis=1)
    had = state.received_seconds(rows).sum(axis=1) / elapsed
    return target[rows], had


def _capacity_codes(state: State) -> Ints:
    """Return for each kind why a job of it without a grant does not run, as far as GPUs matter."""
    need, pool = state.beliefs.options.kind_need, state.beliefs.options.kind_pool
    up = np.bincount(
        state.nodes.cluster.gpu_pool[state.nodes.node_up[state.nodes.cluster.gpu_node]],
        minlength=len(state.nodes.cluster.pools),
    )
    room = _left(state) * MILLI
    if state.beliefs.options.has_fractions:  # a part of a GPU also fits where others have the rest of it
        for gpu in state.nodes.planned.gpu_fractions:
            where = state.nodes.cluster.gpu_pool.item(gpu)
            room[where] = max(room[where], state.nodes.planned.room(gpu))
    fits = (need <= room[pool]).any(axis=1)
    possible = (need <= (up * MILLI)[pool]).any(axis=1)
    codes = np.where(fits, int(Reason.OUTRANKED), np.where(possible, int(Reason.NO_FREE_GPUS), int(Reason.NODE_DOWN)))
    if state.nodes.gone:
        codes[(need > (state.nodes.lasting_gpus() * MILLI)[pool]).all(axis=1)] = int(Reason.UNSATISFIABLE)
    return codes


def _left(state: State) -> Ints:
    """Return the GPUs of each pool that are free in the plan."""
    usable, _ = state.usable()
    return np.bincount(state.nodes.cluster.gpu_pool[usable & state.nodes.planned.free], minlength=len(state.nodes.cluster.pools))


def explain(state: State, job: int) -> list[Explanation]:
    """Return every reason why a job does not run, main reason first; empty if it runs or has ended."""
    row = state.jobs.row.get(job)
    if row is None:
        return []
    headline = Reason(int(reasons(state)[row]))
    if headline is Reason.NONE:
        return []
    codes: set[Reason] = {headline}
    if job in state.jobs.waits_for:
        codes.add(Reason.DEPENDENCY)
    if _note(state, job):
        codes.add(Reason.POLICY_NOTE)
    if (
        headline in (Reason.HELD, Reason.NO_FREE_GPUS, Reason.OUTRANKED, Reason.SHARE_USED, Reason.OVER_QUOTA, Reason.RECLAIMED)
        and state.beliefs.options.best[state.jobs.table.kind[row]] >= 0
    ):
        codes.add(Reason(int(_capacity_codes(state)[state.jobs.table.kind[row]])))
        codes.discard(Reason.OUTRANKED)
        if state.cycle.answer is not None and _ahead(state, job):
            codes.add(Reason.OUTRANKED)
    others = sorted(codes - {headline})
    return [_describe(state, job, row, code) for code in (headline, *others)]


def taken_gpus(state: State) -> list[str]:
    """A sentence for each GPU that other programs use."""
    cluster, found = state.nodes.cluster, []
    for gpu, by in sorted(state.nodes.taken.items()):
        node = cluster.gpu_node.item(gpu)
        where = f"GPU {gpu - cluster.node_first.item(node)} of {cluster.nodes[node].name}"
        free = state.nodes.observed.free[gpu]
        found.append(f"{where} is out of service: {by} uses it." if free else f"{where} has a job, and {by} uses it too.")
    return found


def _note(state: State, job: int) -> str:
    """What the policy's last answer says of this job, in words."""
    answer = state.cycle.answer
    if answer is None or not isinstance(answer.allocation, Shares):
        return ""
    position = int(answer.ids.searchsorted(job))
    mine = position < len(answer.ids) and answer.ids[position] == job
    return str(answer.allocation.notes.get(position, "")) if mine else ""


def _describe(state: State, job: int, row: int, code: Reason) -> Explanation:
    table = state.jobs.table
    gpus = state.jobs.specs[job].gpus
    kind = list(state.jobs.kind_of)[table.kind[row]]
    types = " or ".join(kind.accelerators) or "any type"
    if code is Reason.HELD:
        return Explanation(code, f"It is held until it is released: rota release {job}.")
    if code is Reason.DEPENDENCY:
        return _dependency(state, job)
    if code is Reason.OVER_QUOTA:
        return describe_over_quota(state, job)
    if code is Reason.RECLAIMED:
        return describe_reclaimed(state, job)
    if code in (Reason.NO_SUCH_ACCELERATOR, Reason.UNSATISFIABLE):
        _, why = why_never(kind, state.nodes.cluster)
        if state.nodes.gone and state.beliefs.options.best[state.jobs.table.kind[row]] >= 0:
            options = state.beliefs.options.by_kind[state.jobs.table.kind[row]]
            most = int(state.nodes.lasting_gpus()[state.beliefs.options.pool[options[options >= 0]]].max())
            why = f"since nodes left, the largest pool it accepts has {most}"
        return Explanation(
            code, f"It asks for {counted(gpus, 'GPU')} of {types}; {why}.", {"gpus": gpus, "accepts": kind.accelerators}
        )
    if code is Reason.NODE_DOWN:
        down = [state.nodes.cluster.nodes[n].name for n in (~state.nodes.node_up).nonzero()[0].tolist()]
        return Explanation(code, f"It needs nodes that are down or silent: {', '.join(down) or 'none'}.", {"nodes": down})
    if code is Reason.NO_FREE_GPUS:
        free, kept = _free(state, row), unsaved_jobs(state)
        young = [each for each in _min_run(state) if each not in kept]
        drained = drain_sentences(state, _pools(state, row))
        others = _in_min_run(state, young) + "".join(f" {line}" for line in (*taken_gpus(state), *drained))
        sentence = f"It needs {counted(gpus, 'GPU')} of {types}; {free} {are(free)} free." + _kept_sentence(kept) + others
        facts = {"gpus": gpus, "free": free, "left_running": kept, "in_min_run": young}
        return Explanation(code, sentence, facts | ({"drained": drained} if drained else {}))
    if code is Reason.FRAGMENTED:
        return _fragmented(state, row)
    if code is Reason.POLICY_NOTE:
        return Explanation(code, _note(state, job))
    if code is Reason.BACKING_OFF:
        return _backing_off(state, job)
    if code is Reason.SHARE_USED:
        target, had = _time_of(state, np.array([row]))
        part = float(target[0]) if target is not None else 0.0
        sentence = f"Its share is used up: target {part:.0%} of the time, received {float(had[0]):.0%}."
        return Explanation(code, sentence, {"target": part, "received": float(had[0])})
    if code is Reason.OUTRANKED:
        return _outranked(state, row, _ahead(state, job))
    if code is Reason.WAITING_FOR_SUSPEND:
        want = state.jobs.desired.get(job)
        partner = int(table.partner[row])
        holders = sorted(state.nodes.observed.holders(want) - {partner, job}) if want is not None else []
        if not holders and (saving := tasks_still_saving(state, job)):
            return describe_still_saving(saving)
        names = ", ".join(str(holder) for holder in holders)
        who = f"job {names} is" if len(holders) == 1 else f"jobs {names} are"
        sentence = f"Its GPUs are granted; {who} giving them up." if holders else "Its GPUs are granted."
        return Explanation(code, sentence, {"victims": holders})
    if code is Reason.STARTING:
        flight = state.jobs.in_flight.get(job)
        since = flight.sent_s if flight is not None and isinstance(flight.command, Launch | Resume) else None
        return Explanation(code, "It is starting.", {"since_s": since})
    sentence = "GPUs are free; the next decision is due."
    if state.cycle.policy_fault:
        sentence = f"The policy's answer was invalid: {state.cycle.policy_fault}. Rota will call it again."
    return Explanation(code, sentence, {"submitted_s": float(table.submitted_s[row])})


def _dependency(state: State, job: int) -> Explanation:
    """Explain for which jobs a job waits, and what these do now."""
    phases, row = state.jobs.table.phase, state.jobs.row
    others = [(each, Phase(phases.item(row[each.job])).label) for each in state.jobs.waits_for[job]]
    named = [f"job {each.job} {each.when.text} (it is {phase})" for each, phase in others[:5]]
    more = f", and {counted(len(others) - 5, 'more job')}" if len(others) > 5 else ""
    facts = [{"job": each.job, "when": str(each.when), "phase": phase} for each, phase in others]
    return Explanation(Reason.DEPENDENCY, f"It starts when {' and '.join(named)}{more}.", {"waits_for": facts})


def _kept_sentence(jobs: list[int]) -> str:
    if not jobs:
        return ""
    names = ", ".join(map(str, jobs[:5])) + (", ..." if len(jobs) > 5 else "")
    if len(jobs) == 1:
        return f" Job {names} is not known to save its state and can't be parked, so it keeps its GPUs until it ends."
    return f" Jobs {names} are not known to save their state and can't be parked, so they keep their GPUs until they end."


def _min_run(state: State) -> list[int]:
    """Return jobs that have not yet run for the minimum of their attempt, in order."""
    rows = state.jobs.rows
    stays = has_min_run(state, rows)
    return [] if stays is None else state.jobs.table.id[rows[stays]].tolist()


def _in_min_run(state: State, jobs: list[int]) -> str:
    if not jobs:
        return ""
    seconds = float(state.jobs.table.stays_until_s[[state.jobs.row[job] for job in jobs]].min()) - state.now_s
    names = ", ".join(map(str, jobs[:5])) + (", ..." if len(jobs) > 5 else "")
    if len(jobs) == 1:
        return f" Job {names} has just started and keeps its GPUs for another {seconds:.0f} s at least."
    return f" Jobs {names} have just started; the first may be suspended in {seconds:.0f} s."


def _backing_off(state: State, job: int) -> Explanation:
    setback = state.jobs.setbacks[job]
    seconds = max(setback.until_s - state.now_s, 0.0)
    sentence = (
        f"Attempt {setback.times} of {MAX_SETBACKS} in a row failed: {setback.what}. The next one may start in {seconds:.0f} s."
    )
    facts = {"times": setback.times, "most": MAX_SETBACKS, "what": setback.what, "until_s": setback.until_s}
    return Explanation(Reason.BACKING_OFF, sentence, facts)


def _fragmented(state: State, row: int) -> Explanation:
    """Explain where the free GPUs of a job's types are, and on how few nodes it needs them."""
    options = state.beliefs.options.by_kind[state.jobs.table.kind[row]]
    left = _left(state)
    pool = max(state.beliefs.options.pool[options[options >= 0]].tolist(), key=lambda pool: left[pool])
    usable, _ = state.usable()
    by_node = state.nodes.cluster.count_by_node(usable & state.nodes.planned.free & (state.nodes.cluster.gpu_pool == pool))
    gpus = int(state.jobs.table.gpus[row])  # a part of a GPU is never scattered
    most = sorted(by_node[by_node > 0].tolist(), reverse=True)
    nodes = state.fewest_nodes(pool, gpus)
    where = f"on {nodes} nodes" if nodes > 1 else "on one node"
    shown = ", ".join(map(str, most[:8])) + (", ..." if len(most) > 8 else "")
    sentence = (
        f"It needs {counted(gpus, 'GPU')} {where}; {sum(most)} {are(sum(most))} free, but scattered: {shown or 'none'} by node."
    )
    return Explanation(Reason.FRAGMENTED, sentence, {"gpus": gpus, "nodes": nodes, "free": sum(most), "free_by_node": most})


def _outranked(state: State, row: int, ahead: list[int]) -> Explanation:
    assert state.cycle.answer is not None
    key = state.cycle.answer.allocation.key
    key = f"priority, then {key}" if "priority" in state.jobs.table.in_use else key
    shown = ", ".join(str(job) for job in ahead[:5]) + (", ..." if len(ahead) > 5 else "")
    facts = {"ahead": ahead, "key": key, "free": _free(state, row)}
    sentence = f"{counted(len(ahead), 'job')} {are(len(ahead))} ahead of it by {key}: {shown}."
    return Explanation(Reason.OUTRANKED, sentence, facts)


def _free(state: State, row: int) -> int:
    """Return the free GPUs of the pool with most of them that this job could use."""
    return int(_left(state)[_pools(state, row)].max(initial=0))


def _pools(state: State, row: int) -> Ints:
    """Return the pool of each option of a job."""
    options = state.beliefs.options.by_kind[state.jobs.table.kind[row]]
    pools: Ints = state.beliefs.options.pool[options[options >= 0]]
    return pools


def _ahead(state: State, job: int) -> list[int]:
    """Return the jobs that come before this one by priority or by the policy, best first, or those that run if the policy gave no
    order."""
    assert state.cycle.answer is not None
    allocation, table, row = state.cycle.answer.allocation, state.jobs.table, state.jobs.row
    if not isinstance(allocation, Ranking):
        rows = state.jobs.rows
        return [int(job) for job in table.id[rows[table.option[rows] >= 0]]]
    ranked = [int(other) for other in state.cycle.answer.ids[allocation.order]]
    if "priority" in table.in_use:
        ranked.sort(key=lambda other: -table.priority.item(row[other]) if other in row else 0)
    before = ranked[: ranked.index(job)] if job in ranked else ranked
    return [other for other in before if other in row]
