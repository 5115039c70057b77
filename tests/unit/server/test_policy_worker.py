"""The worker of a policy after its scheduler is gone."""

import json
import subprocess
import sys


def worker() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "rota.server.policy_worker", "fifo"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_it_ends_quietly_when_its_scheduler_is_killed_while_it_asks() -> None:
    with worker() as process:
        out, err = process.communicate(b'{"ticket": 1, "view": {"now_s"')
        assert (process.returncode, out, err) == (0, b"", b"")


def test_it_ends_quietly_when_its_scheduler_is_killed_before_the_answer() -> None:
    with worker() as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(json.dumps({"ticket": 1, "view": {}}).encode() + b"\n")
        process.stdin.close()
        assert process.stderr.read() == b"" and process.wait() == 0


def test_it_answers_as_long_as_it_is_asked() -> None:
    with worker() as process:
        asked = b"".join(json.dumps({"ticket": ticket, "view": {}}).encode() + b"\n" for ticket in (1, 2))
        out, err = process.communicate(asked)
        answers = [json.loads(line) for line in out.splitlines()]
        assert [each["ticket"] for each in answers] == [1, 2] and all("KeyError" in each["error"] for each in answers)
        assert (process.returncode, err) == (0, b"")
