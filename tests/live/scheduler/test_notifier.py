"""Notifications to a real server on loopback: each event once, in bounded time, and over restarts."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.errors import InputError, SpecError
from rota.live import notification, notifier
from rota.live.daemon import Daemon
from rota.live.job_events import EventKind, JobEvent
from rota.live.job_record import JobRecord
from rota.live.notification import Notification, NotSent, notifications
from rota.wire.actor import Actor, Role
from rota.wire.job_request import JobRequest, Verb
from rota.wire.notify import Notify, Occasion, check_notify
from rota.wire.spec import Spec, spec_from, spec_tree
from rota.wire.submission import Submission
from tests.live.scheduler.test_daemon import ended, running
from tests.waiting import until


class Listener:
    """A server that keeps what it gets. `statuses`: what it answers first; then 200."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        listener = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = listener.statuses.pop(0) if listener.statuses else 200
                listener.got.append({**body, "status": status})
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def events(self) -> list[tuple[int, str]]:
        return [(each["job"]["id"], each["event"]) for each in self.got]


@contextmanager
def listening() -> Iterator[Listener]:
    listener = Listener()
    thread = threading.Thread(target=listener.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.server.shutdown()
        listener.server.server_close()
        thread.join()


def send(daemon: Daemon, run: str, **fields: object) -> int:
    spec = Spec.model_validate({"run": run, **fields})
    return daemon.submit(Submission(spec, "ana", "/", {"PATH": "/usr/bin:/bin"})).id


def test_each_event_is_sent_once_also_over_a_restart(tmp_path: Path) -> None:
    with listening() as there:
        on = {"on": ["started", "finished", "failed", "preempted"], "url": there.url}
        with running(tmp_path) as daemon:
            good, bad = send(daemon, "true", name="good", notify=on), send(daemon, "exit 3", name="bad", notify=on)
            quiet = send(daemon, "true", notify={"on": ["preempted"], "url": there.url})
            silent = send(daemon, "true")
            for job in (good, bad, quiet, silent):
                ended(daemon, job)
            expected = {(good, "started"), (good, "finished"), (bad, "started"), (bad, "failed")}
            until(lambda: set(there.events()) == expected, "all are sent")
            late = send(daemon, "sleep 1", name="late", notify=on)
            until(lambda: (late, "started") in there.events(), "it runs")
        with running(tmp_path) as daemon:
            ended(daemon, late)
            until(lambda: (late, "finished") in there.events(), "the rest is sent")
            last = send(daemon, "true", notify=on)
            until(lambda: (last, "finished") in there.events(), "and what came after")
        assert sorted(there.events()) == sorted(set(there.events())), "none is sent twice"
        found = next(each for each in there.got if each["job"]["id"] == bad and each["event"] == "failed")
        assert found["message"].startswith(f"Job {bad} bad: failed with exit code 3")
        assert found["event_id"].endswith(f"-{bad}-2") and found["job"]["user"] == "ana"


def test_a_server_that_is_away_gets_it_later_and_a_restart_sends_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "PAUSES_SECONDS", (0.01, 0.01))
    with listening() as there:
        there.statuses = [500, 302]
        with running(tmp_path) as daemon:
            ended(daemon, send(daemon, "true", notify={"url": there.url}))
            until(lambda: len(there.got) == 3, "the third try is answered")
        assert [each["status"] for each in there.got] == [500, 302, 200], "a redirect is not followed"
    monkeypatch.setattr(notifier, "PAUSES_SECONDS", (1e6, 1e6))
    with listening() as there:
        there.statuses = [503]
        with running(tmp_path) as daemon:
            ended(daemon, send(daemon, "true", notify={"url": there.url}))
            until(lambda: len(there.got) == 1, "the first try failed")
        with running(tmp_path):
            until(lambda: len(there.got) == 2, "the next start sends it")
        assert len({each["event_id"] for each in there.got}) == 1


def test_one_that_never_works_is_given_up_and_the_operator_reads_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "PAUSES_SECONDS", (0.01, 0.01))
    lines: list[str] = []
    with listening() as there, running(tmp_path, tell=lines.append) as daemon:
        there.statuses = [500] * 3
        ended(daemon, send(daemon, "true", notify={"url": there.url}))
        until(lambda: any("notification not sent after 3 tries" in line for line in lines), "it is given up")
        assert len(there.got) == 3


def test_a_command_gets_the_event_and_none_of_the_jobs_variables(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["sh", "-c", f'echo "$ROTA_EVENT $ROTA_JOB_ID $ROTA_MESSAGE $SECRET" > {out}.new; mv {out}.new {out}']
    with running(tmp_path) as daemon:
        job = send(daemon, "true", name="net", env={"SECRET": "x"}, notify={"run": command})
        until(out.exists, "the command has run")
        assert out.read_text() == f"finished {job} Job {job} net: finished. \n"


def test_a_command_of_an_operator_does_not_run_for_a_user_who_submits_the_job_again(tmp_path: Path) -> None:
    ana, olga = Actor("ana", Role.USER), Actor("olga", Role.OPERATOR)
    out = tmp_path / "out"
    with running(tmp_path) as daemon:
        job = send(daemon, "true", notify={"run": ["sh", "-c", f"echo $ROTA_JOB_ID >> {out}"]})
        ended(daemon, job)
        wanted = JobRequest(verb=Verb.REQUEUE, jobs=(str(job),))
        of_user, of_operator = (daemon.request(wanted, actor)[0].job.id for actor in (ana, olga))
        ended(daemon, of_user)
        ended(daemon, of_operator)
        until(lambda: out.exists() and len(out.read_text().split()) == 2, "the command has run for two jobs")
        specs = {each: daemon.job(str(each)).spec or {} for each in (job, of_user, of_operator)}
        assert [specs[each]["notify"] is None for each in (job, of_user, of_operator)] == [False, True, False]
        assert out.read_text().split() == [str(job), str(of_operator)]


def test_a_command_never_runs_for_a_job_that_runs_as_another_user() -> None:
    event = JobEvent(kind=EventKind.FINISHED, at_s=0.0, ends_job=True)
    spec = spec_from(spec_tree({"run": "true", "notify": {"run": ["true"]}}))
    of_all = Notify(run=["tell-team"])
    for uid, commands in ((None, [["true"], ["tell-team"]]), (1000, [["tell-team"]])):
        record = JobRecord(1, Submission(spec, "ana", "/", {}, uid=uid), 0.0)
        assert [each.target.run for each in notifications(record, 1, event, "h", of_all)] == commands


def a_notification(target: Notify) -> Notification:
    return Notification(
        target=target,
        job=1,
        number=2,
        event_id="h-1-2",
        occasion=Occasion.FINISHED,
        message="m",
        name="n",
        user="ana",
        at_s=0.0,
        array_id=None,
        array_index=None,
    )


def test_a_try_ends_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification, "REPLY_SECONDS", 0.2)
    monkeypatch.setattr(notification, "COMMAND_SECONDS", 0.2)
    import socket

    with socket.create_server(("127.0.0.1", 0)) as there, pytest.raises(NotSent):  # it never answers
        a_notification(Notify(url=f"http://127.0.0.1:{there.getsockname()[1]}/")).send()
    with pytest.raises(NotSent, match="more than"):
        a_notification(Notify(run=["sleep", "600"])).send()
    with pytest.raises(NotSent, match="exit code 1"):
        a_notification(Notify(run=["false"])).send()
    with pytest.raises(NotSent, match="No such file"):
        a_notification(Notify(run=["/nothing/here"])).send()


@pytest.mark.parametrize(
    ("notify", "words"),
    [
        ({"url": "http://example.com/x"}, "http to another machine"),
        ({"url": "ftp://127.0.0.1/x"}, "not a URL with https"),
        ({"url": "https://ana:secret@example.com/"}, "contains a name or a password"),
        ({"url": "https://a b/"}, "not a URL with https"),
        ({"url": "https://x.example/", "run": ["true"]}, "needs either url or run"),
        ({"on": ["finished"]}, "needs either url or run"),
        ({"url": "https://x.example/", "on": ["eta-slipped"]}, "should be"),
    ],
)
def test_a_wrong_target_is_refused_with_the_reason(notify: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        spec_from(spec_tree({"run": "true", "notify": notify}))


def test_a_command_is_for_operators_of_a_scheduler_whose_jobs_run_as_itself() -> None:
    command = Notify(run=["true"])
    check_notify(command, operator=True, uid=None)
    check_notify(Notify(url="https://x.example/"), operator=False, uid=1000)
    for operator, uid in ((False, None), (True, 1000)):
        with pytest.raises(InputError, match=r"notify.run|command"):
            check_notify(command, operator=operator, uid=uid)
