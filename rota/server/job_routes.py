"""Requests about submitted jobs in the HTTP API: cancel, hold, release, suspend, resume and requeue."""

from collections.abc import Callable, Collection
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Request

from rota.errors import OptionError
from rota.server.answers import HttpError, JsonAnswer
from rota.server.bodies import (
    CancellationsBody,
    ChangeBody,
    RequestBody,
    VerbBody,
    read_cancellations,
    read_change,
    read_request,
    read_verb,
)
from rota.server.description import body_of, problems
from rota.server.request_actor import By
from rota.wire.actor import Actor
from rota.wire.job_request import JobRequest, Verb
from rota.wire.rows import JobRow, RequestRow
from rota.wire.spec import Spec

SUMMARIES = {
    Verb.CANCEL: "Cancel a job.",
    Verb.HOLD: "Keep a waiting job from starting until it is released.",
    Verb.RELEASE: "Let a held or suspended job run again.",
    Verb.SUSPEND: "Save or park a running job, and keep it away until it is resumed.",
    Verb.RESUME: "Let a suspended or held job run again.",
    Verb.REQUEUE: "Save and stop a running job, which then waits for GPUs again; or submit an ended job again as a new job.",
}
_PROBLEMS = problems(HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)


class RequestedDaemon(Protocol):
    def request(self, wanted: JobRequest, by: Actor) -> list[RequestRow]: ...
    def change_job(self, job: int, spec: Spec, changed: Collection[str], by: Actor) -> JobRow: ...


class FindJob(Protocol):
    def __call__(self, key: str, by: Actor, unique: bool) -> JobRow: ...


def add_job_requests(api: APIRouter, daemon: RequestedDaemon, found: FindJob) -> None:
    """Add the routes. `found` returns the row of a job, or raises if the key matches none."""

    def carried_out(wanted: JobRequest, by: Actor) -> list[RequestRow]:
        try:
            return daemon.request(wanted, by)
        except OptionError as error:
            raise HttpError(error, HTTPStatus.CONFLICT) from None

    @api.post("/cancellations", response_model=list[RequestRow], openapi_extra=body_of(CancellationsBody), responses=_PROBLEMS)
    def cancel_many(wanted: Annotated[JobRequest, Depends(_cancellations)], by: By) -> JsonAnswer:
        """Cancel several jobs. If a key matches no job or several jobs, none is cancelled."""
        return JsonAnswer(carried_out(wanted, by))

    @api.post("/requests", response_model=list[RequestRow], openapi_extra=body_of(RequestBody), responses=_PROBLEMS)
    def request(wanted: Annotated[JobRequest, Depends(_request)], by: By) -> JsonAnswer:
        """Cancel, hold, release, suspend, resume or requeue several jobs, all or none, by id, by name or by a pattern."""
        return JsonAnswer(carried_out(wanted, by))

    @api.patch("/jobs/{key:path}", response_model=JobRow, openapi_extra=body_of(ChangeBody), responses=_PROBLEMS)
    def change(key: str, wanted: Annotated[tuple[Spec, frozenset[str]], Depends(_change)], by: By) -> JsonAnswer:
        """Change the name, priority, weight, longest run time or deadline of a job that has not ended."""
        return JsonAnswer(daemon.change_job(found(key, by, True).id, *wanted, by))

    for verb in Verb:
        _add_verb(api, verb, carried_out, found)


def _add_verb(
    api: APIRouter,
    verb: Verb,
    carried_out: Callable[[JobRequest, Actor], list[RequestRow]],
    found: FindJob,
) -> None:
    async def details(request: Request) -> JobRequest:
        return read_verb(verb, await request.body())

    def act(key: str, wanted: Annotated[JobRequest, Depends(details)], by: By) -> JsonAnswer:
        job = found(key, by, True).id
        return JsonAnswer(carried_out(replace(wanted, jobs=(str(job),)), by)[0].job)

    body = body_of(VerbBody)
    body["requestBody"]["required"] = False
    api.add_api_route(
        f"/jobs/{{key:path}}/{verb}",
        act,
        methods=["POST"],
        name=str(verb),
        description=SUMMARIES[verb],
        response_model=JobRow,
        openapi_extra=body,
        responses=_PROBLEMS,
    )


async def _cancellations(request: Request) -> JobRequest:
    return read_cancellations(await request.body())


async def _request(request: Request) -> JobRequest:
    return read_request(await request.body())


async def _change(request: Request) -> tuple[Spec, frozenset[str]]:
    return read_change(await request.body())
