"""The HTTP API, through a real server: its responses, and what it refuses."""

import json

import pytest

import rota
from tests.unit.server.asking import ask, raw, submission, submit
from tests.unit.server.standin import Served


def test_health_is_open_and_names_the_version(served: Served) -> None:
    status, found, headers = ask(served, "GET", "/healthz", token="")
    assert (status, found) == (200, {"ok": True, "version": rota.__version__})
    assert headers["rota-version"] == rota.__version__


def test_a_job_from_submission_to_cancellation(served: Served) -> None:
    status, row, headers = ask(served, "POST", "/api/v1/jobs", submission(name="resnet", gpus=2, accelerators="v100"))
    assert status == 201 and headers["rota-version"] == rota.__version__
    assert (row["id"], row["name"], row["phase"], row["gpus"]) == (1, "resnet", "queued", 2)
    assert row["accepted_accelerators"] == ["V100"]
    spec, user, workdir, env = served.daemon.sent[1]
    assert (spec.run, user, workdir, env) == ("python train.py", "ana", "/home/ana", {"PATH": "/usr/bin"})
    for key in ("1", "resnet", "res"):
        assert ask(served, "GET", f"/api/v1/jobs/{key}")[:2] == (200, row)
    assert ask(served, "GET", "/api/v1/jobs")[1] == [row]
    status, why, _ = ask(served, "GET", "/api/v1/jobs/resnet/why")
    assert status == 200 and why["job"] == row and why["reasons"][0]["facts"] == {"free": 2} and why["forecast"] is None
    served.daemon.write(1, "step 1\nGrüße ")
    assert ask(served, "GET", "/api/v1/jobs/1/logs?offset=5&limit=100")[1] == {
        "text": "1\nGrüße ",
        "next_offset": 15,
        "ended": False,
    }
    assert ask(served, "GET", "/api/v1/status")[1]["gpus"] == 6
    status, row, _ = ask(served, "POST", "/api/v1/jobs/res/cancel")
    assert status == 200 and row["phase"] == "cancelled"
    assert ask(served, "GET", "/api/v1/jobs")[1] == []
    assert [each["id"] for each in ask(served, "GET", "/api/v1/jobs?all=true")[1]] == [1]


BAD_BODIES: list[tuple[bytes, str]] = [
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"spec": ' * 2000 + b"1" + b"}" * 2000, "nested too deeply"),
    (b'{"spec": {"run": ' + b"[" * 30 + b"]" * 30 + b'}, "user": "a", "workdir": "/"}', "nested too deeply"),
    (b'{"spec": {"run": "x", "weight": NaN}}', "NaN"),
    (b'{"spec": {"run": "x", "steps": ' + b"9" * 5000 + b"}}", "not JSON"),
    (b"[]", "not a JSON object"),
    (b"null", "not a JSON object"),
    (b'{"spec": {"run": "x"}, "user": "a", "workdir": "/", "sudo": true}', "unknown field"),
    (b'{"user": "a", "workdir": "/"}', "needs 'run'"),
    (b'{"spec": [], "user": "a", "workdir": "/"}', "not a mapping"),
    (b'{"spec": {"run": "\\ud800"}, "user": "a", "workdir": "/"}', "half a character"),
    (b'{"spec": {"\\ud800": 1}, "user": "a", "workdir": "/"}', "half a character"),
    (b'{"spec": {"run": "a\\u0000b"}, "user": "a", "workdir": "/"}', "null character"),
    (b'{"spec": {"run": "x", "gpu": 1}, "user": "a", "workdir": "/"}', "Did you mean|Closest: gpus"),
    (b'{"spec": {"run": "x", "gpus": 99}, "user": "a", "workdir": "/"}', "UNSATISFIABLE"),
    (b'{"spec": {"run": "x"}, "user": "a"}', "workdir"),
    (b'{"spec": {"run": "x"}, "user": " ", "workdir": "/"}', "user"),
    (b'{"spec": {"run": "x"}, "user": "a\\u001bb", "workdir": "/"}', "user"),
    (b'{"spec": {"run": "x"}, "user": "a"}', "workdir"),
    (b'{"spec": {"run": "x"}, "user": "a", "workdir": "here"}', "absolute path"),
    (b'{"spec": {"run": "x"}, "user": "a", "workdir": "/a\\u0000"}', "absolute path"),
    (b'{"spec": {"run": "x"}, "user": "a", "workdir": "/", "env": []}', "env"),
    (b'{"spec": {"run": "x"}, "user": "a", "workdir": "/", "env": {"A=B": "1"}}', "environment variable"),
    (b'{"spec": {"run": "x"}, "user": "a", "workdir": "/", "env": {"A": 1}}', "environment variable"),
    (b'{"spec": {"run": "x"}, "user": "a", "workdir": "/", "env": {"A": "\\udcff"}}', "half a character"),
]


_NOT_TAKEN = [
    ('"deadline": "9999-12-31T23:59:59-23:59"', "deadline"),
    ('"deadline": "0001-01-01"', "deadline"),
    ('"deadline": "0001-01-01T00:00:00+23:59"', "deadline"),
    ('"deadline": "1969-12-31"', "deadline"),
    ('"batch": {"size": 1, "max": 1e30}', "batch.max"),
    ('"batch": {"size": 1e30}', "batch.size"),
    ('"steps": 1e308', "steps"),
    ('"steps": 1' + "0" * 400, "steps"),
    ('"weight": 1e-308', "weight"),
    ('"weight": 1e308', "weight"),
    ('"checkpoint": {"grace": 1e308}', "checkpoint.grace"),
    ('"checkpoint": {"grace": "999999999d"}', "checkpoint.grace"),
    ('"checkpoint": {"dir": "a\\u0000b"}', "checkpoint.dir"),
    ('"workdir": "a\\u0000b"', "workdir"),
    ('"profile": "a\\u0000b"', "profile"),
    ('"gpu_memory": 1e308', "gpu_memory"),
    ('"gpus": 1e308', "gpus"),
    ('"retries": 1e308', "retries"),
    ('"progress": "(a{99999999999999999999})"', "progress"),
    ('"progress": "' + "(" * 5000 + '"', "progress"),
    ('"tenant": "' + "a" * 5000 + '"', "tenant"),
]
"""What was answered with 500, or taken, and the field that is at fault."""


@pytest.mark.parametrize(("fields", "at_fault"), _NOT_TAKEN)
def test_values_out_of_range_are_refused(served: Served, fields: str, at_fault: str) -> None:
    body = f'{{"spec": {{"run": "x", {fields}}}, "user": "a", "workdir": "/"}}'
    status, found, _ = ask(served, "POST", "/api/v1/jobs", body.encode())
    assert (status, found["kind"], found["field"]) == (400, "SpecError", at_fault), found
    assert found["hint"] and len(found["error"]) < 500 and served.daemon.rows == {}


@pytest.mark.parametrize("key", [1, "", " ", "x" * 201, "a\nb", ["a"], {}])
def test_a_key_that_is_no_text_is_refused(served: Served, key: object) -> None:
    status, found, _ = ask(served, "POST", "/api/v1/jobs", {**submission(), "idempotency_key": key})
    assert (status, found["field"]) == (400, "idempotency_key") and served.daemon.rows == {}


def test_a_submission_with_the_same_key_is_answered_with_the_same_job(served: Served) -> None:
    body = {**submission(), "idempotency_key": "nightly-7"}
    first, again = (ask(served, "POST", "/api/v1/jobs", body) for _ in range(2))
    assert first[:2] == again[:2] and first[0] == 201 and len(served.daemon.rows) == 1
    status, found, _ = ask(served, "POST", "/api/v1/jobs", {**body, "workdir": "/elsewhere"})
    assert (status, found["kind"], found["field"]) == (409, "ConflictError", "idempotency_key")


@pytest.mark.parametrize(("body", "message"), BAD_BODIES)
def test_a_submission_that_cannot_be_used_is_one_clear_error(served: Served, body: bytes, message: str) -> None:
    status, found, _ = ask(served, "POST", "/api/v1/jobs", body)
    assert status == 400, found
    assert any(part in found["error"] for part in message.split("|")), found
    assert set(found) == {"error", "hint", "kind", "field", "line"} and len(found["error"]) < 500
    assert served.daemon.rows == {}


def test_a_fault_of_the_spec_names_its_field(served: Served) -> None:
    status, found, _ = ask(served, "POST", "/api/v1/jobs", submission(checkpoint={"grace": "soon"}))
    assert (status, found["field"], found["kind"], found["line"]) == (400, "checkpoint.grace", "SpecError", None)


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ("9", 404),
        ("nobody", 404),
        ("..", 404),
        ("../..", 404),
        ("%2e%2e", 404),
        ("%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404),
        ("..%5c..", 404),
        ("%00", 404),
        ("1%00", 404),
        ("-1", 404),
        ("1e0", 404),
        ("%ff", 404),
        ("", 404),
        ("x" * 5000, 404),
        ("%25", 404),
        ("1;drop", 404),
    ],
)
def test_keys_that_name_no_job(served: Served, key: str, status: int) -> None:
    submit(served, name="resnet")
    for way in (f"/api/v1/jobs/{key}", f"/api/v1/jobs/{key}/why", f"/api/v1/jobs/{key}/logs"):
        got, found, _ = ask(served, "GET", way)
        assert got == status and found["error"] and "Traceback" not in found["error"], way
    assert ask(served, "POST", f"/api/v1/jobs/{key}/cancel")[0] == status
    assert served.daemon.rows[1].phase == "queued"


def test_names_that_a_path_would_not_have(served: Served) -> None:
    names = ["vision/resnet 50%", "ünï?&#", "a+b"]
    for number, name in enumerate(names, 1):
        assert submit(served, name=name) == number
    for number, key in enumerate(["vision%2Fresnet%2050%25", "%C3%BCn%C3%AF%3F%26%23", "a%2Bb"], 1):
        assert ask(served, "GET", f"/api/v1/jobs/{key}")[1]["id"] == number
        assert ask(served, "GET", f"/api/v1/jobs/{key}/why")[1]["job"]["id"] == number


def test_what_fits_several_jobs_is_a_conflict(served: Served) -> None:
    submit(served, name="resnet-a")
    submit(served, name="resnet-b")
    status, found, _ = ask(served, "GET", "/api/v1/jobs/resnet")
    assert (status, found["kind"]) == (409, "OptionError") and found["hint"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/docs", 404),
        ("GET", "/redoc", 404),
        ("GET", "/openapi.json", 404),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/jobs/", 404),
        ("GET", "//api/v1/jobs", 404),
        ("GET", "/api/v1/../../etc/passwd", 404),
        ("DELETE", "/api/v1/jobs", 405),
        ("POST", "/healthz", 405),
        ("GET", "/api/v1/jobs/1/cancel", 404),
        ("GET", "/api/v1/jobs?all=perhaps", 400),
        ("GET", "/api/v1/jobs/1/logs?offset=-1", 400),
        ("GET", "/api/v1/jobs/1/logs?limit=0", 400),
        ("GET", "/api/v1/jobs/1/logs?limit=99999999", 400),
        ("GET", "/api/v1/changes?timeout=nan", 400),
        ("GET", "/api/v1/changes?timeout=-1", 400),
        ("GET", "/api/v1/changes?seen=x", 400),
        ("GET", "/api/v1/changes?seen=" + "9" * 5000, 400),
    ],
)
def test_what_does_not_exist_is_said_in_json(served: Served, method: str, path: str, status: int) -> None:
    submit(served)
    got, found, headers = ask(served, method, path)
    assert got == status and found["error"], found
    assert headers["rota-version"] == rota.__version__


def test_a_failure_shows_nothing_of_the_inside(served: Served) -> None:
    status, found, headers = ask(served, "POST", "/api/v1/jobs", submission(name="explode"))
    assert status == 500 and headers["rota-version"] == rota.__version__
    assert found["error"] == "The scheduler failed (RuntimeError)." and "secret" not in json.dumps(found)
    assert ask(served, "GET", "/api/v1/jobs")[0] == 200


def test_halves_of_characters_in_a_log_do_not_break_the_answer(served: Served) -> None:
    job = submit(served)
    served.daemon.output[job] = b"ok \xff\xc3"
    assert ask(served, "GET", f"/api/v1/jobs/{job}/logs")[1]["text"] == "ok \ufffd\ufffd"


def test_the_description_of_the_api_is_there_for_who_has_the_token(served: Served) -> None:
    status, found, _ = ask(served, "GET", "/api/v1/openapi.json")
    assert status == 200 and "/api/v1/jobs/{key}/why" in found["paths"]
    assert set(found["components"]["schemas"]) >= {"JobRow", "WhyRow", "StatusRow", "LogChunk"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"policy": 1}', b'{"policy": " "}', b'{"policy": "fifo", "more": 1}', b'{"policy": "a\\u001b"}']
)
def test_a_policy_that_is_no_name_is_refused(served: Served, body: bytes) -> None:
    status, found, _ = ask(served, "POST", "/api/v1/policy", body)
    assert status == 400 and ("policy" in found["error"] or "JSON" in found["error"])
    assert served.daemon.policy == "tiresias"


def test_setting_the_policy_wants_the_token(served: Served) -> None:
    assert ask(served, "POST", "/api/v1/policy", b'{"policy": "fifo"}', token="")[0] == 401
    assert served.daemon.policy == "tiresias"
    assert ask(served, "POST", "/api/v1/policy", b'{"policy": "fifo"}')[1]["policy"] == "fifo"


# Several jobs in one request


def several(*specs: object, **shared: object) -> dict[str, object]:
    return {
        "jobs": [{"spec": spec} for spec in specs],
        "user": "ana",
        "workdir": "/home/ana",
        "env": {"PATH": "/usr/bin"},
    } | shared


def test_several_jobs_are_submitted_with_one_request(served: Served) -> None:
    body = several({"run": "a", "name": "x"}, {"run": "b"})
    body["jobs"] += [{"spec": {"run": "c"}, "user": "bo", "workdir": "/bo", "env": {"MINE": "1"}}]  # type: ignore[operator]
    status, found, _ = ask(served, "POST", "/api/v1/submissions", body)
    assert (status, found) == (201, [{"id": 1, "name": "x"}, {"id": 2, "name": "job-2"}, {"id": 3, "name": "job-3"}])
    assert [each[1:] for each in served.daemon.sent.values()] == [
        ("ana", "/home/ana", {"PATH": "/usr/bin"}),
        ("ana", "/home/ana", {"PATH": "/usr/bin"}),
        ("bo", "/bo", {"PATH": "/usr/bin", "MINE": "1"}),
    ]
    assert ask(served, "POST", "/api/v1/submissions", several())[:2] == (201, [])


@pytest.mark.parametrize(
    ("body", "message", "field"),
    [
        (several({"run": "a"}, {"run": "b", "gpu": 1}), "jobs[1]", "jobs.1.gpu"),
        (several({"run": "a"}, {"run": "b"}, {"run": "c", "gpus": 99}), "jobs[2]  gpus: 99 — UNSATISFIABLE", "jobs.2.gpus"),
        (several({"run": "a"}, {"run": "b"}, workdir="here"), "jobs[0]  workdir", "jobs.0.workdir"),
        ({"jobs": [{"spec": {"run": "a"}, "sudo": True}], "user": "a", "workdir": "/"}, "jobs[0]  sudo", "jobs.0.sudo"),
        ({"jobs": [7], "user": "a", "workdir": "/"}, "jobs[0]  the job is not a JSON object", "jobs.0"),
        (several({"run": "a"}, spec={"run": "b"}), "spec", "spec"),
        (several(*[{"run": "a"}] * 10_001), "10,001", "jobs"),
        ({"jobs": {}}, "list of jobs", None),
        ([], "list of jobs", None),
    ],
)
def test_one_that_is_wrong_refuses_all_and_is_named(served: Served, body: object, message: str, field: str | None) -> None:
    status, found, _ = ask(served, "POST", "/api/v1/submissions", body)
    assert status == 400 and message in found["error"] and found["field"] == field, found
    assert served.daemon.rows == {}


def test_a_request_with_several_jobs_may_be_larger(served: Served) -> None:
    long = {"run": "x" * 1000}
    assert ask(served, "POST", "/api/v1/submissions", several(*[long] * 1500))[0] == 201
    for path, length in (("jobs", 1_000_001), ("submissions", 16_000_001)):
        head = f"POST /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
        assert raw(served, f"{head}Content-Length: {length}\r\n\r\n".encode()).startswith(b"HTTP/1.1 413")


def test_several_jobs_are_cancelled_with_one_request(served: Served) -> None:
    ask(served, "POST", "/api/v1/submissions", several(*[{"run": "a", "name": name} for name in ("x", "y", "z", "why")]))
    status, found, _ = ask(served, "POST", "/api/v1/cancellations", {"jobs": [1, "nobody"]})
    assert status == 404 and "nobody" in found["error"]
    assert ask(served, "POST", "/api/v1/cancellations", {"jobs": [1, "wh", "y"]})[0] == 200
    assert ask(served, "POST", "/api/v1/cancellations", {"jobs": ["z", "1"]})[1][1]["was"] == "cancelled"
    assert [row.phase for row in served.daemon.rows.values()] == ["cancelled"] * 4
    for body in ({"jobs": "1"}, {"jobs": [1.5]}, {"jobs": [True]}, {"jobs": [""]}, {"jobs": ["x" * 201]}, {"job": [1]}, [], None):
        status, found, _ = ask(served, "POST", "/api/v1/cancellations", body)
        assert status == 400 and set(found) == {"error", "hint", "kind", "field", "line"}, (body, found)
    assert ask(served, "POST", "/api/v1/cancellations", {"jobs": [1] * 10_001})[0] == 400


def test_a_page_of_jobs_for_people(served: Served) -> None:
    ask(served, "POST", "/api/v1/submissions", several(*[{"run": "a", "name": f"j{i}"} for i in range(1, 7)]))
    served.daemon.run(4)
    served.daemon.end(2, "failed", 1)
    status, page, _ = ask(served, "GET", "/api/v1/page?limit=3")
    assert (status, page["total"], [row["id"] for row in page["jobs"]]) == (200, 5, [4, 1, 3])
    assert [row["id"] for row in ask(served, "GET", "/api/v1/page?limit=3&skip=3")[1]["jobs"]] == [5, 6]
    assert ask(served, "GET", "/api/v1/page?all=true&limit=1")[1]["total"] == 6
    assert ask(served, "GET", "/api/v1/page?phase=failed&all=true")[1]["total"] == 1
    for wrong in ("limit=0", "limit=10001", "skip=-1", "limit=x"):
        assert ask(served, "GET", f"/api/v1/page?{wrong}")[0] == 400


def test_a_key_stands_once_in_a_request(served: Served) -> None:
    one = {"spec": {"run": "a"}, "idempotency_key": "k"}
    body = json.dumps({"jobs": [one, one], "user": "ana", "workdir": "/"}).encode()
    status, found, _ = ask(served, "POST", "/api/v1/submissions", body)
    assert status == 400 and found["field"] == "jobs.1.idempotency_key" and "is used twice" in found["error"]
