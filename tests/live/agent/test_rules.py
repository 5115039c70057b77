"""A real machine does not start what the rules refuse."""

import pytest

from rota.agent import rules
from rota.agent.rules import Reply
from tests.live.agent.bench import FOREVER, Bench


def test_a_machine_starts_nothing_that_the_rules_refuse(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "is_same_boot", lambda launch, boot: False)
    bench.machine.launch(bench.sh("echo never"))
    part = bench.wait()
    assert (part.outcome, part.problem) == ("lost", rules.OTHER_BOOT)
    assert not bench.folder().exists() and bench.said() == ""


def test_a_machine_never_starts_what_it_said_is_lost(bench: Bench) -> None:
    assert bench.machine.answer(1, 1) is None, "its launch may be on the way"
    assert not bench.machine.kill(1, 1, 2) and bench.machine.answer(1, 1) == Reply("exited")
    bench.machine.launch(bench.sh("echo never"))
    assert bench.machine.inventory() == [] and bench.said() == ""
    bench.start(f"echo ready; {FOREVER}", attempt=2, sequence=3)
    assert bench.machine.answer(1, 2) is None, "poll tells it"
