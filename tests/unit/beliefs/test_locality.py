"""The cost of spreading, by level and by model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.locality import Locality
from rota.beliefs.rates import Rates
from rota.errors import OptionError
from rota.profiles.catalogue import Catalogue


def test_a_gang_pays_for_each_level_that_it_spans() -> None:
    found = Locality.of((1.5, 1.2))
    assert [found.slowdown("bert", levels) for levels in range(4)] == pytest.approx([1.0, 1.5, 1.8, 1.8])


def test_models_have_their_own() -> None:
    found = Locality.of({"": 1.1, "vgg19": (1.7, 1.2)})
    assert found.slowdown("vgg19/bs64", 2) == pytest.approx(1.7 * 1.2), "by its plain name"
    assert found.slowdown("resnet50", 2) == found.slowdown("", 1) == 1.1
    assert found.matters and not Locality.of(1.0).matters


@pytest.mark.parametrize("given_", [1.7, (1.2, 1.1), {"": (1.0,), "vgg19": (1.7, 1.2)}, {"bert": 2.0}])
def test_it_reads_what_it_writes(given_: object) -> None:
    found = Locality.of(given_)  # type: ignore[arg-type]
    assert Locality.of(str(found)) == found


@pytest.mark.parametrize(
    "given_", [0.9, "0.5", "fast", "1.2/", "=1.2", "1.1, 1.2", "vgg19=1,vgg19=2", float("nan"), {"a": "b"}, [None]]
)
def test_nonsense_is_refused_in_words(given_: object) -> None:
    with pytest.raises(OptionError, match="spread_penalty"):
        Locality.of(given_)  # type: ignore[arg-type]


def test_rates_across_levels() -> None:
    rates = Rates({("p", "V100", 4): 6.0}, spread_penalty=Locality.of((1.5, 2.0)))
    assert [rates.rate("p", "V100", 4, levels)[0] for levels in range(3)] == [6.0, 4.0, 2.0]


def test_links_between_racks_are_a_penalty_per_level_and_model() -> None:
    slow = Catalogue(inter_node_gb_s=12.5, inter_rack_gb_s=(1.0,))
    vgg = [(slow.rate("vgg19", "V100", 8, levels) or (0.0,))[0] for levels in range(4)]
    assert vgg[0] >= vgg[1] > vgg[2] == vgg[3] > 0, "beyond the last link all is like the last"
    small = [(slow.rate("resnet50", "V100", 8, levels) or (0.0,))[0] for levels in (1, 2)]
    assert small[0] / small[1] < vgg[1] / vgg[2], "a smaller model pays less"


def test_what_was_measured_over_nodes_goes_on_over_racks_as_the_model_says() -> None:
    model = Catalogue(inter_node_gb_s=12.5, inter_rack_gb_s=(1.0,))
    rates = Rates({("vgg19", "V100", 8): 3.0}, across_nodes={("vgg19", "V100", 8): 2.0}, model=model)
    near, far = (model.rate("vgg19", "V100", 8, levels) or (0.0, 0.0) for levels in (1, 2))
    assert rates.rate("vgg19", "V100", 8, 1)[0] == 2.0
    assert rates.rate("vgg19", "V100", 8, 2)[0] == pytest.approx(2.0 * far[0] / near[0])


@given(st.lists(st.floats(1, 10), max_size=4), st.integers(0, 5))
def test_more_levels_never_cost_less(factors: list[float], levels: int) -> None:
    found = Locality.of(factors)
    assert 1 <= found.slowdown("x", levels) <= found.slowdown("x", levels + 1)
