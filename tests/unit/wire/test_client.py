"""The client, against a real server with its own daemon."""

import contextlib
import datetime
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rota
from rota.errors import (
    ForbiddenError,
    InputError,
    OptionError,
    PolicyError,
    RotaError,
    SpecError,
    UnknownNameError,
    UnreachableError,
)
from rota.server import changes
from rota.wire import client as module
from rota.wire.client import PASSED_ON, Client, connect
from rota.wire.problems import decode_error, encode_error
from tests.unit.server.standin import Served, serve
from tests.waiting import LONG_SECONDS


@pytest.fixture(scope="module", params=["port", "socket"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("home"), unix=request.param == "socket") as found:
        yield found


@pytest.fixture
def served(server: Served) -> Served:
    server.daemon.reset()
    return server


@pytest.fixture
def client(served: Served) -> Client:
    return rota.connect(served.home)


def test_a_job_by_its_handle(served: Served, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("SECRET", "do not send")
    job = client.submit(run="python train.py", gpus=2, name="resnet", accelerators=["V100"])
    assert (job.id, job.name, job.phase) == (1, "resnet", "queued")
    assert repr(job) == "Job(1, 'resnet')" and served.token not in repr(client)
    spec, user, workdir, env = served.daemon.sent[1]
    assert (spec.run, spec.gpus, workdir) == ("python train.py", 2, str(Path.cwd()))
    assert env["PATH"] == "/usr/bin" and set(env) <= set(PASSED_ON) and user
    assert job.why().reasons[0].code == "AWAITING_DECISION" and job.why().job == job.row()
    served.daemon.run(1)
    assert job.phase == "running" and job.row().accelerator == "V100"
    assert client.get("res").id == 1
    assert [row.id for row in client.jobs()] == [1]
    assert client.status().gpus_busy == 2
    assert job.cancel().phase == "cancelled"
    assert client.jobs() == [] and client.jobs(everything=True) == [job.row()]


def test_an_argument_vector_stays_one(served: Served, client: Client) -> None:
    client.submit(["python", "-c", "print('a b')"])
    assert served.daemon.sent[1][0].run == ["python", "-c", "print('a b')"]


def test_times_and_paths_may_be_given_as_such(served: Served, client: Client) -> None:
    client.submit("x", deadline=datetime.datetime(2030, 1, 1, 9, 0), workdir=Path("/data"))
    spec = served.daemon.sent[1][0]
    assert spec.deadline == datetime.datetime(2030, 1, 1, 9, 0) and spec.workdir == "/data"
    with pytest.raises(OptionError, match="cannot be sent: object"):
        client.submit("x", env={"A": object()})
    with pytest.raises(OptionError, match="cannot be sent"):
        client.submit("x", weight=float("nan"))
    with pytest.raises(OptionError, match="1,000,000"):
        client.submit("x" * 1_000_000)
    assert len(served.daemon.rows) == 1


def test_errors_come_over_as_what_they_were(served: Served, client: Client) -> None:
    with pytest.raises(SpecError, match=r"gpu — unknown field 'gpu'.*Closest: gpus") as spec:
        client.submit("x", gpu=2)
    assert spec.value.field == "gpu" and spec.value.hint == "rename it, or take it out"
    with pytest.raises(OptionError, match="gpus: 99 — UNSATISFIABLE"):
        client.submit("x", gpus=99)
    with pytest.raises(UnknownNameError, match="No job 'nobody'"):
        client.job("nobody")
    client.submit("x", name="same")
    client.submit("x", name="same")
    with pytest.raises(OptionError, match="fits 2 jobs"):
        client.cancel("same")
    assert client.job("same").id == 2, "to look at, the newest"
    with pytest.raises(OptionError, match="fits 2 jobs"):
        client.job("same", unique=True)
    for key in ("", "..", "../../etc", "a\0b", "x" * 5000, "%2e"):
        with pytest.raises(InputError):
            client.job(key)
    with pytest.raises(RotaError, match=r"The scheduler failed \(RuntimeError\)") as failed:
        client.submit("x", name="explode")
    assert not isinstance(failed.value, InputError)


@pytest.mark.parametrize(
    "error",
    [
        RotaError("plain", hint="h"),
        PolicyError("policy", hint="h"),
        SpecError("wrong.", field="gpus", value=3, hint="h"),
        UnknownNameError("job", "x", ["y"], hint="h"),
    ],
)
def test_an_error_survives_the_wire(error: RotaError) -> None:
    found = decode_error(encode_error(error))
    assert type(found) is type(error)
    assert (found.message, found.hint, str(found)) == (error.message, error.hint, error.message)
    assert getattr(found, "field", None) == getattr(error, "field", None)


@pytest.mark.parametrize(
    "plain", [{}, {"kind": "difflib"}, {"kind": "Iterable"}, {"kind": "__doc__"}, {"error": None, "kind": 7}]
)
def test_an_error_nobody_knows_is_still_one(plain: dict[str, object]) -> None:
    assert type(decode_error(plain)) is RotaError


def test_names_with_slashes_and_signs(served: Served, client: Client) -> None:
    for name in ("vision/resnet", "50% ?&#", "ünïcödé", ".", "a..b"):
        job = client.submit("x", name=name)
        assert client.job(name).id == job.id == client.why(name).job.id


def test_waiting_for_the_end(served: Served, client: Client) -> None:
    first, second = client.submit("x"), client.submit("y")
    assert not first.wait(timeout=0.2).ended
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: [row.id for row in client.ends([1, 2], timeout=LONG_SECONDS)])
        time.sleep(0.2)
        served.daemon.end(2, "failed", 1)
        time.sleep(0.3)
        assert not waiting.done()
        served.daemon.end(1)
        assert waiting.result(timeout=LONG_SECONDS) == [2, 1]
    assert second.wait().phase == "failed" and first.wait().phase == "finished"


def test_a_log_in_pieces(served: Served, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    job = client.submit("x")
    assert list(job.logs()) == []
    text = "äöü" * 100
    served.daemon.write(1, text)
    monkeypatch.setattr(Client.log, "__defaults__", (0, 7, None))
    pieces = list(job.logs())
    assert "".join(pieces) == text and len(pieces) > 50
    served.daemon.end(1)
    assert "".join(job.logs(follow=True)) == text


def test_following_a_log_while_it_grows(served: Served, client: Client) -> None:
    job = client.submit("x")

    def write() -> None:
        for i in range(20):
            served.daemon.write(1, f"line {i}\n")
            time.sleep(0.02)
            if i == 10:  # suspended, and back on other GPUs: the same stream
                served.daemon.change(served.daemon.rows[1])
        served.daemon.end(1)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        pieces = list(job.logs(follow=True))
        writing.result(timeout=LONG_SECONDS)
    assert "".join(pieces) == "".join(f"line {i}\n" for i in range(20)) and len(pieces) > 1


def test_too_many_waiting_clients_are_no_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_WAITING", 0)
    seen = client.changes(0, 0.0)
    assert client.changes(seen, 0.1) == seen


def test_a_token_that_does_not_fit(served: Served) -> None:
    with pytest.raises(UnreachableError, match=f"The token in {served.home} does not fit this scheduler"):
        Client(served.url, "x" * 43, home=str(served.home)).jobs()
    with pytest.raises(UnreachableError, match="This token does not fit"):
        Client(served.url, "x" * 43).jobs()


def test_what_a_newer_scheduler_adds_is_left_out() -> None:
    row = {"code": "HELD", "sentence": "s", "facts": {}, "colour": "red"}
    assert module._row(module.ReasonRow, row).code == "HELD"
    with pytest.raises(RotaError, match="lacks a field"):
        module._row(module.JobRow, {"id": 1})
    with pytest.raises(RotaError, match="lacks a field"):
        module._row(module.JobRow, [])  # type: ignore[arg-type]


# Where there is no scheduler


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


@contextlib.contextmanager
def something(answer: bytes | None) -> Iterator[str]:
    """A server of something else: says one thing to each client and hangs up; None: says nothing at all."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def speak() -> None:
            while not done.is_set():
                line, _ = listening.accept()
                with line:
                    line.recv(65_536)
                    if answer is None:
                        done.wait(20)
                    else:
                        line.sendall(answer)

        done = threading.Event()
        thread = threading.Thread(target=speak)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            done.set()
            with contextlib.suppress(OSError), socket.create_connection(listening.getsockname(), timeout=LONG_SECONDS) as last:
                last.sendall(b"x")
            thread.join(20)


def test_nobody_there(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UnreachableError) as problem:
        Client(url, "x" * 43).jobs()
    assert problem.value.message == f"Cannot reach the scheduler at {url} (connection refused)."
    assert problem.value.hint == "rota up · rota doctor"
    with pytest.raises(UnreachableError, match="no such socket"):
        Client(f"unix:{tmp_path / 'absent.sock'}", "x" * 43).jobs()
    with pytest.raises(UnreachableError, match="No scheduler has been started"):
        connect(tmp_path)
    for url in ("http://127.0.0.1:port", "http://[::1", "http://127.0.0.1:99999999"):
        with pytest.raises(UnreachableError):
            Client(url, "x" * 43).jobs()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "connection lost"),
        (b"SSH-2.0-OpenSSH_9\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "is not Rota"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[]", "Cannot reach"),
        (None, "no answer in time"),
    ],
)
def test_something_else_there(answer: bytes | None, message: str) -> None:
    with something(answer) as url, pytest.raises(UnreachableError, match=message):
        Client(url, "x" * 43, answer_seconds=0.5).jobs()


def test_a_refusal_that_comes_before_all_was_sent_is_read(tmp_path: Path) -> None:
    """A scheduler may close the connection while the client still sends."""
    text = json.dumps(encode_error(ForbiddenError("you are wall, a viewer", hint="ask an operator"))).encode()
    answer = b"HTTP/1.1 403 Forbidden\r\nRota-Version: 9\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)

    def refuse() -> None:
        line, _ = listening.accept()
        with line:
            line.recv(100)
            line.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(ForbiddenError, match="a viewer"):
            Client(f"unix:{tmp_path / 'socket'}", None).submit("x" * 800_000)  # more than the socket takes
        thread.join(LONG_SECONDS)


def test_an_answer_that_is_no_json() -> None:
    answer = b"HTTP/1.1 200 OK\r\nRota-Version: 9\r\nContent-Length: 2\r\n\r\n{["
    with something(answer) as url, pytest.raises(RotaError, match="cannot be read"):
        Client(url, "x" * 43).jobs()


def test_a_submission_that_is_never_answered_says_how_to_find_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 1.0)
    with something(b"") as url, pytest.raises(UnreachableError, match="it may have carried out the request") as problem:
        client, retries = Client(url, "x" * 43), []
        client.on_retry = retries.append
        client.submit("x", key="nightly-7")
    assert "not known whether the job was submitted" in problem.value.message and len(retries) >= 2
    assert "--key nightly-7" in problem.value.hint and "rota jobs --all" in problem.value.hint


def test_a_cancellation_without_an_answer_is_not_sent_again() -> None:
    with something(b"") as url, pytest.raises(UnreachableError, match="it may have carried out the request") as problem:
        Client(url, "x" * 43).cancel(3)
    assert problem.value.hint == "rota jobs --all"


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: {}["nobody"])
    assert module.user_name() == str(os.getuid())


def test_the_client_loads_no_heavy_library() -> None:
    code = "import rota, sys; rota.connect; print(sorted({'numpy', 'pydantic', 'fastapi', 'rich', 'yaml'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_many_jobs_with_one_call(served: Served, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "yes")
    jobs = client.submit_many({"run": f"echo {i}", "env": {"MINE": None} if i == 2 else {}} for i in range(4))
    assert [(job.id, job.name, job.phase) for job in jobs] == [(i, f"job-{i}", "queued") for i in range(1, 5)]
    assert ["MINE" in env for _, _, _, env in served.daemon.sent.values()] == [False, False, True, False]
    assert all(set(env) <= {*PASSED_ON, "MINE"} and env["PATH"] for _, _, _, env in served.daemon.sent.values())
    with pytest.raises(SpecError, match=r"jobs\[1\].*None of the jobs was taken") as refused:
        client.submit_many([{"run": "true"}, {"runs": "true"}])
    assert refused.value.field == "jobs.1.runs" and len(served.daemon.rows) == 4
    with pytest.raises(OptionError, match="10,001"):
        client.submit_many([{"run": "true"}] * 10_001)
    served.daemon.run(3)
    page = client.page(limit=2)
    assert ([row.id for row in page.jobs], page.total) == ([3, 1], 4)
    assert [row.id for row in client.page(skip=2).jobs] == [2, 4]
    found = client.cancel_many([jobs[0].id, "job-3"])
    assert [(each.was, each.job.phase) for each in found] == [("queued", "cancelled"), ("running", "cancelled")]
    with pytest.raises(UnknownNameError):
        client.cancel_many([2, 99])
    assert client.page().total == 2 and client.cancel_many([]) == []
