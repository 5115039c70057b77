"""Explain: why each job is not running. Codes for all jobs at once; all the facts for one job when asked."""

import numpy as np

from rota.beliefs.options import why_never
from rota.core.plan.candidates import CandidateTable
from rota.core.settings import Settings
from rota.core.state.ledger import Ledger
from rota.model.commands import Launch, Resume
from rota.model.job import Phase
from rota.model.reasons import Explanation, Reason
from rota.model.units import MILLI, Bools, Floats, Ints


def reasons(state: Ledger) -> Ints:
    """The headline reason of every row of the job table (ended ones: NONE). Found per kind from the floor as it is now."""
    jobs, size = state.jobs, state.jobs.size
    kind, phase = jobs.kind[:size], jobs.phase[:size]
    codes = _capacity_codes(state)[kind]
    considered = np.isin(jobs.id[:size], state.answer.ids) if state.answer is not None else np.zeros(size, dtype=bool)
    pending = state.dirty or state.replan or state.fresh or state.asked is not None
    codes[(codes == Reason.OUTRANKED) & (pending | ~considered)] = Reason.AWAITING_DECISION
    full = (codes == Reason.NO_FREE_GPUS).nonzero()[0]
    codes[full[_share_used(state, full)]] = Reason.SHARE_USED
    codes[(codes == Reason.OUTRANKED) & np.isin(kind, state.fragmented)] = Reason.FRAGMENTED
    kinds = list(state.kind_of)
    for row in (state.options.best[kind] < 0).nonzero()[0].tolist():
        codes[row] = why_never(kinds[kind[row]], state.cluster)[0]
    codes[jobs.option[:size] >= 0] = Reason.WAITING_FOR_SUSPEND
    codes[phase == Phase.UNREACHABLE] = Reason.NODE_DOWN
    codes[phase == Phase.STARTING] = Reason.STARTING
    for job in state.held:
        codes[state.row[job]] = Reason.HELD
    codes[np.isin(phase, _NOT_WAITING) | (jobs.id[:size] < 0)] = Reason.NONE
    return codes


_NOT_WAITING = [int(p) for p in Phase if p.ended or p in (Phase.RUNNING, Phase.SUSPENDING, Phase.RESIZING, Phase.STOPPING)]


def _share_used(state: Ledger, rows: Ints) -> Bools:
    """Which of these jobs have had as much time as the shares in force give them."""
    found = np.zeros(len(rows), dtype=bool)
    target, had = _time_of(state, rows)
    if target is not None:
        found[:] = (target > 0) & (had >= target)
    return found


def _time_of(state: Ledger, rows: Ints) -> tuple[Floats | None, Floats]:
    """Parts of the time since the shares in force were answered: what they promise these jobs, and what each got. None: the
    policy does not speak of time."""
    answer, jobs = state.answer, state.jobs
    elapsed = state.now_s - state.shares_s
    if answer is None or not answer.allocation.reusable or elapsed <= 0 or not len(rows):
        return None, np.zeros(len(rows))
    known = jobs.id[: jobs.size]
    found = np.minimum(known.searchsorted(answer.ids), max(len(known) - 1, 0))
    table = CandidateTable(state, found, Settings())
    share = answer.allocation.shares(table)
    if share is None:
        return None, np.zeros(len(rows))
    target = np.zeros(jobs.size)
    alive = known[found] == answer.ids
    target[found[alive]] = share[alive].sum(axis=1)
    had = CandidateTable(state, rows, Settings()).received_seconds.sum(axis=1) / elapsed
    return target[rows], had


def _capacity_codes(state: Ledger) -> Ints:
    """Per kind: what keeps a job of it that is not granted from running, as far as GPUs go."""
    need, pool = state.options.kind_need, state.options.kind_pool
    up = np.bincount(state.cluster.gpu_pool[state.node_up[state.cluster.gpu_node]], minlength=len(state.cluster.pools))
    room = _left(state) * MILLI
    if state.options.in_parts:  # a part of a GPU also fits where others have the rest of it
        for gpu in state.planned.parts:
            where = state.cluster.gpu_pool.item(gpu)
            room[where] = max(room[where], state.planned.room(gpu))
    fits = (need <= room[pool]).any(axis=1)
    possible = (need <= (up * MILLI)[pool]).any(axis=1)
    codes = np.where(fits, int(Reason.OUTRANKED), np.where(possible, int(Reason.NO_FREE_GPUS), int(Reason.NODE_DOWN)))
    if state.gone:
        codes[(need > (_for_good(state) * MILLI)[pool]).all(axis=1)] = int(Reason.UNSATISFIABLE)
    return codes


def _for_good(state: Ledger) -> Ints:
    """GPUs of each pool on nodes that have not left."""
    there = ~np.isin(state.cluster.gpu_node, list(state.gone))
    return np.bincount(state.cluster.gpu_pool[there], minlength=len(state.cluster.pools))


def _left(state: Ledger) -> Ints:
    """GPUs of each pool that are free in the plan."""
    usable, _ = state.usable()
    return np.bincount(state.cluster.gpu_pool[usable & state.planned.free], minlength=len(state.cluster.pools))


def explain(state: Ledger, job: int) -> list[Explanation]:
    """Everything that keeps a job from running, gravest first; the first is the headline. Empty if it runs or has ended."""
    row = state.row.get(job)
    if row is None:
        return []
    headline = Reason(int(reasons(state)[row]))
    if headline is Reason.NONE:
        return []
    codes: set[Reason] = {headline}
    if _note(state, job):
        codes.add(Reason.POLICY_NOTE)
    if (
        headline in (Reason.HELD, Reason.NO_FREE_GPUS, Reason.OUTRANKED, Reason.SHARE_USED)
        and state.options.best[state.jobs.kind[row]] >= 0
    ):
        codes.add(Reason(int(_capacity_codes(state)[state.jobs.kind[row]])))
        codes.discard(Reason.OUTRANKED)
        if state.answer is not None and _ahead(state, job):
            codes.add(Reason.OUTRANKED)
    others = sorted(codes - {headline})
    return [_describe(state, job, row, code) for code in (headline, *others)]


def _note(state: Ledger, job: int) -> str:
    """What the policy's last answer says of this job, in words."""
    notes = getattr(state.answer.allocation, "notes", None) if state.answer is not None else None
    if not notes or state.answer is None:
        return ""
    position = int(state.answer.ids.searchsorted(job))
    mine = position < len(state.answer.ids) and state.answer.ids[position] == job
    return str(notes.get(position, "")) if mine else ""


def _describe(state: Ledger, job: int, row: int, code: Reason) -> Explanation:
    jobs = state.jobs
    gpus = state.specs[job].gpus
    kind = list(state.kind_of)[jobs.kind[row]]
    types = " or ".join(kind.accelerators) or "any type"
    if code is Reason.HELD:
        return Explanation(code, "It is held.")
    if code in (Reason.NO_SUCH_ACCELERATOR, Reason.UNSATISFIABLE):
        _, why = why_never(kind, state.cluster)
        if state.gone and state.options.best[state.jobs.kind[row]] >= 0:
            options = state.options.by_kind[state.jobs.kind[row]]
            most = int(_for_good(state)[state.options.pool[options[options >= 0]]].max())
            why = f"since nodes left, the largest pool it accepts has {most}"
        return Explanation(code, f"It asks for {gpus} GPUs of {types}; {why}.", {"gpus": gpus, "accepts": kind.accelerators})
    if code is Reason.NODE_DOWN:
        down = [state.cluster.nodes[n].name for n in (~state.node_up).nonzero()[0].tolist()]
        return Explanation(code, f"It needs nodes that are down or silent: {', '.join(down) or 'none'}.", {"nodes": down})
    if code is Reason.NO_FREE_GPUS:
        free = _free(state, row)
        return Explanation(code, f"It needs {gpus} GPUs of {types}; {free} are free.", {"gpus": gpus, "free": free})
    if code is Reason.FRAGMENTED:
        return _fragmented(state, row)
    if code is Reason.POLICY_NOTE:
        return Explanation(code, _note(state, job))
    if code is Reason.SHARE_USED:
        target, had = _time_of(state, np.array([row]))
        part = float(target[0]) if target is not None else 0.0
        sentence = f"Its share is used up: target {part:.0%} of the time, received {float(had[0]):.0%}."
        return Explanation(code, sentence, {"target": part, "received": float(had[0])})
    if code is Reason.OUTRANKED:
        return _outranked(state, row, _ahead(state, job))
    if code is Reason.WAITING_FOR_SUSPEND:
        want = state.desired.get(job)
        partner = int(jobs.partner[row])
        holders = sorted(state.observed.holders(want) - {partner, job}) if want is not None else []
        names = ", ".join(str(holder) for holder in holders)
        sentence = f"Its GPUs are granted; job {names} is giving them up." if holders else "Its GPUs are granted."
        return Explanation(code, sentence, {"victims": holders})
    if code is Reason.STARTING:
        flight = state.in_flight.get(job)
        since = flight.sent_s if flight is not None and isinstance(flight.command, Launch | Resume) else None
        return Explanation(code, "It is starting.", {"since_s": since})
    sentence = "GPUs are free; the next decision is due."
    if state.policy_fault:
        sentence = f"The policy gave no answer that could be used: {state.policy_fault}. It is asked again."
    return Explanation(code, sentence, {"submitted_s": float(jobs.submitted_s[row])})


def _fragmented(state: Ledger, row: int) -> Explanation:
    """Where the free GPUs of its types are, and on how few nodes it wants them."""
    options = state.options.by_kind[state.jobs.kind[row]]
    left = _left(state)
    pool = max(state.options.pool[options[options >= 0]].tolist(), key=lambda pool: left[pool])
    usable, _ = state.usable()
    by_node = state.cluster.count_by_node(usable & state.planned.free & (state.cluster.gpu_pool == pool))
    gpus = int(state.jobs.gpus[row])  # a part of a GPU is never scattered
    most = sorted(by_node[by_node > 0].tolist(), reverse=True)
    nodes = state.fewest_nodes(pool, gpus)
    where = f"on {nodes} nodes" if nodes > 1 else "on one node"
    shown = ", ".join(map(str, most[:8])) + (", ..." if len(most) > 8 else "")
    sentence = f"It needs {gpus} GPUs {where}; {sum(most)} are free, but scattered: {shown or 'none'} by node."
    return Explanation(Reason.FRAGMENTED, sentence, {"gpus": gpus, "nodes": nodes, "free": sum(most), "free_by_node": most})


def _outranked(state: Ledger, row: int, ahead: list[int]) -> Explanation:
    assert state.answer is not None
    key = state.answer.allocation.key
    shown = ", ".join(str(job) for job in ahead[:5]) + (", ..." if len(ahead) > 5 else "")
    facts = {"ahead": ahead, "key": key, "free": _free(state, row)}
    return Explanation(Reason.OUTRANKED, f"{len(ahead)} jobs are ahead of it by {key}: {shown}.", facts)


def _free(state: Ledger, row: int) -> int:
    """GPUs that are free in the plan, in the pool with most of them that this job could use."""
    options = state.options.by_kind[state.jobs.kind[row]]
    pools = state.options.pool[options[options >= 0]]
    return int(_left(state)[pools].max(initial=0))


def _ahead(state: Ledger, job: int) -> list[int]:
    """Jobs the policy put before this one, best first; where it gave no order, those that run."""
    assert state.answer is not None
    order = getattr(state.answer.allocation, "order", None)
    if order is None:
        rows = state.rows
        return [int(job) for job in state.jobs.id[rows[state.jobs.option[rows] >= 0]]]
    ranked = [int(other) for other in state.answer.ids[order]]
    before = ranked[: ranked.index(job)] if job in ranked else ranked
    return [other for other in before if other in state.row]
