"""Published curves of statistical efficiency."""

from itertools import pairwise

import pytest

from rota.profiles.catalogue import Catalogue
from rota.profiles.curves import LIKE, STEPS, published_efficiency, steps_to_end

KNOWN, BELIEVED = published_efficiency(), published_efficiency().modelled()


@pytest.mark.parametrize("model", STEPS)
def test_a_larger_batch_is_never_free_progress(model: str) -> None:
    """Measured curves wobble by a percent or two; over the whole range they fall."""
    sizes = sorted(STEPS[model])
    each = [KNOWN.progress(model, size) / size for size in sizes]
    assert each[0] == pytest.approx(1.0) and all(more <= less * 1.02 for less, more in pairwise(each)) and each[-1] < 0.99
    modelled = [BELIEVED.progress(model, size) / size for size in sizes]
    assert all(more < less for less, more in pairwise(modelled))


@pytest.mark.parametrize("model", STEPS)
def test_the_fitted_noise_scale_is_close_to_the_published_curve(model: str) -> None:
    smallest = min(STEPS[model])
    for size, steps in STEPS[model].items():
        said = STEPS[model][smallest] * BELIEVED.progress(model, smallest) / BELIEVED.progress(model, size)
        assert said == pytest.approx(steps, rel=0.05)


@pytest.mark.parametrize(("model", "batch_size"), [(model, size) for model in STEPS for size in STEPS[model]])
def test_steps_and_efficiency_say_the_same(model: str, batch_size: int) -> None:
    smallest = min(STEPS[model])
    replaced = KNOWN.progress(model, batch_size) / KNOWN.progress(model, smallest)
    assert steps_to_end(model, batch_size) == pytest.approx(steps_to_end(model, smallest) / replaced)


def test_models_that_count_as_another() -> None:
    catalogue = Catalogue()
    for model, like in LIKE.items():
        assert KNOWN.sizes(model) == tuple(sorted(STEPS[like]))
        assert catalogue.rate(f"{model}/global512", "V100", 4) is not None, f"{model} is no model of the catalogue"
