"""Messages of the protocol: versions, methods, faults, ids, batches and notifications."""

import json
from io import BytesIO
from typing import Any

import pytest

from rota import __version__
from rota.mcp.protocol import HANDSHAKE_VERSIONS, MAX_BATCH, MAX_LINE_BYTES
from rota.mcp.server import read_lines
from tests.unit.mcp.conftest import HELLO, STATELESS, Program
from tests.unit.server.standin import Served

PARSE, REQUEST, METHOD, PARAMS, VERSION = -32700, -32600, -32601, -32602, -32022


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_client_gets_the_version_that_it_requests(served: Served, version: str) -> None:
    found = Program(served).hello(version)
    assert found["protocolVersion"] == version and found["capabilities"] == {"tools": {"listChanged": False}}
    assert found["serverInfo"] == {"name": "rota", "title": "Rota", "version": __version__} and "submit" in found["instructions"]


@pytest.mark.parametrize("version", ["2023-01-01", "2099-01-01", "", "2026-07-28"])
def test_a_client_with_another_version_gets_the_latest_with_a_handshake(served: Served, version: str) -> None:
    assert Program(served).hello(version)["protocolVersion"] == "2025-11-25"


def test_a_handshake_then_tools(served: Served) -> None:
    program = Program(served)
    assert program.ask("tools/list")["error"]["code"] == PARAMS
    assert program.ask("ping")["result"] == {}
    program.hello()
    assert program.send({"jsonrpc": "2.0", "method": "notifications/initialized"}) == []
    tools = program.ask("tools/list", {"_meta": {"progressToken": 1}})["result"]
    assert set(tools) == {"tools"}
    names = [each["name"] for each in tools["tools"]]
    assert names == ["jobs", "show", "why", "logs", "wait", "nodes", "status", "whoami", "check", "submit", "cancel"]


def test_requests_that_state_their_version_need_no_handshake(served: Served) -> None:
    program = Program(served)
    found = program.ask("server/discover", {"_meta": STATELESS})["result"]
    assert found["supportedVersions"] == ["2026-07-28"] and found["resultType"] == "complete"
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "rota"
    assert found["capabilities"] == {"tools": {"listChanged": False}} and found["ttlMs"] > 0 and found["cacheScope"] == "private"
    tools = program.ask("tools/list", {"_meta": STATELESS})["result"]
    assert tools["tools"] and tools["ttlMs"] > 0 and tools["cacheScope"] == "private" and tools["resultType"] == "complete"
    called = program.ask("tools/call", {"_meta": STATELESS, "name": "status"})["result"]
    assert called["structuredContent"]["gpus"] == 6 and called["resultType"] == "complete"
    assert program.ask("ping", {"_meta": STATELESS})["error"]["code"] == METHOD
    assert program.ask("initialize", {**HELLO, "_meta": STATELESS})["error"]["code"] == METHOD


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"io.modelcontextprotocol/protocolVersion": "1900-01-01"}, VERSION),
        ({"io.modelcontextprotocol/protocolVersion": 7}, PARAMS),
        ({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, PARAMS),
        ({**STATELESS, "io.modelcontextprotocol/clientCapabilities": []}, PARAMS),
        ({}, PARAMS),
        (None, PARAMS),
        ([], PARAMS),
    ],
)
def test_a_wrong_statement_of_the_version(served: Served, meta: Any, code: int) -> None:
    error = Program(served).ask("tools/list", {"_meta": meta})["error"]
    assert error["code"] == code
    if code == VERSION:
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "1900-01-01"}


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"garbage", PARSE, None),
        (b'{"jsonrpc": "2.0", "id": 1,', PARSE, None),
        (b"\xff\xfe", PARSE, None),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}', PARSE, None),
        (b"[" * 100_000, PARSE, None),
        (b"1" * 5_000, PARSE, None),
        (b'"' + b"x" * MAX_LINE_BYTES + b'"', REQUEST, None),
        (b"null", REQUEST, None),
        (b"7", REQUEST, None),
        (b'"ping"', REQUEST, None),
        (b"{}", REQUEST, None),
        (b'{"id": 3, "method": "ping"}', REQUEST, 3),
        (b'{"jsonrpc": "1.0", "id": "a", "method": "ping"}', REQUEST, "a"),
        (b'{"jsonrpc": "2.0", "id": 3}', REQUEST, 3),
        (b'{"jsonrpc": "2.0", "id": 3, "method": 5}', REQUEST, 3),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}', REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 3, "method": "ping", "params": [1]}', PARAMS, 3),
        (b'{"jsonrpc": "2.0", "id": 3, "method": "ping", "params": "x"}', PARAMS, 3),
    ],
)
def test_a_malformed_message_gets_an_error(program: Program, line: bytes, code: int, id: Any) -> None:
    (found,) = program.exchange(line + b"\n")
    assert (
        (found["error"]["code"], found["id"]) == (code, id)
        and found["error"]["message"]
        and "\n" not in found["error"]["message"]
    )
    assert program.ask("ping")["result"] == {}


@pytest.mark.parametrize("id", [0, -1, 2**80, "", "a", "1", "ü\u2028", "\ud800"])
def test_an_id_comes_back_as_it_was(program: Program, id: Any) -> None:
    (found,) = program.send({"jsonrpc": "2.0", "id": id, "method": "ping"})
    assert found == {"jsonrpc": "2.0", "id": id, "result": {}} and type(found["id"]) is type(id)


@pytest.mark.parametrize(
    "method", ["", "tools", "tools/run", "resources/list", "prompts/list", "logging/setLevel", "server/discover", "x\n\x1b[2J"]
)
def test_an_unknown_method(program: Program, method: str) -> None:
    error = program.ask(method)["error"]
    assert error["code"] == METHOD and error["message"].isprintable()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("initialize", {}),
        ("initialize", {"protocolVersion": 1}),
        ("tools/list", {"cursor": "page-2"}),
        ("tools/call", {}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "absent"}),
        ("tools/call", {"name": "status", "arguments": [1]}),
        ("tools/call", {"name": "status", "arguments": "x"}),
    ],
)
def test_wrong_params(program: Program, method: str, params: Any) -> None:
    assert program.ask(method, params)["error"]["code"] == PARAMS


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": True}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "cancel", "arguments": {"jobs": [1]}}},
        {"jsonrpc": "2.0", "method": "unknown"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
def test_a_notification_or_a_reply_gets_no_answer_and_does_nothing(served: Served, program: Program, message: Any) -> None:
    program.call("submit", run="train")
    assert program.send(message) == []
    assert served.daemon.rows[1].phase == "queued"


def test_empty_lines_are_passed_over(program: Program) -> None:
    assert program.exchange(b"\n", b"  \r\n", b"\t\n") == []


def test_several_messages_on_a_line_are_for_the_version_that_has_them(served: Served, program: Program) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    (refused,) = program.send([ping])
    assert refused["error"]["code"] == REQUEST and refused["id"] is None
    old = Program(served)
    old.hello("2025-03-26")
    call = {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "status"}}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    hello = {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": HELLO}
    (answers,) = old.send([ping, note, call, 7, hello])
    assert [each["id"] for each in answers] == [1, "b", None, 3]
    assert answers[0]["result"] == {} and answers[1]["result"]["structuredContent"]["gpus"] == 6
    assert [answers[2]["error"]["code"], answers[3]["error"]["code"]] == [REQUEST, REQUEST]
    assert old.send([note]) == []
    for wrong in ([], [ping] * (MAX_BATCH + 1)):
        (refused,) = old.send(wrong)
        assert refused["error"]["code"] == REQUEST


def test_a_line_that_is_too_long_is_one_message(program: Program) -> None:
    ping = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping"}).encode() + b"\n"
    full = b" " * (MAX_LINE_BYTES - len(ping) + 1) + ping
    stream = BytesIO(b"x" * (3 * MAX_LINE_BYTES) + b"\n" + ping + full + b"x" * MAX_LINE_BYTES + ping)
    found = program.exchange(*read_lines(stream))
    assert [each.get("result", each.get("error", {}).get("code")) for each in found] == [REQUEST, {}, {}, REQUEST]


def test_the_last_message_needs_no_newline(program: Program) -> None:
    stream = BytesIO(b'{"jsonrpc": "2.0", "id": 5, "method": "ping"}')
    assert program.exchange(*read_lines(stream)) == [{"jsonrpc": "2.0", "id": 5, "result": {}}]
