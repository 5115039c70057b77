"""The HTTP API of a daemon. It only translates: requests go to the daemon, and its rows and errors go back.

Calls to the daemon may wait for its lock, so they run in threads. Waiting for changes has a thread of its own.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Annotated, Literal, Protocol

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from rota import __version__
from rota.errors import InputError, OptionError, RotaError
from rota.files.csv_table import shown
from rota.live.requests import check_priority
from rota.server.answers import HttpError, JsonAnswer, status_of
from rota.server.auth import API, RequestGuard
from rota.server.bodies import (
    MAX_KEY_CHARS,
    OwnerOf,
    PolicyBody,
    SubmissionBody,
    SubmissionsBody,
    read_policy,
    read_submission,
    read_submissions,
)
from rota.server.changes import MAX_WAIT_SECONDS, ChangeFeed, ChangeSource
from rota.server.description import body_of, describe, problems
from rota.server.identities import Identities
from rota.server.job_routes import add_job_requests
from rota.server.machines_api import ServedMachines, add_machine_requests
from rota.server.privacy import Privacy
from rota.server.readiness import Readiness
from rota.server.request_actor import By, actor_of
from rota.wire.actor import Actor, Role
from rota.wire.job_filter import MAX_DAYS, MAX_JOBS, PAGE_JOBS, UNFINISHED, JobFilter
from rota.wire.job_request import JobRequest
from rota.wire.notify import check_notify
from rota.wire.rows import (
    ActorRow,
    EventRow,
    JobRow,
    LogChunk,
    NodeRow,
    PageRow,
    ReadyRow,
    RequestRow,
    StatusRow,
    TakenRow,
    TenantRow,
    UsageReportRow,
    WhyRow,
)
from rota.wire.spec import Spec
from rota.wire.submission import Submission, naming

MAX_PIECE_BYTES = 1_048_576
_MAX_INTEGER = 2**53
"""Largest integer that every JSON parser reads exactly."""

_NOT_NOW = HTTPStatus.SERVICE_UNAVAILABLE
_OF_A_JOB = problems(HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)

Everything = Annotated[bool, Query(alias="all", description="Return ended jobs too.")]
User = Annotated[str, Query(max_length=100, description="Return only this user's jobs.")]
PhaseName = Annotated[
    str, Query(max_length=20, description="Return only jobs in this phase; `suspended` for parked or checkpointed.")
]
Since = Annotated[float, Query(ge=0, allow_inf_nan=False, description="Return only jobs submitted at this Unix time or later.")]
After = Annotated[int, Query(ge=0, le=_MAX_INTEGER, description="Return only jobs with a number above this.")]
PageSize = Annotated[int, Query(ge=1, le=MAX_JOBS, description="Maximum number of jobs to return.")]
Skip = Annotated[int, Query(ge=0, le=_MAX_INTEGER, description="Number of jobs to skip before the page.")]
Tasks = Annotated[bool, Query(description="Return a row for each task of an array, instead of one for the array.")]
Unique = Annotated[bool, Query(description="Refuse a name that several unfinished jobs share.")]
Offset = Annotated[int, Query(ge=0, le=_MAX_INTEGER, description="Offset at which to start, in bytes.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PIECE_BYTES, description="Maximum number of bytes to return.")]
Tail = Annotated[
    int | None, Query(ge=0, le=_MAX_INTEGER, description="Return the last N lines instead of starting at an offset.")
]
GroupBy = Annotated[Literal["user", "tenant", "type", "day"], Query(alias="by", description="What to group by.")]
Days = Annotated[int, Query(ge=1, le=MAX_DAYS, description="Number of days in UTC, today included.")]
Seen = Annotated[int, Query(ge=0, le=_MAX_INTEGER, description="Number of changes that the client has seen.")]
Timeout = Annotated[float, Query(ge=0, allow_inf_nan=False, description=f"Longest wait, in s; at most {MAX_WAIT_SECONDS:g}.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRow:
    """Response of a running process."""

    ok: bool
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """Number of changes."""

    number: int
    """Number of changes since the scheduler started."""


class ServedDaemon(ChangeSource, Protocol):
    """Methods of a daemon that the API calls, from any thread."""

    @property
    def machines(self) -> ServedMachines: ...
    def submit(self, sent: Submission, by: Actor) -> JobRow: ...
    def submit_many(self, submissions: Sequence[Submission], by: Actor) -> list[TakenRow]: ...
    def request(self, wanted: JobRequest, by: Actor) -> list[RequestRow]: ...
    def change_job(self, job: int, spec: Spec, changed: Collection[str], by: Actor) -> JobRow: ...
    def jobs(self, wanted: JobFilter = UNFINISHED) -> list[JobRow]: ...
    def page(self, wanted: JobFilter = UNFINISHED) -> PageRow: ...
    def job(self, key: str, unique: bool = False, user: str | None = None) -> JobRow: ...
    def why(self, job: int) -> WhyRow: ...
    def events(self, job: int, user: str | None = None) -> list[EventRow]: ...
    def report(self, by: str, days: int) -> UsageReportRow: ...
    def logs(self, job: int, offset: int, limit: int, tail: int | None = None) -> LogChunk: ...
    def status(self) -> StatusRow: ...
    def nodes(self) -> list[NodeRow]: ...
    def tenants(self) -> list[TenantRow]: ...
    def set_policy(self, named: str) -> StatusRow: ...
    def ready(self) -> ReadyRow: ...


def make_app(
    daemon: ServedDaemon,
    identities: Identities,
    allowed_hosts: Collection[str] = (),
    lead_problem: Callable[[], str] = lambda: "",
    *,
    hide_names: bool = False,
) -> FastAPI:
    """Build the application. `allowed_hosts` are names of this machine that requests may use, besides the loopback names.
    `lead_problem` returns why this process may no longer be leader, or an empty text. With `hide_names`, users do not see the
    names of other users' jobs.

    `app.state.changes.close()` releases clients that wait for changes. Call it in the event loop before the server stops.
    """
    app = FastAPI(
        title="Rota",
        version=__version__,
        docs_url=None,  # FastAPI's pages load scripts from other sites
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.changes = ChangeFeed(daemon)
    app.add_middleware(RequestGuard, identities=identities, allowed_hosts=allowed_hosts, hide_names=hide_names)
    _errors(app)

    describe(app)
    readiness = Readiness(daemon, lead_problem)

    @app.get("/healthz", response_model=HealthRow, responses=problems())
    async def health() -> JsonAnswer:
        """Return whether the process is running. It never waits for the scheduler, and needs no token."""
        return JsonAnswer(HealthRow(ok=True, version=__version__))

    @app.get("/readyz", response_model=ReadyRow, responses={**problems(), _NOT_NOW: {"model": ReadyRow}})
    async def ready() -> JsonAnswer:
        """Return whether jobs can be accepted and run: journal, lead and nodes are well. If one is not, the status is 503, and
        the response names it. No token is needed."""
        found = await readiness.now()
        return JsonAnswer(found, HTTPStatus.OK if found.ready else _NOT_NOW)

    app.state.identities = identities
    app.include_router(_router(daemon, app.state.changes, Privacy(hide_names)), prefix=API)
    return app


def _router(daemon: ServedDaemon, changes: ChangeFeed, privacy: Privacy) -> APIRouter:
    api = APIRouter(responses=problems(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN))

    def found(key: str, by: Actor, unique: bool = False) -> JobRow:
        # An empty key would match the beginning of every name.
        if not key or len(key) > MAX_KEY_CHARS:
            problem = InputError("there is no such job.", field="job", value=shown(key), hint="rota jobs")
            raise HttpError(problem, HTTPStatus.NOT_FOUND)
        try:
            return daemon.job(key, unique, by.names_of)
        except OptionError as error:
            raise HttpError(error, HTTPStatus.CONFLICT) from None

    @api.post(
        "/jobs",
        status_code=HTTPStatus.CREATED,
        response_model=JobRow,
        openapi_extra=body_of(SubmissionBody),
        responses=problems(HTTPStatus.CONFLICT, _NOT_NOW),
    )
    def submit(sent: Annotated[Submission, Depends(_submission)], by: By) -> JsonAnswer:
        """Submit a job. When the response arrives, the job is in the journal. Repeating a submission with the same
        `idempotency_key` returns the existing job."""
        _check(sent, by)
        return JsonAnswer(daemon.submit(sent, by), HTTPStatus.CREATED)

    @api.get("/jobs", response_model=list[JobRow])
    def jobs(
        everything: Everything = False,
        user: User = "",
        phase: PhaseName = "",
        since: Since = 0.0,
        after: After = 0,
        limit: PageSize = PAGE_JOBS,
        tasks: Tasks = False,
        *,
        by: By,
    ) -> JsonAnswer:
        """Return a page of the unfinished jobs, or of all jobs, by number. The last page is not full."""
        wanted = JobFilter(everything, user, phase, since, after, limit, tasks=tasks)
        return JsonAnswer(privacy.rows(daemon.jobs(wanted), by))

    @api.get("/page", response_model=PageRow)
    def page(
        everything: Everything = False,
        user: User = "",
        phase: PhaseName = "",
        since: Since = 0.0,
        skip: Skip = 0,
        limit: PageSize = PAGE_JOBS,
        tasks: Tasks = False,
        *,
        by: By,
    ) -> JsonAnswer:
        """Return a page of jobs in the order for people, and the number of jobs: jobs with GPUs first, then waiting jobs, then
        ended jobs, the latest first."""
        found = daemon.page(JobFilter(everything, user, phase, since, 0, limit, skip, tasks))
        return JsonAnswer(PageRow(jobs=privacy.rows(found.jobs, by), total=found.total))

    @api.post(
        "/submissions",
        status_code=HTTPStatus.CREATED,
        response_model=list[TakenRow],
        openapi_extra=body_of(SubmissionsBody),
        responses=problems(HTTPStatus.CONFLICT, _NOT_NOW),
    )
    def submit_many(sent: Annotated[list[Submission], Depends(_submissions)], by: By) -> JsonAnswer:
        """Submit several jobs, all or none. When the response arrives, they are in the journal."""
        for index, each in enumerate(sent):
            with naming(index):
                _check(each, by)
        return JsonAnswer(daemon.submit_many(sent, by), HTTPStatus.CREATED)

    # A key is an id, a name or the unique beginning of one. Names may contain slashes, hence `path`; longer paths come first.
    @api.get("/jobs/{key:path}/why", response_model=WhyRow, responses=_OF_A_JOB)
    def why(key: str, by: By) -> JsonAnswer:
        """Return why a job is not running."""
        return JsonAnswer(privacy.why(daemon.why(found(key, by).id), by))

    @api.get("/jobs/{key:path}/events", response_model=list[EventRow], responses=_OF_A_JOB)
    def events(key: str, by: By) -> JsonAnswer:
        """Return the events of a job, the oldest first: what happened, who asked for it, and why. Users read only the events of
        their own jobs."""
        row = found(key, by)
        privacy.check_may_read(row, by, "history")
        return JsonAnswer(daemon.events(row.id, by.names_of))

    @api.get("/jobs/{key:path}/logs", response_model=LogChunk, responses=_OF_A_JOB)
    def logs(key: str, offset: Offset = 0, limit: Limit = 65_536, tail: Tail = None, *, by: By) -> JsonAnswer:
        """Return a piece of a job's output. Users read only the output of their own jobs."""
        row = found(key, by)
        privacy.check_may_read(row, by)
        return JsonAnswer(daemon.logs(row.id, offset, limit, tail))

    add_job_requests(api, daemon, found)

    @api.get("/jobs/{key:path}", response_model=JobRow, responses=_OF_A_JOB)
    def job(key: str, unique: Unique = False, *, by: By) -> JsonAnswer:
        """Return one job. Its spec is for its owner and for operators."""
        return JsonAnswer(privacy.row(found(key, by, unique), by))

    @api.get("/me", response_model=ActorRow)
    def me(by: By) -> JsonAnswer:
        """Return who sends this request, their role, and the tenants into which they may submit."""
        return JsonAnswer(_actor_row(by, daemon.tenants()))

    @api.get("/report", response_model=UsageReportRow)
    def report(group_by: GroupBy = "user", days: Days = 7) -> JsonAnswer:
        """Return GPU-seconds, normalised work, counts of jobs and lost work, in groups."""
        return JsonAnswer(daemon.report(group_by, days))

    @api.get("/status", response_model=StatusRow)
    def status() -> JsonAnswer:
        """Return the cluster in one row."""
        return JsonAnswer(daemon.status())

    @api.get("/nodes", response_model=list[NodeRow])
    def nodes() -> JsonAnswer:
        """Return the nodes and their GPUs. Reading the GPUs may take a second."""
        return JsonAnswer(daemon.nodes())

    @api.get("/tenants", response_model=list[TenantRow])
    def tenants() -> JsonAnswer:
        """Return what each tenant is guaranteed, has, lends and borrows."""
        return JsonAnswer(daemon.tenants())

    @api.post(
        "/policy",
        response_model=StatusRow,
        openapi_extra=body_of(PolicyBody),
        responses=problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, _NOT_NOW),
    )
    def set_policy(named: Annotated[str, Depends(_policy)], by: By) -> JsonAnswer:
        """Replace the policy. Only an operator may do this."""
        by.check_operator()
        return JsonAnswer(daemon.set_policy(named))

    add_machine_requests(api, daemon)

    @api.get("/changes", response_model=ChangeRow, responses=problems(_NOT_NOW))
    async def wait(seen: Seen = 0, timeout: Timeout = 20.0, *, by: By) -> JsonAnswer:
        """Wait until something has changed."""
        return JsonAnswer(ChangeRow(number=await changes.after(seen, timeout, None if by.is_operator else by.name)))

    return api


def _check(sent: Submission, by: Actor) -> None:
    """Raise if a job may not be submitted by this actor."""
    check_priority(sent.spec.priority, operator=by.is_operator)
    check_notify(sent.spec.notify, operator=by.is_operator, uid=sent.uid)


def _actor_row(by: Actor, tenants: Sequence[TenantRow]) -> ActorRow:
    inner = {row.tenant.rpartition("/")[0] for row in tenants}
    open_to = [row.tenant for row in tenants if by.is_operator or row.members is None or by.name in row.members]
    if by.role is Role.VIEWER:
        open_to = []
    own = [row.tenant for row in tenants if by.name in (row.members or ()) and row.tenant not in inner]
    return ActorRow(
        name=by.name,
        role=by.role,
        uid=by.uid,
        tenants=open_to if tenants else None,
        tenant=own[0] if len(own) == 1 else None,
    )


async def _policy(request: Request) -> str:
    return read_policy(await request.body())


def _owner_of(request: Request) -> OwnerOf:
    identities: Identities = request.app.state.identities
    return partial(identities.job_owner, actor_of(request))


async def _submission(request: Request) -> Submission:
    return await to_thread.run_sync(read_submission, await request.body(), _owner_of(request))


async def _submissions(request: Request) -> list[Submission]:
    return await to_thread.run_sync(read_submissions, await request.body(), _owner_of(request))


def _errors(app: FastAPI) -> None:
    """Make every error response JSON with the same fields."""

    @app.exception_handler(HttpError)
    async def refused(request: Request, problem: HttpError) -> JsonAnswer:
        return problem.answer()

    @app.exception_handler(RotaError)
    async def failed(request: Request, problem: RotaError) -> JsonAnswer:
        return HttpError(problem, status_of(problem)).answer()

    @app.exception_handler(RequestValidationError)
    async def unreadable(request: Request, problem: RequestValidationError) -> JsonAnswer:
        fault = problem.errors()[0]
        error = InputError(f"{fault['msg']}.", field=str(fault["loc"][-1]), value=shown(str(fault.get("input"))))
        return HttpError(error, HTTPStatus.BAD_REQUEST).answer()

    @app.exception_handler(HTTPException)
    async def no_such_thing(request: Request, problem: HTTPException) -> JsonAnswer:
        error = RotaError(f"{HTTPStatus(problem.status_code).phrase}: {request.method} {shown(request.url.path)}.")
        return HttpError(error, problem.status_code, problem.headers).answer()

    @app.exception_handler(Exception)
    async def broken(request: Request, problem: Exception) -> JsonAnswer:
        # The daemon's own output has the details. Clients get no paths and no lines of code.
        error = RotaError(f"The scheduler failed ({type(problem).__name__}).", hint="look at the output of rota up")
        return HttpError(error, HTTPStatus.INTERNAL_SERVER_ERROR).answer()
