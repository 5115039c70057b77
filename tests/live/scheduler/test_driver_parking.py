"""The driver of a cluster, with real agents and processes: jobs are parked, woken and resized."""

import os
import time
from collections.abc import Callable

import numpy as np

from rota.model.commands import Resize, Resume, Suspend, SuspendKind
from rota.model.events import External, Started, Suspended
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.live.scheduler.driver_bench import Bench, goes_on, parkable, started, steps_told


def slept(kind: SuspendKind) -> Callable[[External], bool]:
    return lambda event: isinstance(event, Suspended) and event.kind is kind


def test_a_script_is_parked_and_woken_in_the_same_process(bench: Bench) -> None:
    """Its node finds out which way. Answers get lost, and the core says it again."""
    parkable(bench)
    assert bench.driver.park_method(bench.job) == ("node", "the node that starts it chooses the method")
    bench.carry_out([bench.launch_one()])
    began = bench.heard(started(0))
    assert [event.can_park for event in began if isinstance(event, Started)] == [True]
    (status,) = bench.driver.inventory()
    assert (status.park_method, status.park_reason) == ("sleep", "its GPUs are pretend GPUs, so its processes are only stopped")
    for sequence in (2, 4):
        bench.hosts.answers_to_lose = 1
        bench.carry_out([Suspend(1, 1, sequence, (0,), SuspendKind.PARK)])
        bench.carry_out([Suspend(1, 1, sequence, (0,), SuspendKind.PARK)])
        bench.ahead_s += 2.0
        parked = [event for event in bench.heard(slept(SuspendKind.PARK)) if isinstance(event, Suspended)]
        assert [(event.sequence, event.node, event.keeps_host_memory) for event in parked] == [(sequence, 0, False)], (
            "it is told once"
        )
        assert bench.driver.running() == {} and [each.state for each in bench.driver.inventory()] == ["parked"]
        bench.carry_out([Resume(1, 1, sequence + 1, (0,), time.time() + bench.ahead_s + 600.0)])
        woken = bench.heard(lambda event: isinstance(event, Started))
        assert [event.sequence for event in woken if isinstance(event, Started)] == [sequence + 1]
        goes_on(bench)
    told = steps_told(bench)
    assert [step for step, _ in told] == list(range(1, len(told) + 1)), bench.log()
    assert len({process for _, process in told}) == 1
    assert bench.log().count("--- rota: parked at step") == bench.log().count("--- rota: resumed at step") == 2


def test_a_scheduler_that_comes_up_finds_a_parked_job_and_wakes_it(bench: Bench) -> None:
    parkable(bench)
    bench.carry_out([bench.launch_one()])
    bench.heard(started(0))
    bench.carry_out([Suspend(1, 1, 2, (0,), SuspendKind.PARK)])
    bench.heard(slept(SuspendKind.PARK))
    bench.driver = bench.open()
    bench.heard(slept(SuspendKind.PARK))
    bench.carry_out([Resume(1, 1, 3, (0,), time.time() + 600.0)])
    woken = bench.heard(lambda event: isinstance(event, Started))
    assert [(event.sequence, event.can_park) for event in woken if isinstance(event, Started)] == [(3, True)]


def test_a_job_that_its_node_cannot_park_is_told_to_leave(bench: Bench) -> None:
    """The core hears of it when it starts. A word to park that is on its way already is taken for one to leave."""
    bench.job = Submission(Spec(run=["sleep", "1000"]), "me", "/", {"PATH": os.environ["PATH"]})
    bench.carry_out([bench.launch_one()])
    began = bench.heard(started(0))
    assert [event.can_park for event in began if isinstance(event, Started)] == [False]
    (status,) = bench.driver.inventory()
    assert (status.park_method, status.park_reason) == ("exit", "its command sleep is not Python")
    bench.carry_out([Suspend(1, 1, 2, (0,), SuspendKind.PARK)])
    left = bench.heard(slept(SuspendKind.CHECKPOINT))
    assert not any(slept(SuspendKind.PARK)(event) for event in left)


def test_what_is_known_of_parking_before_a_job_has_a_node(bench: Bench) -> None:
    plain = Spec(run=["python", "x.py"])
    assert bench.driver.park_method(Submission(plain, "me", "/", {}))[0] == "node"
    for more in ({"park": False}, {"gpus": 2}, {"gpus": {"min": 1, "max": 2}}):
        spec = Spec.model_validate({"run": ["python", "x.py"], **more})
        assert bench.driver.park_method(Submission(spec, "me", "/", {}))[0] == "exit", more


SAVES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("gpus", os.environ["CUDA_VISIBLE_DEVICES"], os.environ["ROTA_GPUS"], os.environ.get("CUDA_MPS_PIPE_DIRECTORY"), flush=True)
for step in range(1, 100000):
    print(f"step {step} by {os.getpid()}", flush=True)
    time.sleep(0.02)
"""


def test_a_job_of_one_node_is_started_again_with_other_gpus_under_its_attempt(bench: Bench) -> None:
    bench.mps = bench.folder / "mps"
    bench.driver = bench.open()
    bench.events()
    parkable(bench, SAVES)
    bench.carry_out([bench.launch_one()])
    bench.heard(started(0))
    grown = Resize(1, 1, 2, 0, np.array([0, 1]), (0,))
    bench.carry_out([grown])
    again = bench.heard(lambda event: isinstance(event, Started))
    assert [(event.attempt, event.sequence) for event in again if isinstance(event, Started)] == [(1, 2)]
    (status,) = bench.driver.inventory()
    assert status.gpus_text == "a:0-1"
    assert [line for line in bench.log().splitlines() if line.startswith("gpus")] == [
        f"gpus 0 1 {bench.mps}",
        f"gpus 0,1 2 {bench.mps}",
    ]


def test_a_gang_of_two_nodes_saves_and_leaves_when_it_is_to_have_another_size(bench: Bench) -> None:
    """Its parts would not start again at the same moment. The core launches it with the other size."""
    parkable(bench, SAVES)
    bench.carry_out([bench.launch()])
    bench.heard(started(0), started(1))
    bench.carry_out([Resize(1, 1, 2, 0, np.array([0, 2]), (0, 1))])

    def left(node: int) -> Callable[[External], bool]:
        return lambda event: isinstance(event, Suspended) and event.node == node and event.kind is SuspendKind.CHECKPOINT

    bench.heard(left(0), left(1))
