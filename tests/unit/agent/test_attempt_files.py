"""Files of an attempt, as this version and the version before write them."""

import json
import math
from pathlib import Path

import pytest

from rota.agent.attempt_files import (
    AttemptStatus,
    LaunchOrder,
    metrics,
    order_of,
    read_status,
    seconds,
    starting,
    status_of,
    steps,
    write_status,
)
from rota.agent.command_datagrams import encode_command, read_command
from rota.agent.constants import KILL, RENEW, RESIZE, RESUME, SUSPEND
from rota.agent.disk import STATUS
from rota.agent.pace import Pace
from rota.agent.rules import AgentCommand


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    status = AttemptStatus(job=3, attempt=2, sequence=1, state="running", pid=17)
    write_status(tmp_path, status)
    found = read_status(tmp_path)
    assert found is not None and (found.job, found.attempt, found.state, found.pid) == (3, 2, "running", 17)


def test_a_supervisor_of_the_version_before_is_understood(tmp_path: Path) -> None:
    """It keeps running when the scheduler is replaced, and calls an attempt an incarnation."""
    status = AttemptStatus(job=3, attempt=2, sequence=1, state="running", stop_reason="suspend", park_method="sleep")
    write_status(tmp_path, status)
    value = json.loads((tmp_path / STATUS).read_bytes())
    for today, before in (("attempt", "incarnation"), ("stop_reason", "asked"), ("park_method", "park_way")):
        value[before] = value.pop(today)
    (tmp_path / STATUS).write_text(json.dumps(value))
    assert read_status(tmp_path) == status


ORDER = LaunchOrder(
    *(3, 2, 7, ["sh"], {"NODE_RANK": "1", "ROTA_PARK": "preload"}, "/", "/log", "n1:0-1", 40.0, 60.0, 60.0, 1.0),
    park_method="preload",
    park_reason="it can be",
    steps_total=90.0,
    boot_id="b",
)
LATER_FIELDS = (
    "launch_sequence",
    "gpus_text",
    "from_step",
    "park_method",
    "park_reason",
    "keeps_memory",
    "rank",
    "steps_problem",
)


def test_what_such_a_supervisor_leaves_out_is_in_its_order(tmp_path: Path) -> None:
    written = starting(3, 2, ORDER)._replace(state="running", pid=17, steps_done=55.0, start_sequence=0)
    plain = {name: value for name, value in written._asdict().items() if name not in LATER_FIELDS}
    plain |= {"problem": "", "saving_problem": "", "parking_problem": "it was busy"}
    (tmp_path / STATUS).write_text(json.dumps(plain))
    found = read_status(tmp_path, ORDER)
    assert found is not None
    assert (found.gpus_text, found.from_step, found.park_method, found.keeps_memory) == ("n1:0-1", 40.0, "preload", True)
    assert (found.problem, found.saving_problem, found.parking_problem) == (None, None, "it was busy")
    assert (found.launch_sequence, found.start_sequence, found.rank, found.steps_done) == (7, 7, 1, 55.0)
    (tmp_path / STATUS).write_text(json.dumps({**plain, "start_sequence": 9, "colour": "red"}))
    resized = read_status(tmp_path, ORDER)
    assert resized is not None and (resized.start_sequence, resized.launch_sequence) == (9, 7)


def test_an_order_of_the_version_before_has_empty_texts_for_none() -> None:
    before = ORDER._asdict() | {"progress": "", "park_method": "", "park_reason": ""}
    assert order_of(before) == ORDER._replace(park_method=None, park_reason=None) and ORDER.progress is None


def test_a_status_is_the_same_in_its_file_and_in_a_message() -> None:
    status = starting(3, 2, ORDER)._replace(pace=Pace(1.0, 2.0, 3.0), metrics={"loss": 0.5})
    assert status_of(json.loads(json.dumps(status._asdict()))) == status
    assert status_of({"job": 3, "attempt": 2}) is None, "a power cut may leave half a file"


@pytest.mark.parametrize(
    "command",
    [
        AgentCommand(SUSPEND, 2, 5),
        AgentCommand(SUSPEND, 2, 5, parks=True),
        AgentCommand(KILL, 2, 5),
        AgentCommand(RENEW, 2, lease_s=160.0, sent_s=100.0),
        AgentCommand(RESUME, 2, 5, lease_s=160.0, sent_s=100.0),
        AgentCommand(RESIZE, 2, 5, batch_size=64),
        AgentCommand(RESIZE, 2, 5, batch_size=64, env={"A": "1", "B": None}, gpus_text="n1:0"),
    ],
)
def test_a_command_reaches_its_supervisor_as_it_is(command: AgentCommand) -> None:
    assert read_command(json.loads(json.dumps(encode_command(command))), 2, 101.0) == command


def test_a_lease_from_the_future_begins_now() -> None:
    message = encode_command(AgentCommand(RENEW, 2, lease_s=160.0, sent_s=100.0))
    assert read_command(message, 2, 90.0) == AgentCommand(RENEW, 2, lease_s=150.0, sent_s=90.0)


@pytest.mark.parametrize("message", [{}, {"op": "renew"}, {"op": "kill", "sequence": -1}, {"op": "resize", "sequence": 1}])
def test_a_datagram_that_is_not_a_command(message: dict[str, object]) -> None:
    assert read_command(message, 2, 0.0) is None


@pytest.mark.parametrize("number", [10**400, -(10**400), math.inf, -math.inf, math.nan, True, "7", None, [7]])
def test_a_number_that_no_float_holds_is_no_number_of_steps(number: object) -> None:
    """A datagram may hold an integer of any length."""
    assert steps(number) is None and metrics({"x": number}) == {}
    assert steps(7) == 7.0 and steps(0) == 0.0 and steps(-1) is None


def test_a_length_of_time_is_held_within_bounds() -> None:
    assert [seconds(value) for value in (10**400, math.inf, -(10**400), 5, 0.5)] == [1e9, 1e9, 0.0, 5.0, 0.5]
    assert [seconds(value) for value in (math.nan, True, "5", None)] == [None] * 4
