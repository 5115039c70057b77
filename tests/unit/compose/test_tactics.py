"""Tactics as they are spelled."""

import pytest

from rota.compose.tactics import make_tactics
from rota.core.tactics import Tactics
from rota.errors import RotaError
from rota.tactics.pack import Pack


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("", Tactics()),
        (" , ", Tactics()),
        ("pack", Tactics(pack=Pack())),
        (" pack ,", Tactics(pack=Pack())),
        ("pack:least_gain=0.1", Tactics(pack=Pack(least_gain=0.1))),
        ("pack:settle_seconds=2, least_gain=0", Tactics(pack=Pack(settle_seconds=2.0, least_gain=0.0))),
    ],
)
def test_spelled(text: str, made: Tactics) -> None:
    assert make_tactics(text) == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pakc", "No tactic 'pakc'. Closest: pack."),
        ("pack:least_gian=0.1", "No option of pack 'least_gian'. Closest: least_gain."),
        ("pack:least_gain=much", "pack least_gain: 'much' — not a number"),
        ("pack:least_gain=-1", "must be finite and not negative"),
        ("pack:settle_seconds=0", "pack settle_seconds: '0' — must be more than 0"),
        ("pack:least_gain", "not key=value"),
        ("pack:least_gain=1,least_gain=2", "given twice"),
        ("pack,pack", "given twice"),
        ("pack,least_gain=0.1", "'least_gain=0.1' — is no tactic"),
        ("least_gain=0.1,pack", "'least_gain=0.1' — is no tactic"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(RotaError) as caught:
        make_tactics(text)
    assert said in str(caught.value) and "pack" in (caught.value.hint or "") + str(caught.value)
