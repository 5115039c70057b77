"""Tactics as text, and the settings that a scheduler gets from them."""

import pytest

from rota.beliefs.rates import Rates
from rota.compose.parse_tactics import make_tactics
from rota.compose.prepare import prepare_study
from rota.compose.study import Study
from rota.core.plan.tactic import Tactics
from rota.errors import RotaError
from rota.model.job import Arrival, JobSpec
from rota.tactics.pack import Pack
from rota.traces.trace import Trace


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("", Tactics()),
        (" , ", Tactics()),
        ("none", Tactics()),
        ("pack", Tactics((Pack(),))),
        (" pack ,", Tactics((Pack(),))),
        ("pack:min_gain=0.1", Tactics((Pack(min_gain=0.1),))),
        ("pack:settle_seconds=2, min_gain=0", Tactics((Pack(settle_seconds=2.0, min_gain=0.0),))),
    ],
)
def test_spelled(text: str, made: Tactics) -> None:
    assert make_tactics(text) == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pakc", "No tactic 'pakc'. Closest: pack."),
        ("pack:min_gian=0.1", "No option of pack 'min_gian'. Closest: min_gain."),
        ("pack:min_gain=much", "pack min_gain: 'much' — not a number"),
        ("pack:min_gain=-1", "must be finite and not negative"),
        ("pack:settle_seconds=0", "pack settle_seconds: 0.0 — must be more than 0"),
        ("pack:min_gain", "not key=value"),
        ("pack:min_gain=1,min_gain=2", "given twice"),
        ("pack,pack", "given twice"),
        ("pack,none", "No tactic 'none'"),
        ("pack,min_gain=0.1", "'min_gain=0.1' — is not a tactic"),
        ("min_gain=0.1,pack", "'min_gain=0.1' — is not a tactic"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(RotaError) as caught:
        make_tactics(text)
    assert said in str(caught.value) and "pack" in (caught.value.hint or "") + str(caught.value)


PAIRED = Rates({("p", "V100", 1): 1.0}, pairs={("p", "p", "V100", 1): (0.8, 0.8)})
TRACE = Trace("two", "made", tuple(Arrival(0.0, JobSpec(name=f"job-{n}", profile="p", steps=100.0)) for n in range(2)))


def test_none_turns_off_what_a_policy_brings() -> None:
    brings, goes_without = (
        prepare_study(Study(TRACE, policy="gandiva", cluster="1xV100", tactics=tactics)).setup.settings.tactics
        for tactics in ("", "none")
    )
    assert brings.colocating is not None and not goes_without


@pytest.mark.parametrize(
    ("policy", "tactics", "told"),
    [
        ("fifo", "", True),
        ("fifo", "pack", False),
        ("gandiva", "", False),
        ("gandiva", "none", True),
        ("max-min-fairness:colocation=true", "", True),
    ],
)
def test_who_tries_pairs_is_not_told_of_them(policy: str, tactics: str, told: bool) -> None:
    prepared = prepare_study(Study(TRACE, policy=policy, tactics=tactics, cluster="1xV100", rates=PAIRED))
    assert bool(prepared.setup.given.rates.pairs) == told
    assert prepared.physics.rates.pairs == PAIRED.pairs, "they run as they are"
    assert prepared.setup.given.rates.table == PAIRED.table
