"""Whether a submission is accepted: as a job that the scheduler sees, that can run here, and how it is parked."""

from rota.core.state.state import State
from rota.live.driver_protocol import DriverProtocol
from rota.live.possible import check_memory, check_options, check_tenant
from rota.live.requests import to_job_spec
from rota.model.job import JobSpec
from rota.model.options import Kind
from rota.park.park_method import STAY, can_sleep, park_or_stay
from rota.wire.submission import Submission


def accepted(
    sent: Submission, driver: DriverProtocol, state: State, now_s: float, *, pretend: bool, possible: set[Kind] | None
) -> tuple[JobSpec, str, str]:
    """Return the job, its park method and the reason for that. Raise if it can never run here. `possible`: kinds of jobs that can
    run here, which are not checked again."""
    way, why = driver.park_method(sent)
    if sent.spec.preemptible is False:
        way, why = STAY, "its spec says preemptible: false"
    elif sent.spec.checkpoint.saves is False and not sent.spec.preemptible:
        way, why = park_or_stay(way, why)
    wanted = to_job_spec(sent, now_s, can_park=can_sleep(way))
    kind = Kind.of(wanted)
    if possible is None or kind not in possible:
        check_options(wanted, driver.discover_cluster(), state.beliefs.rates)
    if possible is not None:
        possible.add(kind)
    check_tenant(wanted, state.tenants.tenants)
    check_memory(wanted, driver.discover_cluster(), driver.readings, pretend=pretend)
    return wanted, way, why
