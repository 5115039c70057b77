"""The driver of a cluster, with real agents and processes: messages that are lost or late, and nodes that are gone."""

import contextlib
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rota.agent.messages import decode_message, encode_message
from rota.agent.node_agent import cluster_agent
from rota.live.driver import HEARTBEAT_SECONDS, REPLY_TIMEOUT_SECONDS
from rota.live.journal_store import LeadershipLost
from rota.live.late_starts import FORGET_SECONDS, LATE_SECONDS
from rota.model.commands import Kill, Launch, Renew, Suspend
from rota.model.events import (
    Exited,
    External,
    NodeDrainChanged,
    NodeLeft,
    NodeReported,
    NodesReported,
    Started,
    Suspended,
)
from tests.live.scheduler.driver_bench import GONE_AFTER, Bench, started
from tests.waiting import until


def test_a_gang_starts_on_both_nodes_and_is_suspended(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    found = bench.heard(started(0), started(1))
    assert [event.sequence for event in found if isinstance(event, Started)] == [1, 1], "each once"
    orders = [json.loads((bench.folder / name / "run/1/1/launch.json").read_text()) for name in "ab"]
    assert [order["env"]["NODE_RANK"] for order in orders] == ["0", "1"]
    assert {order["env"]["NNODES"] for order in orders} == {"2"} and {order["env"]["ROTA_GPUS"] for order in orders} == {"4"}
    assert orders[0]["env"]["GLOO_SOCKET_IFNAME"] == "lo" and orders[0]["progress"] and not orders[1]["progress"]
    assert [status.job for status in bench.driver.inventory()] == [1] == list(bench.driver.running())
    bench.carry_out([Suspend(1, 1, 2, (0, 1))])
    ends: dict[int | None, float] = {}

    def both_ended() -> bool:
        ends.update({event.node: event.steps_done for event in bench.events() if isinstance(event, Suspended)})
        return len(ends) == 2

    until(both_ended, "both parts have left")
    assert ends == {0: 0.0, 1: float("inf")}, "only the first part knows what is saved"
    assert bench.driver.inventory() == []
    until(lambda: not bench.events() and not list(bench.folder.glob("*/run/1/1/launch.json")), "it is forgotten")


def test_a_launch_that_is_repeated_is_answered_again(bench: Bench) -> None:
    """The core repeats it whole while one part has not begun, and then wants to hear of all."""
    assert bench.driver.carry_out([bench.launch()]) == []
    bench.heard(started(0), started(1))
    again = bench.driver.carry_out([bench.launch()])
    assert [(event.node, event.sequence) for event in again if isinstance(event, Started)] == [(0, 1), (1, 1)]


def test_an_answer_that_got_lost_is_asked_for_again(bench: Bench) -> None:
    bench.hosts.answers_to_lose = 2
    bench.carry_out([bench.launch()])
    bench.carry_out([bench.launch()])  # the core has had no answer, and says it again
    bench.ahead_s += 2.0
    found = bench.heard(started(0), started(1))
    assert sorted(event.node or 0 for event in found if isinstance(event, Started)) == [0, 1]


def test_a_launch_that_arrives_after_its_lease_starts_nothing(bench: Bench) -> None:
    """A frozen agent wakes up: by then the core may have started the job elsewhere."""
    bench.hosts.held = []
    bench.carry_out([bench.launch(seconds=1.0)])
    late, bench.hosts.held = bench.hosts.held, None
    time.sleep(1.1)
    for host, text in late:
        bench.hosts.carry(host, text)
    found = bench.heard(lambda event: isinstance(event, Exited) and event.node == 0)
    assert not any(isinstance(event, Started) for event in found)
    assert not list(bench.folder.glob("*/run/1/1/status.json"))


def test_a_launch_waits_for_all_its_nodes(bench: Bench) -> None:
    bench.hosts.away.add("b")
    bench.events()
    bench.carry_out([bench.launch()])
    assert not list(bench.folder.glob("*/run/1/1/launch.json")), "all or none"


def test_a_node_that_is_away_leaves_when_its_leases_are_over(bench: Bench) -> None:
    bench.hosts.away.add("b")
    assert not any(isinstance(event, NodeLeft) for event in bench.events())
    bench.ahead_s += GONE_AFTER + 1
    assert [event.node for event in bench.events() if isinstance(event, NodeLeft)] == [1]
    assert not any(isinstance(event, NodeLeft) for event in bench.events()), "it is told once"


def test_a_node_that_comes_back_tells_all_it_has(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(1))
    bench.hosts.away.add("b")
    bench.events()
    bench.hosts.away.clear()
    reports = [event for event in bench.events() if isinstance(event, NodeReported) and event.node == 1 and event.inventory]
    assert [part.job for part in reports[0].inventory] == [1]


def test_a_scheduler_that_comes_up_finds_what_runs(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0))
    bench.driver = bench.open()
    found = bench.heard(started(0), started(1))
    assert any(isinstance(event, NodeReported) and event.inventory for event in found)
    assert [status.job for status in bench.driver.inventory()] == [1]


def test_draining_is_told_and_taken_back(bench: Bench) -> None:
    bench.hosts.draining.add("a")
    assert [(event.node, event.draining) for event in bench.events() if isinstance(event, NodeDrainChanged)] == [(0, True)]
    bench.hosts.draining.clear()
    assert [(event.node, event.draining) for event in bench.events() if isinstance(event, NodeDrainChanged)] == [(0, False)]


def test_who_has_nothing_to_tell_is_asked_now_and_then(bench: Bench) -> None:
    before = bench.hosts.sent
    bench.events()
    assert bench.hosts.sent == before
    bench.ahead_s += HEARTBEAT_SECONDS
    (reports,) = [event for event in bench.events() if isinstance(event, NodesReported)]
    assert [report.node for report in reports.reports()] == [0, 1], "one event for all"


def test_a_renewal_counts_from_when_it_was_said(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0))
    bench.carry_out([Renew(1, 1, (0, 1), time.time() + 0.3)])
    ends = bench.heard(lambda event: isinstance(event, Exited | Suspended) and event.node == 0)
    assert ends
    bench.carry_out([Kill(1, 1, 9, (0, 1))])


def test_where_the_log_is(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    assert b"step 1" in bench.driver.read_log(1, 0, 1000).data and bench.driver.log_end(1) > 0
    assert (bench.folder / "home/logs/1.node1.log").exists()


def test_a_scheduler_that_comes_up_renews_leases_only_when_it_knows_the_clock_of_the_node(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    bench.driver = bench.open()
    bench.hosts.held = []
    bench.driver.events()
    bench.carry_out([Renew(1, 1, (0, 1), time.time() + 60.0), bench.launch()])
    assert all(json.loads(text)["do"] == [] for _, text in bench.hosts.held), "it asks first"
    late, bench.hosts.held = bench.hosts.held, None
    for host, text in late:
        bench.hosts.carry(host, text)
    found = bench.heard(started(0), started(1))
    assert not any(isinstance(event, Exited | Suspended) for event in found)


def test_a_renewal_that_got_lost_is_sent_again(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    bench.hosts.held = []
    bench.carry_out([Renew(1, 1, (0, 1), time.time() + 50.0), Kill(9, 1, 1, (0, 1))])
    bench.hosts.held = None  # both messages are gone for good
    bench.hosts.away = {"a", "b"}
    bench.events()
    bench.hosts.away = set()
    bench.hosts.held = []
    bench.driver.events()
    again = [decode_message(plain) for _, text in bench.hosts.held for plain in json.loads(text)["do"]]
    assert [type(message) for message in again] == [Renew, Renew], "the core says again what it has no answer to"


def test_a_node_with_a_running_job_leaves(bench: Bench) -> None:
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    bench.hosts.away.add("a")
    bench.events()
    bench.ahead_s += GONE_AFTER + 10
    assert any(isinstance(event, NodeLeft) for event in bench.events())
    bench.ahead_s += 10
    bench.events()


def test_a_machine_that_comes_back_with_fewer_gpus_is_another_node(bench: Bench, tmp_path: Path) -> None:
    bench.hosts.agents["b"].close()
    bench.hosts.agents["b"] = cluster_agent(tmp_path / "b", "b", "127.0.0.1", accelerator="V100", pretend_gpus=1)
    bench.events()
    bench.carry_out([bench.launch()])
    assert not list(bench.folder.glob("*/run/1/1/launch.json")), "it has not joined"
    assert [node.gpus for node in bench.driver.discover_cluster().nodes] == [2, 1]
    bench.ahead_s += GONE_AFTER + 1
    assert [event.node for event in bench.events() if isinstance(event, NodeLeft)] == [1]


def test_an_answer_to_an_earlier_message_is_not_taken_for_the_last(bench: Bench) -> None:
    bench.hosts.held = []
    bench.ahead_s += HEARTBEAT_SECONDS
    bench.driver.events()
    early = bench.hosts.held
    bench.ahead_s += REPLY_TIMEOUT_SECONDS
    bench.hosts.held = []
    bench.driver.events()
    late, bench.hosts.held = bench.hosts.held, None
    assert len(early) == len(late) == 2 and all(json.loads(text)["whole"] for _, text in late)
    for host, text in (*early, *late):
        bench.hosts.carry(host, text)
    reports = [event for event in bench.driver.events() if isinstance(event, NodeReported)]
    assert [event.node for event in reports] == [0, 1]


def test_agents_refuse_a_scheduler_that_leads_no_more(bench: Bench) -> None:
    """Both would start the job: the former leader was frozen, and what it had decided is on its way."""
    former, bench.epoch = bench.driver, 2
    bench.driver = bench.open()
    bench.events()
    with pytest.raises(LeadershipLost, match="another leads epoch 2"):
        former.carry_out([bench.launch()])
    assert not list(bench.folder.glob("*/run/1")), "nothing was started"
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    again = cluster_agent(bench.folder / "a", "a", "127.0.0.1", accelerator="V100", pretend_gpus=2)
    with contextlib.closing(again):
        asked = {"message": 7, "do": [encode_message(Kill(1, 1, 9, ()))], "whole": False}
        for epoch in (0, 1):
            assert json.loads(again.exchange(json.dumps(asked | {"epoch": epoch}))) == {"refused": 2, "message": 7}
        assert json.loads(again.exchange(json.dumps(asked | {"do": []}))) == {"refused": 2, "message": 7}
        assert json.loads(again.exchange(json.dumps(asked | {"do": [], "epoch": 2})))["boot"] == again.facts.boot


def test_a_node_that_joins_is_used_when_all_that_it_had_has_ended(bench: Bench) -> None:
    """It was frozen for so long that its jobs were taken for dead. Now it is back, and they are in their grace."""
    bench.carry_out([bench.launch(seconds=1000.0)])
    bench.heard(started(0), started(1))
    bench.hosts.away.add("b")
    bench.events()
    bench.ahead_s += GONE_AFTER + 1
    assert [event.node for event in bench.events() if isinstance(event, NodeLeft)] == [1]
    bench.hosts.away.clear()
    sent = bench.hosts.sent
    assert not any(isinstance(event, NodeReported) and event.node == 1 for event in bench.driver.events())
    assert bench.hosts.sent - sent <= 1, "it is not spoken to before it has joined"
    number = bench.join("b")
    first = bench.driver.events()
    assert not any(isinstance(event, NodeReported) and event.node == number for event in first)
    reports: list[NodeReported] = []

    def reported() -> bool:
        bench.ahead_s += 1.0
        reports.extend(event for event in bench.events() if isinstance(event, NodeReported) and event.node == number)
        return bool(reports)

    until(reported, "it is reported")
    assert reports[0].inventory == ()
    assert bench.hosts.agents["a"].exchange(json.dumps({"message": 0, "do": [], "whole": True})).count('"running"'), "a goes on"


def test_of_two_lives_of_a_machine_the_newest_is_spoken_to(bench: Bench) -> None:
    bench.hosts.ghosts["earlier"] = "b"
    bench.carry_out([bench.launch()])
    before, found = bench.hosts.sent, list[External]()

    def begun() -> bool:
        found.extend(bench.driver.events())
        return any(started(1)(event) for event in found)

    until(begun, "the part on b has begun")
    assert sum(isinstance(event, NodeReported) and event.node == 1 for event in found) <= 1, "it was there all along"
    assert bench.hosts.sent - before < 20


# An agent that was started again.


def restart_agent(bench: Bench, name: str, *, lose: tuple[str, ...] = ()) -> None:
    """Its process was killed, and these of its files are gone."""
    bench.hosts.agents[name].close()
    for file in lose:
        (bench.folder / name / file).unlink()
    time.sleep(max(bench.hosts.agents[name].facts.boot + 1 - time.time(), 0.0))  # else it may draw the same number
    bench.hosts.agents[name] = cluster_agent(bench.folder / name, name, "127.0.0.1", accelerator="V100", pretend_gpus=2)


def test_jobs_go_on_and_others_start_when_an_agent_has_lost_the_number_of_its_boot(bench: Bench) -> None:
    """The machine was not booted, so what runs there lives, and the next launch is not held back."""
    first = bench.launch_one()
    bench.carry_out([first])
    bench.heard(started(0))
    restart_agent(bench, "a", lose=("boot.json", "run/boot.json"))
    assert bench.hosts.agents["a"].facts.boot > first.boots[0]
    bench.ahead_s += HEARTBEAT_SECONDS + 1.0
    reports = bench.heard(lambda event: isinstance(event, NodeReported) and event.node == 0)
    assert {event.boot for event in reports if isinstance(event, NodeReported) and event.node == 0} == {first.boots[0]}
    assert 1 in bench.driver.running()
    lease_s = time.time() + bench.ahead_s + 600.0
    second = Launch(2, 1, 1, 0, np.array([1]), (0,), first.boots, 0.0, lease_s)
    bench.carry_out([second])
    bench.heard(lambda event: isinstance(event, Started) and event.job == 2)
    assert bench.hosts.agents["a"].facts.boot == first.boots[0], "the agent keeps the scheduler's number"
    restart_agent(bench, "a")
    assert bench.hosts.agents["a"].facts.boot == first.boots[0], "and so does the next"


def test_a_launch_that_cannot_be_sent_is_told_with_the_name_of_its_node(bench: Bench) -> None:
    told: list[str] = []
    bench.driver._context = replace(bench.driver._context, tell=told.append)
    launch = replace(bench.launch_one(), boots=(1,))
    bench.carry_out([launch])
    assert bench.driver.late_starts() == {} and told == []
    bench.ahead_s += LATE_SECONDS
    for _ in range(3):
        bench.carry_out([launch])
    said = "Not acknowledged for 15 s: a has been booted since the launch was decided. "
    assert told == [f"job 1, attempt 1: {said}The launch is sent again every few seconds."]
    assert bench.driver.late_starts()[1].startswith(said)
    bench.carry_out([bench.launch_one()])
    bench.heard(started(0))
    bench.carry_out([bench.launch_one()])
    assert bench.driver.late_starts() == {} and told[1:] == ["job 1 is acknowledged after 15 s"]


def test_a_launch_that_no_agent_answers_is_told_with_the_name_of_its_node(bench: Bench) -> None:
    told: list[str] = []
    bench.driver._context = replace(bench.driver._context, tell=told.append)
    bench.hosts.held = []
    for _ in range(2):
        bench.carry_out([bench.launch()])
        bench.ahead_s += LATE_SECONDS
    bench.carry_out([bench.launch()])
    assert len(told) == 1 and "no answer from the agent of a, b" in told[0]
    bench.ahead_s += FORGET_SECONDS + 1.0
    assert bench.driver.late_starts() == {}, "the core does not send it any more"
