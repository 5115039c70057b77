"""Recovery: the scheduler as the journal left it. What was recorded is folded, and nothing is decided again."""

from collections.abc import Collection, Mapping
from typing import Any

from rota.agent.processes import end_job
from rota.core.scheduler import Scheduler
from rota.core.state.state import State
from rota.live.journal import Journal
from rota.live.replay import Make, reconfigured
from rota.model.codec import Codec
from rota.model.events import Exited, Outcome
from rota.model.job import Phase


def recover(journal: Journal, words: Codec, make: Make, configuration: Mapping[str, Any]) -> Scheduler:
    """The last snapshot and the entries after it, each with the configuration of its time; from then on, with this one."""
    if not journal.last:  # nothing has happened yet: what an earlier start was told counts for nothing, here as in a replay
        return make(configuration)
    found = journal.snapshot()
    after = found[0] if found is not None else 0
    # The snapshot knows what was told up to its own entry; what was told after it is still to come.
    configured = journal.configuration(after) or journal.configuration(after + 1) or dict(configuration)
    scheduler = make(configured)
    if found is not None:
        scheduler.restore(found[1], words)
    for entry in journal.entries(after=after):
        now = journal.configuration(entry.number) or configured
        if now != configured:
            scheduler, configured = reconfigured(scheduler, make, configured, now), now
        scheduler.fold(entry.now_s, entry.events)
        scheduler.commit(entry.decided)
    return reconfigured(scheduler, make, configured, configuration) if configuration != configured else scheduler


def lost_with_their_files(state: State, there: Collection[tuple[int, int]], home_id: str, now_s: float) -> list[Exited]:
    """Attempts on this machine of which nothing is on disk, though they were started: a home was put back without its folder
    `run`. `there`: those that are. What still runs of them is ended, since it could not be found later; a launch that was not
    carried out is sent again by the core."""
    lost = []
    for job, attempt in state.jobs.attempts.items():
        if (job, attempt.number) not in there:
            end_job(f"{home_id}-{job}")
            if Phase(int(state.jobs.table.phase[state.jobs.row[job]])) is not Phase.STARTING:
                lost.append(Exited(job, attempt.number, now_s, Outcome.LOST, 0.0))
    return lost
