"""A daemon that keeps its jobs in memory, and a real server before it: what the API, the client and the commands are tested with.

Nothing runs here; the tests say what happens to a job.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rota.core.scheduler import Scheduler
from rota.errors import ConflictError, OptionError, UnknownNameError
from rota.live.machine_requests import MachineRequests
from rota.live.queued_requests import ChangeMachines
from rota.model.cluster import Cluster, Node
from rota.placers.packed import Packed
from rota.server.connections import ConnectionLimits
from rota.server.http_api import make_app
from rota.server.http_server import HttpServer
from rota.server.identities import Identities
from rota.server.tls import Certificate
from rota.wire.actor import Actor
from rota.wire.address import make_token, write_address
from rota.wire.job_filter import UNFINISHED, JobFilter
from rota.wire.job_request import JobRequest, Verb
from rota.wire.rows import (
    ENDED,
    HOLDING,
    EventRow,
    GpuRow,
    JobRow,
    LogChunk,
    NodeRow,
    PageRow,
    ReadyRow,
    ReasonRow,
    RequestRow,
    StatusRow,
    TakenRow,
    TenantRow,
    UsageGroupRow,
    UsageReportRow,
    WhyRow,
)
from rota.wire.spec import Range, Spec
from rota.wire.submission import Submission, naming
from tests.waiting import LONG_SECONDS

GPUS = 6


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Standin:
    """Answers as a daemon does."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.machines = MachineRequests(lambda: self.core.state, threading.Lock(), self._fold, lambda done: done.result(0))
        """Those of a real core."""
        self.reset()

    def reset(self) -> None:
        """As new, so that several tests can share a server."""
        self.core = Scheduler(Cluster.of([Node("n1", "V100", 4)]), Packed())
        self.rows: dict[int, JobRow] = {}
        self.output: dict[int, bytes] = {}
        self.sent: dict[int, tuple[Spec, str, str, Mapping[str, str]]] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.number = 1
        self.problem = ""
        self.reclaims: int | None = None
        """Number of jobs in reports that got back GPUs which their tenant had lent; None if there were none."""
        self.asked_ready = 0
        self.stuck: threading.Event | None = None
        """If set, it is not known whether it is ready until this happens."""
        self.policy = "tiresias"

    def _fold(self, item: ChangeMachines | None) -> None:
        if item is not None:
            answered: list[tuple[Future[int], int]] = []
            now_s = time.time()
            self.core.fold(now_s, item.to_events(self.core.state, now_s, answered))
            for done, number in answered:
                done.set_result(number)

    def submit(self, sent: Submission, by: Actor | None = None) -> JobRow:
        spec, user, workdir, env, key = sent.spec, sent.user, sent.workdir, sent.env, sent.idempotency_key
        if key and (before := self.keys.get((user, key))) is not None:
            if self.sent[before] != (spec, user, workdir, env):
                raise ConflictError("another job was submitted with this key.", field="idempotency_key", value=key, hint="")
            return self.rows[before]
        gpus = self._check(spec)
        if spec.name == "explode":
            raise RuntimeError("a secret of the daemon")
        with self._changed:
            job = len(self.rows) + 1
            self.keys[user, key] = job
            self.sent[job] = (spec, user, workdir, env)
            self.output[job] = b""
            row = JobRow(
                id=job,
                name=spec.name or f"job-{job}",
                user=user,
                phase="queued",
                gpus=gpus,
                accelerator=None,
                placement=None,
                accepted_accelerators=list(spec.accelerators),
                weight=spec.weight,
                steps_total=spec.steps,
                reason="AWAITING_DECISION",
                submitted_at=now(),
                most_gpus=gpus,
                max_run_seconds=spec.max_run_time,
                key=key,
                command=spec.run if isinstance(spec.run, str) else " ".join(spec.run),
            )
        return self.change(row)

    def _check(self, spec: Spec) -> float:
        gpus = spec.gpus.max if isinstance(spec.gpus, Range) else spec.gpus
        if gpus > GPUS:
            raise OptionError(f"UNSATISFIABLE: the cluster has {GPUS}.", field="gpus", value=gpus, hint="fewer GPUs")
        return gpus

    def cancel(self, job: int, by: Actor | None = None) -> JobRow:
        if by is not None:
            by.check_owns(self.rows[job].user, f"Job {job}")
        return self.change(
            replace(self.rows[job], phase="cancelled", reason=None, accelerator=None, placement=None, finished_at=now())
        )

    def submit_many(self, submissions: Sequence[Submission], by: Actor | None = None) -> list[TakenRow]:
        for index, each in enumerate(submissions):
            with naming(index):
                self._check(each.spec)
        rows = [self.submit(replace(each, idempotency_key=None)) for each in submissions]
        return [TakenRow(id=row.id, name=row.name) for row in rows]

    def request(self, wanted: JobRequest, by: Actor | None = None) -> list[RequestRow]:
        """Change the phases of the jobs, or whether they are held."""
        if wanted.matching is not None:
            rows = [row for row in self.jobs() if wanted.matching.fits(row.user, row.name, row.tenant or "", row.phase)]
        else:
            rows = list({row.id: row for row in map(self.job, wanted.jobs)}.values())
        for row in rows:
            if by is not None:
                by.check_owns(row.user, f"Job {row.id}")
            if wanted.verb is Verb.HOLD and row.phase in HOLDING:
                raise ConflictError("is running.", field="job", value=str(row.id), hint=f"rota suspend {row.id}")
            if wanted.verb is Verb.SUSPEND and row.name == "unsaved" and not wanted.lose_work:
                raise ConflictError("9s of work would be lost.", field="job", value=str(row.id), hint="--lose-work")
        return [self._requested(wanted, row) for row in rows]

    def change_job(self, job: int, spec: Spec, changed: Collection[str], by: Actor | None = None) -> JobRow:
        row = self.rows[job]
        if by is not None:
            by.check_owns(row.user, f"Job {job}")
        if row.ended:
            raise ConflictError("has ended.", field="job", value=str(job), hint="rota requeue")
        shown = {name: getattr(spec, name) for name in changed if name in ("name", "priority", "weight")}
        return self.change(replace(row, last_change=f"changed: {sorted(changed)}", **shown))

    def _requested(self, wanted: JobRequest, row: JobRow) -> RequestRow:
        verb, held = wanted.verb, row.reason == "HELD"
        if verb is Verb.CANCEL:
            changed, job = not row.ended, row
            if changed and not wanted.dry_run:
                job = self.cancel(row.id)
            return RequestRow(was=row.phase, changed=changed, requested=row.id, job=job)
        if verb is Verb.REQUEUE:
            job = row
            if row.ended:
                job = self.submit(Submission(*self.sent[row.id]))
            elif row.phase == "running":
                job = self.change(replace(row, phase="suspending"))
            return RequestRow(was=row.phase, changed=row.phase != "queued", requested=row.id, job=job)
        holds = verb in (Verb.HOLD, Verb.SUSPEND)
        after = replace(row, reason="HELD" if holds else "AWAITING_DECISION")
        if verb is Verb.SUSPEND and row.phase == "running":
            after = replace(after, phase="parked", accelerator=None, placement=None)
        changed = holds != held
        job = self.change(after) if changed and not wanted.dry_run else row
        return RequestRow(was=row.phase, changed=changed, requested=row.id, job=job)

    def page(self, wanted: JobFilter = UNFINISHED) -> PageRow:
        rows = self.jobs(wanted._replace(after=0, limit=len(self.rows) or 1))
        rows.sort(key=lambda row: (row.ended, row.phase not in HOLDING, row.id))
        return PageRow(jobs=rows[wanted.skip : wanted.skip + wanted.limit], total=len(rows))

    def jobs(self, wanted: JobFilter = UNFINISHED) -> list[JobRow]:
        found = [row for row in self.rows.values() if (wanted.everything or row.phase not in ENDED) and row.id > wanted.after]
        found = [row for row in found if wanted.user in ("", row.user) and wanted.in_phase(row)]
        found = [row for row in found if wanted.tasks or row.array_id is None]
        since = datetime.fromtimestamp(wanted.since_s, UTC).isoformat(timespec="seconds")
        return [row for row in found if row.submitted_at >= since][: wanted.limit]

    def job(self, key: str, unique: bool = False, user: str | None = None) -> JobRow:
        if key.isdigit() and int(key) in self.rows:
            return self.rows[int(key)]
        rows = [row for row in self.rows.values() if user in (None, row.user)]
        found = [row for row in rows if row.name == key] or [row for row in rows if row.name.startswith(key)]
        if len(found) > 1 and (unique or len({row.name for row in found}) > 1):
            raise OptionError(f"fits {len(found)} jobs.", field="job", value=key, hint="write more of the name")
        if not found:
            raise UnknownNameError("job", key, [row.name for row in rows], hint="rota jobs --all")
        return found[-1]

    def why(self, job: int) -> WhyRow:
        row = self.rows[job]
        reasons = [ReasonRow(code=row.reason, sentence="4 GPUs are needed, 2 are free.", facts={"free": 2})] if row.reason else []
        ahead = [each for each in self.jobs() if each.id < job]
        return WhyRow(job=row, reasons=reasons, ahead=ahead, last_change="submitted")

    def logs(self, job: int, offset: int, limit: int, tail: int | None = None) -> LogChunk:
        if tail is not None:
            offset = len(self.output[job]) - len(b"".join(self.output[job].splitlines(keepends=True)[-tail:] if tail else []))
        # Ended is read before the output, as a process may write and end between the two.
        ended, data = self.rows[job].ended, self.output[job][offset : offset + limit]
        whole = data.decode("utf-8", "ignore").encode() if len(data) == limit else data
        end = offset + len(whole)
        return LogChunk(text=whole.decode("utf-8", "replace"), next_offset=end, ended=ended and end == len(self.output[job]))

    def events(self, job: int, user: str | None = None) -> list[EventRow]:
        row = self.rows[job]
        return [EventRow(job=job, at=row.submitted_at, kind="submitted", text=f"submitted by {row.user}", by=row.user)]

    def report(self, by: str, days: int) -> UsageReportRow:
        group = UsageGroupRow(
            name="ana",
            submitted=len(self.rows),
            finished=0,
            failed=0,
            cancelled=0,
            gpu_seconds=days * 3600.0,
            work_seconds=0.0,
            mean_wait_seconds=None,
            mean_jct_seconds=None,
            attempts=0,
            preemptions=0,
            preempted_seconds=0.0,
            broken_seconds=0.0,
            gpus_busy=0.5,
            reclaims=self.reclaims,
            reclaim_seconds_p99=None if self.reclaims is None else 1.25,
        )
        return UsageReportRow(since=now(), until=now(), by=by, groups=[group], total=replace(group, name=None))

    def status(self) -> StatusRow:
        busy = sum(row.gpus for row in self.rows.values() if row.accelerator)
        return StatusRow(
            version="0",
            policy=self.policy,
            placer="packed",
            cluster="4xV100 + 2xK80",
            gpus=GPUS,
            gpus_busy=busy,
            pretend=True,
            jobs={},
            decisions=0,
            now=now(),
            daemon_pid=1,
            policy_worker_pid=None,
            policy_error=self.problem,
        )

    def nodes(self) -> list[NodeRow]:
        """One node of four, of which each job that runs has the next GPUs."""
        held = [row.id for row in self.rows.values() if row.accelerator for _ in range(int(row.gpus))]
        gpus = [
            GpuRow(index=place, name=f"V100:{place}", jobs=held[place : place + 1], parked=[], cordoned=place == 3, slowdown=1.0)
            for place in range(4)
        ]
        seen = replace(gpus[0], memory_gib=16.0, used_gib=4.5, utilization=0.93, clock_mhz=1290, temperature_c=61)
        seen = replace(seen, max_clock_mhz=1530)
        gpus = [seen, replace(gpus[1], slowdown=1.5), *gpus[2:]]
        return [
            NodeRow(
                name="n1",
                accelerator="V100",
                up=True,
                draining=False,
                pretend=False,
                host_gib=100.0,
                host_used_gib=20.0,
                gpus=[replace(gpu, drained=gpu.index in self.core.state.nodes.drained) for gpu in gpus],
                drains=self.machines.list(),
            )
        ]

    def tenants(self) -> list[TenantRow]:
        return [
            TenantRow(
                tenant="vision",
                guarantee=2.0,
                cap=4.0,
                gpus=3.0,
                borrowed=1.0,
                lent=0.0,
                credit=-1.5,
                usage=None,
                running=2,
                waiting=1,
                work_hours=10.0,
                gpu_hours=12.0,
                welfare=1.25,
                start_seconds_p50=0.5,
                start_seconds_p99=1.5,
                users={"ana": 2.0, "leo": 1.0},
            )
        ]

    def ready(self) -> ReadyRow:
        self.asked_ready += 1
        if self.stuck is not None:
            self.stuck.wait(60)
        return ReadyRow(ready=not self.problem, problems={"journal": self.problem} if self.problem else {}, nodes_up=1, nodes=1)

    def set_policy(self, named: str) -> StatusRow:
        if named.startswith("broken"):
            raise OptionError("its first answer failed.", field="policy", value=named, hint="rota policy check NAME")
        self.policy = named
        return self.status()

    def wait_for_change(self, seen: int, timeout: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self.number > seen, timeout)
            return self.number

    # What the tests do to it.

    def change(self, row: JobRow) -> JobRow:
        with self._changed:
            self.rows[row.id] = row
            self.number += 1
            self._changed.notify_all()
        return row

    def run(self, job: int, **facts: Any) -> JobRow:
        row = replace(self.rows[job], phase="running", accelerator="V100", placement="n1:0-1", reason=None, started_at=now())
        return self.change(replace(row, **facts))

    def end(self, job: int, phase: str = "finished", exit_code: int = 0) -> JobRow:
        row = replace(self.rows[job], phase=phase, accelerator=None, placement=None, reason=None)
        return self.change(replace(row, finished_at=now(), exit_code=exit_code))

    def write(self, job: int, text: str) -> None:
        self.output[job] += text.encode()


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    daemon: Standin
    url: str
    token: str
    home: Path
    port: int
    server: HttpServer


@contextlib.contextmanager
def serve(
    home: Path,
    *,
    unix: bool = False,
    daemon: Any = None,
    limits: ConnectionLimits | None = None,
    hide_names: bool = False,
    certificate: Certificate | None = None,
) -> Iterator[Served]:
    """A real server in a thread, on a free port of the loopback or on a socket in the home; its address lies in the home."""
    daemon = daemon or Standin()
    token = make_token(home)
    app = make_app(daemon, Identities(token, home), hide_names=hide_names)
    if unix:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(home / "rota.sock"))
        url, port = f"unix:{home / 'rota.sock'}", 0
    else:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{port}"
    server = HttpServer(app, limits, certificate, log_config=None, timeout_graceful_shutdown=round(2 * LONG_SECONDS))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        until = time.monotonic() + LONG_SECONDS
        while not server.started and time.monotonic() < until:
            time.sleep(0.005)
        assert server.started
        if certificate is None:  # an address in a home is never one with TLS
            write_address(home, url, 1, "0")
        yield Served(daemon, url, token, home, port, server)
    finally:
        server.should_exit = True
        thread.join(LONG_SECONDS)
        listening.close()
        assert not thread.is_alive()
