"""Rates: measured before modelled, modelled before the rough rule; in one node, across nodes and colocated."""

import pytest

from rota.beliefs.rates import SAME_SPEED, SPEEDS, UNPROFILED_UNCERTAINTY, Rates
from rota.core.snapshot import make_codec
from rota.profiles.catalogue import SPREAD, Catalogue

TABLE = {("bert", "V100", 1): 2.0, ("bert", "V100", 4): 6.0, ("bert", "K80", 1): 0.0}


class Knows:
    """A model of one profile."""

    def rate(self, profile: str, accelerator: str, gpus: int, levels: int = 0) -> tuple[float, float] | None:
        return (10.0 * gpus / (1 + levels), 0.1) if profile == "modelled" else None


def test_measured_then_modelled_then_the_rough_rule() -> None:
    rates = Rates(TABLE, model=Knows())
    assert rates.rate("bert", "V100", 4) == (6.0, 0.0)
    assert rates.rate("bert", "P100", 1) == (0.0, 0.0), "measured elsewhere, so known not to run"
    assert rates.rate("modelled", "P100", 2) == (20.0, 0.1)
    assert rates.rate("neither", "K80", 2) == (SPEEDS["K80"], UNPROFILED_UNCERTAINTY)
    assert rates.rate("", "K80", 2) == (SPEEDS["K80"], UNPROFILED_UNCERTAINTY)


def test_over_several_nodes() -> None:
    rates = Rates(TABLE, across_nodes={("bert", "V100", 4): 3.0, ("far", "V100", 2): 1.0}, model=Knows())
    assert rates.rate("bert", "V100", 4, 1) == (3.0, 0.0)
    assert rates.rate("bert", "V100", 4, 0) == (6.0, 0.0)
    assert rates.rate("bert", "V100", 8, 2) == (6.0, UNPROFILED_UNCERTAINTY), "scaled from the gang of four"
    assert Rates(TABLE).rate("bert", "V100", 4, 1) == (6.0, 0.0), "nobody measured it apart"
    assert rates.rate("far", "V100", 2) == (1.0, 0.0), "measured apart only"
    assert rates.rate("modelled", "V100", 4, 1) == (20.0, 0.1)
    assert rates.rate("", "V100", 4, 1) == rates.rate("", "V100", 4)


def test_whether_the_layout_matters() -> None:
    rates = Rates(TABLE, across_nodes={("far", "V100", 2): 1.0}, model=Knows())
    assert [rates.layout_matters(name) for name in ("bert", "far", "modelled", "")] == [False, True, True, False]
    assert not Rates(TABLE).layout_matters("neither")


def test_pairs_in_either_order() -> None:
    rates = Rates(TABLE, pairs={("bert", "lm", "V100", 1): (1.5, 30.0)})
    assert rates.colocated_rates("bert", "lm", "V100", 1) == (1.5, 30.0)
    assert rates.colocated_rates("lm", "bert", "V100", 1) == (30.0, 1.5)
    assert rates.colocated_rates("lm", "bert", "V100", 2) is None
    assert rates.colocated_rates("lm", "lm", "V100", 1) is None


def test_every_type_like_one() -> None:
    rates = Rates(TABLE, speeds={}, model=Catalogue(), everywhere="V100", pairs={("a", "b", "V100", 1): (1.0, 2.0)})
    assert rates.rate("bert", "K80", 4) == (6.0, 0.0)
    assert rates.rate("resnet50", "K80", 1) == rates.rate("resnet50", "B200", 1) == Catalogue().rate("resnet50", "V100", 1)
    assert rates.rate("", "K80", 1)[0] == rates.rate("", "B200", 1)[0] == 1.0
    assert rates.colocated_rates("a", "b", "K80", 1) == (1.0, 2.0)


def test_rates_with_a_catalogue_travel_as_plain_data() -> None:
    words = make_codec(Catalogue)
    rates = Rates(TABLE, pairs={("a", "b", "V100", 1): (1.0, 2.0)}, model=Catalogue({"V100": 20.0}, 1.25), everywhere="K80")
    rates.rate("resnet50", "V100", 4)
    again = words.decode(words.encode(rates))
    assert again == rates
    assert again.rate("resnet50", "V100", 4) == rates.rate("resnet50", "V100", 4)


def test_one_step_a_second_everywhere() -> None:
    assert SAME_SPEED.rate("", "K80", 8, 2)[0] == 1.0
    assert Rates(model=Catalogue()).rate("resnet18", "V100", 1)[1] == pytest.approx(SPREAD)
