"""The tools: what they return, what they refuse, and that they act as one user."""

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from rota.mcp.job_data import MAX_OUTPUT_CHARS, NOTICE, OUTPUT_NOTICE
from rota.mcp.server import Connection
from rota.server.users_file import set_user
from rota.wire.actor import Role
from rota.wire.client import Client, connect
from rota.wire.rows import ReasonRow, WhyRow
from rota.wire.spec import Spec
from tests.unit.mcp.conftest import Program
from tests.unit.server.standin import Served
from tests.waiting import LONG_SECONDS, until


def test_a_job_from_its_submission_to_its_end(served: Served, program: Program, tmp_path: Path) -> None:
    sent = program.call("submit", run="python train.py", gpus=2, name="resnet", accelerators=["V100"], steps=100)
    assert sent["job"]["id"] == 1 and sent["job"]["phase"] == "queued" and sent["notice"] == NOTICE
    spec, _, workdir, _ = served.daemon.sent[1]
    assert (spec.run, spec.gpus, spec.steps, workdir) == ("python train.py", 2, 100, str(tmp_path))
    why = program.call("why", job="res")
    assert why["reasons"][0]["sentence"] == "4 GPUs are needed, 2 are free." and why["ahead"] == [] and why["ahead_total"] == 0
    served.daemon.run(1)
    listed = program.call("jobs")
    assert [row["id"] for row in listed["jobs"]] == [1] and listed["total"] == 1
    assert program.call("show", job=1)["job"] == connect(served.home).job(1).to_dict()
    assert program.call("nodes")["nodes"][0]["gpus"][0]["jobs"] == [1]
    assert program.call("status")["gpus_busy"] == 2
    served.daemon.write(1, "".join(f"step {n}\n" for n in range(5)))
    found = program.call("logs", job="resnet", lines=2)
    assert found == {
        "notice": OUTPUT_NOTICE,
        "job": 1,
        "phase": "running",
        "beginning_left_out": False,
        "output": "step 3\nstep 4\n",
    }
    cancelled = program.call("cancel", jobs=[1])["cancelled"]
    assert cancelled[0]["was"] == "running" and cancelled[0]["job"]["phase"] == "cancelled"
    waited = program.call("wait", jobs=["resnet"], timeout_seconds=0)
    assert waited["ended"] is True and waited["jobs"][0]["phase"] == "cancelled"
    assert program.call("jobs")["total"] == 0 and program.call("jobs", all=True)["total"] == 1
    assert program.call("jobs", all=True, phase="failed")["total"] == 0


def test_a_page_of_jobs(served: Served, program: Program) -> None:
    for _ in range(5):
        program.call("submit", run="true")
    page = program.call("jobs", limit=2, skip=2)
    assert [row["id"] for row in page["jobs"]] == [3, 4] and page["total"] == 5


def test_the_same_key_is_the_same_job(served: Served, program: Program) -> None:
    first = program.call("submit", run="true", key="k")
    assert program.call("submit", run="true", key="k")["job"]["id"] == first["job"]["id"] == 1
    assert "k" in program.refused("submit", run="false", key="k") and len(served.daemon.rows) == 1


def test_a_check_submits_nothing(served: Served, program: Program) -> None:
    assert program.call("check", run="true", gpus={"min": 1, "max": 4}, key="k")["gpus"] == 4
    for name in ("check", "submit"):
        assert program.refused(name, run="true", gpu=4).startswith("gpu — unknown field 'gpu'. Closest: gpus.")
        assert "needs 'run'" in program.refused(name)
        assert "gpus: 'many'" in program.refused(name, run="true", gpus="many")
        assert "ROTA_JOB_ID is set by Rota" in program.refused(name, run="true", env={"ROTA_JOB_ID": "1"})
    assert served.daemon.rows == {}
    assert "UNSATISFIABLE" in program.refused("submit", run="true", gpus=7)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("show", {}, "job — is missing."),
        ("show", {"job": True}, "job"),
        ("show", {"job": ""}, "job"),
        ("show", {"job": "nobody"}, "No job 'nobody'"),
        ("show", {"job": 1, "jobs": [1]}, "jobs — unknown argument. Closest: job."),
        ("show", {"job": "a/../b"}, "No job 'a/../b'"),
        ("logs", {"job": 1, "lines": 0}, "lines: '0'"),
        ("logs", {"job": 1, "lines": 10**9}, "lines"),
        ("wait", {"jobs": []}, "jobs"),
        ("wait", {"jobs": [1], "timeout_seconds": 1e9}, "timeout_seconds"),
        ("wait", {"jobs": [1], "timeout_seconds": "soon"}, "timeout_seconds"),
        ("wait", {"jobs": list(range(100))}, "jobs"),
        ("cancel", {"jobs": "all"}, "jobs"),
        ("cancel", {"jobs": [1, True]}, "jobs.1"),
        ("jobs", {"limit": 10**6}, "limit"),
        ("jobs", {"skip": -1}, "skip"),
        ("jobs", {"user": "x" * 500}, "user"),
        ("status", {"x": 1}, "takes no arguments"),
        ("show", {"job": "\ud800"}, "half a character"),
        ("submit", {"run": "true", "key": ""}, "key"),
        ("submit", {"run": "true", "key": 5}, "key"),
        ("submit", {"run": {"run": {}}}, "run"),
    ],
)
def test_wrong_arguments_are_an_error_that_the_caller_can_correct(
    program: Program, name: str, arguments: dict[str, Any], said: str
) -> None:
    assert said in program.refused(name, **arguments)


def test_a_name_that_fits_several_jobs_cancels_none(served: Served, program: Program) -> None:
    for name in ("resnet-a", "resnet-b", "vit"):
        program.call("submit", run="true", name=name)
    assert "fits 2 jobs" in program.refused("cancel", jobs=["vit", "resnet"])
    assert {row.phase for row in served.daemon.rows.values()} == {"queued"}


def test_a_server_that_only_reads_has_no_other_tools(served: Served) -> None:
    program = Program(served, read_only=True)
    program.hello()
    tools = program.ask("tools/list")["result"]["tools"]
    assert not {"submit", "cancel"} & {each["name"] for each in tools}
    assert all(each["annotations"]["readOnlyHint"] for each in tools)
    for name in ("submit", "cancel"):
        error = program.ask("tools/call", {"name": name, "arguments": {"run": "true"}})["error"]
        assert error["code"] == -32602 and "only reads" in error["message"]
    assert served.daemon.rows == {} and program.call("whoami")["read_only"] is True


def test_tools_act_with_the_role_of_their_user(served: Served) -> None:
    tokens = {role: set_user(served.home, role, role, token=True, expires_days=None) for role in Role}
    connect(served.home).submit("true", name="theirs")

    def program_of(role: Role) -> Program:
        found = Program(served, connect=lambda: Client(served.url, tokens[role]))
        found.hello()
        assert found.call("whoami")["role"] == role
        return found

    viewer, user = program_of(Role.VIEWER), program_of(Role.USER)
    assert "you are viewer, a viewer" in viewer.refused("submit", run="true")
    assert user.call("submit", run="true", name="mine")["job"]["user"] == "user"
    assert "belongs to" in user.refused("cancel", jobs=["theirs"]) and "you are user" in user.refused("logs", job="theirs")
    assert user.call("show", job="theirs")["job"]["command"] is None
    assert program_of(Role.OPERATOR).call("cancel", jobs=["theirs", "mine"])["cancelled"]


def test_a_scheduler_that_is_not_running_is_an_error_of_the_tool(tmp_path: Path, served: Served) -> None:
    program = Program(served, connect=lambda: connect(tmp_path))
    program.hello()
    for name in ("status", "jobs", "whoami"):
        assert "No scheduler has been started" in program.refused(name)
    assert "No scheduler has been started" in program.refused("submit", run="true")
    assert program.call("check", run="true")["ok"]


def test_what_jobs_wrote_is_data(served: Served, program: Program) -> None:
    program.call("submit", run="true", name="resnet")
    served.daemon.run(1, problem="a\x1b[2Jb\u202ec\U000e0041d", metrics={"lo\nss\x07": float("nan")}, last_change="x" * 10_000)
    row = program.call("show", job=1)["job"]
    assert row["problem"] == "a\\x1b[2Jb\\u202ec\\U000e0041d"
    assert len(row["last_change"]) < 2_100 and row["last_change"].endswith("(8,000 characters left out)")
    served.daemon.write(1, 'ok\r\n\x1b]0;title\x07 50%\r100%\n"}]}\u2028{"jsonrpc": "2.0"}\n')
    found = program.call("logs", job=1)
    assert found["output"] == 'ok\n\\x1b]0;title\\x07 50%\n100%\n"}]}\\u2028{"jsonrpc": "2.0"}\n'
    served.daemon.write(1, "y" * 100_000)
    found = program.call("logs", job=1)
    assert found["beginning_left_out"] is True and found["output"] == "y" * MAX_OUTPUT_CHARS


def test_long_lists_are_cut_and_counted(served: Served, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program.call("submit", run="true")
    row = served.daemon.rows[1]
    served.daemon.change(
        dataclasses.replace(row, metrics={f"m{n}": 1.0 for n in range(300)}, accepted_accelerators=["K80"] * 201)
    )
    found = program.call("show", job=1)["job"]
    assert len(found["metrics"]) == 201 and found["metrics"]["(left out)"] == 100
    assert len(found["accepted_accelerators"]) == 201 and found["accepted_accelerators"][-1] == "(1 left out)"
    many = WhyRow(job=row, reasons=[ReasonRow(code="OUTRANKED", sentence="x")], ahead=[row] * 500)
    monkeypatch.setattr(served.daemon, "why", lambda job: many)
    found = program.call("why", job=1)
    assert len(found["ahead"]) == 10 and found["ahead_total"] == 500


def test_a_wait_ends_when_the_jobs_do(served: Served, program: Program) -> None:
    program.call("submit", run="true")
    program.call("submit", run="true")
    assert program.call("wait", jobs=[1, 2], timeout_seconds=0)["ended"] is False
    served.daemon.end(1)
    served.daemon.end(2, "failed", 1)
    found = program.call("wait", jobs=[1, 2])
    assert found["ended"] is True and [row["phase"] for row in found["jobs"]] == ["finished", "failed"]


class Pipe:
    """Lines that a test sends one by one while a connection serves."""

    def __init__(self, program: Program) -> None:
        self._lines: list[bytes] = []
        self._more = threading.Condition()
        self._over = False
        self.answers: list[Any] = []
        connection = Connection(program.server, lambda line: self.answers.append(json.loads(line)))
        self._thread = threading.Thread(target=lambda: connection.serve(self._sent()))
        self._thread.start()

    def _sent(self) -> Any:
        while True:
            with self._more:
                self._more.wait_for(lambda: self._lines or self._over)
                if not self._lines:
                    return
                line = self._lines.pop(0)
            yield line

    def send(self, **message: Any) -> None:
        with self._more:
            self._lines.append(json.dumps({"jsonrpc": "2.0", **message}).encode())
            self._more.notify()

    def answer(self, id: int) -> Any:
        until(lambda: any(each["id"] == id for each in list(self.answers)), f"answer {id}")
        return next(each for each in self.answers if each["id"] == id)

    def close(self) -> None:
        with self._more:
            self._over = True
            self._more.notify()
        self._thread.join(LONG_SECONDS)
        assert not self._thread.is_alive()


WAIT = {"name": "wait", "arguments": {"jobs": [1], "timeout_seconds": 300}}


def test_other_requests_are_answered_during_a_wait(served: Served, program: Program) -> None:
    program.call("submit", run="true")
    pipe = Pipe(program)
    pipe.send(id=1, method="tools/call", params=WAIT)
    pipe.send(id=2, method="ping")
    pipe.send(id=3, method="tools/call", params={"name": "status"})
    assert pipe.answer(2)["result"] == {} and pipe.answer(3)["result"]["structuredContent"]["gpus"] == 6
    assert not any(each["id"] == 1 for each in pipe.answers)
    served.daemon.end(1)
    assert pipe.answer(1)["result"]["structuredContent"]["ended"] is True
    pipe.close()


def test_a_cancelled_wait_gets_no_answer(served: Served, program: Program) -> None:
    program.call("submit", run="true")
    pipe = Pipe(program)
    pipe.send(id=1, method="tools/call", params=WAIT)
    pipe.send(method="notifications/cancelled", params={"requestId": 1, "reason": "no longer needed"})
    pipe.send(id=2, method="ping")
    pipe.answer(2)
    pipe.close()
    assert [each["id"] for each in pipe.answers] == [2]
    assert served.daemon.rows[1].phase == "queued"


def test_the_end_of_the_input_ends_a_wait(served: Served, program: Program) -> None:
    program.call("submit", run="true")
    pipe = Pipe(program)
    pipe.send(id=1, method="tools/call", params=WAIT)
    pipe.close()
    assert pipe.answer(1)["result"]["structuredContent"]["ended"] is False


def test_the_schemas_are_plain_and_complete(program: Program) -> None:
    tools = {each["name"]: each for each in program.ask("tools/list")["result"]["tools"]}
    for each in tools.values():
        schema = each["inputSchema"]
        assert schema["type"] == "object" and schema["additionalProperties"] is False and each["description"].endswith(".")
        for field in schema["properties"].values():
            described = schema["$defs"][field["$ref"].rpartition("/")[2]] if "$ref" in field else field
            assert described["description"]
        assert each["title"] and '"title": "' not in json.dumps(schema)
    for name in ("submit", "check"):
        assert set(tools[name]["inputSchema"]["properties"]) == {*Spec.model_fields, "key"}
        assert tools[name]["inputSchema"]["required"] == ["run"]
    assert tools["cancel"]["annotations"]["destructiveHint"] and not tools["submit"]["annotations"]["readOnlyHint"]


def test_a_fault_of_the_server_itself_is_an_answer_too(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> Client:
        raise ZeroDivisionError("a secret of the server")

    program = Program(served, connect=broken)
    program.hello()
    error = program.ask("tools/call", {"name": "status"})["error"]
    assert error["code"] == -32603 and "secret" not in error["message"]
    out, err = capsys.readouterr()
    assert out == "" and "ZeroDivisionError" in err
