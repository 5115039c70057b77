"""A program that uses a real scheduler through `rota mcp`: it submits, waits, reads output, and keeps its budget."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.live.harness import PATIENCE, Site, site

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class StatelessProgram:
    """A client of the protocol's version without a handshake."""

    def __init__(self, place: Site, *flags: str) -> None:
        command = [sys.executable, "-m", "rota", "mcp", "--home", str(place.home), *flags]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "LANG": "C"})
        self.id = 0

    def call(self, name: str, /, **arguments: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.id += 1
        params = {"name": name, "arguments": arguments, "_meta": META}
        message = {"jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        assert found["id"] == self.id
        return found["result"]

    def close(self) -> int:
        out, _ = self.process.communicate(timeout=PATIENCE)
        assert out == b""
        return self.process.returncode


def test_a_program_runs_jobs_within_its_budget(tmp_path: Path) -> None:
    with site(tmp_path, pretend="2xV100") as place:
        program = StatelessProgram(place, "--max-gpus", "1")
        try:
            job = program.call("submit", run="printf 'loss 0.5\\n\\033[2Jdone\\n'", name="short")["structuredContent"]["job"]
            waited = {}
            while not waited.get("ended"):
                waited = program.call("wait", jobs=[job["id"]], timeout_seconds=60)["structuredContent"]
            assert waited["jobs"][0]["phase"] == "finished"
            logs = program.call("logs", job="short")["structuredContent"]
            assert "\nloss 0.5\n\\x1b[2Jdone\n" in logs["output"] and logs["phase"] == "finished"

            held = program.call("submit", run=["sleep", "600"], name="held")["structuredContent"]
            assert held["budget"]["gpus_left"] == 0
            refused = program.call("submit", run="true")
            assert refused["isError"] and "0 are left" in refused["content"][0]["text"]
            assert len(place.rows()) == 2, "the scheduler has free GPUs, but the program has none left"

            place.kill()
            assert program.call("status")["isError"]
            place.up()
            cancelled = program.call("cancel", jobs=["held"])["structuredContent"]["cancelled"]
            assert cancelled[0]["job"]["id"] == held["job"]["id"]
            while not (waited := program.call("wait", jobs=["held"])["structuredContent"])["ended"]:
                pass
            assert waited["jobs"][0]["phase"] == "cancelled"
            assert program.call("whoami")["structuredContent"]["budget"]["gpus_left"] == 1
            assert program.call("nodes")["structuredContent"]["nodes"][0]["up"] is True
        finally:
            assert program.close() == 0


def test_gpu_hours_are_counted_from_the_jobs_of_the_scheduler(tmp_path: Path) -> None:
    with site(tmp_path, pretend="2xV100") as place:
        for number in (1, 2):
            program = StatelessProgram(place, "--max-gpu-hours", "1")
            try:
                if number == 1:
                    sent = program.call("submit", run=["sleep", "600"], array="0-1", max_run_time="24m", name="two")
                    left = sent["structuredContent"]["budget"]["gpu_hours_left"]
                    assert (
                        0.1 < left <= 0.2 and place.client().jobs(tasks=True)[0].key == f"mcp:{sent['structuredContent']['key']}"
                    )
                    place.kill()
                    place.up()
                else:
                    refused = program.call("submit", run="true", max_run_time="30m")
                    assert (
                        refused["isError"]
                        and "0.2 are left and the job may use 0.5: 1 GPU for 30m" in refused["content"][0]["text"]
                    )
                    program.call("cancel", jobs=["two"])
                    while not program.call("wait", jobs=["two"])["structuredContent"]["ended"]:
                        pass
                    assert not program.call("submit", run="true", max_run_time="30m").get("isError")
            finally:
                assert program.close() == 0
