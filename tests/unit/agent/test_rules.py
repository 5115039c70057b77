"""The rules of an agent, one by one."""

import math

import pytest

from rota.agent import rules
from rota.agent.constants import KILL, LAUNCH, RENEW, RESIZE, RESUME, SUSPEND
from rota.agent.rules import AgentCommand, Decision, KnownJob, Reply

BOOT = "first"


def receive(known: KnownJob, instruction: AgentCommand, now_s: float = 0.0) -> Decision:
    return rules.receive(known, instruction, now_s=now_s, boot=BOOT)


def launch(attempt: int = 1, sequence: int = 1, lease_s: float = 30.0, boot: str = BOOT) -> AgentCommand:
    return AgentCommand(LAUNCH, attempt, sequence, lease_s, boot)


def launched(attempt: int = 1, sequence: int = 1) -> KnownJob:
    return receive(KnownJob(), launch(attempt, sequence)).known


def held(known: KnownJob) -> rules.TrackedAttempt:
    assert known.held is not None
    return known.held


def test_a_launch_is_obeyed_once() -> None:
    first = receive(KnownJob(), launch())
    assert (first.action, first.answers, first.known.highest) == (LAUNCH, True, (1, 1))
    again = receive(first.known, launch())
    assert again == Decision(first.known, refusal=rules.NOT_NEW), "and answered with how things are"
    assert rules.describe(held(again.known), 1) == Reply("started", 1)


@pytest.mark.parametrize(
    ("instruction", "now_s", "refusal"),
    [
        (launch(attempt=1, sequence=9), 0.0, rules.NOT_NEW),
        (launch(attempt=2, sequence=9), 0.0, rules.NOT_NEW),
        (launch(attempt=3, boot="second"), 0.0, rules.OTHER_BOOT),
        (launch(attempt=3, lease_s=30.0), 30.0, rules.LEASE_OVER),
        (launch(attempt=3, lease_s=30.0), 29.9, ""),
    ],
)
def test_what_is_not_launched(instruction: AgentCommand, now_s: float, refusal: str) -> None:
    known = launched(attempt=2)
    decision = receive(known, instruction, now_s)
    assert decision.refusal == refusal and (decision.action is None) == bool(refusal)
    assert not refusal or (decision.known == known and decision.answers)


def test_a_kill_that_overtakes_its_launch_keeps_it_from_starting() -> None:
    killed = receive(KnownJob(), AgentCommand(KILL, 1, 2))
    assert (killed.action, killed.refusal, killed.answers) == (None, rules.NOT_HERE, True)
    assert rules.describe(killed.known.held, 1) == Reply("exited")
    assert receive(killed.known, launch()).refusal == rules.NOT_NEW


@pytest.mark.parametrize("op", [SUSPEND, KILL, RESUME, RESIZE])
def test_only_a_newer_command_for_this_attempt_changes_it(op: str) -> None:
    known = launched(attempt=2, sequence=5)
    for attempt, sequence in ((1, 9), (2, 4), (2, 5)):
        assert receive(known, AgentCommand(op, attempt, sequence)) == Decision(known, refusal=rules.NOT_NEW)
    of_the_next = receive(known, AgentCommand(op, 3, 6))
    assert (of_the_next.action, of_the_next.known.held) == (None, known.held)
    newer = receive(known, AgentCommand(op, 2, 6))
    assert (newer.action, newer.answers, held(newer.known).sequence) == (op, True, 6)


def test_a_resize_is_answered_as_a_start_by_its_own_number() -> None:
    resized = receive(launched(sequence=5), AgentCommand(RESIZE, 1, 6))
    assert (resized.action, resized.answers) == (RESIZE, True)
    assert rules.describe(held(resized.known), 1) == Reply("started", 6), "it runs as the command said"
    late = receive(resized.known, AgentCommand(RESIZE, 1, 6))
    assert late == Decision(resized.known, refusal=rules.NOT_NEW)


def test_what_leaves_or_sleeps_is_not_resized() -> None:
    leaving = receive(launched(), AgentCommand(SUSPEND, 1, 2)).known
    assert receive(leaving, AgentCommand(RESIZE, 1, 3)).refusal == rules.NOT_RUNNING
    asleep = KnownJob((1, 2), rules.parked(held(leaving)))
    refused = receive(asleep, AgentCommand(RESIZE, 1, 3))
    assert refused.refusal == rules.NOT_RUNNING and refused.action is None and refused.known.highest == (1, 3)
    assert rules.describe(held(refused.known), 1) == Reply("parked", 2)
    assert receive(KnownJob(), AgentCommand(RESIZE, 1, 3)).refusal == rules.NOT_HERE


def test_what_it_was_asked_decides_what_is_said_of_its_end() -> None:
    asked = receive(launched(), AgentCommand(SUSPEND, 1, 2)).known
    assert rules.describe(rules.ended(held(asked), "yielded"), 1) == Reply("suspended", 2, "lost")
    assert rules.describe(rules.ended(held(asked), "finished"), 1) == Reply("exited", 2, "finished")
    assert rules.describe(rules.ended(held(launched()), "yielded"), 1) == Reply("exited", 1, "yielded"), "nobody asked"
    killed = receive(asked, AgentCommand(KILL, 1, 3)).known
    later = receive(killed, AgentCommand(SUSPEND, 1, 4)).known
    assert held(later).stop_reason == KILL, "a suspension does not take back a kill"
    ended = KnownJob(killed.highest, rules.ended(held(killed), "lost"))
    assert receive(ended, AgentCommand(SUSPEND, 1, 4)).refusal == rules.NOT_HERE


def test_parking_and_going_on() -> None:
    asked = receive(launched(), AgentCommand(SUSPEND, 1, 2)).known
    asleep = asked._replace(held=rules.parked(held(asked)))
    assert rules.describe(asleep.held, 1) == Reply("parked", 2)
    assert rules.expire_lease(asleep, 30.0).action == "lease", "also of what sleeps"
    awake = receive(asleep, AgentCommand(RESUME, 1, 3, lease_s=60.0)).known
    assert rules.describe(awake.held, 1) == Reply("started", 3) and held(awake).lease_s == 60.0
    assert held(receive(asleep, AgentCommand(RESUME, 1, 3, lease_s=20.0)).known).lease_s == 30.0
    resumed = receive(asleep, AgentCommand(RESUME, 1, 3, lease_s=60.0, sent_s=30.0)).known
    assert held(receive(resumed, AgentCommand(RENEW, 1, lease_s=55.0, sent_s=25.0)).known).lease_s == 60.0, "it was overtaken"


def test_a_lease_ends_once_and_not_after_something_else_was_asked() -> None:
    known = launched()
    assert rules.expire_lease(known, 29.9) == Decision(known, answers=False)
    over = rules.expire_lease(known, 30.0)
    assert over.action == "lease" and held(over.known).stop_reason == "lease"
    assert rules.expire_lease(over.known, 31.0).action is None
    suspended = receive(known, AgentCommand(SUSPEND, 1, 2)).known
    assert rules.expire_lease(suspended, 31.0).action is None
    assert rules.expire_lease(KnownJob(), 31.0).action is None


def test_of_two_renewals_the_one_sent_later_counts() -> None:
    def renewal(sent_s: float, lease_s: float, attempt: int = 1) -> AgentCommand:
        return AgentCommand(RENEW, attempt, lease_s=lease_s, sent_s=sent_s)

    known = receive(launched(), renewal(10.0, 40.0)).known
    assert held(known).lease_s == 40.0
    assert held(receive(known, renewal(5.0, 35.0)).known).lease_s == 40.0, "it was overtaken"
    assert held(receive(known, renewal(12.0, 20.0)).known).lease_s == 20.0, "it may also shorten it"
    assert receive(known, renewal(11.0, math.inf, attempt=2)) == Decision(known, refusal=rules.NOT_HERE, answers=False), (
        "its launch may be on the way"
    )
    gone = KnownJob((1, 1), rules.ended(held(known), "failed"))
    assert receive(gone, renewal(11.0, 41.0)).answers


def test_what_is_parked_has_no_end_asked_of_it_and_a_resume_makes_it_run() -> None:
    asked = receive(launched(), AgentCommand(SUSPEND, 1, 2)).known
    sleeping = asked._replace(held=rules.parked(held(asked)))
    assert rules.describe(sleeping.held, 1) == Reply("parked", 2)
    assert rules.expire_lease(sleeping, 29.9).action is None
    assert rules.expire_lease(sleeping, 30.0).action == "lease", "without a lease nothing sleeps either"
    woken = receive(sleeping, AgentCommand(RESUME, 1, 3, lease_s=90.0, sent_s=60.0))
    assert woken.action == RESUME and rules.describe(woken.known.held, 1) == Reply("started", 3)
    assert rules.expire_lease(woken.known, 89.9).action is None
    assert receive(woken.known, AgentCommand(RESUME, 1, 3)).refusal == rules.NOT_NEW


def test_what_has_been_told_to_leave_is_not_woken() -> None:
    """Else its end would count as a failure of its own."""
    asked = receive(launched(), AgentCommand(SUSPEND, 1, 2)).known
    resumed = receive(asked, AgentCommand(RESUME, 1, 3))
    assert (resumed.action, resumed.refusal) == (None, rules.LEAVING) and held(resumed.known).stop_reason == SUSPEND
