"""Another size under the same attempt: the job saves and exits, and the same command is started again with other variables."""

import json

from tests.live.agent.bench import FOREVER, Bench
from tests.waiting import until

SIZES = "echo size $ROTA_GPUS $CUDA_VISIBLE_DEVICES ${WORLD_SIZE-none};"
TWO = {"ROTA_GPUS": "2", "CUDA_VISIBLE_DEVICES": "0,1", "WORLD_SIZE": None}


def tells(bench: Bench, done: float, saved: float) -> None:
    """The job reports, as a session does."""
    bench.datagram(json.dumps({"op": "report", "steps_done": done, "steps_saved": saved}).encode())


def start(bench: Bench, leave: str, **how: object) -> None:
    env = {"ROTA_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0", "WORLD_SIZE": "1"}
    bench.machine.launch(bench.sh(f"trap '{leave}' TERM; {SIZES} echo ready; {FOREVER}", progress="session", env=env, **how))
    until(lambda: "ready" in bench.said(), "it runs")


def test_it_goes_on_with_other_gpus_and_says_so_with_its_first_step(bench: Bench) -> None:
    start(bench, "exit 75")
    tells(bench, 5.0, 0.0)
    until(lambda: bench.part().steps_done == 5.0)
    assert bench.part().pace.since_steps == 5.0 and bench.part().pace.since_s == bench.part().stepped_s
    assert bench.machine.resize(1, 1, 2, 64, TWO, "n1 GPUs 0,1")
    until(lambda: bench.said().count("ready") == 2, "it was started again")
    assert "size 1 0 1" in bench.said() and "size 2 0,1 none" in bench.said()
    assert "--- rota: started again on n1 GPUs 0,1 from step 5 ---" in bench.said()
    until(lambda: bench.part().pace.since_s is None, "steps on the other GPUs say nothing of its pace")
    part = bench.part()
    assert (part.attempt, part.state, part.steps_saved, part.start_sequence) == (1, "running", 5.0, 1)
    tells(bench, 6.0, 5.0)
    until(lambda: bench.part().start_sequence == 2, "its first step says that it goes on")
    assert bench.part().pace.since_steps == 6.0
    assert bench.machine.variables(1, 1)["ROTA_GPUS"] == "2"
    bench.machine.suspend(1, 1, 3)
    assert bench.wait().outcome == "yielded"


def test_a_repeat_changes_nothing_and_a_later_one_counts(bench: Bench) -> None:
    start(bench, "exit 75")
    bench.machine.resize(1, 1, 2, 64, TWO, "two")
    until(lambda: bench.said().count("ready") == 2)
    bench.machine.resize(1, 1, 2, 64, TWO, "two")
    bench.machine.resize(1, 1, 3, 64, {**TWO, "ROTA_GPUS": "3"}, "three")
    until(lambda: bench.said().count("ready") == 3)
    assert "size 3 0,1 none" in bench.said() and bench.said().count("started again on two") == 1


def test_what_is_told_to_stop_meanwhile_is_not_started_again(bench: Bench) -> None:
    start(bench, "sleep 1; exit 75")
    bench.machine.resize(1, 1, 2, 64, TWO, "two")
    bench.machine.suspend(1, 1, 3)
    part = bench.wait()
    assert (part.outcome, part.stop_reason) == ("yielded", "suspend") and bench.said().count("ready") == 1


def test_one_that_does_not_save_is_lost_and_not_failed(bench: Bench) -> None:
    start(bench, "exit 3")
    tells(bench, 5.0, 2.0)
    until(lambda: bench.part().steps_done == 5.0)
    bench.machine.resize(1, 1, 2, 64, TWO, "two")
    part = bench.wait()
    assert (part.outcome, part.steps_saved) == ("lost", 2.0)
    assert "it was to save and be started again, and left with exit code 3" in part.problem


def test_a_launcher_that_fails_by_the_signal_after_its_ranks_have_saved(bench: Bench) -> None:
    start(bench, "exit 1")
    tells(bench, 5.0, 5.0)
    until(lambda: bench.part().steps_saved == 5.0)
    bench.machine.resize(1, 1, 2, 64, TWO, "two")
    until(lambda: bench.said().count("ready") == 2)
    bench.machine.kill(1, 1, 3)
    assert bench.wait().outcome == "lost"
