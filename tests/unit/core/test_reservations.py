"""Reservations: GPUs for the jobs of tenants and users for a time. Others leave or finish, and start only where they can end."""

import json
from typing import Any

import pytest

from rota.core import snapshot
from rota.core.explain import explain
from rota.core.explain_windows import reservation_sentences
from rota.core.fold.tenancy import set_tenants
from rota.core.snapshot import make_codec
from rota.core.state.windows import windows
from rota.model.cluster import Node
from rota.model.commands import Launch, Resume, SetTimer, Suspend, SuspendKind
from rota.model.events import DrainCancelled, Exited, GpusDrained, GpusUndrained, NodeJoined, NodeLeft, Outcome, TimerFired
from rota.model.job import Phase
from rota.model.reasons import Reason
from rota.model.tenants import Guarantee, Tenants
from rota.model.units import FOREVER
from rota.policies.fifo import Fifo
from rota.policies.srsf import Srsf
from tests.unit.core.helpers import Bench, of_type

A, B = Node("a", "V100", 2), Node("b", "V100", 2)
UNSAVED = {"saves": False, "steps": 1000.0}


def bench(*nodes: Node, policy: Any = None, **settings: Any) -> Bench:
    return Bench(list(nodes) or [A, B], policy or Fifo(backfill=True), **settings)


def reserve(
    *gpus: int, number: int = 1, from_s: float = 0.0, until_s: float = 3600.0, tenants: Any = ("vision",), users: Any = None
) -> GpusDrained:
    return GpusDrained(number, gpus, 0.0, from_s, until_s, "deadline", "ana", tenants=tenants, users=users)


def maintain(*gpus: int, number: int = 1, from_s: float = 600.0) -> GpusDrained:
    return GpusDrained(number, gpus, 0.0, from_s, from_s + 3600.0, "disks", "ana")


def placed(made: Bench) -> dict[int, list[int]]:
    return {job: attempt.gpus.tolist() for job, attempt in made.state.jobs.attempts.items()}


def test_only_jobs_of_the_tenant_start_there_and_its_end_is_exact() -> None:
    made = bench()
    assert of_type(made.tell(reserve(0, 1)), SetTimer)[-1].at_s == 3600.0
    made.obey(made.submit(gpus=2))
    assert placed(made) == {0: [2, 3]}
    made.obey(made.submit(gpus=1))
    assert not made.submit(gpus=1, tenant="visionary") and 1 not in placed(made)
    made.obey(made.submit(gpus=1, tenant="vision/scans"))
    assert placed(made)[3] == [0]
    made.obey(made.tell(TimerFired(3600.0), at_s=3600.0))
    assert placed(made)[1] == [1] and not windows(made.state) and made.state.nodes.windows == ()


def test_a_reservation_may_be_for_users_too() -> None:
    made = bench(A)
    made.tell(reserve(0, 1, users=("ben",)))
    made.obey(made.submit(gpus=1, user="eve"))
    made.obey(made.submit(gpus=1, user="ben"))
    made.obey(made.submit(gpus=1, user="eve", tenant="vision"))
    assert placed(made).keys() == {1, 2}


def test_why_names_the_reservation_and_its_end() -> None:
    made = bench()
    made.tell(reserve(0, 1, 2))
    made.obey(made.submit(gpus=2))
    made.tell(at_s=1800.0)
    (reason, *_) = explain(made.state, 0)
    assert reason.code is Reason.RESERVED and reason.facts["reservations"] == [1] and reason.facts["until_s"] == [3600.0]
    assert reason.sentence == "a, GPU 0 of b are reserved for tenant vision by ana (deadline) for another 30 min: reservation 1."
    assert reservation_sentences(made.state)[0] == "a is reserved for tenant vision by ana (deadline) for another 30 min."
    made.obey(made.submit(gpus=4, tenant="vision"))
    made.obey(made.submit(gpus=1))
    (reason, *_) = explain(made.state, 2)
    assert reason.code is Reason.NO_FREE_GPUS and reason.facts["reservations"] == [1] and "reservation 1." in reason.sentence
    made.obey(made.submit(gpus=1, tenant="vision"))
    assert "reservation" not in explain(made.state, 3)[0].sentence


def test_jobs_of_the_tenant_take_its_gpus_first_and_leave_the_others_to_others() -> None:
    made = bench()
    made.tell(reserve(2, 3))
    made.obey(made.submit(gpus=2, tenant="vision"))
    made.obey(made.submit(gpus=2))
    assert placed(made) == {0: [2, 3], 1: [0, 1]}


def test_a_job_of_the_tenant_may_have_reserved_gpus_and_others_together() -> None:
    made = bench()
    made.tell(reserve(2, 3))
    made.obey(made.submit(gpus=3, tenant="vision"))
    made.obey(made.submit(gpus=1))
    assert set(placed(made)[0]) >= {2, 3} and placed(made)[1] == sorted({0, 1} - set(placed(made)[0]))


def test_running_jobs_are_not_moved_for_a_job_that_has_other_free_gpus() -> None:
    made = bench(policy=Srsf())
    made.obey(made.submit(gpus=2, steps=500.0))
    (mine,) = placed(made).values()
    other = sorted({0, 1, 2, 3} - set(mine))
    made.tell(reserve(*mine, from_s=1000.0, until_s=2000.0), at_s=1.0)
    made.obey(made.submit(gpus=2, steps=5.0))
    assert placed(made) == {0: mine, 1: other} and not made.state.jobs.in_flight


def test_when_it_begins_jobs_that_save_leave_and_others_stay_until_they_end() -> None:
    made = bench()
    made.obey(made.submit(gpus=1, **UNSAVED))
    made.obey(made.submit(gpus=1, steps=5000.0))
    assert placed(made) == {0: [0], 1: [1]}
    made.tell(reserve(0, 1, from_s=600.0))
    commands = made.obey(made.tell(TimerFired(600.0), at_s=600.0))
    assert [command.job for command in of_type(commands, Suspend)] == [1]
    assert placed(made) == {0: [0], 1: [2]}
    made.obey(made.submit(gpus=2, tenant="vision"))
    assert placed(made)[0] == [0] and set(placed(made)[2]) == {1, 3}, "the GPU of the job that stays is not taken from it"
    made.obey(made.tell(Exited(0, 1, 700.0, Outcome.FINISHED, 1000.0), at_s=700.0))
    assert not made.submit(gpus=1)


def test_a_stranger_that_has_no_other_gpus_waits_until_the_end() -> None:
    made = bench(A)
    made.obey(made.submit(gpus=2, steps=5000.0))
    made.obey(made.tell(reserve(0, 1, from_s=600.0)))
    commands = made.obey(made.tell(TimerFired(600.0), at_s=600.0))
    assert of_type(commands, Suspend)[0].kind is SuspendKind.CHECKPOINT and not placed(made)
    assert explain(made.state, 0)[0].code is Reason.RESERVED
    made.obey(made.tell(TimerFired(3600.0), at_s=3600.0))
    assert placed(made) == {0: [0, 1]}


def test_a_job_that_can_only_be_parked_is_parked_and_resumes_there_afterwards() -> None:
    made = bench(Node("a", "V100", 2, host_gib=64.0), B)
    made.obey(made.submit(gpus=2, saves=False, can_park=True, parked_gib=4.0, steps=9000.0))
    assert placed(made) == {0: [0, 1]}
    made.tell(reserve(0, 1, from_s=600.0))
    commands = made.obey(made.tell(TimerFired(600.0), at_s=600.0))
    assert of_type(commands, Suspend)[0].kind is SuspendKind.PARK
    made.obey(made.submit(gpus=2, tenant="vision"))
    assert placed(made)[1] == [0, 1] and made.state.jobs.attempts[0].parked
    made.tell(Exited(1, 1, 800.0, Outcome.FINISHED, 100.0), at_s=800.0)
    assert explain(made.state, 0)[0].code is Reason.RESERVED
    assert of_type(made.obey(made.tell(TimerFired(3600.0), at_s=3600.0)), Resume) and placed(made)[0] == [0, 1]


@pytest.mark.parametrize("window", [maintain(0, 1), reserve(0, 1, from_s=600.0)])
def test_a_job_that_cannot_be_suspended_starts_only_where_it_ends_before(window: GpusDrained) -> None:
    made = bench(A)
    made.tell(window)
    made.obey(made.submit(gpus=1, **UNSAVED))
    made.obey(made.submit(gpus=1, max_run_seconds=601.0, **UNSAVED))
    assert not placed(made)
    (reason, *_) = explain(made.state, 0)
    assert (
        reason.code is Reason.RESERVED and "in 10 min: reservation 1. The job is not known to save its state" in reason.sentence
    )
    assert "has no max_run_time" in reason.sentence and "may run for 10m1s" in explain(made.state, 1)[0].sentence
    made.obey(made.submit(gpus=1, max_run_seconds=600.0, **UNSAVED))
    made.obey(made.submit(gpus=1, steps=5000.0))
    assert placed(made) == {2: [0], 3: [1]}


def test_it_starts_at_once_on_gpus_in_no_window() -> None:
    made = bench()
    made.tell(maintain(0, 1))
    made.obey(made.submit(gpus=2, **UNSAVED))
    assert placed(made) == {0: [2, 3]}


def test_a_promise_that_comes_too_late_is_withdrawn() -> None:
    """The job was to start when another had left; by then it could no longer end before the window."""
    made = bench(Node("a", "V100", 1), policy=Srsf())
    made.obey(made.submit(gpus=1, steps=5000.0))
    made.tell(maintain(0))
    commands = made.submit(gpus=1, saves=False, steps=50.0, max_run_seconds=590.0)
    assert of_type(commands, Suspend) and made.state.jobs.desired[1].tolist() == [0]
    commands = made.obey(made.tell(at_s=11.0))
    commands += made.obey(commands + of_type(made.tell(), Suspend))
    assert 1 not in made.state.jobs.desired and not [each for each in of_type(commands, Launch) if each.job == 1]


def test_ending_it_gives_the_gpus_to_all() -> None:
    made = bench(A)
    made.tell(reserve(0, 1))
    made.submit(gpus=2)
    assert not placed(made)
    made.tell(GpusUndrained((0, 1), 0.0))
    assert not placed(made), "a reservation is no drain"
    made.obey(made.tell(DrainCancelled(1, 0.0)))
    assert placed(made) == {0: [0, 1]}


def test_a_drain_of_reserved_gpus_counts_too() -> None:
    made = bench(A)
    made.tell(reserve(0, 1), GpusDrained(2, (0,), 0.0, 0.0, FOREVER))
    made.obey(made.submit(gpus=1, tenant="vision"))
    assert placed(made) == {0: [1]} and [each.number for each in windows(made.state)] == [1]
    made.tell(GpusUndrained((0,), 0.0))
    assert [each.number for each in windows(made.state)] == [1]


def test_guarantees_count_reserved_gpus_and_borrowers_stay_off_them() -> None:
    made = bench()
    teams = ("vision", "speech")
    set_tenants(made.state, Tenants(weights=dict.fromkeys(teams, 1.0), guarantees=dict.fromkeys(teams, Guarantee(2))))
    made.tell(reserve(0, 1))
    made.obey(made.submit(gpus=1, tenant="speech"))
    made.obey(made.submit(gpus=1, tenant="speech"))
    made.obey(made.submit(gpus=1, tenant="speech"))
    assert placed(made) == {0: [2], 1: [3]}, "it borrows nothing that is reserved"
    made.obey(made.submit(gpus=2, tenant="vision"))
    assert placed(made)[3] == [0, 1]


def test_a_node_that_is_booted_is_still_reserved() -> None:
    made = bench(A)
    made.tell(reserve(0, 1))
    made.tell(NodeLeft(0, 1.0), at_s=1.0)
    assert not windows(made.state) and made.state.nodes.windows == ()
    made.tell(NodeJoined(A, 2.0), at_s=2.0)
    made.obey(made.submit(gpus=1))
    made.obey(made.submit(gpus=1, tenant="vision"))
    assert placed(made) == {1: [2]}


def test_a_snapshot_keeps_reservations_and_older_ones_are_read() -> None:
    made = bench()
    made.tell(reserve(0, 1), maintain(2, number=2))
    codec = make_codec()
    plain = json.loads(json.dumps(snapshot.take(made.state, codec)))
    again = snapshot.restore(plain, codec)
    assert again.nodes.drains == made.state.nodes.drains and again.nodes.windows == ((1, True), (2, False))
    plain["version"] = 19
    del plain["nodes"]["windows"]
    assert snapshot.restore(plain, codec).nodes.windows == ()


def test_a_drain_in_a_journal_from_before_reservations_is_read() -> None:
    codec, drained = make_codec(), GpusDrained(1, (0,), 0.0, 0.0, 60.0, "disks", "ana")
    plain = json.loads(json.dumps(codec.encode(drained)))
    text = json.dumps(plain)
    assert "tenants" in text and "users" in text
    for name in ("tenants", "users"):
        text = text.replace(f', "{name}": null', "")
    assert "tenants" not in text and codec.decode(json.loads(text)) == drained


def test_phases_stay_legal_while_a_reservation_comes_and_goes() -> None:
    made = bench(A, policy=Srsf())
    made.obey(made.submit(gpus=2, steps=5000.0))
    for turn in range(3):
        start = 100.0 * turn + 50.0
        made.tell(GpusDrained(turn + 1, (0, 1), start, start, start + 50.0, tenants=("vision",)), at_s=start)
        made.obey(made.tell())
        made.obey(made.tell(TimerFired(start + 50.0), at_s=start + 50.0))
    assert Phase(made.state.jobs.table.phase[0]) in (Phase.RUNNING, Phase.SUSPENDING)
