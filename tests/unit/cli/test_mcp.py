"""`rota mcp` as programs start it: a process of its own, against a real server with a daemon in memory."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.mcp.protocol import MAX_LINE_BYTES
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served
from tests.waiting import LONG_SECONDS

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class McpProcess:
    """A client that starts `rota mcp`."""

    def __init__(self, *flags: str, **env: str) -> None:
        command = [sys.executable, "-m", "rota", "mcp", *flags]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **env})
        self.id = 0

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        self.id += 1
        self.send(id=self.id, method=method, params=params)
        assert self.process.stdout is not None
        found = json.loads(self.process.stdout.readline())
        assert found["id"] == self.id
        return found

    def close(self) -> tuple[int, str]:
        """The exit code and what was written to standard error after the input has ended; no message is left."""
        out, err = self.process.communicate(timeout=LONG_SECONDS)
        assert out == b""
        return self.process.returncode, err.decode()


@pytest.fixture
def started(served: Served) -> Iterator[McpProcess]:
    found = McpProcess("--max-jobs", "1", "--max-gpus", "2")
    yield found
    found.process.kill()
    found.process.communicate()


def test_a_program_uses_a_scheduler(served: Served, started: McpProcess, tmp_path: Path) -> None:
    assert started.ask("initialize", **HELLO)["result"]["protocolVersion"] == "2025-06-18"
    started.send(method="notifications/initialized")
    assert {"submit", "logs"} <= {each["name"] for each in started.ask("tools/list")["result"]["tools"]}
    sent = started.ask("tools/call", name="submit", arguments={"run": "python train.py", "gpus": 2})["result"]
    assert sent["structuredContent"]["job"]["id"] == 1 and served.daemon.sent[1][2] == str(tmp_path)
    assert sent["structuredContent"]["job"]["user"] == "ana"
    refused = started.ask("tools/call", name="submit", arguments={"run": "true"})["result"]
    assert refused["isError"] and "0 are left" in refused["content"][0]["text"]
    served.daemon.write(1, "step 1\n\x1b[2J")
    output = started.ask("tools/call", name="logs", arguments={"job": 1})["result"]["structuredContent"]["output"]
    assert output == "step 1\n\\x1b[2J"
    started.ask("tools/call", name="cancel", arguments={"jobs": [1]})
    waited = started.ask("tools/call", name="wait", arguments={"jobs": [1]})["result"]["structuredContent"]
    assert waited["ended"] and waited["jobs"][0]["phase"] == "cancelled"
    assert started.close() == (0, "")


def test_wrong_lines_end_nothing(started: McpProcess) -> None:
    assert started.process.stdin is not None and started.process.stdout is not None
    started.process.stdin.write(b"garbage\n\n\xff\n" + b"x" * (2 * MAX_LINE_BYTES) + b"\n")
    started.process.stdin.flush()
    codes = [json.loads(started.process.stdout.readline())["error"]["code"] for _ in range(3)]
    assert codes == [-32700, -32700, -32600]
    assert started.ask("ping")["result"] == {}
    assert started.close() == (0, "")


def test_a_server_starts_without_a_scheduler_and_says_so_when_asked(tmp_path: Path) -> None:
    found = McpProcess("--home", str(tmp_path))
    found.ask("initialize", **HELLO)
    result = found.ask("tools/call", name="jobs")["result"]
    assert result["isError"] and "No scheduler has been started" in result["content"][0]["text"]
    assert found.close() == (0, "")


def test_output_of_other_code_does_not_reach_the_messages(served: Served, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfrom rota.wire.client import Client\n"
        "before = Client.status\n"
        "def status(self):\n    print('noise')\n    return before(self)\n"
        "Client.status = status\n"
    )
    found = McpProcess(PYTHONPATH=str(tmp_path))
    found.ask("initialize", **HELLO)
    assert found.ask("tools/call", name="status")["result"]["structuredContent"]["gpus"] == 6
    code, err = found.close()
    assert code == 0 and "noise" in err


def test_a_client_that_is_gone_ends_the_server(served: Served) -> None:
    found = McpProcess()
    found.ask("initialize", **HELLO)
    assert found.process.stdin is not None and found.process.stdout is not None and found.process.stderr is not None
    found.process.stdout.close()
    found.send(id=9, method="ping")
    found.process.stdin.close()
    assert found.process.wait(LONG_SECONDS) == 0
    assert found.process.stderr.read() == b""
    found.process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--max-jobs", "0"), "--max-jobs: 0 — must be more than 0."),
        (("--max-jobs", "few"), "--max-jobs: 'few' — not a whole number."),
        (("--max-gpus", "-1"), "--max-gpus: -1.0 — must be more than 0."),
        (("--max-gpus", "nan"), "--max-gpus: nan — must be more than 0."),
        (("--read-only", "--max-jobs", "3"), "--max-jobs: 3 — has no effect with --read-only."),
    ],
)
def test_wrong_limits(rota: Rota, arguments: tuple[str, ...], expected: str) -> None:
    code, out, err = rota("mcp", *arguments)
    assert (code, out) == (2, "") and err.startswith(expected) and "\nTry: " in err
