"""Explain: why each job is not running. Codes for all jobs at once; all the facts for one job when somebody asks."""

import numpy as np

from rota.beliefs.options import why_never
from rota.core.ledger import Ledger
from rota.model.commands import Launch, Resume
from rota.model.job import Phase
from rota.model.reasons import Explanation, Reason
from rota.model.units import MILLI, Ints


def reasons(state: Ledger) -> Ints:
    """The headline reason of every job in the table, row by row (ended ones: NONE). Found per kind, so it costs little."""
    jobs = state.jobs
    size = jobs.size
    codes = np.full(size, int(Reason.AWAITING_DECISION), dtype=np.int64)
    if state.left is not None and state.answer is not None:
        considered = np.isin(jobs.id[:size], state.answer.ids)
        by_kind = _capacity_codes(state)
        codes[considered] = by_kind[jobs.kind[:size][considered]]
    never = state.options.best[jobs.kind[:size]] < 0 if size else np.zeros(0, dtype=bool)
    kinds = list(state.kind_of)
    for row in never.nonzero()[0].tolist():
        codes[row] = why_never(kinds[jobs.kind[row]], state.cluster)
    codes[jobs.phase[:size] == Phase.UNREACHABLE] = Reason.NODE_DOWN
    codes[jobs.option[:size] >= 0] = Reason.WAITING_FOR_SUSPEND
    codes[np.isin(jobs.phase[:size], (Phase.STARTING,))] = Reason.STARTING
    codes[np.isin(jobs.phase[:size], (Phase.RUNNING, Phase.SUSPENDING, Phase.RESIZING, Phase.STOPPING))] = Reason.NONE
    codes[jobs.phase[:size] >= Phase.FINISHED] = Reason.NONE
    for job in state.held:
        if jobs.phase[state.row[job]] not in (Phase.RUNNING, Phase.SUSPENDING):
            codes[state.row[job]] = Reason.HELD
    return codes


def _capacity_codes(state: Ledger) -> Ints:
    """Per kind: what kept a job of it from running when the last plan was made."""
    assert state.left is not None
    need, pool = state.options.kind_need, state.options.kind_pool
    _, capacity = state.usable()
    fits = (need <= state.left[pool]).any(axis=1)
    possible = (need <= (capacity * MILLI)[pool]).any(axis=1)
    return np.where(fits, int(Reason.OUTRANKED), np.where(possible, int(Reason.NO_FREE_GPUS), int(Reason.NODE_DOWN)))


def explain(state: Ledger, job: int) -> list[Explanation]:
    """Everything that keeps a job from running, gravest first. Empty if it runs or has ended."""
    row = state.row.get(job)
    if row is None:
        return []
    headline = Reason(int(reasons(state)[row]))
    if headline is Reason.NONE:
        return []
    found = [_describe(state, job, row, headline)]
    if headline in (Reason.NO_FREE_GPUS, Reason.OUTRANKED) and state.answer is not None:
        ahead = _ahead(state, job, row)
        if headline is Reason.NO_FREE_GPUS and ahead:
            found.append(_outranked(state, row, ahead))
    return found


def _describe(state: Ledger, job: int, row: int, code: Reason) -> Explanation:
    jobs = state.jobs
    gpus = int(jobs.gpus[row])
    kind = list(state.kind_of)[jobs.kind[row]]
    types = " or ".join(kind.accelerators) or "any type"
    pools = state.cluster.pools
    if code is Reason.HELD:
        return Explanation(code, "It is held.")
    if code is Reason.NO_SUCH_ACCELERATOR:
        return Explanation(code, f"It accepts {types}; the cluster has {', '.join(pools)}.", {"accepts": kind.accelerators})
    if code is Reason.UNSATISFIABLE:
        most = int(state.cluster.pool_gpus.max())
        return Explanation(code, f"It asks for {gpus} GPUs; the largest pool has {most}.", {"gpus": gpus, "largest_pool": most})
    if code is Reason.NODE_DOWN:
        down = [state.cluster.nodes[n].name for n in (~state.node_up).nonzero()[0].tolist()]
        return Explanation(code, f"It needs nodes that are down or silent: {', '.join(down) or 'none'}.", {"nodes": down})
    if code is Reason.NO_FREE_GPUS:
        free = _free(state, row)
        return Explanation(code, f"It needs {gpus} GPUs of {types}; {free} are free.", {"gpus": gpus, "free": free})
    if code is Reason.OUTRANKED:
        return _outranked(state, row, _ahead(state, job, row))
    if code is Reason.WAITING_FOR_SUSPEND:
        want = state.desired.get(job)
        holders = sorted(set(state.gpu_job[want].tolist()) - {-1, job}) if want is not None else []
        names = ", ".join(str(holder) for holder in holders)
        sentence = f"Its GPUs are granted; job {names} is giving them up." if holders else "Its GPUs are granted."
        return Explanation(code, sentence, {"victims": holders})
    if code is Reason.STARTING:
        flight = state.in_flight.get(job)
        since = flight.sent_s if flight is not None and isinstance(flight.command, Launch | Resume) else None
        return Explanation(code, "It is starting.", {"since_s": since})
    return Explanation(code, "It came after the last decision.", {"submitted_s": float(jobs.submitted_s[row])})


def _outranked(state: Ledger, row: int, ahead: list[int]) -> Explanation:
    assert state.answer is not None
    key = state.answer.allocation.key
    shown = ", ".join(str(job) for job in ahead[:5]) + (", ..." if len(ahead) > 5 else "")
    facts = {"ahead": ahead, "key": key, "free": _free(state, row)}
    return Explanation(Reason.OUTRANKED, f"{len(ahead)} jobs are ahead of it by {key}: {shown}.", facts)


def _free(state: Ledger, row: int) -> int:
    """GPUs left over after the last plan in the pools this job could use: the most any one of them has."""
    if state.left is None:
        return 0
    options = state.options.by_kind[state.jobs.kind[row]]
    pools = state.options.pool[options[options >= 0]]
    return int(state.left[pools].max(initial=0)) // MILLI


def _ahead(state: Ledger, job: int, row: int) -> list[int]:
    """Jobs the policy put before this one, best first; where it gave no order, those that run."""
    assert state.answer is not None
    order = getattr(state.answer.allocation, "order", None)
    if order is None:
        rows = state.rows
        return [int(job) for job in state.jobs.id[rows[state.jobs.option[rows] >= 0]]]
    ranked = [int(job) for job in state.answer.ids[order]]
    return ranked[: ranked.index(job)] if job in ranked else ranked
