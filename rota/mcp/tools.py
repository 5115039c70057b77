"""The tools: the verbs of the commands. They act as the user whose token or socket this process has."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rota.errors import ForbiddenError, InputError, RotaError, UnknownNameError, UnreachableError
from rota.mcp.arguments import (
    Arguments,
    ListedJobs,
    NoArguments,
    OneJob,
    OutputOfJob,
    PageOfRows,
    SeveralJobs,
    SubmissionKey,
    WaitedJobs,
    read_arguments,
    schema_of,
    spec_schema,
)
from rota.mcp.budget import KEY_PREFIX, Budget, BudgetLimits, BudgetRequest
from rota.mcp.job_data import NOTICE, OUTPUT_NOTICE, bounded, end_of_output
from rota.wire.client import Client, new_key
from rota.wire.rows import JobRow
from rota.wire.spec import Spec, spec_from, spec_tree
from rota.wire.task_array import task_count
from rota.wire.transport import UnansweredError

MAX_AHEAD = 10
"""Maximum number of jobs listed as ahead of another."""
STOP_CHECK_SECONDS = 2.0
"""How often a wait checks whether it was cancelled, in seconds."""

RunTool = Callable[[Mapping[str, Any], threading.Event], dict[str, Any]]
"""Runs a tool with arguments and an event that ends it early; returns a JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool."""

    name: str
    title: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of its arguments."""
    run: RunTool
    changes: bool = False
    """Whether the tool changes jobs."""
    destroys: bool = False
    """Whether the tool can end a job."""

    def row(self) -> dict[str, Any]:
        """Return the tool as clients see it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": {
                "readOnlyHint": not self.changes,
                "destructiveHint": self.destroys,
                "idempotentHint": not self.changes or self.destroys,
                "openWorldHint": False,
            },
        }


class Toolbox:
    """The tools of one server."""

    def __init__(
        self, connect: Callable[[], Client], *, read_only: bool = False, limits: BudgetLimits | None = None, workdir: str = ""
    ) -> None:
        """`connect` is called for each use of a tool, so that a restarted scheduler is found. `workdir`: default working
        directory of submitted jobs."""
        self._connect, self._read_only, self._workdir = connect, read_only, workdir
        self._budget, self._lock = Budget(limits or BudgetLimits()), threading.Lock()
        every = [*self._reading_tools(), *self._changing_tools()]
        self.hidden = {each.name for each in every if read_only and each.changes}
        """Names of the tools that this server does not offer."""
        self.tools = {each.name: each for each in every if each.name not in self.hidden}

    def _reading_tools(self) -> list[Tool]:
        def tool(name: str, title: str, model: type[Arguments], run: RunTool, description: str) -> Tool:
            return Tool(name=name, title=title, description=description, schema=schema_of(model), run=run)

        text = "List jobs: first those with GPUs, then waiting ones, then ended ones."
        jobs = tool("jobs", "List jobs", ListedJobs, self._jobs, text)
        show = tool("show", "Show a job", OneJob, self._show, "Return everything about one job, with its spec.")
        text = "Return every reason why a job is not running, and the jobs ahead of it."
        why = tool("why", "Explain a wait", OneJob, self._why, text)
        text = "Return the last lines of a job's output. Users read only the output of their own jobs."
        logs = tool("logs", "Read output", OutputOfJob, self._logs, text)
        text = "Wait until jobs have ended, at most timeout_seconds. Return their rows, and whether all have ended."
        wait = tool("wait", "Wait for jobs", WaitedJobs, self._wait, text)
        nodes = tool("nodes", "List nodes", PageOfRows, self._nodes, "List the nodes, their GPUs, and the jobs on each GPU.")
        text = "Return the GPUs, the policy and the number of jobs by phase."
        status = tool("status", "Show the cluster", NoArguments, self._status, text)
        text = "Return the user as whom this server acts, the role, and what is left of the server's budget."
        whoami = tool("whoami", "Show who acts", NoArguments, self._whoami, text)
        check = Tool(
            name="check",
            title="Check a job",
            description="Check the spec of a job and the server's budget as `submit` would, and submit nothing. Whether the "
            "cluster can run the job is checked at submission.",
            schema=spec_schema(SubmissionKey),
            run=self._check,
        )
        return [jobs, show, why, logs, wait, nodes, status, whoami, check]

    def _changing_tools(self) -> list[Tool]:
        return [
            Tool(
                name="submit",
                title="Submit a job",
                description="Submit a job. It runs as the user as whom this server acts. Only `run` is required.",
                schema=spec_schema(SubmissionKey),
                run=self._submit,
                changes=True,
            ),
            Tool(
                name="cancel",
                title="Cancel jobs",
                description="Cancel jobs: waiting jobs end at once, running jobs are stopped. If a key matches no job or several "
                "jobs, none is cancelled.",
                schema=schema_of(SeveralJobs),
                run=self._cancel,
                changes=True,
                destroys=True,
            ),
        ]

    def _jobs(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        wanted = read_arguments(ListedJobs, plain)
        page = self._connect().page(wanted.all, user=wanted.user, phase=wanted.phase, skip=wanted.skip, limit=wanted.limit)
        return _data(jobs=_listed(page.jobs), total=page.total)

    def _show(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        return _data(job=self._connect().job(read_arguments(OneJob, plain).job).to_dict())

    def _why(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        found = self._connect().why(read_arguments(OneJob, plain).job)
        row = {**found.to_dict(), "job": _listed([found.job])[0], "ahead": _listed(found.ahead[:MAX_AHEAD])}
        return _data(**row, ahead_total=len(found.ahead))

    def _logs(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        wanted, client = read_arguments(OutputOfJob, plain), self._connect()
        row = client.job(wanted.job)
        chunk = client.log(row.id, tail=wanted.lines)
        output, cut = end_of_output(chunk.text)
        return {"notice": OUTPUT_NOTICE, "job": row.id, "phase": row.phase, "beginning_left_out": cut, "output": output}

    def _wait(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        wanted, client = read_arguments(WaitedJobs, plain), self._connect()
        until_s = time.monotonic() + wanted.timeout_seconds
        rows = {row.id: row for row in map(client.job, wanted.jobs)}
        while left := [job for job, row in rows.items() if not row.ended]:
            remaining = until_s - time.monotonic()
            if remaining <= 0 or stop.is_set():
                break
            rows |= {row.id: row for row in client.ends(left, min(remaining, STOP_CHECK_SECONDS))}
        rows |= {job: client.job(job) for job in left}
        return _data(jobs=_listed(rows.values()), ended=all(row.ended for row in rows.values()))

    def _nodes(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        wanted, nodes = read_arguments(PageOfRows, plain), self._connect().nodes()
        page = nodes[wanted.skip : wanted.skip + wanted.limit]
        return _data(nodes=[each.to_dict() for each in page], total=len(nodes))

    def _status(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        read_arguments(NoArguments, plain)
        return _data(**self._connect().status().to_dict())

    def _whoami(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        read_arguments(NoArguments, plain)
        client = self._connect()
        me = client.me().to_dict()
        with self._lock:
            self._forget_ended(client)
            budget = self._budget.row(self._counted_jobs(client))
            return _data(**me, read_only=self._read_only, budget=budget)

    def _check(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        spec, _, key = _read_job(plain)
        wanted = _request_of(spec)
        with self._lock:
            rows: list[JobRow] = []
            if self._budget.jobs() or self._budget.limits.max_gpu_hours is not None:
                client = self._connect()
                self._forget_ended(client)
                rows = self._counted_jobs(client)
            self._budget.check(key, wanted)
            self._budget.check_hours(rows, KEY_PREFIX + key, wanted)
            return _data(ok=True, gpus=spec.most_gpus, budget=self._budget.row(rows))

    def _submit(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        spec, fields, key = _read_job(plain)
        client = self._connect()
        with self._lock:
            row = self._submit_within_budget(client, spec, fields, key)
            budget = self._budget.row(self._counted_jobs(client))
            return _data(job=_listed([row])[0], key=key, budget=budget)

    def _submit_within_budget(self, client: Client, spec: Spec, fields: Mapping[str, Any], key: str) -> JobRow:
        """Submit a job that counts from before the request is sent, since its answer may be lost."""
        self._forget_ended(client)
        wanted = _request_of(spec)
        self._budget.check_hours(self._counted_jobs(client), KEY_PREFIX + key, wanted)
        before = self._budget.hold(key, wanted)
        retries: list[RotaError] = []
        client.on_retry = retries.append
        try:
            row = client.submit_spec(fields, workdir=self._workdir, key=KEY_PREFIX + key)
        except RotaError as problem:
            sent = retries or isinstance(problem, UnansweredError) or not isinstance(problem, UnreachableError)
            if isinstance(problem, InputError | ForbiddenError) or not sent:
                self._budget.give_back(key, before)
                raise
            hint = f'submit the same again with the key "{key}": it is submitted once. Until then it counts as unfinished'
            raise type(problem)(problem.message, hint=hint) from None
        if row.ended:
            self._budget.give_back(key, None)
        else:
            self._budget.confirm(key, row.id)
        return row

    def _cancel(self, plain: Mapping[str, Any], stop: threading.Event) -> dict[str, Any]:
        found = self._connect().cancel_many(read_arguments(SeveralJobs, plain).jobs)
        return _data(cancelled=[{"was": each.was, "job": _listed([each.job])[0]} for each in found])

    def _counted_jobs(self, client: Client) -> list[JobRow]:
        """Return the jobs of the user, ended ones too, if GPU-hours are limited; none otherwise."""
        if self._budget.limits.max_gpu_hours is None:
            return []
        return client.jobs(True, user=client.me().name, tasks=True)

    def _forget_ended(self, client: Client) -> None:
        """Give back the budget of the jobs that have ended."""
        for job in self._budget.jobs():
            try:
                ended = client.job(job).ended
            except UnknownNameError:  # the record of an ended job was removed, or the home is another
                ended = True
            if ended:
                self._budget.forget(job)


def _read_job(plain: Mapping[str, Any]) -> tuple[Spec, dict[str, Any], str]:
    """Return the checked spec of a job, its fields as they came, and its submission key, which is new if none was given."""
    key = read_arguments(SubmissionKey, {name: each for name, each in plain.items() if name == "key"}).key or new_key()
    fields = {name: each for name, each in plain.items() if name != "key"}
    return spec_from(spec_tree(fields)), fields, key


def _request_of(spec: Spec) -> BudgetRequest:
    """Return what a spec asks of the budget. Each task of an array is a job, and all that may run at once count."""
    tasks, at_once = task_count(spec), None if spec.array is None else spec.array.at_once
    gpus = spec.most_gpus * (tasks if at_once is None else min(tasks, at_once))
    return BudgetRequest(gpus, tasks, spec.most_gpus * tasks, spec.max_run_time)


def _data(**fields: Any) -> dict[str, Any]:
    """Return a result with texts that users and jobs wrote."""
    return {"notice": NOTICE, **bounded(fields)}


def _listed(rows: Iterable[JobRow]) -> list[dict[str, Any]]:
    """Return rows as lists of jobs have them: without the spec and the trials."""
    return [{name: each for name, each in asdict(row).items() if name not in ("spec", "trials")} for row in rows]
