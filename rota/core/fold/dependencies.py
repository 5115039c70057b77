"""Jobs that wait for other jobs (`after`). They are barred until those have ended as they must.

A job that can never start, because another ended in another way, is cancelled, and so are the jobs that wait for it. Job numbers
rise and a job waits for earlier ones only, so jobs cannot wait for each other.
"""

from rota.core.state.phases import AWAITS
from rota.core.state.state import State
from rota.model.dependency import Dependency
from rota.model.job import Phase


def wait_for_others(state: State, job: int, after: tuple[Dependency, ...]) -> bool:
    """Bar a new job until the jobs that it waits for have ended. Return false if it can never start: one of them has ended."""
    jobs = state.jobs
    for each in after:
        if each.job >= job or each.job not in jobs.row:
            because = f"it was to start when job {each.job} {each.when.text}, which can't happen now"
            jobs.ended_because[job] = Phase.CANCELLED, because
            return False
    jobs.waits_for[job] = tuple(dict.fromkeys(after))
    for other in dict.fromkeys(each.job for each in after):
        jobs.awaited_by[other] = (*jobs.awaited_by.get(other, ()), job)
    jobs.block(job, AWAITS)
    return True


def settle_waiting(state: State, job: int, phase: Phase) -> list[int]:
    """Release the jobs that waited for this one, which has ended. Return those that can never start now, in order; they are to be
    cancelled."""
    jobs = state.jobs
    ended, never = [(job, phase)], list[int]()
    while ended:
        other, how = ended.pop()
        for waiting in jobs.awaited_by.pop(other, ()):
            if waiting not in jobs.waits_for:
                continue  # it was cancelled
            mine = [each for each in jobs.waits_for[waiting] if each.job == other]
            unmet = next((each for each in mine if not each.when.met(how.label)), None)
            if unmet is not None:
                del jobs.waits_for[waiting]
                said = "was cancelled" if how is Phase.CANCELLED else f"has {how.label}"
                because = f"it was to start when job {other} {unmet.when.text}, but that {said}"
                jobs.ended_because[waiting] = Phase.CANCELLED, because
                never.append(waiting)
                ended.append((waiting, Phase.CANCELLED))
                continue
            left = tuple(each for each in jobs.waits_for[waiting] if each.job != other)
            if left:
                jobs.waits_for[waiting] = left
            else:
                del jobs.waits_for[waiting]
                jobs.unblock(waiting, AWAITS)
                state.cycle.invalidate()
    return sorted(never)
