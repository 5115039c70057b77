"""Counts in sentences."""

import pytest

from rota.model.counted import are, counted


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 jobs"), (1, "1 job"), (1.0, "1 job"), (0.5, "0.5 jobs"), (2, "2 jobs"), (2000, "2,000 jobs")]
)
def test_a_noun_agrees_with_its_count(count: float, said: str) -> None:
    assert counted(count, "job") == said
    assert are(count) == ("is" if said == "1 job" else "are")


def test_an_irregular_plural_is_given() -> None:
    assert [counted(count, "entry", "entries") for count in (1, 2)] == ["1 entry", "2 entries"]
