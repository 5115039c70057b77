"""How a job is parked, in words: the park method and the reason for it."""

from rota.agent.attempt_files import AttemptStatus
from rota.core.state.state import State
from rota.live.job_record import UNSAVED, JobRecord, Parking, unsaved
from rota.park.park_method import EXIT, can_sleep, park_or_stay


def parking_of(record: JobRecord, part: AttemptStatus) -> Parking:
    """Return the park method that the node chose. If the job was seen to exit without saving, that stands."""
    if record.park_reason == UNSAVED:
        return unsaved(part.park_method)
    spec = record.spec
    if spec.checkpoint.saves is False and not spec.preemptible:
        return park_or_stay(part.park_method or "", part.park_reason or "")
    return part.park_method, part.park_reason


def parking_now(record: JobRecord, state: State) -> Parking:
    """Return the park method of the moment. A job that is not known to save keeps running if it can't be parked."""
    way, why = record.park_method, record.park_reason
    row = state.jobs.row.get(record.id)
    if row is None or state.jobs.table.saves.item(row):
        return way, why
    if can_sleep(way or "") and record.parking_problem and not state.jobs.table.can_park.item(row):
        way, why = EXIT, "that was tried"
    if way != EXIT:
        return way, why
    return park_or_stay(way, why or "", "it is not known to save its state")
