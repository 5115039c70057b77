"""One scheduler for all users of a machine: real Unix users at its socket, their jobs, and what they try on each other."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.errors import ForbiddenError, RotaError, SpecError, UnreachableError
from rota.wire.client import Client
from tests.live.agent.users import ANA, LEO, PATH
from tests.live.all_users import Shared
from tests.live.harness import Site
from tests.stranger import root_only
from tests.waiting import alive, until

pytestmark = root_only
VICTIM = LEO


@pytest.fixture
def shared(public: Path, request: pytest.FixtureRequest) -> Iterator[Shared]:
    place = Shared(public)
    if getattr(request, "param", False):
        place.flags["--hide-names"] = ""
    try:
        place.up()
        yield place
    finally:
        for row in place.client().jobs() if place.process is not None else ():
            place.client().cancel(row.id)
        until(lambda: not place.supervisors(), "all supervisors have ended")
        place.close()


SLEEP = "echo $$; exec sleep 600"


def test_each_job_runs_as_the_user_who_submitted_it(shared: Shared) -> None:
    jobs = {user.pw_uid: shared.submit_as(user.pw_uid, "id -u; id -g; pwd; umask; env") for user in (ANA, LEO)}
    for user in (ANA, LEO):
        job = jobs[user.pw_uid]
        assert shared.ended(job) == "finished", shared.output(job)
        lines = shared.output(job).splitlines()
        assert lines[:4] == [str(user.pw_uid), str(user.pw_gid), str(shared.folders[user.pw_uid]), "0022"]
        assert f"USER={user.pw_name}" in lines and str(shared.home) not in "\n".join(lines)
        assert shared.client().job(job).user == user.pw_name
    assert shared.said().splitlines()[2].startswith("serves all users of this machine")


def test_the_socket_says_who_one_is(shared: Shared) -> None:
    found = shared.as_user(ANA.pw_uid, lambda client: client.me().to_dict())
    assert found == {"name": ANA.pw_name, "role": "user", "uid": ANA.pw_uid, "tenant": None, "tenants": None}
    assert shared.shared_client().me().role == "operator"


def test_users_change_only_their_own_jobs_and_the_operator_all(shared: Shared) -> None:
    hers, his = (shared.submit_as(user.pw_uid, SLEEP) for user in (ANA, LEO))
    with pytest.raises(ForbiddenError, match="belongs to"):
        shared.as_user(ANA.pw_uid, lambda client: client.cancel(his).id)
    with pytest.raises(ForbiddenError):
        shared.as_user(ANA.pw_uid, lambda client: len(client.cancel_many([hers, his])))
    with pytest.raises(ForbiddenError):
        shared.as_user(ANA.pw_uid, lambda client: client.set_policy("las").policy)
    assert [row.ended for row in shared.rows().values()] == [False, False]
    shared.as_user(ANA.pw_uid, lambda client: client.cancel(hers).id)
    shared.client().cancel(his)
    assert (shared.ended(hers), shared.ended(his)) == ("cancelled", "cancelled")


def test_the_output_command_and_spec_of_a_job_are_its_owners(shared: Shared) -> None:
    his = shared.submit_as(LEO.pw_uid, "echo a secret", name="his-job")
    shared.ended(his)
    assert "a secret" in shared.as_user(LEO.pw_uid, lambda client: client.log(his).text)
    with pytest.raises(ForbiddenError, match="is for"):
        shared.as_user(ANA.pw_uid, lambda client: client.log(his).text)
    row = shared.as_user(ANA.pw_uid, lambda client: client.job(his).to_dict())
    assert row["name"] == "his-job" and row["command"] is None and row["spec"] is None
    assert "a secret" not in json.dumps(shared.as_user(ANA.pw_uid, lambda client: [each.to_dict() for each in client.jobs(True)]))


@pytest.mark.parametrize("name", ["root", VICTIM.pw_name, "0", "uid:0", "user 0"])
def test_a_job_cannot_be_submitted_in_the_name_of_another(shared: Shared, name: str) -> None:
    with pytest.raises(ForbiddenError, match=f"You are {ANA.pw_name}"):
        shared.as_user(ANA.pw_uid, lambda client: client.submit_spec({"run": "id"}, user=name, workdir="/").id)
    assert not shared.rows()


@pytest.mark.parametrize("spec", [{"uid": 0}, {"user": "root"}, {"env": {"ROTA_JOB_ID": "1"}}, {"checkpoint": {"dir": "/etc"}}])
def test_a_spec_cannot_say_who_runs_it(shared: Shared, spec: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        shared.as_user(ANA.pw_uid, lambda client: client.submit_spec({"run": "id", **spec}, workdir="/").id)


def test_a_folder_that_the_user_cannot_enter_is_not_entered(shared: Shared) -> None:
    inside = shared.folders[LEO.pw_uid] / "data"
    inside.mkdir()
    inside.chmod(0o777)
    (inside / "secret").write_text("a secret")
    for place in (str(inside), str(shared.home), "/root"):
        job = shared.as_user(ANA.pw_uid, lambda client, place=place: client.submit_spec({"run": "cat secret"}, workdir=place).id)
        assert shared.ended(job) == "failed"
        text = "".join(piece.text for piece in shared.client().log_pieces(job))
        assert f"cannot enter the working directory {place}" in text and "a secret" not in text


def test_the_home_and_its_token_are_out_of_reach(shared: Shared) -> None:
    job = shared.submit_as(
        ANA.pw_uid, f"cat {shared.home}/token {shared.home}/journal.sqlite {shared.home}/logs/1.log; ls {shared.home}/run"
    )
    assert shared.ended(job) == "failed"
    assert shared.output(job).count("Permission denied") == 4
    for path in (shared.home / "token", shared.home / "users.json", shared.home / "daemon.json"):
        with pytest.raises(PermissionError):
            shared.as_user(ANA.pw_uid, lambda client, path=path: path.read_text())


def test_the_socket_cannot_be_replaced(shared: Shared) -> None:
    for act in (lambda client: shared.socket.unlink(), lambda client: shared.socket.rename(shared.socket.parent / "old")):
        with pytest.raises(PermissionError):
            shared.as_user(ANA.pw_uid, act)
    with pytest.raises(PermissionError):
        shared.as_user(ANA.pw_uid, lambda client: (shared.socket.parent / "mine").write_text(""))


def test_a_client_does_not_trust_a_socket_of_another_user(shared: Shared) -> None:
    """Else that user would see what is submitted."""
    place = shared.folders[LEO.pw_uid] / "rota.sock"
    false = socket.socket(socket.AF_UNIX)
    with false:
        os.seteuid(LEO.pw_uid)
        try:
            false.bind(str(place))
            false.listen()
        finally:
            os.seteuid(0)
        place.chmod(0o666)
        shared.folders[LEO.pw_uid].chmod(0o711)
        with pytest.raises(UnreachableError, match="refused"):
            shared.as_user(ANA.pw_uid, lambda client: Client(f"unix:{place}", None).me().name)


def test_a_job_acts_at_the_socket_as_its_user_and_not_as_root(shared: Shared) -> None:
    his = shared.submit_as(LEO.pw_uid, SLEEP)
    request = f"POST /api/v1/jobs/{his}/cancel HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"
    script = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{shared.socket}'); s.sendall(b'{request}'); "
    run = ["/usr/bin/env", "python3", "-c", script + "print(s.recv(65536).decode())"]
    sent = {"run": run, "env": {"PATH": PATH}}
    job = shared.as_user(ANA.pw_uid, lambda client: client.submit_spec(sent, workdir="/").id)
    assert shared.ended(job) == "finished", shared.output(job)
    assert " 403 " in shared.output(job).splitlines()[0] and not shared.rows()[his].ended


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_signals_do_not_reach_jobs_of_others(shared: Shared, number: int) -> None:
    his = shared.submit_as(LEO.pw_uid, SLEEP)
    victim = shared.pid_of(his)
    assert shared.process is not None
    for pid in (victim, shared.process.pid, *shared.supervisors()):
        with pytest.raises(PermissionError):
            shared.as_user(ANA.pw_uid, lambda client, pid=pid: os.kill(pid, number))
    assert alive(victim)


def test_keys_of_different_users_are_different(shared: Shared) -> None:
    """A user who guesses a key of another must not learn about, or take over, the job."""
    submit = lambda client: client.submit_spec({"run": "true"}, workdir="/", key="same").id  # noqa: E731
    assert shared.as_user(ANA.pw_uid, submit) != shared.as_user(LEO.pw_uid, submit)


def test_a_scheduler_that_is_killed_knows_afterwards_whose_job_is_whose(shared: Shared) -> None:
    hers, his = (shared.submit_as(user.pw_uid, SLEEP) for user in (ANA, LEO))
    pids = {job: shared.pid_of(job) for job in (hers, his)}
    shared.kill()
    shared.up()
    for user, job in ((ANA, hers), (LEO, his)):
        assert alive(pids[job]) and Path(f"/proc/{pids[job]}").stat().st_uid == user.pw_uid
        assert shared.client().job(job).user == user.pw_name
    later = shared.submit_as(ANA.pw_uid, "id -u")
    assert shared.ended(later) == "finished" and shared.output(later).split()[0] == str(ANA.pw_uid)
    with pytest.raises(ForbiddenError):
        shared.as_user(ANA.pw_uid, lambda client: client.cancel(his).id)


def test_a_job_of_another_user_is_stopped_and_ends_whole(shared: Shared) -> None:
    job = shared.submit_as(ANA.pw_uid, "echo $$; setsid sleep 600 & setsid -f sleep 600; exec sleep 600")
    pid = shared.pid_of(job)
    shared.as_user(ANA.pw_uid, lambda client: client.cancel(job).id)
    assert shared.ended(job) == "cancelled"
    until(lambda: not alive(pid), "its main process has ended")
    until(lambda: not _sleeping_as(ANA.pw_uid), "all its processes have ended")


def _sleeping_as(uid: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and folder.stat().st_uid == uid and b"sleep\x00600" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_a_scheduler_that_does_not_run_as_root_serves_one_user(public: Path) -> None:
    from tests.second_user import as_nobody

    found = as_nobody("-m", "rota", "up", "--all-users", "--home", str(public / "home"), "--pretend", "1xV100")
    assert found.returncode == 2 and "needs root" in found.stderr, found.stderr + found.stdout


def test_a_socket_of_one_user_refuses_others(public: Path) -> None:
    place = Site(public, pretend="1xV100")
    socket_path = public / "open" / "rota.sock"
    socket_path.parent.mkdir()
    socket_path.parent.chmod(0o755)
    place.flags["--listen"] = f"unix:{socket_path}"
    try:
        place.up()
        assert socket_path.stat().st_mode & 0o777 == 0o600
        Client(f"unix:{socket_path}", None).me()
        ask = [
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])",
            str(socket_path),
        ]
        found = subprocess.run(["python3", "-c", *ask], user=ANA.pw_uid, capture_output=True, text=True, cwd="/", check=False)
        assert "PermissionError" in found.stderr
    finally:
        place.close()


@pytest.mark.parametrize("shared", [True], indirect=True, ids=["hide-names"])
def test_hidden_names_of_others_come_out_nowhere(shared: Shared) -> None:
    """Neither in rows, nor in errors that list or repeat the names of jobs, nor in the history of one's own jobs."""
    his = shared.submit_as(LEO.pw_uid, "exit 3", name="7-secret-plan")
    running = shared.submit_as(LEO.pw_uid, SLEEP, name="secret-run", gpus=4)
    assert shared.ended(his) == "failed"
    hers = shared.submit_as(ANA.pw_uid, "true", name="hers", after=[{"job": running, "when": "ended"}])
    after = lambda what: lambda client: client.submit_spec({"run": "true", "after": [what]}, workdir="/").id  # noqa: E731
    tries: list[Callable[[Client], Any]] = [
        *(lambda client, key=key: client.job(key).to_dict() for key in ("7", "999", "secret-run", "secret", "se", "\u0667")),
        *(lambda client, key=key: len(client.cancel_many([key])) for key in ("999", "secret-run", "secret", running, "7")),
        *(after(what) for what in (his, "secret-run", "secret", "7-secret-plan", "nothing")),
        *(lambda client, key=key: client.why(key).to_dict() for key in (hers, running, his, "secret-run")),
        lambda client: [each.to_dict() for each in client.jobs(True)],
        lambda client: [each.to_dict() for each in client.events(hers)],
        lambda client: [each.to_dict() for each in client.nodes()],
        lambda client: client.status().to_dict(),
    ]
    for number, act in enumerate(tries):
        try:
            seen = json.dumps(shared.as_user(ANA.pw_uid, act))
        except RotaError as problem:
            seen = str(problem)
        for name in ("secret-plan", "secret-run"):
            assert name not in seen.replace(f"'{name}'", "").replace(f"'7-{name}'", ""), (number, seen)
    assert not shared.rows()[running].ended
    assert shared.client().job("secret-run").id == running, "the operator sees them"
