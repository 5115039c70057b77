"""Recovery: the scheduler as the journal left it. Recorded events and decisions are folded, and nothing is decided again."""

from collections.abc import Callable, Collection

from rota.agent.processes import end_job
from rota.core.scheduler import Scheduler
from rota.core.state.state import State
from rota.errors import JournalError
from rota.live.home_setup import HomeSetup
from rota.live.journal import Journal
from rota.model.codec import Codec
from rota.model.events import Exited, Outcome
from rota.model.job import Phase

Make = Callable[[HomeSetup], Scheduler]
"""Makes a scheduler without jobs from a setup."""


def recover(journal: Journal, codec: Codec, make: Make) -> Scheduler:
    """Return the scheduler of the last snapshot, with all later entries folded."""
    found = journal.snapshot()
    after = found[0] if found is not None else 0
    scheduler = make(setup_at(journal, after))
    if found is not None:
        scheduler.restore(found[1], codec)
    for entry in journal.entries(after):
        scheduler.fold(entry.now_s, entry.events)
        scheduler.commit(entry.decided)
    return scheduler


def setup_at(journal: Journal, number: int) -> HomeSetup:
    """Return the setup in force after an entry; 0 for the one with which the journal begins."""
    found = journal.setup(number) or journal.setup(number + 1)
    if found is None:
        raise JournalError(f"the journal does not state the setup of entry {number + 1}.", hint="rota doctor")
    return found


def lost_with_their_files(state: State, there: Collection[tuple[int, int]], home_id: str, now_s: float) -> list[Exited]:
    """Return the ends of attempts that were started on this machine and have no files. This happens when a home is restored
    without its folder `run`. `there`: attempts that have files. Processes of the others are killed, since they could not be found
    later. A launch that was not carried out is sent again by the core."""
    lost = []
    for job, attempt in state.jobs.attempts.items():
        if (job, attempt.number) not in there:
            end_job(f"{home_id}-{job}")
            if Phase(int(state.jobs.table.phase[state.jobs.row[job]])) is not Phase.STARTING:
                lost.append(Exited(job, attempt.number, now_s, Outcome.LOST, 0.0))
    return lost
