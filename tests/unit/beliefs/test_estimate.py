"""Estimates: exact where measured, sensible elsewhere, whatever the references are."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.estimate import KEEP_MEASUREMENTS, TYPICAL_SHARE, Estimator
from rota.beliefs.rates import SPEEDS, UNPROFILED_UNCERTAINTY, Rates, Source
from rota.core.snapshot import make_codec
from rota.errors import ProfileError
from tests.examples import examples

TYPES, COUNTS = ("K80", "P100", "V100", "A100"), (1, 2, 4)
CELLS = tuple(product(TYPES, COUNTS))


def synthetic(count: int, rank: int = 2, seed: int = 0, noise: float = 0.0) -> Rates:
    """Log rates are a level, a mean row and a few patterns; what is left beside another falls with how hard both work."""
    draw = np.random.Generator(np.random.Philox(key=seed))
    patterns = draw.normal(0, 0.4, (rank, len(CELLS)))
    mean = np.array([math.log(SPEEDS[kind] * gpus) for kind, gpus in CELLS])
    mix, levels = draw.normal(0, 1, (count, rank)), draw.normal(0, 2, count)
    logs = mean + mix @ patterns + levels[:, None] + noise * draw.normal(0, 1, (count, len(CELLS)))
    names = [f"p{number:02}" for number in range(count)]
    table = {
        (name, kind, gpus): math.exp(logs[row, column])
        for row, name in enumerate(names)
        for column, (kind, gpus) in enumerate(CELLS)
    }
    work = 1 / (1 + np.exp(-mix[:, 0]))
    pairs = {}
    for (i, one), (j, other), kind in product(enumerate(names), enumerate(names), TYPES):
        shares = (1 - 0.5 * work[j], 1 - 0.5 * work[i])
        pairs[one, other, kind, 1] = (table[one, kind, 1] * shares[0], table[other, kind, 1] * shares[1])
    return Rates(table, pairs=pairs)


def others(rates: Rates, name: str) -> tuple[str, ...]:
    return tuple(sorted({profile for profile, _, _ in rates.table} - {name}))


def given_cells(rates: Rates, name: str, cells: list[tuple[str, int]]) -> Estimator:
    known = Estimator(rates, others(rates, name))
    for kind, gpus in cells:
        known = known.observed(name, kind, gpus, rates.table[name, kind, gpus])
    return known


def off(rates: Rates, known: Estimator, name: str) -> list[float]:
    found = []
    for kind, gpus in CELLS:
        guess = known.rate(name, kind, gpus)
        assert guess is not None
        found.append(abs(math.log(guess[0] / rates.table[name, kind, gpus])))
    return found


def test_a_low_rank_table_is_completed() -> None:
    rates = synthetic(20)
    for name in ("p00", "p07", "p19"):
        few = given_cells(rates, name, [("K80", 1), ("V100", 1), ("V100", 4), ("A100", 2), ("P100", 1)])
        assert max(off(rates, few, name)) < 0.3 and np.median(off(rates, few, name)) < 0.05


def test_pairs_of_a_new_profile() -> None:
    rates = synthetic(20)
    known = given_cells(rates, "p03", list(CELLS[:4]))
    for other in ("p00", "p05", "p11"):
        known = known.observed("p03", "V100", 1, rates.pairs["p03", other, "V100", 1][0], colocated_with=other)
        known = known.observed(other, "V100", 1, rates.pairs["p03", other, "V100", 1][1], colocated_with="p03")
    assert known.colocated_rates("p03", "p05", "V100", 1) == (rates.pairs["p03", "p05", "V100", 1], 0.0)
    for other, kind in product(("p01", "p08", "p15"), TYPES):
        found = known.colocated_rates("p03", other, kind, 1)
        turned = known.colocated_rates(other, "p03", kind, 1)
        assert found is not None and turned == ((found[0][1], found[0][0]), found[1])
        truth = rates.pairs["p03", other, kind, 1]
        assert found[0] == pytest.approx(truth, rel=0.25) and 0 < found[1] < 1


def test_two_new_profiles_share() -> None:
    rates = synthetic(20)
    known = Estimator(rates, tuple(f"p{number:02}" for number in range(18)))
    for name, (kind, gpus) in product(("p18", "p19"), CELLS):
        known = known.observed(name, kind, gpus, rates.table[name, kind, gpus])
    found = known.colocated_rates("p18", "p19", "P100", 1)
    assert found is not None and found[0] == pytest.approx(rates.pairs["p18", "p19", "P100", 1], rel=0.35)
    assert known.colocated_rates("p18", "p19", "P100", 4) is None, "nobody measured a pair of gangs of four"
    unseen = known.colocated_rates("p18", "p19", "H100", 1)
    assert unseen is not None and unseen[1] >= UNPROFILED_UNCERTAINTY, "the other types say what is left"
    assert known.colocated_rates("p18", "never seen", "P100", 1) is None


def test_references_are_exact_and_nearest_to_themselves() -> None:
    rates = synthetic(6)
    known = Estimator(rates)
    for (profile, kind, gpus), rate in rates.table.items():
        assert known.rate(profile, kind, gpus) == (rate, 0.0)
        assert known.nearest(profile) == (profile, 1.0)
    for key, both in rates.pairs.items():
        assert known.colocated_rates(*key) == (both, 0.0)


def test_several_measurements_of_a_cell_count_by_their_median() -> None:
    known = Estimator(synthetic(4))
    for rate in (10.0, 11.0, 900.0):
        known = known.observed("new", "V100", 1, rate)
    assert known.rate("new", "V100", 1) == (11.0, pytest.approx(1 / 11))
    for _ in range(KEEP_MEASUREMENTS):
        known = known.observed("new", "V100", 1, 20.0)
    assert known.rate("new", "V100", 1) == (20.0, 0.0), "the latest ones count"
    again = known.observed("p01", "V100", 1, 3.0)
    assert again.rate("p01", "V100", 1) == (3.0, 0.0), "what ran comes before what a file says"
    assert known.rate("p01", "V100", 1) != (3.0, 0.0), "the old one is as it was"


def test_twice_the_rates_measured_twice_the_estimates() -> None:
    rates = synthetic(8, noise=0.1)
    one = Estimator(rates).observed("new", "K80", 1, 1.0).observed("new", "V100", 2, 7.0)
    two = Estimator(rates).observed("new", "K80", 1, 2.0).observed("new", "V100", 2, 14.0)
    for kind, gpus in (*CELLS, ("H200", 1), ("V100", 16)):
        first, second = one.rate("new", kind, gpus), two.rate("new", kind, gpus)
        assert first is not None and second is not None and second[0] == pytest.approx(2 * first[0])
        assert second[1] == pytest.approx(first[1])


@pytest.mark.slow
def test_the_spread_shrinks_with_what_is_measured_and_says_how_far_off() -> None:
    rates = synthetic(24, rank=3, noise=0.05)
    draw = np.random.Generator(np.random.Philox(key=5))
    spreads: dict[int, list[float]] = {1: [], 4: [], 8: []}
    errors: dict[int, list[float]] = {1: [], 4: [], 8: []}
    for name in others(rates, "")[:12]:
        order = [CELLS[number] for number in draw.permutation(len(CELLS))]
        for count in spreads:
            known = given_cells(rates, name, order[:count])
            for kind, gpus in order[8:]:
                guess = known.rate(name, kind, gpus)
                assert guess is not None
                spreads[count].append(guess[1])
                errors[count].append(abs(math.log(guess[0] / rates.table[name, kind, gpus])))
    means = [float(np.mean(spreads[count])) for count in (1, 4, 8)]
    assert means[0] > means[1] > means[2] > 0
    for count in spreads:
        assert 0.5 < np.median(spreads[count]) / math.expm1(float(np.median(errors[count]))) < 2


def test_where_it_does_not_fit() -> None:
    small = {(f"s{number}", kind, gpus): 5.0 * SPEEDS[kind] for number in range(3) for kind, gpus in CELLS}
    large = {(f"l{number}", kind, gpus): 0.0 if kind == "K80" else 9.0 for number in range(3) for kind, gpus in CELLS}
    known = Estimator(Rates(small | large))
    like_large = known.observed("new", "P100", 1, 2.0).observed("new", "A100", 1, 2.0)
    assert like_large.rate("new", "K80", 2) == (0.0, pytest.approx(0.0, abs=0.6))
    like_small = known.observed("new", "P100", 1, SPEEDS["P100"]).observed("new", "A100", 1, SPEEDS["A100"])
    guess = like_small.rate("new", "K80", 2)
    assert guess is not None and guess[0] == pytest.approx(SPEEDS["K80"], rel=0.1)
    refused = like_small.observed("new", "K80", 4, 0.0).rate("new", "K80", 2)
    assert refused is not None and refused[0] == 0.0, "it did not fit right beside"


def test_a_profile_that_fits_nowhere_yet() -> None:
    known = Estimator(synthetic(4)).observed("new", "K80", 1, 0.0)
    assert known.rate("new", "K80", 1) == (0.0, 0.0)
    assert known.rate("new", "V100", 1) is None, "nothing says how fast it is"
    assert known.nearest("new") is None and known.colocated_rates("new", "p01", "V100", 1) is None


def test_pairs_that_do_not_fit_together() -> None:
    rates = synthetic(12)
    full = {key: (0.0, 0.0) if {"p00", "p01", "p02"} & set(key[:2]) else both for key, both in rates.pairs.items()}
    known = Estimator(Rates(rates.table, pairs=full), others(rates, "p00"))
    for kind, gpus in CELLS:
        known = known.observed("p00", kind, gpus, rates.table["p00", kind, gpus])
    for other in ("p04", "p05", "p06"):
        known = known.observed("p00", "V100", 1, 0.0, colocated_with=other).observed(other, "V100", 1, 0.0, colocated_with="p00")
    for other in ("p02", "p07", "p09"):
        found = known.colocated_rates("p00", other, "V100", 1)
        assert found is not None and found[0] == (0.0, 0.0)
    half = known.observed("p00", "K80", 1, 1.0, colocated_with="p02").colocated_rates("p00", "p02", "K80", 1)
    assert half is not None and half[0][0] == 1.0 and half[0][1] > 0, "it ran, so both fit"


def test_without_references() -> None:
    empty = Estimator(Rates())
    assert empty.rate("new", "V100", 1) is None and empty.nearest("new") is None
    one = empty.observed("new", "V100", 2, 6.0)
    assert one.rate("new", "V100", 2) == (6.0, 0.0)
    assert one.rate("new", "V100", 4) == (pytest.approx(12.0), UNPROFILED_UNCERTAINTY)
    assert one.rate("new", "K80", 2) == (pytest.approx(6.0 * SPEEDS["K80"]), UNPROFILED_UNCERTAINTY)
    assert one.observed("new", "V100", 8, 6.0).rate("new", "V100", 4) == (pytest.approx(6.0), UNPROFILED_UNCERTAINTY)
    assert one.nearest("new") is None and one.colocated_rates("new", "new", "V100", 2) is None


def test_where_the_references_end() -> None:
    rates = synthetic(6)
    known = Estimator(rates).observed("new", "V100", 1, 4.0)
    more, foreign = known.rate("new", "V100", 8), known.rate("new", "H200", 1)
    assert more is not None and more[0] >= known.rate("new", "V100", 4)[0] and more[1] == UNPROFILED_UNCERTAINTY  # type: ignore[index]
    assert foreign is not None and foreign[0] > 4.0 and foreign[1] == UNPROFILED_UNCERTAINTY
    only = Estimator(rates).observed("far", "H200", 1, 40.0)
    guess = only.rate("far", "K80", 1)
    assert guess is not None and guess == (pytest.approx(40 * SPEEDS["K80"] / SPEEDS["H200"]), UNPROFILED_UNCERTAINTY)


def test_a_job_that_never_ran_alone() -> None:
    known = Estimator(synthetic(6)).observed("new", "V100", 1, 3.0, colocated_with="p01")
    guess = known.rate("new", "V100", 1)
    assert guess is not None and guess[0] == pytest.approx(3.0 / TYPICAL_SHARE, rel=0.2) and guess[1] >= UNPROFILED_UNCERTAINTY
    assert known.colocated_rates("new", "p01", "V100", 1)[0][0] == 3.0  # type: ignore[index]


def test_several_nodes() -> None:
    rates = synthetic(6)
    apart = {key: rate * 0.5 for key, rate in rates.table.items() if key[2] > 1}
    known = Estimator(Rates(rates.table, across_nodes=apart)).observed("new", "V100", 1, 4.0)
    one, several = known.rate("new", "V100", 4), known.rate("new", "V100", 4, 1)
    assert one is not None and several is not None and several[0] == pytest.approx(one[0] / 2, rel=0.2)
    assert Estimator(rates).observed("new", "V100", 1, 4.0).rate("new", "V100", 4, 1) == pytest.approx(one, rel=0.2)
    fast = known.observed("new", "V100", 4, 500.0, levels=1)
    assert fast.rate("new", "V100", 4, 1) == (500.0, 0.0) and fast.rate("new", "V100", 4)[0] >= 500.0  # type: ignore[index]


def test_it_is_a_source_and_travels_as_plain_data() -> None:
    known = Estimator(synthetic(4)).observed("new", "V100", 1, 4.0)
    source: Source = known
    rates = Rates(model=source)
    assert rates.rate("new", "K80", 1) == known.rate("new", "K80", 1) and rates.knows("new") and not rates.knows("other")
    words = make_codec(Estimator)
    again = words.decode(words.encode(known))
    assert again == known and again.rate("new", "K80", 4) == known.rate("new", "K80", 4)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("", "V100", 1, 1.0), "profile"),
        (("new", "", 1, 1.0), "accelerator"),
        (("new", "V100", 0, 1.0), "gpus"),
        (("new", "V100", 1, -1.0), "rate"),
        (("new", "V100", 1, math.nan), "rate"),
        (("new", "V100", 4, 1.0, "p01", 2), "levels"),
        (("new", "V100", 4, 0.0, "", 2), "rate"),
    ],
)
def test_what_cannot_be_measured(words: tuple[str, str, int, float], field: str) -> None:
    with pytest.raises(ProfileError) as wrong:
        Estimator(Rates()).observed(*words)
    assert wrong.value.field == field and wrong.value.hint


RATE = st.one_of(st.just(0.0), st.floats(1e-6, 1e6), st.sampled_from([1e-300, 1e300]))
NAME = st.sampled_from(["a", "b", "c", "d"])
KIND = st.sampled_from(["K80", "V100", "XPU"])
COUNT = st.sampled_from([1, 2, 3, 8, 4096])
TABLE = st.dictionaries(st.tuples(NAME, KIND, COUNT), RATE, max_size=14)
PAIRS = st.dictionaries(st.tuples(NAME, NAME, KIND, COUNT), st.tuples(RATE, RATE), max_size=10)
SEEN = st.lists(
    st.tuples(st.sampled_from(["a", "b", "new", "newer"]), KIND, COUNT, RATE, st.sampled_from(["", "", "a", "new"])), max_size=10
)


@pytest.mark.slow
@examples(150)
@given(table=TABLE, pairs=PAIRS, seen=SEEN, chosen=st.none() | st.lists(NAME).map(tuple))
def test_any_table(
    table: dict[tuple[str, str, int], float],
    pairs: dict[tuple[str, str, str, int], tuple[float, float]],
    seen: list[tuple[str, str, int, float, str]],
    chosen: tuple[str, ...] | None,
) -> None:
    """No exception or warning; finite and never negative; exact where measured; the same again."""
    known = Estimator(Rates(table, pairs=pairs), chosen)
    latest: dict[tuple[str, str, int, str], float] = {}
    for name, kind, gpus, rate, colocated_with in seen:
        if (name, kind, gpus, colocated_with) not in latest:
            known = known.observed(name, kind, gpus, rate, colocated_with)
            latest[name, kind, gpus, colocated_with] = rate
    again = Estimator(Rates(table, pairs=pairs), chosen)
    for (name, kind, gpus, colocated_with), rate in sorted(latest.items(), reverse=True):
        again = again.observed(name, kind, gpus, rate, colocated_with)
    for name, kind, gpus in product(("a", "d", "new", "newer", "never"), ("K80", "XPU", "B200"), (1, 2, 16)):
        guess = known.rate(name, kind, gpus)
        assert guess == again.rate(name, kind, gpus), "whatever the order"
        if guess is not None:
            assert 0 <= guess[0] < math.inf and 0 <= guess[1] <= 2
            several = known.rate(name, kind, gpus, 1)
            assert several is not None and several[0] <= guess[0]
        for other in ("a", "new", "never"):
            both = known.colocated_rates(name, other, kind, gpus)
            assert both == again.colocated_rates(name, other, kind, gpus)
            assert both is None or (all(0 <= rate < math.inf for rate in both[0]) and 0 <= both[1] < 4)
        near = known.nearest(name)
        assert near is None or 0 <= near[1] <= 1
    assert known.rate("never", "K80", 1) is None or "never" in table
    for (name, kind, gpus, colocated_with), rate in latest.items():
        if not colocated_with:
            assert known.rate(name, kind, gpus) == (rate, 0.0)


@examples(30)
@given(seed=st.integers(0, 99), cells=st.permutations(CELLS), count=st.integers(1, len(CELLS)))
def test_measured_cells_come_back_and_the_order_does_not_matter(seed: int, cells: list[tuple[str, int]], count: int) -> None:
    rates = synthetic(5, seed=seed, noise=0.1)
    known, turned = given_cells(rates, "p02", cells[:count]), given_cells(rates, "p02", cells[:count][::-1])
    for kind, gpus in cells[:count]:
        assert known.rate("p02", kind, gpus) == (rates.table["p02", kind, gpus], 0.0)
    for kind, gpus in cells[count:]:
        guess = known.rate("p02", kind, gpus)
        assert guess is not None and guess[0] > 0 and guess == turned.rate("p02", kind, gpus)
