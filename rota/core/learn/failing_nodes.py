"""Failing nodes: starts that end within seconds on one node, of jobs that then run on others, are the node's fault.

After a few such starts the node is on trial: for two minutes no job is put there, so that the jobs that failed are tried on
others. If most of them run there, the node is cordoned for an hour. If one fails on another node too, it is the job. Only free
GPUs are taken out of service: jobs that run on the node stay.
"""

from dataclasses import replace

from rota.core.learn.cordon import MAX_CORDONED_FRACTION, cordon
from rota.core.settings import Settings
from rota.core.state.records import FailedStart
from rota.core.state.state import State
from rota.model.counted import counted
from rota.model.events import Exited, Outcome
from rota.model.job import Phase
from rota.model.units import FOREVER

START_SECONDS = 30.0
"""An attempt that ends sooner than this after its start, or its first step, has failed to start. One that runs for longer has
started well."""
TRIAL_SECONDS = 120.0
CORDON_SECONDS = 3600.0
"""How long a node is cordoned before it gets another chance."""


def note_exit(state: State, settings: Settings, event: Exited) -> None:
    """An attempt is about to be taken for ended. If it was not asked to end, and has just begun, its start has failed."""
    job, parts = event.job, state.jobs.attempts[event.job].live_nodes
    row, table = state.jobs.row[job], state.jobs.table
    if event.outcome is Outcome.FINISHED:
        _ran_well(state, job, parts)
        return
    node = event.node if event.node is not None else parts[0]
    asked = state.jobs.to_kill(job) or table.phase.item(row) not in (Phase.STARTING, Phase.RUNNING)
    late = event.at_s - table.phase_s.item(row) >= START_SECONDS
    if asked or late or node not in parts or event.outcome not in (Outcome.FAILED, Outcome.LOST):
        return
    nodes = state.nodes
    if job in nodes.failing_jobs or (nodes.drained and any(nodes.cluster.gpu_node.item(gpu) == node for gpu in nodes.drained)):
        return
    if any(each.job == job for other, failed in nodes.failed_starts.items() if other != node for each in failed):
        nodes.failing_jobs.add(job)
        _leave_out(state, {job})
        return
    known = nodes.failed_starts.get(node, ())
    mine = next((each for each in known if each.job == job), FailedStart(job, 0, event.at_s))
    others = tuple(each for each in known if each.job != job)
    nodes.failed_starts[node] = (*others, replace(mine, times=mine.times + 1))


def review(state: State, settings: Settings) -> None:
    """See which jobs have started well by now; put nodes on trial, cordon them, or give them another chance."""
    nodes, jobs = state.nodes, state.jobs
    nodes.failing_jobs &= jobs.row.keys()
    ended = {each.job for failed in nodes.failed_starts.values() for each in failed if each.job not in jobs.row}
    _leave_out(state, {job for job in ended if not _elsewhere(state, job)})
    for job in {each.job for failed in nodes.failed_starts.values() for each in failed} & jobs.attempts.keys():
        if _runs_well(state, job, -FOREVER):
            _ran_well(state, job, jobs.attempts[job].live_nodes)
    most = max(int(len(nodes.cluster.nodes) * MAX_CORDONED_FRACTION), 1)
    for node, failed in list(nodes.failed_starts.items()):
        first_s, times = min(each.first_s for each in failed), sum(each.times for each in failed)
        if any(node in mine.live_nodes and _runs_well(state, job, first_s) for job, mine in jobs.attempts.items()):
            acquit(state, settings, node)
        elif node not in nodes.failing and times >= settings.cordon_failing_starts and len(nodes.failing) < most:
            nodes.failing[node] = state.now_s + TRIAL_SECONDS
            cordon(state, settings)
        elif node in nodes.failing and 2 * sum(each.times for each in failed if each.elsewhere) >= times:
            nodes.failing[node] = state.now_s + CORDON_SECONDS
            nodes.proven_failures[node] = tuple(each for each in failed if each.elsewhere)
            del nodes.failed_starts[node]
    for node, until_s in list(nodes.failing.items()):
        if until_s <= state.now_s or not (node in nodes.failed_starts or node in nodes.proven_failures):
            acquit(state, settings, node)


def acquit(state: State, settings: Settings, node: int) -> None:
    """The node was booted, has left, has been out of service for long enough, or is not at fault."""
    state.nodes.failed_starts.pop(node, None)
    state.nodes.proven_failures.pop(node, None)
    if state.nodes.failing.pop(node, None) is not None:
        cordon(state, settings)


def failing_nodes(state: State) -> list[str]:
    """Return a sentence for each node that is on trial or cordoned, for operators."""
    found = []
    for node in state.nodes.failing:
        proven = state.nodes.proven_failures.get(node, ())
        failed = proven or state.nodes.failed_starts.get(node, ())
        name, which = state.nodes.cluster.nodes[node].name, _named(tuple(each.job for each in failed))
        why = f"{counted(sum(each.times for each in failed), 'start')} ended there within {START_SECONDS:.0f} s ({which})"
        one = len({each.job for each in failed}) == 1
        verdict = ("it runs" if one else "they run") if proven else ("it is tried" if one else "they are tried")
        found.append(f"{name} is out of service: {why}, and {verdict} on other nodes.")
    return found


def _named(jobs: tuple[int, ...]) -> str:
    return f"job{'s' * (len(jobs) > 1)} {', '.join(map(str, jobs[:5]))}{', ...' * (len(jobs) > 5)}"


def _runs_well(state: State, job: int, since_s: float) -> bool:
    """Return whether a job has run for a while, and began after this time."""
    row, table = state.jobs.row[job], state.jobs.table
    began_s = table.phase_s.item(row)
    return table.phase.item(row) == Phase.RUNNING and began_s > since_s and state.now_s - began_s >= START_SECONDS


def _ran_well(state: State, job: int, parts: tuple[int, ...]) -> None:
    """Note that a job ran on these nodes, so that other nodes on which it failed may be at fault."""
    state.nodes.failing_jobs.discard(job)
    for node, failed in list(state.nodes.failed_starts.items()):
        if node not in parts and any(each.job == job for each in failed):
            state.nodes.failed_starts[node] = tuple(replace(e, elsewhere=True) if e.job == job else e for e in failed)


def _elsewhere(state: State, job: int) -> bool:
    return any(each.elsewhere for failed in state.nodes.failed_starts.values() for each in failed if each.job == job)


def _leave_out(state: State, jobs: set[int]) -> None:
    """Forget the failed starts of jobs, which say nothing about nodes."""
    for node, failed in list(state.nodes.failed_starts.items()) if jobs else ():
        left = tuple(each for each in failed if each.job not in jobs)
        state.nodes.failed_starts[node] = left
        if not left:
            del state.nodes.failed_starts[node]
