"""Chaos runs the rules that real agents run (`rota/agent/rules.py`): break one of them, and chaos notices."""

from collections.abc import Callable

import pytest

from rota.agent import rules
from rota.agent.constants import LAUNCH
from rota.sim.chaos import Broken, Faults
from tests.properties.test_chaos import world

LATE = Faults(delay_seconds=10.0)
"""Messages take so long that launches outlive their lease, and the boot they were meant for."""
REBOOTING = Faults(delay_seconds=4.0, node_crash=1 / 40, job_crash=0.0)

Break = Callable[[pytest.MonkeyPatch], None]


def ignore_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Obey a launch also when this attempt, or a later one, has been seen."""
    original = rules.is_new
    monkeypatch.setattr(rules, "is_new", lambda highest, command: command.op == LAUNCH or original(highest, command))


def ignore_the_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Obey every command to the newest attempt, however old the command is."""
    original = rules.is_new

    def hasty(highest: tuple[int, int], command: rules.AgentCommand) -> bool:
        return original(highest, command) if command.op == LAUNCH else command.attempt >= highest[0]

    monkeypatch.setattr(rules, "is_new", hasty)


def ignore_the_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Obey a launch that was meant for the machine before it was restarted."""
    monkeypatch.setattr(rules, "is_same_boot", lambda launch, boot: True)


def launch_without_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Obey a launch whose lease is over."""
    original = rules._launch

    def patient(known: rules.KnownJob, launch: rules.AgentCommand, now_s: float, boot: str) -> rules.Decision:
        return original(known, launch, min(now_s, launch.lease_s - 1.0), boot)

    monkeypatch.setattr(rules, "_launch", patient)


def outlive_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let run on what has no lease any more."""
    monkeypatch.setattr(rules, "is_over", lambda lease_s, now_s: False)


@pytest.mark.parametrize(
    ("break_rule", "faults", "story"),
    [
        (ignore_the_attempt, Faults(), r"is running twice|is held by job \d+ and given"),
        (ignore_the_sequence, Faults(), r"is held by job (\d+) and given to job \1"),
        (ignore_the_boot, REBOOTING, r"is running twice|is held by job \d+ and given"),
        (launch_without_a_lease, LATE, r"was started after its lease"),
        (outlive_the_lease, Faults(), r"is running twice|is held by job \d+ and given|was started after its lease"),
    ],
)
def test_chaos_notices_a_broken_rule(break_rule: Break, faults: Faults, story: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(monkeypatch)
    with pytest.raises(Broken, match=story):
        for seed in range(12):
            world(seed, check_every=10**9, faults=faults).run(30_000)


@pytest.mark.parametrize("faults", [LATE, REBOOTING])
def test_whole_rules_survive_the_same_worlds(faults: Faults) -> None:
    for seed in range(8):
        chaos = world(seed, check_every=10, faults=faults).run(200_000)
        assert not chaos.core.state.jobs.row and not chaos.gpu_owner
