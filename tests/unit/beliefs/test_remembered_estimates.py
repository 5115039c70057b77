"""Cached estimates are the ones that would be computed again, whatever was measured and queried in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.estimate import Estimator
from rota.beliefs.rates import Rates
from tests.examples import examples

NAMES = ("a", "b", "c", "d", "e")
TYPES = {"V100": 1.0, "K80": 0.3}
TABLE = {
    (name, kind, gpus): (i + 1) * speed * gpus**0.8
    for i, name in enumerate(NAMES)
    for kind, speed in TYPES.items()
    for gpus in (1, 2)
}
PAIRS = {
    (one, other, kind, 1): (0.6 * TABLE[one, kind, 1], 0.7 * TABLE[other, kind, 1])
    for one in NAMES
    for other in NAMES
    if one <= other
    for kind in TYPES
}
REFERENCE = Rates(TABLE, pairs=PAIRS)
KNOWN = ("a", "b", "c")

names, kinds, counts = st.sampled_from(NAMES), st.sampled_from(sorted(TYPES)), st.sampled_from([1, 2, 4])
measured = st.tuples(st.just("measure"), names, kinds, counts, st.floats(0.1, 20.0), st.sampled_from(["", *NAMES]))
asked = st.tuples(st.just("ask"), names, kinds, counts, names)


@given(st.lists(st.one_of(measured, asked), max_size=25))
@examples(60)
@pytest.mark.slow
def test_what_is_remembered_is_what_would_be_said_anew(steps: list[tuple[object, ...]]) -> None:
    known = Estimator(REFERENCE, KNOWN)
    for what, name, kind, gpus, *rest in steps:
        if what == "measure":
            known = known.observed(name, kind, gpus, *rest)  # type: ignore[arg-type]
        anew = Estimator(REFERENCE, KNOWN, dict(known.measured))
        other = rest[0] if what == "ask" else "a"
        for levels in (0, 1):
            assert known.rate(name, kind, gpus, levels) == anew.rate(name, kind, gpus, levels)  # type: ignore[arg-type]
        assert known.colocated_rates(name, other, kind, gpus) == anew.colocated_rates(name, other, kind, gpus)  # type: ignore[arg-type]
