"""Explain waits that come from windows: GPUs that are reserved for others, or that a job would have to leave before its end."""

import numpy as np

from rota.core.explain_drains import drained_text, gpus_by_node, length_of, places_of
from rota.core.state.records import Drain
from rota.core.state.state import State
from rota.core.state.windows import Access, is_for, may_start, windows
from rota.model.counted import are
from rota.model.length_text import length_text
from rota.model.reasons import Explanation, Reason
from rota.model.units import FOREVER, MILLI, Bools, Ints

_FROM = (Reason.OUTRANKED, Reason.AWAITING_DECISION, Reason.NO_FREE_GPUS, Reason.FRAGMENTED)


def mark_reserved(state: State, codes: Ints) -> None:
    """Set the codes of jobs that would have room if they could use the GPUs of windows."""
    access, jobs, options = Access(state), state.jobs, state.beliefs.options
    usable = state.usable()[0]
    there, free = _by_class(state, access, usable), _by_class(state, access, usable & state.nodes.planned.free)
    rows = jobs.rows[np.isin(codes[jobs.rows], _FROM) & (jobs.table.option[jobs.rows] < 0)]
    known: dict[tuple[int, int], bool] = {}
    for row, job, kind in zip(rows.tolist(), jobs.table.id[rows].tolist(), jobs.table.kind[rows].tolist(), strict=True):
        rights = access.rights(job)
        if (rights, kind) not in known:
            may, need, pool = access.may_start_in[rights], options.kind_need[kind], options.kind_pool[kind]
            known[rights, kind] = any(
                (need <= counts.sum(axis=0)[pool]).any() and not (need <= counts[may].sum(axis=0)[pool]).any()
                for counts in (free, there)
            )
        if known[rights, kind]:
            codes[row] = Reason.RESERVED


def _by_class(state: State, access: Access, gpus: Bools) -> Ints:
    """Return the thousandths of these GPUs in each class, by pool."""
    pools, classes = len(state.nodes.cluster.pools), len(access.windows_of)
    cell = access.gpu_class[gpus] * pools + state.nodes.cluster.gpu_pool[gpus]
    return np.bincount(cell, minlength=classes * pools).reshape(classes, pools) * MILLI


def describe_reserved(state: State, job: int, pools: Ints) -> Explanation:
    """State which windows keep a job from GPUs of these pools, and when they begin or end."""
    keep_out = windows_against(state, job, pools)
    sentences = [window_sentence(state, job, window, pools) for window in keep_out]
    facts = {
        "reservations": [window.number for window in keep_out],
        "from_s": [window.from_s for window in keep_out],
        "until_s": [None if window.until_s == FOREVER else window.until_s for window in keep_out],
    }
    return Explanation(Reason.RESERVED, " ".join(sentences) or "GPUs that it could use are reserved.", facts)


def windows_against(state: State, job: int, pools: Ints) -> list[Drain]:
    """Return the windows with GPUs of these pools on which a job may not start."""
    pool = state.nodes.cluster.gpu_pool
    here = [window for window in windows(state) if np.isin(pool[list(window.gpus)], pools).any()]
    return [window for window in here if not may_start(state, window, job)]


def window_sentence(state: State, job: int, window: Drain, pools: Ints) -> str:
    """Return what is reserved or drained by a window, for whom and how long, and why the job may not start there."""
    cluster, found, count = state.nodes.cluster, [], 0
    for node, gpus in gpus_by_node(state, window).items():
        if cluster.gpu_pool.item(gpus[0]) in pools:
            found.append(places_of(state, node, gpus))
            count += 1 if len(gpus) == cluster.node_gpus[node] else len(gpus)
    what, number = ", ".join(found), f"reservation {window.number}"
    if window.from_s <= state.now_s:
        return f"{what} {are(count)} {drained_text(state, window)}: {number}."
    begins = f"{what} will be {drained_text(state, window)} in {length_of(window.from_s - state.now_s)}: {number}."
    longest = float(state.jobs.table.max_run_seconds[state.jobs.row[job]])
    limit = "has no max_run_time" if longest == FOREVER else f"may run for {length_text(longest)}"
    return f"{begins} The job is not known to save its state and {limit}, so it might not end before."


def reservation_sentences(state: State) -> list[str]:
    """Return a sentence for each node with GPUs that are reserved now."""
    found = []
    for window in windows(state):
        if window.reserves and window.from_s <= state.now_s:
            for node, gpus in gpus_by_node(state, window).items():
                count = 1 if len(gpus) == state.nodes.cluster.node_gpus[node] else len(gpus)
                found.append(f"{places_of(state, node, gpus)} {are(count)} {drained_text(state, window)}.")
    return found


def kept_by_strangers(state: State, window: Drain) -> list[int]:
    """Return the jobs on GPUs of a window that are none of those for which it is."""
    mine = set(window.gpus)
    here = sorted(job for job, attempt in state.jobs.attempts.items() if not mine.isdisjoint(attempt.gpus.tolist()))
    return [job for job in here if not (window.reserves and is_for(state, window, job))]
