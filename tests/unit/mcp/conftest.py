"""A server of the protocol before a scheduler with a daemon in memory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.mcp.budget import BudgetLimits
from rota.mcp.server import Connection, McpServer
from rota.mcp.tools import Toolbox
from rota.wire.client import connect
from tests.unit.server.standin import Served, serve

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Program:
    """What a program sends, and what it gets."""

    def __init__(self, served: Served, **options: Any) -> None:
        limits = BudgetLimits(options.pop("max_jobs", None), options.pop("max_gpus", None), options.pop("max_gpu_hours", None))
        self.toolbox = Toolbox(options.pop("connect", lambda: connect(served.home)), limits=limits, **options)
        self.server = McpServer(self.toolbox)
        self.number = 0

    def exchange(self, *lines: bytes) -> list[Any]:
        """The responses to these lines, in any order, after the end of the input."""
        written: list[bytes] = []
        Connection(self.server, written.append).serve(iter(lines))
        assert all(line.endswith(b"\n") and line.count(b"\n") == 1 and line.isascii() for line in written)
        return [json.loads(line) for line in written]

    def send(self, *messages: Any) -> list[Any]:
        return self.exchange(*(json.dumps(each).encode() + b"\n" for each in messages))

    def ask(self, method: str, params: Any = None) -> Any:
        """The only response to a request, which has its id."""
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method}
        (found,) = self.send(request if params is None else {**request, "params": params})
        assert found["jsonrpc"] == "2.0" and found["id"] == self.number and ("result" in found) != ("error" in found)
        return found

    def hello(self, version: str = "2025-11-25") -> Any:
        return self.ask("initialize", {**HELLO, "protocolVersion": version})["result"]

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a tool that succeeds. Its text is its structured content."""
        found = self.ask("tools/call", {"name": name, "arguments": arguments})["result"]
        assert not found["isError"], found
        assert json.loads(found["content"][0]["text"]) == found["structuredContent"]
        return dict(found["structuredContent"])

    def refused(self, name: str, /, **arguments: Any) -> str:
        """The text of a tool's error."""
        found = self.ask("tools/call", {"name": name, "arguments": arguments})["result"]
        assert found["isError"] is True and found["content"][0]["type"] == "text"
        assert found["structuredContent"]["error"] in found["content"][0]["text"]
        return str(found["content"][0]["text"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture
def served(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    server.daemon.reset()
    monkeypatch.chdir(tmp_path)
    return server


@pytest.fixture
def program(served: Served) -> Program:
    found = Program(served)
    found.hello()
    return found
