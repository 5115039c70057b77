"""The Python client of a scheduler, which returns rows, and a handle on one job."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from rota.errors import BusyError, OptionError, RotaError, UnreachableError
from rota.wire.address import read_address
from rota.wire.find_scheduler import find_scheduler
from rota.wire.job_filter import MAX_TOGETHER, PAGE_JOBS
from rota.wire.problems import MAX_SEVERAL_BYTES
from rota.wire.rows import (
    ActorRow,
    ArrayRow,
    DrainRow,
    EventRow,
    GpuRow,
    JobRow,
    LogChunk,
    NodeRow,
    PageRow,
    ReasonRow,
    RequestRow,
    StatusRow,
    TakenRow,
    TenantRow,
    TrialRow,
    UsageGroupRow,
    UsageReportRow,
    WhyRow,
)
from rota.wire.transport import ANSWER_SECONDS, HttpTransport, UnansweredError

POLL_SECONDS = 20.0
"""How long one request for changes waits in the scheduler, in seconds."""
MIN_GAP_SECONDS = 0.1
"""Minimum interval between two requests to a scheduler that changes all the time, in seconds."""
MAX_GAP_SECONDS = 1.0
"""Maximum interval between two reads of a log that does not grow, in seconds."""
PIECE_BYTES = 65_536
FIRST_ANSWER_SECONDS = 90.0
"""Time limit for a new policy to start and answer for the first time, in seconds."""
RETRY_SECONDS = 60.0
"""How long an unanswered submission is retried, in seconds."""
KEY_BYTES = 16
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.2, 4.0
FEW_JOBS = 10
SECONDS_PER_JOB = 0.01
"""Additional time limit for each job of a request for several jobs, in seconds."""

PASSED_ON = ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "PYTHONPATH", "CONDA_PREFIX")
"""Variables of the submitting process that a job needs to find the same programs. The spec's `env` overrides them."""

Row = TypeVar("Row")
_names: dict[type, frozenset[str]] = {}
"""Fields of each kind of row."""


def connect(home: Path | str | None = None) -> "Client":
    """Return a client of the scheduler of this home; by default that of $ROTA_ADDRESS, else that of $ROTA_HOME or ~/.rota, else
    the one that all users of this machine share."""
    found = find_scheduler(home)
    return Client(found.urls, found.token, home=found.home or "", ca_file=found.ca_file)


class Client:
    """A client of one scheduler. Each request has its own connection, so threads may share a client."""

    def __init__(
        self,
        url: str | Sequence[str],
        token: str | None,
        *,
        home: str = "",
        ca_file: str | None = None,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """`url`: address of the scheduler, or of several of which one is leader. `token`: None if the scheduler knows this user
        by its Unix socket. `ca_file`: certificates of the authority that signed the scheduler's."""
        urls = (url,) if isinstance(url, str) else tuple(url)
        self._transport = HttpTransport(urls, token, home=home, answer_seconds=answer_seconds, ca_file=ca_file)
        self.url, self.home = urls[0], home
        self.on_retry: Callable[[RotaError], None] = lambda problem: None
        """Called before a submission is sent again, with the reason."""

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def submit(self, run: str | Sequence[str], *, key: str = "", **spec: Any) -> "Job":
        """Submit a job: a text for `bash -c` or an argument vector, and any field of a spec, such as `gpus=2, name="resnet"`. The
        same job with the same `key` is submitted only once."""
        row = self.submit_spec({"run": run if isinstance(run, str) else list(run), **spec}, key=key)
        return Job(self, row)

    def submit_spec(self, spec: Mapping[str, Any], *, user: str = "", workdir: str = "", key: str = "") -> JobRow:
        """Submit a spec as plain data, which the scheduler checks. On return the job is in the scheduler's journal. An unanswered
        request is sent again, with a key that makes sure that the job is submitted once."""
        return _job(self._send_again("/jobs", submission(spec, user=user or self._own_name(), workdir=workdir, key=key)))

    def _send_again(self, path: str, body: Mapping[str, Any], **limits: Any) -> Any:
        """Send a request that may be repeated until it is answered. If the first request could not be sent, raise at once."""
        until_s, pause, lost = time.monotonic() + RETRY_SECONDS, FIRST_PAUSE_SECONDS, False
        while True:
            try:
                return self._transport.ask("POST", path, body=body, **limits)
            except (UnreachableError, BusyError) as problem:
                lost = lost or isinstance(problem, UnansweredError | BusyError)
                if not lost:
                    raise
                if time.monotonic() + pause > until_s:
                    raise _unknown(problem, body) from None
                self.on_retry(problem)
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
            self._look_for_scheduler()

    def _own_name(self) -> str:
        """Return the name under which this process submits jobs to the scheduler of its own home. Other schedulers know it."""
        return user_name() if self.home else ""

    def _look_for_scheduler(self) -> None:
        """Read the address again: the scheduler may have been restarted, or another may be leader."""
        if self.home:
            with contextlib.suppress(UnreachableError):
                self.url, token = read_address(self.home)
                seconds = self._transport.answer_seconds
                self._transport = HttpTransport((self.url,), token, home=self.home, answer_seconds=seconds)

    def submit_many(self, specs: Iterable[Mapping[str, Any]], *, user: str = "", workdir: str = "") -> "list[Job]":
        """Submit at most 10,000 jobs, each a spec as plain data such as `{"run": "python train.py", "gpus": 2}`. All jobs are
        accepted in one transaction, or none; the error names the first refused job. An unanswered request is sent again, with a
        key for each job that makes sure that it is submitted once."""
        jobs = [
            {"spec": spec, "env": _variables(_passed_through(spec.get("env"))), "idempotency_key": new_key()} for spec in specs
        ]
        if len(jobs) > MAX_TOGETHER:
            raise OptionError(f"are {len(jobs):,}; a call takes at most {MAX_TOGETHER:,}.", field="specs", hint="several calls")
        sent = {
            "jobs": jobs,
            "user": user or self._own_name() or None,
            "workdir": workdir or str(Path.cwd()),
            "env": _variables(PASSED_ON),
        }
        more = SECONDS_PER_JOB * len(jobs)
        taken = self._send_again("/submissions", sent, more_seconds=more, most_bytes=MAX_SEVERAL_BYTES)
        return [Job(self, _row(TakenRow, each)) for each in taken]

    def page(
        self,
        everything: bool = False,
        *,
        user: str = "",
        phase: str = "",
        since_s: float = 0.0,
        skip: int = 0,
        limit: int = PAGE_JOBS,
        tasks: bool = False,
    ) -> PageRow:
        """Return a page of jobs in the order for people, and the number of jobs: jobs with GPUs first, then waiting jobs, then
        ended jobs, the latest first. With `tasks`, each task of an array has a row."""
        query = {"all": str(everything).lower(), "user": user, "phase": phase, "since": since_s, "skip": skip, "limit": limit}
        query |= {"tasks": "true"} if tasks else {}
        plain = self._transport.ask("GET", "/page", query=query)
        return _row(PageRow, {**plain, "jobs": [_job(row) for row in plain["jobs"]]})

    def jobs(
        self, everything: bool = False, *, user: str = "", phase: str = "", since_s: float = 0.0, tasks: bool = False
    ) -> list[JobRow]:
        """Return the unfinished jobs, or all; optionally only jobs of a user, in a phase, or submitted since a Unix time. An
        array is one row, unless `tasks`."""
        query = {"all": str(everything).lower(), "user": user, "phase": phase, "since": since_s, "limit": PAGE_JOBS}
        query |= {"tasks": "true"} if tasks else {}
        found: list[JobRow] = []
        while True:
            after = found[-1].id if found else 0
            page = self._transport.ask("GET", "/jobs", query={**query, "after": after})
            found += [_job(row) for row in page]
            if len(page) < PAGE_JOBS:
                return found

    def job(self, key: int | str, *, unique: bool = False) -> JobRow:
        """Return a job by id, name, or unambiguous beginning of its name. If several jobs have the name, return the newest
        unfinished one; with `unique`, raise an error that lists them."""
        return _job(self._transport.ask("GET", _way(key), query={"unique": "true"} if unique else None))

    def get(self, key: int | str) -> "Job":
        """Return a handle on a job, as `submit` does."""
        return Job(self, self.job(key))

    def why(self, key: int | str) -> WhyRow:
        """Return why a job is not running: every reason that holds, and the jobs ahead of it."""
        plain = self._transport.ask("GET", _way(key, "why"))
        return _row(
            WhyRow,
            {
                **plain,
                "job": _job(plain["job"]),
                "reasons": [_row(ReasonRow, each) for each in plain["reasons"]],
                "ahead": [_job(each) for each in plain["ahead"]],
            },
        )

    def events(self, key: int | str) -> list[EventRow]:
        """Return the events of a job, the oldest first: what happened, who asked for it, and why."""
        return [_row(EventRow, each) for each in self._transport.ask("GET", _way(key, "events"))]

    def report(self, by: str = "user", days: int = 7) -> UsageReportRow:
        """Return GPU-seconds, normalised work, counts of jobs and lost work of the last days in UTC, by user, tenant, type or
        day."""
        plain = self._transport.ask("GET", "/report", query={"by": by, "days": days})
        groups = [_row(UsageGroupRow, each) for each in plain["groups"]]
        return _row(UsageReportRow, {**plain, "groups": groups, "total": _row(UsageGroupRow, plain["total"])})

    def log(self, key: int | str, offset: int = 0, limit: int = PIECE_BYTES, tail: int | None = None) -> LogChunk:
        """Return a piece of a job's output; with `tail`, this many of its last lines."""
        query = {"offset": offset, "limit": limit} if tail is None else {"tail": tail}
        return _row(LogChunk, self._transport.ask("GET", _way(key, "logs"), query=query))

    def log_pieces(self, key: int | str, follow: bool = False, tail: int | None = None) -> Iterator[LogChunk]:
        """Iterate over a job's output in pieces: the present output, or with `follow` all output until the job has ended. With
        `tail`, start at this many lines before the end."""
        return log_pieces(lambda offset, tail: self.log(key, offset, tail=tail), follow, tail)

    def cancel(self, key: int | str) -> JobRow:
        """Cancel a job."""
        return self._ask("cancel", key)

    def hold(self, key: int | str) -> JobRow:
        """Keep a waiting job from starting until it is released."""
        return self._ask("hold", key)

    def release(self, key: int | str) -> JobRow:
        """Let a held or suspended job run again."""
        return self._ask("release", key)

    def suspend(self, key: int | str, *, lose_work: bool = False) -> JobRow:
        """Save or park a running job, and keep it away until it is resumed. A job that would lose work is refused, unless
        `lose_work`."""
        return self._ask("suspend", key, {"lose_work": lose_work})

    def resume(self, key: int | str) -> JobRow:
        """Let a suspended or held job run again."""
        return self._ask("resume", key)

    def requeue(self, key: int | str, *, lose_work: bool = False, max_run_time: float | str | None = None) -> JobRow:
        """Save and stop a running job, which then waits for GPUs again; or submit an ended job again, and return the new job.
        `max_run_time`: its longest run time, such as `24h`."""
        return self._ask("requeue", key, {"lose_work": lose_work, "max_run_time": max_run_time})

    def change(self, key: int | str, **values: Any) -> JobRow:
        """Change the `name`, `priority`, `weight`, `max_run_time` or `deadline` of a job that has not ended. None for no limit
        and no deadline."""
        return _job(self._transport.ask("PATCH", _way(key), body=values))

    def _ask(self, verb: str, key: int | str, body: Mapping[str, Any] | None = None) -> JobRow:
        return _job(self._transport.ask("POST", _way(key, verb), body=body))

    def cancel_many(self, keys: Iterable[int | str]) -> list[RequestRow]:
        """Cancel several jobs in one transaction. If a key matches no job or several jobs, none is cancelled."""
        found: list[RequestRow] = []
        asked = [str(key) for key in keys]
        for first in range(0, len(asked), MAX_TOGETHER):
            some = asked[first : first + MAX_TOGETHER]
            plain = self._transport.ask("POST", "/cancellations", body={"jobs": some}, more_seconds=SECONDS_PER_JOB * len(some))
            found += [_request_row(each) for each in plain]
        return found

    def me(self) -> ActorRow:
        """Return the user whom the scheduler takes this client for, and their role."""
        return _row(ActorRow, self._transport.ask("GET", "/me"))

    def request(
        self,
        verb: str,
        keys: Iterable[int | str] = (),
        *,
        matching: Mapping[str, str] | None = None,
        lose_work: bool = False,
        max_run_time: float | str | None = None,
        dry_run: bool = False,
    ) -> list[RequestRow]:
        """Cancel, hold, release, suspend, resume or requeue jobs in one transaction, all or none. `matching` selects unfinished
        jobs by `user`, `name` (a pattern with * and ?), `tenant` or `phase` instead of `keys`. With `dry_run`, only list them."""
        asked: dict[str, Any] = {"verb": verb, "lose_work": lose_work, "dry_run": dry_run, "max_run_time": max_run_time}
        jobs = [str(key) for key in keys]
        asked |= {"jobs": jobs} if matching is None else {"matching": dict(matching)}
        more = SECONDS_PER_JOB * (len(jobs) if matching is None else MAX_TOGETHER)
        return [_request_row(each) for each in self._transport.ask("POST", "/requests", body=asked, more_seconds=more)]

    def status(self) -> StatusRow:
        """Return the cluster in one row: GPUs, policy, jobs by phase."""
        return _row(StatusRow, self._transport.ask("GET", "/status"))

    def nodes(self) -> list[NodeRow]:
        """Return the nodes, the jobs on their GPUs, and the health of these GPUs."""
        plain = self._transport.ask("GET", "/nodes")
        drains = [[_row(DrainRow, drain) for drain in each.get("drains", ())] for each in plain]
        gpus = [[_row(GpuRow, gpu) for gpu in each["gpus"]] for each in plain]
        return [_row(NodeRow, {**each, "gpus": gpus[at], "drains": drains[at]}) for at, each in enumerate(plain)]

    def drain(
        self,
        node: str,
        gpu: int | None = None,
        *,
        reason: str = "",
        until_s: float | None = None,
        seconds: float | None = None,
    ) -> DrainRow:
        """Drain a node, or one of its GPUs: until a Unix time, for a length of time, or until an operator ends it. Jobs that save
        their state move away, others stay until they end. For operators."""
        body = {"gpu": gpu, "reason": reason, "until_s": until_s, "seconds": seconds}
        return _row(DrainRow, self._transport.ask("POST", _node_way(node, "drain"), body=body))

    def undrain(self, node: str, gpu: int | None = None) -> list[DrainRow]:
        """End the drain of a node or a GPU, or let a removed node join again. Return the drains that are left. For operators."""
        return self._drains("POST", _node_way(node, "undrain"), {"gpu": gpu})

    def remove_node(self, node: str, *, force: bool = False) -> list[DrainRow]:
        """Remove a node for good that is drained and empty, or lost. `force`: though jobs may still run on a lost node. For
        operators."""
        return self._drains("POST", _node_way(node, "remove"), {"force": force})

    def reserve(
        self,
        places: Sequence[str],
        from_s: float,
        *,
        until_s: float | None = None,
        seconds: float | None = None,
        reason: str = "",
    ) -> DrainRow:
        """Plan maintenance of nodes `n1`, GPUs `n1:3`, or a number of GPUs `8xA100`, from a Unix time. For operators."""
        body = {"places": list(places), "from_s": from_s, "until_s": until_s, "seconds": seconds, "reason": reason}
        return _row(DrainRow, self._transport.ask("POST", "/reservations", body=body))

    def reservations(self) -> list[DrainRow]:
        """Return drains and maintenance windows, those that have not begun too."""
        return self._drains("GET", "/reservations")

    def unreserve(self, number: int) -> list[DrainRow]:
        """End a drain or a maintenance window. Return those that are left. For operators."""
        return self._drains("POST", f"/reservations/{number}/cancel")

    def _drains(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> list[DrainRow]:
        return [_row(DrainRow, each) for each in self._transport.ask(method, path, body=body)]

    def tenants(self) -> list[TenantRow]:
        """Return what each tenant is guaranteed, has, lends and borrows; an empty list without tenants."""
        return [_row(TenantRow, each) for each in self._transport.ask("GET", "/tenants")]

    def set_policy(self, policy: str) -> StatusRow:
        """Replace the policy, such as `tiresias:thresholds=60` or `fifo+pal` (with a placer). It is called once first."""
        asked = self._transport.ask("POST", "/policy", body={"policy": policy}, more_seconds=FIRST_ANSWER_SECONDS)
        return _row(StatusRow, asked)

    def changes(self, seen: int = 0, timeout: float = POLL_SECONDS) -> int:
        """Wait until something has changed since `seen`, at most `timeout` seconds. Return the number of changes until now."""
        try:
            wait = max(0.0, timeout)
            plain = self._transport.ask("GET", "/changes", query={"seen": seen, "timeout": f"{wait:.3f}"}, more_seconds=wait)
        except BusyError:
            time.sleep(min(timeout, 1.0))
            return seen
        return int(plain["number"])

    def ends(self, ids: Iterable[int], timeout: float | None = None) -> Iterator[JobRow]:
        """Iterate over the rows of jobs in the order in which the jobs end. Stop after `timeout` seconds."""
        left = dict.fromkeys(ids)
        until = None if timeout is None else time.monotonic() + timeout
        # The number of changes is read before the rows, so that changes between the two are noticed.
        seen = self.changes(0, 0.0)
        while left:
            # A few jobs are requested one by one, since the list of all jobs may be long.
            rows = self.jobs(tasks=True) if len(left) > FEW_JOBS else []
            unfinished = {row.id for row in rows} | {row.array_id for row in rows}
            for each in [each for each in left if each not in unfinished]:
                row = self.job(each)
                if row.ended:
                    del left[each]
                    yield row
            remaining = POLL_SECONDS if until is None else min(POLL_SECONDS, until - time.monotonic())
            if not left or remaining <= 0:
                return
            asked_s = time.monotonic()
            seen = self.changes(seen, remaining)
            time.sleep(max(0.0, min(MIN_GAP_SECONDS - (time.monotonic() - asked_s), remaining)))


class Job:
    """A submitted job. Each method sends a request to the scheduler."""

    def __init__(self, client: Client, row: JobRow | TakenRow) -> None:
        self._client = client
        self.id, self.name = row.id, row.name

    def __repr__(self) -> str:
        return f"Job({self.id}, {self.name!r})"

    @property
    def phase(self) -> str:
        """Phase of the job: queued, running, finished, and so on."""
        return self.row().phase

    def row(self) -> JobRow:
        """Return the present row of the job."""
        return self._client.job(self.id)

    def why(self) -> WhyRow:
        """Return why the job is not running."""
        return self._client.why(self.id)

    def events(self) -> list[EventRow]:
        """Return the events of the job, the oldest first."""
        return self._client.events(self.id)

    def logs(self, follow: bool = False) -> Iterator[str]:
        """Iterate over the job's output; with `follow`, until the job has ended."""
        return (piece.text for piece in self._client.log_pieces(self.id, follow))

    def wait(self, timeout: float | None = None) -> JobRow:
        """Wait until the job has ended, at most `timeout` seconds. Return its row; `row.ended` is false after a time-out."""
        return next(self._client.ends([self.id], timeout), None) or self.row()

    def cancel(self) -> JobRow:
        """Cancel the job."""
        return self._client.cancel(self.id)

    def change(self, **values: Any) -> JobRow:
        """Change the `name`, `priority`, `weight`, `max_run_time` or `deadline` of the job. None for no limit and no deadline."""
        return self._client.change(self.id, **values)

    def hold(self) -> JobRow:
        """Keep the job from starting while it waits."""
        return self._client.hold(self.id)

    def release(self) -> JobRow:
        """Let the job run again after `hold` or `suspend`."""
        return self._client.release(self.id)

    def suspend(self, *, lose_work: bool = False) -> JobRow:
        """Save or park the job, and keep it away until it is resumed."""
        return self._client.suspend(self.id, lose_work=lose_work)

    def resume(self) -> JobRow:
        """Let the job run again after `suspend` or `hold`."""
        return self._client.resume(self.id)

    def requeue(self, *, lose_work: bool = False, max_run_time: float | str | None = None) -> "Job":
        """Save and stop the job, which then waits for GPUs again; or submit it again if it has ended, and return the new job."""
        return Job(self._client, self._client.requeue(self.id, lose_work=lose_work, max_run_time=max_run_time))


def new_key() -> str:
    """Return a unique submission key."""
    import secrets

    return secrets.token_hex(KEY_BYTES)


def submission(spec: Mapping[str, Any], *, user: str = "", workdir: str = "", key: str = "") -> dict[str, Any]:
    """Return the body of one submission. Without a user, it belongs to the user who sends it. Without a key, it gets a unique
    one."""
    return {
        "spec": spec,
        "user": user or None,
        "workdir": workdir or str(Path.cwd()),
        "env": passed_environment(spec.get("env")),
        "idempotency_key": key or new_key(),
    }


def _unknown(problem: RotaError, body: Mapping[str, Any]) -> RotaError:
    """Return the error of a submission that was never answered."""
    key = body.get("idempotency_key", "")
    again = f'the same again with --key {key} (in Python key="{key}"), which submits it once · ' if key else ""
    error = type(problem)(f"{problem.message} It is not known whether the job was submitted.", hint=f"{again}rota jobs --all")
    return error


def log_pieces(read: Callable[[int, int | None], LogChunk], follow: bool, tail: int | None) -> Iterator[LogChunk]:
    """Iterate over a job's output. `read` returns one piece from an offset on, or the last lines."""
    offset, gap = 0, MIN_GAP_SECONDS
    while True:
        piece, tail = read(offset, tail), None
        grown, offset = piece.next_offset != offset, piece.next_offset
        if grown:
            yield piece
        if piece.ended or not (grown or follow):
            return
        gap = MIN_GAP_SECONDS if grown else min(gap * 1.5, MAX_GAP_SECONDS)
        if not grown:
            time.sleep(gap)


def passed_environment(env: Any) -> dict[str, str]:
    """Return the variables of this process that a job with this `env` gets."""
    return _variables((*PASSED_ON, *_passed_through(env)))


def _variables(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _passed_through(env: Any) -> list[str]:
    """Return the variables that a spec names without a value. The scheduler reports other faults of the spec."""
    if isinstance(env, Mapping):
        return [str(name) for name, value in env.items() if value is None]
    return [each for each in env if isinstance(each, str) and "=" not in each] if isinstance(env, list) else []


def user_name() -> str:
    """Return the name of this process's user. In a container the user's number may have no name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _way(key: int | str, *more: str) -> str:
    if str(key) == "":
        raise OptionError("is empty; give the job's id or name.", field="JOB", hint="rota jobs")
    return "/".join(["/jobs", quote(str(key), safe=""), *more])


def _node_way(node: str, verb: str) -> str:
    return f"/nodes/{quote(node, safe='')}/{verb}"


def _row(kind: type[Row], plain: Mapping[str, Any]) -> Row:
    """Build a row. Fields that a newer scheduler sends and this client does not know are left out."""
    names = _names.get(kind) or _names.setdefault(kind, frozenset(each.name for each in fields(kind)))  # type: ignore[arg-type]
    try:
        return kind(**{name: value for name, value in plain.items() if name in names})
    except (AttributeError, TypeError):
        raise RotaError("The scheduler's response lacks a field.", hint="the same version of Rota on both sides") from None


def _request_row(plain: Mapping[str, Any]) -> RequestRow:
    return _row(RequestRow, {**plain, "job": _job(plain["job"])})


def _job(plain: Mapping[str, Any]) -> JobRow:
    row = _row(JobRow, plain)
    if row.array is not None:
        row = replace(row, array=_row(ArrayRow, plain["array"]))
    return row if row.trials is None else replace(row, trials=[_row(TrialRow, each) for each in plain["trials"]])
