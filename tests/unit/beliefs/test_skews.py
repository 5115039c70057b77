"""Skews: measured ones come first, under any of their names, then the model, which is called once for each profile."""

import math

import pytest

from rota.beliefs.roofline import Workload
from rota.beliefs.skews import Skews
from rota.errors import OptionError


class Model:
    """Knows one profile, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def skew(self, profile: str) -> float | None:
        self.asked.append(profile)
        return 0.09 if profile == "resnet50/bs64" else None


def test_the_measured_one_by_its_name_then_by_its_plain_name_then_the_model() -> None:
    model = Model()
    skews = Skews({"VGG-19": 0.7, "pal/vgg19": 0.8}, model)
    assert skews.of("VGG-19") == 0.7 and skews.of("pal/vgg19") == 0.8
    assert skews.of("vgg19/bs64") == skews.of("VGG19 (batch size 32)") == 0.7, "of two the first"
    assert model.asked == []
    assert skews.of("resnet50/bs64") == 0.09
    assert skews.of("mine") is None and model.asked == ["resnet50/bs64", "mine"]


def test_answers_are_remembered_also_that_nobody_knows() -> None:
    model = Model()
    skews = Skews(model=model)
    assert [skews.of("mine") for _ in range(3)] == [None] * 3
    assert [skews.of("resnet50/bs64") for _ in range(3)] == [0.09] * 3
    assert model.asked == ["mine", "resnet50/bs64"]
    assert skews == Skews(model=model), "what it remembers is not what it is"


def test_nobody_knows_anything() -> None:
    assert Skews().of("vgg19") is None and Skews().of("") is None


@pytest.mark.parametrize("skew", [0.0, -0.1, 1.01, math.nan, math.inf])
def test_a_skew_is_a_part(skew: float) -> None:
    with pytest.raises(OptionError, match=r"mine") as raised:
        Skews({"mine": skew})
    assert raised.value.field == "skew" and raised.value.hint
    assert Skews({"mine": 1.0}).of("mine") == 1.0


def test_of_a_workload() -> None:
    def workload(**more: float) -> Workload:
        return Workload(
            name="x",
            title="X",
            flops_per_example=1,
            bytes_per_example=1,
            activation_bytes_per_example=1,
            params=100,
            launches=1,
            default_batch=1,
            **more,  # type: ignore[arg-type]
        )

    assert workload().skew is None, "nobody knows"
    assert workload(largest_params=40).skew == 0.4
    assert workload(largest_params=5, trained_params=10).skew == 0.5, "frozen parameters are not sent"
