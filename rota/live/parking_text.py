"""How a job is parked, in words: the park method and the reason for it."""

from rota.agent.attempt_files import AttemptStatus
from rota.core.state.state import State
from rota.live.job_record import UNSAVED, JobRecord, unsaved
from rota.park.park_method import EXIT, can_sleep, park_or_stay


def parking_of(record: JobRecord, part: AttemptStatus) -> str:
    """Return the park method that the node chose. If the job was seen to exit without saving, that stands."""
    if UNSAVED in record.parking:
        return unsaved(part.park_method or "")
    way, why = part.park_method or "", part.park_reason or ""
    spec = record.submitted.spec
    stays = spec.checkpoint.saves is False and not spec.preemptible
    return ": ".join(park_or_stay(way, why) if stays else (way, why))


def parking_now(record: JobRecord, state: State) -> str:
    """Return the park method of the moment. A job that is not known to save keeps running if it can't be parked."""
    way, _, why = record.parking.partition(": ")
    row = state.jobs.row.get(record.id)
    if row is None or state.jobs.table.saves.item(row):
        return record.parking
    if can_sleep(way) and record.parking_problem and not state.jobs.table.can_park.item(row):
        way, why = EXIT, "that was tried"
    if way != EXIT:
        return record.parking
    return ": ".join(park_or_stay(way, why, "it is not known to save its state"))
