"""One notification, and how it is sent: a POST with JSON, or a command. Each try takes a bounded time."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from rota.live.instants import iso
from rota.live.job_events import Cause, EventKind, JobEvent, sentence
from rota.live.job_record import JobRecord
from rota.wire.notify import Notify, Occasion

REPLY_SECONDS = 10.0
"""Longest time of one try to send to a URL, in seconds."""
COMMAND_SECONDS = 60.0
"""Longest time of a command, in seconds."""
PASSED_ON = ("HOME", "LANG", "PATH", "TZ", "USER")
"""Variables of the scheduler that a command gets."""


class NotSent(Exception):
    """A try failed."""


@dataclass(frozen=True, kw_only=True)
class Notification:
    """One event of one job, and where it is sent."""

    target: Notify
    job: int
    number: int
    """Number of the event among those of the job."""
    event_id: str
    """Id that no other event has, of any home."""
    occasion: Occasion
    message: str
    name: str
    user: str
    at_s: float
    array_id: int | None
    array_index: int | None

    def send(self) -> None:
        """Send it once. Raise NotSent if that fails."""
        if self.target.url is not None:
            self._post(self.target.url)
        else:
            assert self.target.run is not None
            self._run(self.target.run)

    def _post(self, url: str) -> None:
        parts = urlsplit(url)
        job = {
            "id": self.job,
            "name": self.name,
            "user": self.user,
            "array_id": self.array_id,
            "array_index": self.array_index,
        }
        plain = {
            "event_id": self.event_id,
            "event": str(self.occasion),
            "at": iso(self.at_s),
            "message": self.message,
            "job": job,
        }
        place, port = parts.hostname or "", parts.port
        link = (
            http.client.HTTPSConnection(place, port, timeout=REPLY_SECONDS, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(place, port, timeout=REPLY_SECONDS)
        )
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        watch = threading.Timer(REPLY_SECONDS, _hang_up, (link,))
        watch.daemon = True
        watch.start()
        try:
            body = json.dumps(plain).encode()
            link.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "rota"})
            status = link.getresponse().status
        except (OSError, http.client.HTTPException) as problem:
            raise NotSent(f"{parts.netloc}: {problem}") from None
        finally:
            watch.cancel()
            link.close()
        if not 200 <= status < 300:  # a redirect is not followed
            raise NotSent(f"{parts.netloc}: status {status}")

    def _run(self, command: list[str]) -> None:
        # Variables of a job may be those of another user, and could steer the command.
        env = {
            **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
            "ROTA_EVENT": str(self.occasion),
            "ROTA_EVENT_ID": self.event_id,
            "ROTA_JOB_ID": str(self.job),
            "ROTA_JOB_NAME": self.name,
            "ROTA_MESSAGE": self.message,
        }
        quiet = subprocess.DEVNULL
        try:
            process = subprocess.Popen(command, env=env, cwd="/", stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        except (OSError, ValueError) as problem:
            raise NotSent(f"{command[0]}: {problem}") from None
        try:
            code = process.wait(COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise NotSent(f"{command[0]}: it ran for more than {COMMAND_SECONDS:.0f} s and was ended") from None
        if code != 0:
            raise NotSent(f"{command[0]}: exit code {code}")


def _hang_up(link: http.client.HTTPConnection) -> None:
    """End a connection whose server takes too long, however slowly it keeps sending."""
    if link.sock is not None:
        with contextlib.suppress(OSError):
            link.sock.shutdown(socket.SHUT_RDWR)


def occasion_of(event: JobEvent) -> Occasion | None:
    """Return what a job's event may be notified as; None if it is notified of as nothing."""
    if event.kind is EventKind.STARTED:
        return Occasion.STARTED
    if event.kind is EventKind.FINISHED:
        return Occasion.FINISHED
    if event.kind is EventKind.FAILED and event.ends_job:
        return Occasion.FAILED
    if event.kind in (EventKind.PARKED, EventKind.SUSPENDED) and event.cause in (Cause.DISPLACED, Cause.POLICY):
        return Occasion.PREEMPTED
    return None


def notifications(record: JobRecord, number: int, event: JobEvent, home_id: str, of_all: Notify | None) -> Iterator[Notification]:
    """Yield what is sent for an event of a job: to the job's own target, and to that of all jobs. A command of a job that runs as
    another user is never run, because it would run as the scheduler's user."""
    occasion = occasion_of(event)
    task, own = record.submitted.task, record.submitted.spec.notify
    if own is not None and own.run is not None and record.submitted.uid is not None:
        own = None
    for target in (own, of_all):
        if target is not None and occasion in target.on:
            assert occasion is not None
            yield Notification(
                target=target,
                job=record.id,
                number=number,
                event_id=f"{home_id}-{record.id}-{number}",
                occasion=occasion,
                message=f"Job {record.id} {record.name}: {sentence(event)}.",
                name=record.name,
                user=record.submitted.user,
                at_s=event.at_s,
                array_id=None if task is None else task.array,
                array_index=None if task is None else task.index,
            )
