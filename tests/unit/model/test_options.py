"""Options that are much slower than another are not worth taking while that other exists."""

from rota.model.options import OptionRow, Options

SLOW, FAST = 1e-9, 1.0


def test_an_option_that_no_longer_fits_makes_no_other_hopeless() -> None:
    rows = [OptionRow(0, 0, 3000, SLOW, 0.0, requested=True), OptionRow(0, 1, 3000, FAST, 0.0, requested=True)]
    options = Options.of(rows, 1)
    assert options.too_slow.tolist() == [True, False] and options.has_too_slow
    assert options.with_lasting((6, 3)).too_slow.tolist() == [True, False], "the fast pool still holds the gang"
    left = options.with_lasting((6, 2))
    assert left.too_slow.tolist() == [False, False] and not left.has_too_slow
    assert options.with_lasting((2, 2)).too_slow.tolist() == [True, False], "where none fits, the best of all counts"
    assert left.with_lasting(()).too_slow.tolist() == [True, False], "nodes are back"
    assert Options.of(rows, 1, (6, 2)).too_slow.tolist() == [False, False]
