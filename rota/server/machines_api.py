"""Requests about machines: operators drain, undrain and remove nodes, plan maintenance and reserve GPUs."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Request

from rota.server.answers import JsonAnswer
from rota.server.bodies import (
    DrainBody,
    RemovalBody,
    ReservationBody,
    UndrainBody,
    read_drain,
    read_removal,
    read_reservation,
    read_undrain,
)
from rota.server.description import body_of, problems
from rota.server.request_actor import By
from rota.wire.rows import DrainRow

_REFUSED = problems(HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)


class ServedMachines(Protocol):
    """Methods that the API calls, from any thread."""

    def drain(
        self,
        places: Sequence[str],
        reason: str = "",
        *,
        from_s: float | None = None,
        until_s: float | None = None,
        seconds: float | None = None,
        by: str | None = None,
        tenants: Sequence[str] = (),
        users: Sequence[str] = (),
    ) -> DrainRow: ...
    def undrain(self, place: str, by: str | None = None) -> None: ...
    def remove(self, name: str, *, force: bool = False, by: str | None = None) -> None: ...
    def cancel(self, number: int, by: str | None = None) -> None: ...
    def list(self) -> "list[DrainRow]": ...


class HasMachines(Protocol):
    """A daemon with the requests about its machines."""

    @property
    def machines(self) -> ServedMachines: ...


def add_machine_requests(api: APIRouter, daemon: HasMachines) -> None:
    """Add the paths of nodes and reservations that change something. All but the list are for operators."""

    @api.post("/nodes/{name:path}/drain", response_model=DrainRow, openapi_extra=body_of(DrainBody), responses=_REFUSED)
    def drain(name: str, body: Annotated[DrainBody, Depends(_drain)], by: By) -> JsonAnswer:
        """Drain a node, or one of its GPUs: jobs that save their state move away, others stay until they end. Only an operator
        may do this."""
        by.check_operator()
        place = name if body.gpu is None else f"{name}:{body.gpu}"
        row = daemon.machines.drain([place], body.reason, until_s=body.until_s, seconds=body.seconds, by=by.name)
        return JsonAnswer(row)

    @api.post("/nodes/{name:path}/undrain", response_model=list[DrainRow], openapi_extra=body_of(UndrainBody), responses=_REFUSED)
    def undrain(name: str, body: Annotated[UndrainBody, Depends(_undrain)], by: By) -> JsonAnswer:
        """End the drain of a node or of one of its GPUs, and return the drains that are left. A node that was removed may join
        again. Only an operator may do this."""
        by.check_operator()
        daemon.machines.undrain(name if body.gpu is None else f"{name}:{body.gpu}", by.name)
        return JsonAnswer(daemon.machines.list())

    @api.post("/nodes/{name:path}/remove", response_model=list[DrainRow], openapi_extra=body_of(RemovalBody), responses=_REFUSED)
    def remove(name: str, body: Annotated[RemovalBody, Depends(_removal)], by: By) -> JsonAnswer:
        """Remove a node for good, which is drained and empty, or lost. Return the drains that are left. Only an operator may do
        this."""
        by.check_operator()
        daemon.machines.remove(name, force=body.force, by=by.name)
        return JsonAnswer(daemon.machines.list())

    @api.get("/reservations", response_model=list[DrainRow])
    def reservations() -> JsonAnswer:
        """Return drains and maintenance windows, those that have not begun too."""
        return JsonAnswer(daemon.machines.list())

    @api.post(
        "/reservations",
        status_code=HTTPStatus.CREATED,
        response_model=DrainRow,
        openapi_extra=body_of(ReservationBody),
        responses=_REFUSED,
    )
    def reserve(body: Annotated[ReservationBody, Depends(_reservation)], by: By) -> JsonAnswer:
        """Plan maintenance: a drain with a beginning. With tenants or users, reserve GPUs for their jobs. Only an operator may do
        this."""
        by.check_operator()
        row = daemon.machines.drain(
            body.places,
            body.reason,
            from_s=body.from_s,
            until_s=body.until_s,
            seconds=body.seconds,
            by=by.name,
            tenants=body.tenants,
            users=body.users,
        )
        return JsonAnswer(row, HTTPStatus.CREATED)

    @api.post("/reservations/{number}/cancel", response_model=list[DrainRow], responses=_REFUSED)
    def unreserve(number: int, by: By) -> JsonAnswer:
        """End a drain, a maintenance window or a reservation, and return those that are left. Only an operator may do this."""
        by.check_operator()
        daemon.machines.cancel(number, by.name)
        return JsonAnswer(daemon.machines.list())


async def _drain(request: Request) -> DrainBody:
    return read_drain(await request.body())


async def _undrain(request: Request) -> UndrainBody:
    return read_undrain(await request.body())


async def _removal(request: Request) -> RemovalBody:
    return read_removal(await request.body())


async def _reservation(request: Request) -> ReservationBody:
    return read_reservation(await request.body())
