"""The driver of a cluster, with real agents of root: a job runs as the Unix user of its submission on every node."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rota.model.commands import Resume, Suspend, SuspendKind
from rota.model.events import Exited, Outcome, Started, Suspended
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.live.agent.users import ANA, NAMELESS, PATH, PYTHON, clean_after_users
from tests.live.scheduler.driver_bench import PLAIN, Bench, goes_on, started, steps_told
from tests.stranger import root_only
from tests.waiting import until

pytestmark = root_only


@pytest.fixture
def bench(public: Path) -> Iterator[Bench]:
    with contextlib.closing(Bench(public)) as made:
        made.events()
        yield made
    clean_after_users(public)


def plain(bench: Bench, uid: int) -> Submission:
    """A script of this user that knows nothing of Rota."""
    path = bench.folder / "plain.py"
    path.write_text(PLAIN)
    spec = Spec(run=f"id -u; exec {PYTHON} {path}", progress=r"step (\d+)")
    return Submission(spec, "ana", "/", {"PATH": PATH}, uid=uid)


def test_a_job_is_started_parked_and_resumed_as_its_user(bench: Bench) -> None:
    bench.job = plain(bench, ANA.pw_uid)
    assert bench.driver.park_method(bench.job)[0] == "node", "no file of another user is read in the scheduler"
    bench.carry_out([bench.launch_one()])
    began = bench.heard(started(0))
    assert [event.can_park for event in began if isinstance(event, Started)] == [True]
    assert f"\n{ANA.pw_uid}\n" in bench.log()
    bench.carry_out([Suspend(1, 1, 2, (0,), SuspendKind.PARK)])
    bench.heard(lambda event: isinstance(event, Suspended) and event.kind is SuspendKind.PARK)
    bench.carry_out([Resume(1, 1, 3, (0,), time.time() + 600.0)])
    bench.heard(lambda event: isinstance(event, Started))
    goes_on(bench)
    assert len({process for _, process in steps_told(bench)}) == 1


def test_a_gang_runs_as_its_user_on_each_node(bench: Bench) -> None:
    bench.job = replace(bench.job, spec=Spec(run="id -u; echo step 1; sleep 1000", progress=r"step (\d+)"), uid=ANA.pw_uid)
    bench.carry_out([bench.launch()])
    logs = [bench.folder / "home/logs" / name for name in ("1.log", "1.node1.log")]
    until(lambda: all(log.exists() and f"\n{ANA.pw_uid}\n" in log.read_text() for log in logs))


def test_a_user_that_the_node_does_not_have_fails_the_job_with_the_reason(bench: Bench) -> None:
    bench.job = plain(bench, NAMELESS)
    bench.carry_out([bench.launch_one()])
    events = bench.heard(lambda event: isinstance(event, Exited))
    (exited,) = [event for event in events if isinstance(event, Exited)]
    assert exited.outcome is Outcome.FAILED
    assert f"failed: user {NAMELESS} does not exist on node" in bench.log()
