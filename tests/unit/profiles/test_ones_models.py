"""Models of ONES: published values are reproduced, and the rest is between sensible limits."""

from itertools import pairwise

import pytest

from rota.profiles.catalogue import Catalogue
from rota.profiles.ones_models import ACCELERATOR, MODELS, NODE, STEP_TIMES


@pytest.mark.parametrize("name", MODELS)
def test_published_examples_per_second(name: str) -> None:
    model = MODELS[name]
    batch = model.gpus * model.local_batch
    found = Catalogue().rate(f"ones/{name}/global{batch}", ACCELERATOR, model.gpus, int(model.gpus > NODE))
    assert found == (pytest.approx(model.examples_per_second / batch), 0.0)
    assert found == Catalogue().rate(f"ones/{name}/bs{model.local_batch}", ACCELERATOR, model.gpus, int(model.gpus > NODE))


@pytest.mark.parametrize("name", MODELS)
def test_more_gpus_with_as_many_examples_on_each_do_more_and_less_each(name: str) -> None:
    step, local = STEP_TIMES[name], MODELS[name].local_batch
    speeds = [gpus * local / step.seconds(gpus, gpus * local, gpus > NODE) for gpus in (1, 2, 4, 8, 16, 32, 64)]
    assert all(less < more < 2 * less for less, more in pairwise(speeds))
    assert step.seconds(4, 4 * local, True) > step.seconds(4, 4 * local, False)


def test_what_the_catalogue_does_not_know() -> None:
    for key in ("ones/resnet50", "ones/stranger/global64", "ones/", "ones/resnet50/global0"):
        assert Catalogue().rate(key, ACCELERATOR, 4) is None
    slow, fast = (Catalogue().rate("ones/resnet50/global512", card, 16, 1) for card in ("K80", "V100"))
    assert slow is not None and fast is not None and slow[0] < fast[0] and fast[1] > 0


def test_ceilings_of_the_learning_rate_are_the_published_ones() -> None:
    assert {name: MODELS[name].most_times for name in ("resnet50", "bert-sst2", "bert-cola", "bert-mrpc")} == {
        "resnet50": 16,
        "bert-sst2": 8,
        "bert-cola": 4,
        "bert-mrpc": 4,
    }
