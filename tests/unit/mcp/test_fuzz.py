"""Random messages: the server never fails, answers each request once, and answers nothing else."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.mcp.conftest import HELLO, STATELESS, Program
from tests.unit.server.standin import Served

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4), max_leaves=12
)
METHODS = st.sampled_from(["initialize", "ping", "tools/list", "tools/call", "server/discover"]) | st.text(max_size=10)
NAMES = st.sampled_from(["jobs", "show", "why", "logs", "wait", "nodes", "status", "whoami", "check", "submit", "cancel"])
FIELDS = st.sampled_from(
    ["job", "jobs", "lines", "limit", "skip", "all", "user", "phase", "run", "gpus", "name", "key", "env", "steps"]
)
CALLS = st.fixed_dictionaries(
    {"name": NAMES | SCALARS, "arguments": st.dictionaries(FIELDS | st.text(max_size=5), JSON, max_size=4) | JSON},
    optional={"_meta": st.just(STATELESS) | JSON},
)
PARAMS = CALLS | st.just(HELLO) | st.fixed_dictionaries({"_meta": st.just(STATELESS) | JSON}) | JSON
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": st.integers() | st.text(max_size=5) | SCALARS, "method": METHODS | SCALARS, "params": PARAMS},
)
BOUNDED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


@BOUNDED
@given(message=MESSAGES)
def test_each_request_gets_one_answer(served: Served, message: dict[str, Any]) -> None:
    program = Program(served)
    program.hello()
    found = program.send(message)
    method, id = message.get("method"), message.get("id")
    if isinstance(method, str) and "id" not in message:
        assert found == []
    elif isinstance(method, str) and is_id(id):
        (answer,) = found
        assert answer["id"] == id and ("result" in answer) != ("error" in answer)
        assert answer.get("error", {}).get("code") != -32603
    else:
        (answer,) = found
        assert answer["error"]["code"] == -32600 and answer["id"] == (id if is_id(id) else None)


@BOUNDED
@given(arguments=st.dictionaries(FIELDS, JSON, max_size=5), name=NAMES)
def test_any_arguments_get_a_result_or_an_error_of_the_tool(served: Served, name: str, arguments: dict[str, Any]) -> None:
    program = Program(served, max_jobs=5)
    program.hello()
    result = program.ask("tools/call", {"name": name, "arguments": arguments})["result"]
    assert isinstance(result["isError"], bool) and isinstance(result["structuredContent"], dict)
    if result["isError"]:
        assert "error" in result["structuredContent"] and result["content"][0]["text"]


@BOUNDED
@given(line=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_line_gets_an_error_or_nothing(served: Served, line: bytes) -> None:
    program = Program(served)
    found = program.exchange(line)
    assert len(found) <= 1 and all(each["error"]["code"] in (-32700, -32600) for each in found)
    assert program.ask("ping")["result"] == {}
