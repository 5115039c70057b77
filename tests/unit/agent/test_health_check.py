"""Health checks of an agent, with real processes: results, time limits, and what is left when the check or the agent ends."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent.health_check import CheckHealth, HealthChecks, HealthResult, checks_of
from rota.agent.messages import decode_message, encode_message
from tests.waiting import LONG_SECONDS, alive, until


class Desk:
    """Asks for checks, and waits for their results."""

    def __init__(self) -> None:
        self._rang = threading.Event()
        self.checks = HealthChecks(self._rang.set)

    def run(self, script: str, *, seconds: float = LONG_SECONDS, number: int = 1) -> HealthResult:
        self.checks.request(check(script, seconds=seconds, number=number))
        return self.result()

    def result(self) -> HealthResult:
        assert self._rang.wait(LONG_SECONDS)
        self._rang.clear()
        (found,) = checks_of(self.checks.results())
        return found


def check(script: str, *, seconds: float = LONG_SECONDS, number: int = 1, node: str = "n1") -> CheckHealth:
    return CheckHealth(node, number, ("sh", "-c", script), seconds, (0, 3))


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.checks.close()


def test_a_check_passes_with_exit_code_0_and_knows_its_node(desk: Desk, tmp_path: Path) -> None:
    found = desk.run(f'echo "$ROTA_NODE $ROTA_NODE_GPUS" > {tmp_path}/seen; echo fine')
    assert found == HealthResult("n1", 1, True, "") and (tmp_path / "seen").read_text() == "n1 0,3\n"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo one; echo 'GPU 3: ECC error' >&2; echo; exit 1", "GPU 3: ECC error"),
        ("exit 4", "exit code 4"),
        ("kill -9 $$", "ended by signal 9"),
        ("printf 'bad\\033[31m line'; exit 1", "bad [31m line"),
        ("head -c 300000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1", "the end"),
        ("printf '%300s' '' | tr ' ' y; exit 1", "y" * 200 + "..."),
    ],
)
def test_the_last_line_of_a_failed_check_is_its_reason(desk: Desk, script: str, text: str) -> None:
    assert desk.run(script) == HealthResult("n1", 1, False, text)


def test_a_command_that_does_not_exist_fails_the_check(desk: Desk) -> None:
    desk.checks.request(CheckHealth("n1", 1, ("/nowhere/check",), LONG_SECONDS, ()))
    assert desk.result().text == "the command '/nowhere/check' cannot be run: no such file or directory"


def test_a_check_that_takes_too_long_is_killed_with_its_children(desk: Desk, tmp_path: Path) -> None:
    found = desk.run(f"sleep 1000 & echo $! > {tmp_path}/child; echo waits for the driver; wait", seconds=2.0)
    assert found == HealthResult("n1", 1, False, "no result within 2 s; last line: waits for the driver")
    child = int((tmp_path / "child").read_text())
    until(lambda: not alive(child), "the child of the check is gone")


def test_a_check_ends_when_its_command_ends_although_a_child_holds_its_output(desk: Desk, tmp_path: Path) -> None:
    assert desk.run(f"sleep 1000 & echo $! > {tmp_path}/child").passed
    child = int((tmp_path / "child").read_text())
    until(lambda: not alive(child), "the child of the check is gone")


def test_a_second_request_gets_the_result_of_the_check_that_runs(desk: Desk, tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/times; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    desk.checks.request(check(script, number=1))
    until((tmp_path / "times").exists, "the check runs")
    desk.checks.request(check(script, number=2))
    (tmp_path / "go").touch()
    assert desk.result() == HealthResult("n1", 2, True, "")
    desk.checks.request(check(script, number=2))  # a repeat
    assert (tmp_path / "times").read_text() == "x\n"


def test_a_check_dies_with_its_agent(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from rota.agent.health_check import CheckHealth, HealthChecks\n"
        f"script = 'echo $$ > {tmp_path}/pid; sleep 1000'\n"
        "HealthChecks(print).request(CheckHealth('n1', 1, ('sh', '-c', script), 1000.0, ()))\n"
        "time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as agent:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the check runs")
        check_pid = int((tmp_path / "pid").read_text())
        assert alive(check_pid)
        agent.send_signal(signal.SIGKILL)
    until(lambda: not alive(check_pid), "the check is gone")


def test_closing_an_agent_kills_its_checks(tmp_path: Path) -> None:
    desk = Desk()
    desk.checks.request(check(f"echo $$ > {tmp_path}/pid; sleep 1000"))
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the check runs")
    desk.checks.close()
    assert desk.result().text == "ended by signal 9"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_request_travels_as_plain_data() -> None:
    asked = check("true")
    assert decode_message(encode_message(asked)) == asked
